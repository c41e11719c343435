"""The verdict on one case: its scores become a number 0..100, a gate, and one line for people.

Seed 001: the checklist of expected outcomes decides; the overall score decides only where there is
no checklist. Labels and binary metrics describe, they never decide.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from judge.rubric import OUTCOMES
from judge.score import ACCEPTABLE, Score

NO_OUTCOMES = "no_outcomes"
"""Error code of a checklist that was due but of which the judge produced nothing."""

MISSING_SCORE = "missing_score"
"""Error code of a weighted metric for which no score was handed in."""

STRONG = 4
"""From this level on the best metric is worth a mention."""

Gate = Literal["expected_outcomes", "overall_score", "error"]
CaseStatus = Literal["judged", "errored", "skipped"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is held of one case.

    `overall_score` and `tier_scores` run 0..100 with 2 decimals. `score_passed` says whether the
    overall score reached the threshold, whatever gate decided `passed`. `passed` is null for a case
    to which nothing applied, false for one whose judge could not be had.
    """

    overall_score: float | None
    score_passed: bool | None
    passed: bool | None
    gate: Gate | None
    status: CaseStatus
    error: str | None
    root_cause: str | None
    summary: str
    tier_scores: dict[str, float]


def overall_score(raw_by_metric: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Sum of (metric score / 5) x normalised weight x 100, 2 decimals (seed 001).

    Args:
        raw_by_metric: levels 0..5; pass and fail of a binary metric are 5 and 0.
        weights: positive shares of any size; they are normalised here.

    Raises:
        ValueError: when a weighted metric has no level, or the weights sum to nothing.
    """
    absent = sorted(weights.keys() - raw_by_metric.keys())
    if absent:
        raise ValueError(f"no score for {', '.join(absent)}: weights are never shared out anew")
    total = math.fsum(weights.values())
    if total <= 0:
        raise ValueError(f"weights sum to {total!r}, a positive sum is needed: {dict(weights)!r}")
    weighted = math.fsum(raw_by_metric[name] * weight for name, weight in weights.items())
    return _points(weighted / 5 / total * 100)


def verdict(
    scores: Sequence[Score],
    weights: Mapping[str, float],
    pass_threshold: float,
    tiers: Mapping[str, str],
) -> Verdict:
    """The verdict on the scores of one case.

    Args:
        scores: headlines and parts of every judge; only headlines named in `weights` are weighed.
        weights: share of each metric in the overall score.
        pass_threshold: overall score 0..100 that passes a case without a checklist, inclusive.
        tiers: the tier of each metric.
    """
    headlines = {score.metric: score for score in scores if not score.part}
    weighed = {name: headlines.get(name, _unscored(name)) for name in weights}
    checklist = headlines.get(OUTCOMES)
    due = {**(weighed or headlines), **({OUTCOMES: checklist} if checklist else {})}
    if error := _error(list(due.values())):
        return _errored(error)
    if not any(score.status == "scored" for score in due.values()):
        return _skipped(next((score.reason for score in due.values()), "nothing was judged"))
    outcomes = _outcomes(scores, checklist)
    levels = {name: _level(score) for name, score in weighed.items() if score.status == "scored"}
    total = _overall(levels, weights)
    score_passed = None if total is None else total >= round(pass_threshold, 9)
    gate, passed = _gate(outcomes, score_passed)
    decided_by = _outcome_words(outcomes) if outcomes else _score_words(total, pass_threshold)
    return Verdict(
        overall_score=total,
        score_passed=score_passed,
        passed=passed,
        gate=gate,
        status="judged",
        error=None,
        root_cause=None,
        summary=", ".join((f"{_word(passed)} ({decided_by})", *_remarks(weighed, total, outcomes))),
        tier_scores=_tier_scores(levels, weights, tiers),
    )


def _points(number: float) -> float:
    # Nine decimals first: 74.99999999999999 is 75 with float noise, and ties must not hang on it.
    return round(round(number, 9), 2)


def _level(score: Score) -> float:
    """The score on 0..5, whatever its own scale."""
    return score.value * 5 if score.value is not None else score.raw or 0.0


def _unscored(metric: str) -> Score:
    return Score.failed(metric, "no judge scored it", MISSING_SCORE)


def _code(score: Score) -> str:
    return str(score.details.get("error", "judge_error"))


def _error(due: Sequence[Score]) -> str | None:
    """Which metrics could not be had, by error code; null when all could."""
    failed = [
        score
        for score in due
        if score.status == "failed"
        and not (score.metric == OUTCOMES and _code(score) == NO_OUTCOMES)
    ]
    codes = sorted({_code(score) for score in failed})
    parts = []
    for code in codes:
        of_code = [score for score in failed if _code(score) == code]
        names = ", ".join(score.metric for score in of_code)
        reason = " ".join((of_code[0].reason or "").split())[:200]
        parts.append(f"{code}: {names} ({reason})")
    return "; ".join(parts) or None


def _errored(error: str) -> Verdict:
    return Verdict(None, None, False, "error", "errored", error, None, f"ERROR ({error})", {})


def _skipped(reason: str | None) -> Verdict:
    summary = f"SKIPPED ({reason})"
    return Verdict(None, None, None, None, "skipped", None, None, summary, {})


def _outcomes(scores: Sequence[Score], checklist: Score | None) -> list[Score]:
    """The entries of the checklist; none when it was not due or not produced."""
    if checklist is None or checklist.status != "scored":
        return []
    return [score for score in scores if score.metric == OUTCOMES and score.part]


def _overall(levels: Mapping[str, float], weights: Mapping[str, float]) -> float | None:
    """Over the metrics that apply; null when none of them carries weight."""
    applying = {name: weights[name] for name in levels}
    return overall_score(levels, applying) if math.fsum(applying.values()) > 0 else None


def _gate(outcomes: Sequence[Score], score_passed: bool | None) -> tuple[Gate | None, bool | None]:
    if outcomes:
        return "expected_outcomes", all(outcome.passed is True for outcome in outcomes)
    if score_passed is not None:
        return "overall_score", score_passed
    return None, None


def _word(passed: bool | None) -> str:
    return {True: "PASSED", False: "FAILED", None: "NOT DECIDED"}[passed]


def _outcome_words(outcomes: Sequence[Score]) -> str:
    held = sum(outcome.passed is True for outcome in outcomes)
    return f"{held} of {len(outcomes)} expected outcomes"


def _score_words(total: float | None, pass_threshold: float) -> str:
    return "no weighted score" if total is None else f"score {total}, needs {pass_threshold}"


def _remarks(
    weighed: Mapping[str, Score], total: float | None, outcomes: Sequence[Score]
) -> Iterator[str]:
    if outcomes and total is not None:
        yield f"score {total}"
    found = [score for score in weighed.values() if score.status == "scored"]
    levelled = [score for score in found if score.passed is None]
    weakest = min(levelled, key=_level, default=None)
    strongest = max(levelled, key=_level, default=None)
    if weakest is not None and _level(weakest) < ACCEPTABLE:
        yield f"weakest {weakest.metric} {_level(weakest):g}/5"
    if strongest is not None and strongest is not weakest and _level(strongest) >= STRONG:
        yield f"strongest {strongest.metric} {_level(strongest):g}/5"
    for score in found:
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
