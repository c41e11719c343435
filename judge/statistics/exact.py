"""Sums, means and shares that do not depend on the order of the rows.

Scores are small integers times weights with few decimals, so many numbers of a run lie exactly on
a threshold, where one unit in the last place decides. Every number here is summed exactly and
rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

import polars as pl

DECIMALS = 9
"""Decimals of every derived number; enough for units, too few for float noise."""


def rounded_value(value: float | Fraction) -> float:
    """The number with nine decimals, as it is stored and compared with thresholds."""
    return round(float(value), DECIMALS)


def total(values: Sequence[float]) -> float | None:
    """The sum; null where there is nothing to add."""
    return rounded_value(math.fsum(values)) if values else None


def unrounded_mean(values: pl.Series) -> float:
    """The arithmetic mean of at least one value, for differences that are rounded in their turn."""
    return math.fsum(values.to_numpy()) / len(values)


def mean_of_counts(counted: Iterable[tuple[float, int]]) -> float | None:
    """The mean of values that each occur so many times; null over nothing."""
    pairs = [(value, times) for value, times in counted if times]
    times = sum(number for _, number in pairs)
    return (
        rounded_value(math.fsum(value * number for value, number in pairs) / times)
        if times
        else None
    )


def reaches(value: float | None, threshold: float) -> bool | None:
    """Whether a number is at or over its threshold; null where there is no number."""
    return None if value is None else rounded_value(value) >= rounded_value(threshold)


def exceeds(value: float, limit: float) -> bool:
    """Whether a number is strictly over its limit."""
    return rounded_value(value) > rounded_value(limit)
