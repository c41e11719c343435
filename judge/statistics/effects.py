"""A difference between two runs as an estimate, its interval and its p-value."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from scipy.special import stdtr  # type: ignore[import-untyped]  # it has no types

from assizes.judge.statistics.clusters import MIN_CLUSTERS
from assizes.judge.statistics.intervals import ValueInterval

Method = Literal["mcnemar", "sign_flip", "welch", "t"]
Word = Literal["regressed", "not_worse", "inconclusive", "improved"]

SEED: Final = 20240601
DRAWS: Final = 10_000
"""Draws of a permutation test and of a bootstrap; the seed is fixed, so are the numbers."""

MAX_DRAWN: Final = 2_000
"""Up to so many clusters numbers are drawn; over it the normal distribution says the same."""


def t_p_value(estimate: float, error: float, degrees: float) -> float:
    """Two-sided, by Student's t; without an error 1 for an estimate of 0, and 0 for any other."""
    if error > 0:
        return float(2 * stdtr(degrees, -abs(estimate) / error))
    return 0.0 if estimate else 1.0


class Effect(NamedTuple):
    """Candidate minus baseline, in the unit of the values; `error` is the standard error."""

    delta: float
    error: float
    span: ValueInterval
    p_value: float
    method: Method
    cases: int
    clusters: int


def decide(effect: Effect, p_adjusted: float, margin: float, alpha: float) -> Word:
    """What a difference comes to (higher is better).

    Regressed: the interval lies below 0, the estimate is at or under -margin, and the adjusted
    p-value is at most alpha. Improved: the mirror image. Not worse: the interval lies over -margin.
    Else, and with fewer than `MIN_CLUSTERS` clusters on a side, inconclusive.

    Args:
        effect: the difference.
        p_adjusted: its p-value, adjusted for the other gating metrics.
        margin: the smallest drop that matters, in the effect's unit, over 0.
        alpha: the share of false alarms over all gating metrics, 0..1.
    """
    if effect.clusters < MIN_CLUSTERS:
        return "inconclusive"
    sure = p_adjusted <= alpha
    if sure and effect.span.high < 0 and effect.delta <= -margin:
        return "regressed"
    if sure and effect.span.low > 0 and effect.delta >= margin:
        return "improved"
    return "not_worse" if effect.span.low > -margin else "inconclusive"


def combined_word(point: Word, worst: Word, best: Word) -> Word:
    """One word for a difference with missing values, from those with the missing values left out,
    against the candidate, and in its favour: nothing is said that another filling would contradict.
    """
    if point == worst == best:
        return point
    if {point, worst, best} <= {"not_worse", "improved"}:
        return "not_worse"
    return "inconclusive"
