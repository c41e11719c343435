"""Several opinions on one case become one: juries of models, repeats of a model, escalation.

Every vote is a whole hearing. A metric's votes are reduced to the vote in the middle, so that the
finding, its reason and its turns are always those of a hearing that took place: the median of
ordered values, and for two-valued ones the majority; an even split goes to the worse half.
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
"""Metrics that plain rules read off a transcript whose expected tool calls are known."""

_NO_DOUBT: Final = STOPS | OUTAGES | {"not_cached"}

NO_QUORUM: Final = "no_quorum"
"""Code of a metric that at most half of the votes scored: the others could not be had."""


@dataclass(frozen=True, slots=True)
class Vote:
    """What one hearing found: the model that answered it, and which of its repeats it was."""

    model: str
    sample: int
    scores: Sequence[Score]


def reduce_votes(votes: Sequence[Vote]) -> list[Score]:
    """One score for every metric and part that any vote found, in the order of the first votes.

    A headline says in its details how each vote went (`votes`) and which share of the scored ones
    agrees with the result (`agreement`, 0..1). Parts are reduced over the votes that have them.
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
    """The vote in the middle; where none was scored, a failure before a skip."""
    scores = [score for _, score in ballots]
    scored = [score for score in scores if score.status == "scored"]
    if not scored:
        failed = [score for score in scores if score.status == "failed"]
        return (failed or scores)[0]
    numbers = [_number(score) for score in scored]
    middle = median_low(numbers)
    return next(score for score in scored if _number(score) == middle)


def _number(score: Score) -> float:
    """What votes are ordered by; amounts have no value."""
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
    """Why a stronger model should judge anew; null where the votes can stand.

    They cannot where a metric failed for the reply's sake (a provider that is down is no doubt),
    where the votes of a headline differ in their verdict, where a level is the one just below what
    is acceptable, or where the verdict of a metric that can be read off the transcript is the
    opposite of what plain rules read there.

    Args:
        votes: the hearings of the first models.
        metrics: what the judge promises; their scales say what a level means.
        evidence: what the offline rules found for the same case where its expected tool calls are
            known; only the metrics of `EVIDENT` count.
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
    """Good or bad, where the score says so."""
    if score.passed is not None:
        return score.passed
    return None if score.value is None else score.value >= ACCEPTABLE / 5


def escalate_scores(scores: Sequence[Score], first: Sequence[Vote], why: str) -> list[Score]:
    """The stronger model's scores; headlines hold why it was asked (`escalated`) and what was said
    before (`first_votes`).
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
