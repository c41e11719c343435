"""Whether a changed case changed by more than a case does when nothing changes."""

from __future__ import annotations

from typing import Final

import polars as pl

from assizes.judge.comparison.cases import CASE_POINTS

SPREADS: Final = 2.0
"""A move of more than so many standard deviations of repetitions is no noise."""


def noise_threshold(repeat_sd: float) -> float:
    """Points by which a case may move without having changed: max(5, 2 x SD of its repetitions)."""
    return max(CASE_POINTS, SPREADS * repeat_sd)


def changes_within_noise(changed: pl.DataFrame, threshold: float) -> tuple[str, ...]:
    """The ids of the changed cases whose change is within noise.

    It is unless the verdict of most repetitions turned, or the score moved by more than the
    threshold.

    Args:
        changed: cases that got worse or better, as `joined_cases` has them.
        threshold: in points.
    """
    most = [
        pl.col(f"{side}_passes") * 2 > pl.col(f"{side}_runs") for side in ("baseline", "candidate")
    ]
    still = pl.col("score_delta").abs().fill_null(0.0) <= threshold
    return tuple(changed.filter((most[0] == most[1]) & still)["case_id"])
