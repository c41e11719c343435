"""The verdict on one case: its scores become a number 0..100, a gate, and one line for people.

A run may use three families of judges. For the conversation judge (seed 001) the checklist of
expected outcomes decides a case; the overall score decides only where there is no checklist, and
labels and binary metrics never decide. The rules for the judges of seeds 002 and 003, and for the
quality judges of seed 004, are in `assizes.judge.verdicts.gates`. A case passes when every family
that applies to the case passes it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from assizes.judge.rubrics.rubric import OUTCOMES
from assizes.judge.score import ACCEPTABLE, Gate, Score
from assizes.judge.verdicts.gates import (
    CaseGate,
    Ruling,
    error_of,
    gate_of,
    judges_ruling,
    passed_of,
    points,
    quality_ruling,
    why_skipped,
)

MISSING_SCORE = "missing_score"
"""Error code of a gating metric for which no judge gave a score."""

STRONG = 4
"""The lowest level (0..5) at which the summary line names the best metric."""

_WORDS = {True: "PASSED", False: "FAILED", None: "NOT DECIDED"}

CaseStatus = Literal["judged", "errored", "skipped"]


@dataclass(frozen=True, slots=True)
class CaseVerdict:
    """The verdict on one case.

    Attributes:
        overall_score: 0..100 with 2 decimals; `None` where there is no score to average.
        score_passed: whether the overall score reached the threshold, whatever gate decided the
            case; `None` where the score is a mean of judges with thresholds of their own.
        passed: the decision. `None` for a case to which nothing applied, and where only the yes/no
            gate lacks a rating; false where any other judge failed to answer.
        gate: the gate that decided.
        status: whether the case was judged, errored or skipped.
        error: the metrics without a score, by error code.
        root_cause: the quality metric to which a failure is traced.
        summary: one line for people.
        tier_scores: the overall score of each tier, 0..100 with 2 decimals.
    """

    overall_score: float | None
    score_passed: bool | None
    passed: bool | None
    gate: CaseGate | None
    status: CaseStatus
    error: str | None
    root_cause: str | None
    summary: str
    tier_scores: Mapping[str, float]


def overall_score(raw_by_metric: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Sum of (metric score / 5) x normalised weight x 100, 2 decimals (seed 001).

    Args:
        raw_by_metric: the level 0..5 of each metric; pass and fail of a binary metric are 5 and 0.
        weights: positive shares of any size; they are normalised here.

    Raises:
        ValueError: when a weighted metric has no level, or the sum of the weights is not positive.
    """
    absent = sorted(weights.keys() - raw_by_metric.keys())
    if absent:
        raise ValueError(f"no score for {', '.join(absent)}: weights are never shared out anew")
    total = math.fsum(weights.values())
    if total <= 0:
        raise ValueError(f"weights sum to {total!r}, a positive sum is needed: {dict(weights)!r}")
    weighted = math.fsum(raw_by_metric[name] * weight for name, weight in weights.items())
    return points(weighted / 5 / total * 100)


def verdict(
    scores: Sequence[Score],
    weights: Mapping[str, float],
    pass_threshold: float,
    tiers: Mapping[str, str],
    gates: Mapping[str, Gate] = MappingProxyType({}),
    *,
    has_ground_truth: bool = False,
) -> CaseVerdict:
    """The verdict on the scores of one case.

    Args:
        scores: headline scores and parts of every judge; only headlines in `weights` are weighted.
        weights: the share of each metric in the overall score.
        pass_threshold: the overall score 0..100 that passes a case without a checklist, inclusive.
        tiers: the tier of each metric.
        gates: the gate of each metric that decides otherwise than by weight, in the order of the
            configured judges.
        has_ground_truth: whether the case holds an expected response or expected facts.
    """
    headlines = [score for score in scores if not score.part]
    weighed = _weighed_scores(headlines, weights, gates)
    of_judges, of_quality = (_due(headlines, gates, gate) for gate in ("judges", "quality"))
    judges = judges_ruling(of_judges)
    if judges is not None and weights:
        judges = replace(judges, overall_score=None)
    rulings = (
        _conversation_ruling(scores, weighed, weights, tiers, pass_threshold),
        judges,
        quality_ruling(of_quality, list(gates), has_ground_truth=has_ground_truth),
    )
    present_rulings = [ruling for ruling in rulings if ruling is not None]
    if not present_rulings:
        return _skipped_verdict(why_skipped([*weighed.values(), *of_judges, *of_quality]))
    return _combine_rulings(present_rulings)


def _weighed_scores(
    headlines: Sequence[Score], weights: Mapping[str, float], gates: Mapping[str, Gate]
) -> dict[str, Score]:
    """The headline scores that the conversation judge owes, with its checklist where there is one.

    In a run without any gating metric these are all headline scores.
    """
    by_metric = {score.metric: score for score in headlines}
    if not weights and not gates:
        return by_metric
    weighed = {name: by_metric.get(name, _missing_score(name)) for name in weights}
    return weighed | ({OUTCOMES: by_metric[OUTCOMES]} if OUTCOMES in by_metric else {})


def _due(headlines: Sequence[Score], gates: Mapping[str, Gate], gate: Gate) -> list[Score]:
    """The headline scores of the metrics with this gate; a failed score for each missing one."""
    due_scores = [score for score in headlines if gates.get(score.metric) == gate]
    names = {score.metric for score in due_scores}
    absent = [name for name, of in gates.items() if of == gate and name not in names]
    return [*due_scores, *map(_missing_score, absent)]


def _missing_score(metric: str) -> Score:
    return Score.failed(metric, "no judge scored it", MISSING_SCORE)


def _conversation_ruling(
    scores: Sequence[Score],
    due: Mapping[str, Score],
    weights: Mapping[str, float],
    tiers: Mapping[str, str],
    pass_threshold: float,
) -> Ruling | None:
    """Seed 001: the checklist decides, else the overall score; `None` when nothing applies."""
    if error := error_of(list(due.values())):
        return Ruling("overall_score", None, "", error=error)
    if not any(score.status == "scored" for score in due.values()):
        return None
    checklist = due.get(OUTCOMES)
    outcomes: list[Score] = []
    if checklist is not None and checklist.status == "scored":
        outcomes = [score for score in scores if score.metric == OUTCOMES and score.part]
    scored_metrics = [due[name] for name in weights if due[name].status == "scored"]
    levels = {score.metric: _level(score) for score in scored_metrics}
    total = _overall(levels, weights)
    score_passed = None if total is None else total >= round(pass_threshold, 9)
    gate: CaseGate | None = None if score_passed is None else "overall_score"
    passed = score_passed
    words = "no weighted score" if total is None else f"score {total}, needs {pass_threshold}"
    if outcomes:
        pass_count = sum(outcome.passed is True for outcome in outcomes)
        gate, passed = "expected_outcomes", pass_count == len(outcomes)
        words = f"{pass_count} of {len(outcomes)} expected outcomes"
    return Ruling(
        gate=gate,
        passed=passed,
        words=words,
        overall_score=total,
        score_passed=score_passed,
        remarks=tuple(_remarks(scored_metrics, total, outcomes)),
        tier_scores=_tier_scores(levels, weights, tiers),
    )


def _combine_rulings(rulings: Sequence[Ruling]) -> CaseVerdict:
    """One verdict from several rulings; errored only if a missing ruling could still change it."""
    deciding = [ruling for ruling in rulings if ruling.gate] or rulings
    passed = passed_of(deciding)
    error = "; ".join(ruling.error for ruling in rulings if ruling.error) or None
    if error and passed is None:
        rated = all(ruling.gate == "quality" for ruling in rulings if ruling.error)
        return _errored_verdict(error, passed=None if rated else False)
    words = "; ".join(ruling.words for ruling in rulings if ruling.words)
    remarks = [remark for ruling in rulings for remark in ruling.remarks]
    remarks += [f"could not be had: {error}"] if error else []
    return CaseVerdict(
        overall_score=rulings[0].overall_score,
        score_passed=rulings[0].score_passed,
        passed=passed,
        gate=gate_of(deciding),
        status="judged",
        error=error,
        root_cause=next((ruling.root_cause for ruling in rulings if ruling.root_cause), None),
        summary=", ".join((f"{_WORDS[passed]} ({words})", *remarks)),
        tier_scores=rulings[0].tier_scores,
    )


def _level(score: Score) -> float:
    """The score as a level 0..5, whatever the scale of its metric."""
    return score.value * 5 if score.value is not None else score.raw or 0.0


def _errored_verdict(error: str, *, passed: bool | None) -> CaseVerdict:
    return CaseVerdict(None, None, passed, "error", "errored", error, None, f"ERROR ({error})", {})


def _skipped_verdict(reason: str) -> CaseVerdict:
    summary = f"SKIPPED ({reason})"
    return CaseVerdict(None, None, None, None, "skipped", None, None, summary, {})


def _overall(levels: Mapping[str, float], weights: Mapping[str, float]) -> float | None:
    """The overall score over the metrics that apply; `None` when none of them has a weight."""
    applying = {name: weights[name] for name in levels}
    return overall_score(levels, applying) if math.fsum(applying.values()) > 0 else None


def _remarks(
    scored_metrics: Sequence[Score], total: float | None, outcomes: Sequence[Score]
) -> Iterator[str]:
    """Further notes for the summary line: the score, the weakest and strongest metric, failures."""
    if outcomes and total is not None:
        yield f"score {total}"
    levelled = [score for score in scored_metrics if score.passed is None]
    weakest = min(levelled, key=_level, default=None)
    strongest = max(levelled, key=_level, default=None)
    if weakest is not None and _level(weakest) < ACCEPTABLE:
        yield f"weakest {weakest.metric} {_level(weakest):g}/5"
    if strongest is not None and strongest is not weakest and _level(strongest) >= STRONG:
        yield f"strongest {strongest.metric} {_level(strongest):g}/5"
    for score in scored_metrics:
        if score.passed is False:
            yield f"failed {score.metric}"


def _tier_scores(
    levels: Mapping[str, float], weights: Mapping[str, float], tiers: Mapping[str, str]
) -> dict[str, float]:
    names = sorted({tiers[name] for name in levels if name in tiers})
    by_tier = {
        tier: _overall({n: level for n, level in levels.items() if tiers.get(n) == tier}, weights)
        for tier in names
    }
    return {tier: score for tier, score in by_tier.items() if score is not None}
