"""Sums and means that do not depend on the order of the rows, and comparisons with thresholds.

Scores are small integers times weights with few decimals, so many numbers of a run lie exactly on a
threshold, where the last bit of a float would decide.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

DECIMALS = 9
"""The decimals of every derived number: enough for all units, too few for float noise."""


def rounded_value(value: float | Fraction) -> float:
    """The number rounded to nine decimals, as it is stored and compared with thresholds."""
    return round(float(value), DECIMALS) + 0.0  # the sum makes 0.0 of -0.0


def total(values: Sequence[float]) -> float | None:
    """The sum of the values; `None` where there are none."""
    return rounded_value(math.fsum(values)) if values else None  # fsum is exact: rounded only once


def mean_of_counts(counted: Iterable[tuple[float, int]]) -> float | None:
    """The mean of values with their counts; `None` where all counts are 0."""
    pairs = [(value, times) for value, times in counted if times]
    if not pairs:
        return None
    count = sum(times for _, times in pairs)
    return rounded_value(math.fsum(value * times for value, times in pairs) / count)


def reaches(value: float | None, threshold: float) -> bool | None:
    """Whether a number is at least its threshold; `None` where there is no number."""
    return None if value is None else rounded_value(value) >= rounded_value(threshold)


def exceeds(value: float, limit: float) -> bool:
    """Whether a number is strictly above its limit."""
    return rounded_value(value) > rounded_value(limit)
