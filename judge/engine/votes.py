"""Reduces several votes on one case to one: ensembles of models, repeats of a model, escalation.

Every vote is the result of a whole hearing. The votes on a metric are reduced to the vote in the
middle, so that the score, its reason and its turns are always those of a hearing that took place:
the median of ordered values, and the majority of two-valued ones; an even split goes to the worse
half.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Any, Final

from assizes.judge.engine.faults import OUTAGES, STOPS
from assizes.judge.score import ACCEPTABLE, Metric, Scale, Score

EVIDENT: Final = frozenset({"tool_routing", "parameter_extraction"})
"""Metrics that the offline rules can read off a transcript whose expected tool calls are known."""

_NO_DOUBT: Final = STOPS | OUTAGES | {"not_cached"}
"""Codes of failures that are no reason to ask a stronger model."""

NO_QUORUM: Final = "no_quorum"
"""Code of a metric that at most half of the votes scored, because the other hearings failed."""


@dataclass(frozen=True, slots=True)
class Vote:
    """The scores of one hearing.

    Attributes:
        model: the name of the model that answered.
        sample: the number of the repeat with this model, from 0 on.
        scores: what the judge scored.
    """

    model: str
    sample: int
    scores: Sequence[Score]


def reduce_votes(votes: Sequence[Vote]) -> list[Score]:
    """Reduce votes to one score for every metric and part, in the order in which these first occur.

    The details of a headline score hold each vote (`votes`) and the share of the scored votes that
    agree with the result (`agreement`, 0..1). A part is reduced over the votes that have the part.
    """
    if len(votes) == 1:
        return list(votes[0].scores)
    by_part: dict[tuple[str, str], list[tuple[Vote, Score]]] = {}
    for vote in votes:
        for score in vote.scores:
            by_part.setdefault((score.metric, score.part), []).append((vote, score))
    return [
        _middle_score(ballots) if part else _headline(ballots, len(votes))
        for (_, part), ballots in by_part.items()
    ]


def _headline(ballots: Sequence[tuple[Vote, Score]], voters: int) -> Score:
    scored = [score for _, score in ballots if score.status == "scored"]
    result = _middle_score(ballots)
    failed = sum(score.status == "failed" for _, score in ballots)
    if scored and failed and 2 * len(scored) <= voters:
        reason = f"{len(scored)} of {voters} votes came; {_why_failed(ballots)}"
        result = Score.failed(result.metric, reason, NO_QUORUM)
    cast = [_vote_details(vote, score) for vote, score in ballots]
    agreeing = sum(_opinion(score) == _opinion(result) for score in scored)
    share = round(agreeing / len(scored), 6) if scored and result.status == "scored" else None
    return result.with_details(votes=cast, agreement=share)


def _why_failed(ballots: Iterable[tuple[Vote, Score]]) -> str:
    """The most frequent reason of the votes that failed."""
    reasons = Counter(score.reason or "" for _, score in ballots if score.status == "failed")
    return min(reasons, key=lambda reason: (-reasons[reason], reason))


def _middle_score(ballots: Sequence[tuple[Vote, Score]]) -> Score:
    """The score in the middle; where none was scored, a failed score, else a skipped one."""
    scores = [score for _, score in ballots]
    scored = [score for score in scores if score.status == "scored"]
    if not scored:
        failed = [score for score in scores if score.status == "failed"]
        return (failed or scores)[0]
    numbers = [_number(score) for score in scored]
    middle = median_low(numbers)
    return next(score for score in scored if _number(score) == middle)


def _number(score: Score) -> float:
    """The number that orders votes: the value, or the raw number of a metric without a value."""
    number = score.raw if score.value is None else score.value
    return 0.0 if number is None else number


def _opinion(score: Score) -> tuple[bool | None, str | None, float]:
    return score.passed, score.label, _number(score)


def _vote_details(vote: Vote, score: Score) -> dict[str, Any]:
    return {
        "model": vote.model,
        "sample": vote.sample,
        "status": score.status,
        "value": score.value,
        "label": score.label,
        "passed": score.passed,
    }


def escalation_reason(
    votes: Sequence[Vote], metrics: Sequence[Metric], evidence: Sequence[Score]
) -> str | None:
    """The reason why a stronger model should judge again; `None` where the votes can stand.

    The reasons are: a metric failed because of a reply (a provider that is down is no reason); the
    votes on a headline differ in their verdict; a level is the one just below acceptable; or the
    verdict on a metric of `EVIDENT` is the opposite of what the offline rules read.

    Args:
        votes: the hearings of the first models.
        metrics: the metrics of the judge; their scales say what a level means.
        evidence: the scores of the offline rules for the same case, where its expected tool calls
            are known; only the metrics of `EVIDENT` count.
    """
    scales = {metric.name: metric.scale for metric in metrics}
    ruled = {
        score.metric: is_good(score)
        for score in evidence
        if score.metric in EVIDENT and not score.part
    }
    seen: dict[str, set[bool | None]] = {}
    for score in (score for vote in votes for score in vote.scores if not score.part):
        if score.status == "failed" and score.details.get("error") not in _NO_DOUBT:
            return f"{score.metric}: no score came"
        if score.status == "scored":
            if scales.get(score.metric) is Scale.SCORED and score.raw == ACCEPTABLE - 1:
                return f"{score.metric}: one level below acceptable"
            seen.setdefault(score.metric, set()).add(is_good(score))
    for metric, verdicts in seen.items():
        if len(verdicts) > 1:
            return f"{metric}: the votes differ"
        verdict, rule = next(iter(verdicts)), ruled.get(metric)
        if None not in (verdict, rule) and verdict != rule:
            return f"{metric}: the transcript's plain evidence says the opposite"
    return None


def is_good(score: Score) -> bool | None:
    """Whether a score is good; `None` where the score does not say."""
    if score.passed is not None:
        return score.passed
    return None if score.value is None else score.value >= ACCEPTABLE / 5


def escalate_scores(scores: Sequence[Score], first: Sequence[Vote], why: str) -> list[Score]:
    """The scores of the stronger model, with the reason and the earlier votes in their details.

    The details of a headline score get `escalated` (the reason why the stronger model was asked)
    and `first_votes`.
    """

    def with_first_votes(score: Score) -> Score:
        cast = [
            _vote_details(vote, first_score)
            for vote in first
            for first_score in vote.scores
            if (first_score.metric, first_score.part) == (score.metric, "")
        ]
        return score.with_details(escalated=why, first_votes=cast)

    return [score if score.part else with_first_votes(score) for score in scores]
