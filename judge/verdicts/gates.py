"""The gates of one case: each family of judges gives one ruling, and the rulings are combined.

Seed 002: every judge that applies must pass. Seed 004: one no fails the case, with a root cause;
without a no, a missing rating leaves the case undecided.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from assizes.judge.rubrics.rubric import OUTCOMES
from assizes.judge.score import Score
from assizes.judge.verdicts.root_cause import rationale, root_cause

NO_OUTCOMES = "no_outcomes"
"""Error code of a checklist that the case has, but for which the judge gave no valid finding."""

CaseGate = Literal["expected_outcomes", "overall_score", "all_judges", "quality", "all", "error"]
"""The gate that decided a case; `all` where several families passed it together."""

_REASON_CHARS = 200
"""The most characters of one reason in a text."""

_REASONS = 3
"""The most reasons in the text of a skipped case."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """The decision of one family of judges on a case to which the family applies.

    `passed` is `None` where nothing could decide; then `error` may name the metrics without a
    score. `words` says what decided, for the summary line of the case; `remarks` are further notes
    there. `overall_score` and `tier_scores` run 0..100.
    """

    gate: CaseGate | None
    passed: bool | None
    words: str
    overall_score: float | None = None
    score_passed: bool | None = None
    error: str | None = None
    root_cause: str | None = None
    remarks: tuple[str, ...] = ()
    tier_scores: Mapping[str, float] = field(default_factory=dict)


def points(number: float) -> float:
    """A number of points 0..100 as it is stored and compared: 2 decimals, without float noise."""
    # Nine decimals first: 74.99999999999999 is 75 with float noise, and ties must not hang on it.
    return round(round(number, 9), 2)


def success(score: Score) -> bool | None:
    """Whether a score is a success: its `passed`, else its label; `None` where neither decides."""
    if score.passed is not None:
        return score.passed
    return {"yes": True, "pass": True, "no": False}.get(score.label or "")


def judges_ruling(due: Sequence[Score]) -> Ruling | None:
    """The ruling of seed 002: passed when every judge that applied passed.

    The overall score is 100 x the mean of the values. `None` when no judge applied.

    Args:
        due: the headline scores of the judges with the gate `judges`; skipped scores do not count.
    """
    if error := error_of(due):
        return Ruling("all_judges", None, "", error=error)
    applied = [score for score in due if score.status == "scored"]
    if not applied:
        return None
    not_passed = [score.metric for score in applied if success(score) is not True]
    pass_count = len(applied) - len(not_passed)
    values = [score.value for score in applied if score.value is not None]
    mean = points(math.fsum(values) / len(values) * 100) if values else None
    return Ruling(
        gate="all_judges",
        passed=not not_passed,
        words=f"{pass_count} of {_judges(len(applied))} passed, mean {mean}",
        overall_score=mean,
        remarks=tuple(f"failed {name}" for name in not_passed),
    )


def quality_ruling(
    due: Sequence[Score], declared: Sequence[str], *, has_ground_truth: bool
) -> Ruling | None:
    """The ruling of seed 004: a no fails the case; else an error leaves it undecided.

    `None` when no judge applied.

    Args:
        due: the headline scores of the judges with the gate `quality`; skipped scores do not count.
        declared: the metrics of these judges, in the order of the configured judges.
        has_ground_truth: whether the case holds an expected response or expected facts.
    """
    applied = [score for score in due if score.status == "scored"]
    error = error_of(due)
    if not applied and error is None:
        return None
    failed = {score.metric: score for score in applied if success(score) is False}
    undecided = error is not None or any(success(score) is None for score in applied)
    passed = False if failed else None if undecided else True
    cause = root_cause(failed, declared, has_ground_truth=has_ground_truth)
    yes_count = sum(success(score) is True for score in applied)
    return Ruling(
        gate="quality",
        passed=passed,
        words=f"{yes_count} of {_judges(len(applied), 'quality judge')} said yes"
        if applied
        else "",
        error=error,
        root_cause=cause,
        remarks=_quality_remarks(failed, cause),
    )


def _judges(count: int, noun: str = "judge") -> str:
    return f"{count} {noun if count == 1 else noun + 's'}"


def _quality_remarks(failed: Mapping[str, Score], cause: str | None) -> tuple[str, ...]:
    """The root cause with its rationale, then the other failed metrics."""
    if cause is None:
        return ()
    why = _short(rationale(failed[cause].details))
    others = tuple(f"failed {name}" for name in failed if name != cause)
    return (f"root cause {cause}" + (f" ({why})" if why else ""), *others)


def passed_of(rulings: Sequence[Ruling]) -> bool | None:
    """False when a family failed the case; else `None` when a family is undecided; else true."""
    decisions = [ruling.passed for ruling in rulings]
    if False in decisions:
        return False
    return None if None in decisions else True


def gate_of(rulings: Sequence[Ruling]) -> CaseGate | None:
    """The gate that decided: that of the only family, or of the first failed family, else `all`."""
    if len(rulings) == 1:
        return rulings[0].gate
    return next((ruling.gate for ruling in rulings if ruling.passed is False), "all")


def error_of(due: Sequence[Score]) -> str | None:
    """The metrics without a score because their judge failed, by error code; `None` without any."""
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
        parts.append(f"{code}: {names} ({_short(of_code[0].reason or '')})")
    return "; ".join(parts) or None


def _code(score: Score) -> str:
    return str(score.details.get("error", "judge_error"))


def _short(text: str) -> str:
    return " ".join(text.split())[:_REASON_CHARS]


def why_skipped(due: Sequence[Score]) -> str:
    """The reasons why no metric applied to the case, each reason once."""
    reasons = list(dict.fromkeys(_short(score.reason) for score in due if score.reason))
    more = f"; and {len(reasons) - _REASONS} more" if len(reasons) > _REASONS else ""
    return "; ".join(reasons[:_REASONS]) + more or "nothing was judged"
