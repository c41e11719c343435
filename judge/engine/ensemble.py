"""Ensembles: the models, repeats and senior model that answer one judge, and what their votes give.

Every vote is the result of a whole hearing. The votes on a metric are reduced to the vote in the
middle, so that the score, its reason and its turns are always those of a hearing that took place:
the median of ordered values, and the majority of two-valued ones; an even split goes to the worse
half.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Any, Final

from assizes.judge.config.judging import OFFLINE_MODEL, JudgeConfig
from assizes.judge.engine.faults import OUTAGES, STOPS
from assizes.judge.score import ACCEPTABLE, Metric, Scale, Score

EVIDENT: Final = frozenset({"tool_routing", "parameter_extraction"})
"""Metrics that the offline rules can read off a transcript whose expected tool calls are known."""

_NO_DOUBT: Final = STOPS | OUTAGES | {"not_cached"}
"""Codes of failures that are no reason to ask a stronger model."""

NO_QUORUM: Final = "no_quorum"
"""Code of a metric that at most half of the votes scored, because the other hearings failed."""


@dataclass(frozen=True, slots=True)
class CascadeRule:
    """When a stronger model is asked: below `confidence` in one of the metrics, see `cascade`."""

    confidence: float | None  # 0..1; `None`: always, so that labels can set a threshold
    metrics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ensemble:
    """The [judge] settings of the models that all answer one judge."""

    models: tuple[JudgeConfig, ...]  # one where only repeats or escalation are wanted
    repeats: int = 1  # times that each model is asked the same
    senior: JudgeConfig | None = None  # judges again where the others are unsure
    cascade: CascadeRule | None = None  # when it does; `None`: see `escalation_reason`

    @property
    def is_plain(self) -> bool:
        """Whether there is one model that is asked once, so that there is nothing to vote on."""
        return len(self.models) == 1 and self.repeats == 1 and self.senior is None

    @property
    def members(self) -> tuple[JudgeConfig, ...]:
        """All models that may be asked, the senior model last."""
        return self.models if self.senior is None else (*self.models, self.senior)


def ensemble_for(
    config: JudgeConfig, model: str | None = None, temperature: float | None = None
) -> Ensemble:
    """The ensemble that answers a judge: its own model, else the panel, else the run's model.

    The judge's own temperature is that of every model that answers it.
    """
    if temperature is not None:
        config = config.model_copy(update={"temperature": temperature})
    if model is not None and model != config.model:
        # A model named for one judge answers alone, without the panel or the senior model.
        own = _with_model(config, model, panel=(), escalate_to=None)
        return Ensemble((own,), config.repeats)
    models = tuple(_with_model(config, model) for model in config.panel) or (config,)
    senior = _with_model(config, config.escalate_to) if config.escalate_to else None
    return Ensemble(models, config.repeats, senior)


def _with_model(config: JudgeConfig, model: str, **changes: Any) -> JudgeConfig:
    # Provider and endpoint stay as they are, but the offline judge has neither.
    nothing = {"provider": None, "api_base": None} if model == OFFLINE_MODEL else {}
    return config.model_copy(update={"model": model, **changes, **nothing})


@dataclass(frozen=True, slots=True)
class Vote:
    """The scores of one hearing."""

    model: str  # name of the model that answered
    sample: int  # number of the repeat with this model, from 0
    scores: Sequence[Score]


def reduce_votes(votes: Sequence[Vote]) -> list[Score]:
    """Reduce votes to one score for every metric and part, in the order in which these first occur.

    The details of a headline score hold each vote (`votes`) and the share of the scored votes that
    agree with the result (`agreement`, 0..1). A part is reduced over the votes that have the part.
    """
    if len(votes) == 1:
        return list(votes[0].scores)
    # (metric, part) -> ballots; the part is empty for a headline
    by_part: defaultdict[tuple[str, str], list[tuple[Vote, Score]]] = defaultdict(list)
    for vote in votes:
        for score in vote.scores:
            by_part[score.metric, score.part].append((vote, score))
    return [
        _middle_score([score for _, score in ballots]) if part else _headline(ballots, len(votes))
        for (_, part), ballots in by_part.items()
    ]


def _headline(ballots: Sequence[tuple[Vote, Score]], voters: int) -> Score:
    scores = [score for _, score in ballots]
    scored = [score for score in scores if score.status == "scored"]
    failures = Counter(score.reason or "" for score in scores if score.status == "failed")
    result = _middle_score(scores)
    # Without a majority of all voters the few that came would decide for the others.
    if scored and failures and 2 * len(scored) <= voters:
        most_frequent = min(failures, key=lambda reason: (-failures[reason], reason))
        reason = f"{len(scored)} of {voters} votes came; {most_frequent}"
        result = Score.failed(result.metric, reason, NO_QUORUM)
    cast = [_vote_details(vote, score) for vote, score in ballots]
    agreeing = sum(_opinion(score) == _opinion(result) for score in scored)  # the result included
    share = round(agreeing / len(scored), 6) if scored and result.status == "scored" else None
    return result.with_details(votes=cast, agreement=share)


def _middle_score(scores: Sequence[Score]) -> Score:
    """The score in the middle; where none was scored, a failed score, else a skipped one."""
    scored = [score for score in scores if score.status == "scored"]
    if not scored:
        return next((score for score in scores if score.status == "failed"), scores[0])
    # The low median is a number that a hearing gave (docs/decisions.md, decision 32).
    middle = median_low([_number(score) for score in scored])
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
    verdict on a metric of `EVIDENT` is the opposite of the `evidence`, which is the scores of the
    offline rules for the same case.
    """
    scales = {metric.name: metric.scale for metric in metrics}
    ruled = {  # metric -> whether the offline rules find it good
        score.metric: is_good(score)
        for score in evidence
        if score.metric in EVIDENT and not score.part
    }
    seen: dict[str, set[bool | None]] = {}  # metric -> the verdicts of its votes
    for score in (score for vote in votes for score in vote.scores if not score.part):
        if score.status == "failed" and not is_no_doubt(score):
            return f"{score.metric}: no score came"
        if score.status == "scored":
            if scales.get(score.metric) is Scale.SCORED and score.raw == ACCEPTABLE - 1:
                return f"{score.metric}: one level below acceptable"
            seen.setdefault(score.metric, set()).add(is_good(score))
    for metric, verdicts in seen.items():
        if len(verdicts) > 1:
            return f"{metric}: the votes differ"
        verdict, rule = next(iter(verdicts)), ruled.get(metric)
        # An amount has no verdict, and only evident metrics have a rule.
        if None not in (verdict, rule) and verdict != rule:
            return f"{metric}: the transcript's plain evidence says the opposite"
    return None


def is_no_doubt(score: Score) -> bool:
    """Whether a score failed in a way that is no reason to ask a stronger model, as in an outage."""
    return score.status == "failed" and score.details.get("error") in _NO_DOUBT


def is_good(score: Score) -> bool | None:
    """Whether a score is good; `None` where the score does not say."""
    if score.passed is not None:
        return score.passed
    # The value of a level is a fifth of it; fractions share the bound of 0.6.
    return None if score.value is None else score.value >= ACCEPTABLE / 5


def escalate_scores(scores: Sequence[Score], first: Sequence[Vote], why: str) -> list[Score]:
    """The stronger model's scores; headlines get the details `escalated` (why) and `first_votes`."""
    cast: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)  # metric -> votes
    for vote in first:
        for score in vote.scores:
            if not score.part:
                cast[score.metric].append(_vote_details(vote, score))
    return [
        score if score.part else score.with_details(escalated=why, first_votes=cast[score.metric])
        for score in scores
    ]
