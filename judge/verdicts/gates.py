"""The gates of one case: each family of judges rules for itself, then the rulings are put together.

Seed 002: every judge that applies must pass. Seed 004: one no fails the case and has a root cause;
without a no, a rating that could not be had leaves the case undecided.
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
"""Error code of a checklist that was due but of which the judge produced nothing."""

CaseGate = Literal["expected_outcomes", "overall_score", "all_judges", "quality", "all", "error"]

_REASON_CHARS = 200
_REASONS = 3


@dataclass(frozen=True, slots=True)
class Ruling:
    """What one family of judges holds of a case to which it applies.

    `passed` is null where nothing could decide; `error` then may say what could not be had. `words`
    say what it was decided by, `remarks` what else is worth a mention.
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
    """A number of points as it is stored and compared: 2 decimals, free of float noise."""
    # Nine decimals first: 74.99999999999999 is 75 with float noise, and ties must not hang on it.
    return round(round(number, 9), 2)


def success(score: Score) -> bool | None:
    """Whether a finding is good: its own `passed`, else what its word says; null without either."""
    if score.passed is not None:
        return score.passed
    return {"yes": True, "pass": True, "no": False}.get(score.label or "")


def judges_ruling(due: Sequence[Score]) -> Ruling | None:
    """Seed 002: passed when every judge that applied passed; the score is 100 x their mean.

    Args:
        due: the headlines of the judges that gate so; skipped ones do not count.
    """
    if error := error_of(due):
        return Ruling("all_judges", None, "", error=error)
    applied = [score for score in due if score.status == "scored"]
    if not applied:
        return None
    passed = all(success(score) is True for score in applied)
    pass_count = sum(success(score) is True for score in applied)
    values = [score.value for score in applied if score.value is not None]
    mean = points(math.fsum(values) / len(values) * 100) if values else None
    return Ruling(
        gate="all_judges",
        passed=passed,
        words=f"{pass_count} of {_judges(len(applied))} passed, mean {mean}",
        overall_score=mean,
        remarks=tuple(f"failed {score.metric}" for score in applied if success(score) is not True),
    )


def quality_ruling(
    due: Sequence[Score], declared: Sequence[str], *, has_ground_truth: bool
) -> Ruling | None:
    """Seed 004: any no fails the case; else any error leaves it undecided; else it passed.

    Args:
        due: the headlines of the judges that gate so; skipped ones do not count.
        declared: their metrics in the order of the court.
        has_ground_truth: whether the case says what the answer should have been.
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
    if cause is None:
        return ()
    why = _short(rationale(failed[cause].details))
    others = tuple(f"failed {name}" for name in failed if name != cause)
    return (f"root cause {cause}" + (f" ({why})" if why else ""), *others)


def passed_of(rulings: Sequence[Ruling]) -> bool | None:
    """False when any family failed the case; else null when any is undecided; else true."""
    decisions = [ruling.passed for ruling in rulings]
    if False in decisions:
        return False
    return None if None in decisions else True


def gate_of(rulings: Sequence[Ruling]) -> CaseGate | None:
    """What decided: the gate of the only family, else of the first that failed, else `all`."""
    if len(rulings) == 1:
        return rulings[0].gate
    return next((ruling.gate for ruling in rulings if ruling.passed is False), "all")


def error_of(due: Sequence[Score]) -> str | None:
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
        parts.append(f"{code}: {names} ({_short(of_code[0].reason or '')})")
    return "; ".join(parts) or None


def _code(score: Score) -> str:
    return str(score.details.get("error", "judge_error"))


def _short(text: str) -> str:
    return " ".join(text.split())[:_REASON_CHARS]


def why_skipped(due: Sequence[Score]) -> str:
    """The reasons for which nothing applied, each once."""
    reasons = list(dict.fromkeys(_short(score.reason) for score in due if score.reason))
    more = f"; and {len(reasons) - _REASONS} more" if len(reasons) > _REASONS else ""
    return "; ".join(reasons[:_REASONS]) + more or "nothing was judged"
