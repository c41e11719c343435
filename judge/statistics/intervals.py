"""How sure a number of one run is: Wilson intervals for rates, clustered t for means, bounds for
what is missing.
"""

from __future__ import annotations

from math import sqrt
from typing import Final, NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit  # type: ignore[import-untyped]  # it has no types

from assizes.judge.statistics.clusters import Sample
from assizes.judge.statistics.counted import CountedSample

CONFIDENCE: Final = 0.95
"""The share of intervals that hold the true value."""


class ValueInterval(NamedTuple):
    """From low to high, in the unit of what it is about."""

    low: float
    high: float

    def clip(self, least: float, most: float) -> ValueInterval:
        """Within the scale of what it is about."""
        return ValueInterval(min(max(self.low, least), most), max(min(self.high, most), least))


def z_of(confidence: float) -> float:
    """The two-sided normal quantile: 1.96 for 0.95."""
    return float(ndtri(0.5 + confidence / 2))


def t_of(confidence: float, degrees: float) -> float:
    """The two-sided quantile of Student's t."""
    return float(stdtrit(degrees, 0.5 + confidence / 2))


def wilson(rate: float, cases: float, quantile: float) -> ValueInterval:
    """Wilson's score interval (1927) of a rate: center (p + z^2/2n) / (1 + z^2/n), half-width
    z / (1 + z^2/n) x sqrt(p (1 - p) / n + z^2 / 4 n^2).

    Args:
        rate: the share, 0..1.
        cases: how many; an effective number need not be whole.
        quantile: z, or t where few clusters carry the rate.
    """
    extra = quantile * quantile / cases
    center = (rate + extra / 2) / (1 + extra)
    half = quantile / (1 + extra) * sqrt(rate * (1 - rate) / cases + extra / (4 * cases))
    return ValueInterval(center - half, center + half).clip(0.0, 1.0)


def rate_interval(
    passes: Sample | CountedSample, confidence: float = CONFIDENCE
) -> ValueInterval | None:
    """The interval of a pass rate; null without cases, or with a single cluster of several.

    Cases that stand alone and passed or failed: Wilson. Clusters, or fractions from repetitions:
    Wilson at the effective number of cases p (1 - p) / SE^2, SE being the clustered error, with the
    quantile of t (Franco, Little, Louis, Slud 2019). Where every case passed or every case failed
    each cluster counts once.
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
    """Mean +- t x clustered error, C - 1 degrees of freedom; null for fewer than two clusters."""
    if values.clusters < 2:
        return None
    half = t_of(confidence, values.clusters - 1) * values.error
    return ValueInterval(values.mean - half, values.mean + half)


def quantile_interval(
    values: Sample, share: float, confidence: float = CONFIDENCE
) -> ValueInterval | None:
    """The interval of a quantile (Woodruff 1952): the interval of the share of values up to it,
    read as quantiles; null without values, or with a single cluster of several.
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
    """The mean if every missing value were 0, and if every one were the best; null over nothing."""
    count = known + missing
    return ValueInterval(total / count, (total + most * missing) / count) if count else None
