"""Confidence intervals for the numbers of one run, and bounds where values are missing.

Rates have Wilson intervals, means have intervals of Student's t with clustered errors.
"""

from __future__ import annotations

from math import sqrt
from typing import Final, NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit  # type: ignore[import-untyped]  # it has no types

from assizes.judge.statistics.clusters import Sample
from assizes.judge.statistics.counted import CountedSample

CONFIDENCE: Final = 0.95
"""The default confidence: the share of intervals that contain the true value."""


class ValueInterval(NamedTuple):
    """An interval from `low` to `high`, in the unit of the values."""

    low: float
    high: float

    def clip(self, least: float, most: float) -> ValueInterval:
        """The interval cut to the scale from `least` to `most`."""
        return ValueInterval(min(max(self.low, least), most), max(min(self.high, most), least))


def z_of(confidence: float) -> float:
    """The two-sided quantile of the normal distribution: 1.96 for 0.95."""
    return float(ndtri(0.5 + confidence / 2))


def t_of(confidence: float, degrees: float) -> float:
    """The two-sided quantile of Student's t with these degrees of freedom."""
    return float(stdtrit(degrees, 0.5 + confidence / 2))


def wilson(rate: float, cases: float, quantile: float) -> ValueInterval:
    """Wilson's score interval (1927) of a rate.

    Its center is (p + z^2/2n) / (1 + z^2/n), its half-width is
    z / (1 + z^2/n) x sqrt(p (1 - p) / n + z^2 / 4 n^2).

    Args:
        rate: the rate p, 0..1.
        cases: the number n of cases; an effective number need not be whole.
        quantile: z, or the quantile of t where there are few clusters.
    """
    extra = quantile * quantile / cases
    center = (rate + extra / 2) / (1 + extra)
    half = quantile / (1 + extra) * sqrt(rate * (1 - rate) / cases + extra / (4 * cases))
    return ValueInterval(center - half, center + half).clip(0.0, 1.0)


def rate_interval(
    passes: Sample | CountedSample, confidence: float = CONFIDENCE
) -> ValueInterval | None:
    """The interval of a pass rate; `None` without cases, or where all cases are in one cluster.

    For cases without clusters that passed or failed it is Wilson's interval. For clusters, or for
    fractions from repetitions, it is Wilson's interval with the quantile of t, at the effective
    number of cases p (1 - p) / SE^2, where SE is the clustered error (Franco, Little, Louis, Slud
    2019). Where all cases passed or all failed, the number of clusters takes its place.
    """
    if not passes.size:
        return None
    rate, clusters = passes.mean, passes.clusters
    whole = bool(((passes.values == 0) | (passes.values == 1)).all())
    if whole and not passes.is_clustered:
        return wilson(rate, passes.size, z_of(confidence))
    if clusters < 2:
        return None
    spread = passes.error**2
    effective = rate * (1 - rate) / spread if spread > 0 and 0 < rate < 1 else float(clusters)
    return wilson(rate, effective, t_of(confidence, clusters - 1))


def mean_interval(
    values: Sample | CountedSample, confidence: float = CONFIDENCE
) -> ValueInterval | None:
    """The interval of a mean; `None` for fewer than two clusters."""
    return t_interval(values, confidence) if values.clusters >= 2 else None


def t_interval(values: Sample | CountedSample, confidence: float) -> ValueInterval:
    """The mean +- t x clustered error, with C - 1 degrees of freedom for C >= 2 clusters."""
    half = t_of(confidence, values.clusters - 1) * values.error
    return ValueInterval(values.mean - half, values.mean + half)


def quantile_interval(
    values: Sample, share: float, confidence: float = CONFIDENCE
) -> ValueInterval | None:
    """The interval of a quantile (Woodruff 1952); `None` where its share has no interval.

    The interval of the share of values up to the quantile gives two shares; the quantiles at these
    shares are the bounds.
    """
    if not values.size:
        return None
    below = (values.values <= np.quantile(values.values, share)).astype(np.float64)
    span = rate_interval(Sample(below, values.codes), confidence)
    if span is None:
        return None
    low, high = np.quantile(values.values, [span.low, span.high])
    return ValueInterval(float(low), float(high))


def missing_bounds(total: float, known: int, missing: int, most: float) -> ValueInterval | None:
    """The mean if all missing values were 0, and if all were `most`; `None` without any value."""
    count = known + missing
    return ValueInterval(total / count, (total + most * missing) / count) if count else None
