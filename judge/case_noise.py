"""Whether a changed case changed by more than a case does when nothing changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from judge.compare_cases import CASE_POINTS, CaseComparison

SPREADS: Final = 2.0
"""A move of more than so many standard deviations of repetitions is no noise."""


def noise_threshold(repeat_sd: float) -> float:
    """Points by which a case may move without having changed: max(5, 2 x SD of its repetitions)."""
    return max(CASE_POINTS, SPREADS * repeat_sd)


def changed_within(cases: Iterable[CaseComparison], threshold: float) -> tuple[str, ...]:
    """The ids of the changed cases whose change is within noise.

    It is unless the verdict of most repetitions turned, or the score moved by more than the
    threshold.
    """
    changed = (case for case in cases if case.status in ("regression", "improvement"))
    return tuple(case.test_case_id for case in changed if _within(case, threshold))


def _within(case: CaseComparison, threshold: float) -> bool:
    turned = (case.baseline_pass_fraction > 0.5) != (case.candidate_pass_fraction > 0.5)
    return not turned and abs(case.score_delta or 0.0) <= threshold
