"""Differences between two runs: the estimate, its interval, its p-value, and the decision."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from scipy.special import stdtr  # type: ignore[import-untyped]  # it has no types

from assizes.judge.statistics.clusters import MIN_CLUSTERS
from assizes.judge.statistics.intervals import ValueInterval

Method = Literal["mcnemar", "sign_flip", "welch", "t"]
Word = Literal["regressed", "not_worse", "inconclusive", "improved"]

SEED: Final = 20240601
"""The seed of all draws: it is fixed, so that the same runs always give the same numbers."""

DRAWS: Final = 10_000
"""The number of draws of a permutation test or a bootstrap."""

MAX_DRAWN: Final = 2_000
"""The most clusters for which numbers are drawn; above it the normal distribution is used."""


def t_p_value(estimate: float, error: float, degrees: float) -> float:
    """The two-sided p-value of an estimate, by Student's t.

    With an error of 0 the p-value is 1 for the estimate 0, and 0 for any other estimate.
    """
    if error > 0:
        return float(2 * stdtr(degrees, -abs(estimate) / error))
    return 0.0 if estimate else 1.0


class Effect(NamedTuple):
    """The difference candidate minus baseline, in the unit of the values.

    `error` is its standard error, `span` its confidence interval.
    """

    delta: float
    error: float
    span: ValueInterval
    p_value: float
    method: Method
    cases: int
    clusters: int


def decide(effect: Effect, p_adjusted: float, margin: float, alpha: float) -> Word:
    """Decide what a difference means, where higher values are better.

    Regressed: the interval is below 0, the estimate is at most -margin, and the adjusted p-value is
    at most alpha. Improved: the mirror image. Not worse: the interval is above -margin.
    Inconclusive: anything else, and always with fewer than `MIN_CLUSTERS` clusters on a side.

    Args:
        effect: the difference.
        p_adjusted: its p-value, adjusted for the other gating metrics.
        margin: the smallest drop that matters, in the unit of the effect, above 0.
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
    """The decision for a difference with missing values, which no filling of them contradicts.

    Args:
        point: the decision without the missing values.
        worst: the decision with the missing values filled against the candidate.
        best: the decision with the missing values filled in favour of the candidate.
    """
    if point == worst == best:
        return point
    if {point, worst, best} <= {"not_worse", "improved"}:
        return "not_worse"
    return "inconclusive"
