"""Samples of case values, confidence intervals for the numbers of one run, and its power.

Rates have Wilson intervals, means have intervals of Student's t with clustered errors. Formulas of
the clustered error and of the power: Miller, "Adding Error Bars to Evals" (arXiv 2411.00640),
sections 2.2 and 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit  # type: ignore[import-untyped]  # it has no types

Floats: TypeAlias = NDArray[np.float64]
Codes: TypeAlias = NDArray[np.int64]

MIN_CLUSTERS: Final = 10
"""The fewest clusters for a verdict: with fewer, the clustered error itself is too uncertain."""

CONFIDENCE: Final = 0.95
"""The share of intervals of one run that contain the true value."""

POWER: Final = 0.8
"""The chance, 0..1, to detect a change as large as the minimum detectable effect."""


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One value for each case, averaged over repetitions, and the number of its cluster, from 0."""

    values: Floats
    codes: Codes

    @classmethod
    def of(cls, values: Sequence[float] | Floats, clusters: Sequence[object] = ()) -> Sample:
        """A sample of values with the names of their clusters; without names, no two share one."""
        numbers = np.asarray(values, dtype=np.float64)
        if not len(clusters):
            return cls(numbers, np.arange(numbers.size))
        known: dict[object, int] = {}
        codes = [known.setdefault(name, len(known)) for name in clusters]
        return cls(numbers, np.asarray(codes, dtype=np.int64))

    @property
    def size(self) -> int:
        """The number of cases."""
        return int(self.values.size)

    @property
    def clusters(self) -> int:
        """The number of clusters."""
        return int(np.count_nonzero(np.bincount(self.codes)))

    @property
    def sides(self) -> tuple[int, int]:
        """The number of cases with a value below 0, and the number of those above 0."""
        return int((self.values < 0).sum()), int((self.values > 0).sum())

    @property
    def mean(self) -> float:
        """The mean over the cases."""
        return float(self.values.mean())

    @property
    def error(self) -> float:
        """The clustered standard error of the mean (Miller 2024); infinite for under two clusters.

        It is sqrt(C / (C - 1) x sum over C clusters of (sum of (value - mean))^2) / n; with one
        case in each cluster this is the usual sqrt(s^2 / n).
        """
        count = self.clusters
        if count < 2:
            return float("inf")
        sums = cluster_sums(self.values - self.mean, self.codes)
        return float(np.sqrt(count / (count - 1) * np.square(sums).sum())) / self.size

    def with_cases(self, *values: float) -> Sample:
        """The sample with these values added, each in a cluster of its own."""
        first = int(self.codes.max(initial=-1)) + 1
        more = np.arange(first, first + len(values))
        return Sample(np.append(self.values, values), np.append(self.codes, more))


@dataclass(frozen=True, slots=True, eq=False)
class CountedSample:
    """Different values and how many cases have each value; every case is a cluster of its own.

    The results equal those of a `Sample` of the single cases, up to the last digits of a float.
    """

    values: Floats  # different values, so a run of millions of cases is a few numbers
    times: Floats  # cases with each value; whole numbers

    @property
    def size(self) -> int:
        """The number of cases."""
        return int(self.times.sum())

    @property
    def clusters(self) -> int:
        """The number of clusters, which is the number of cases."""
        return self.size

    @property
    def sides(self) -> tuple[int, int]:
        """The number of cases with a value below 0, and the number of those above 0."""
        return int(self.times[self.values < 0].sum()), int(self.times[self.values > 0].sum())

    @property
    def mean(self) -> float:
        """The mean over the cases; there must be at least one case."""
        return float(self.values @ self.times) / self.size

    @property
    def error(self) -> float:
        """The standard error of the mean, sqrt(s^2 / n); infinite for fewer than two cases."""
        count = self.size
        if count < 2:
            return float("inf")
        squares = float(np.square(self.values - self.mean) @ self.times)
        return float(np.sqrt(squares / (count - 1) / count))

    def with_cases(self, *values: float) -> CountedSample:
        """The sample with these values added, each as a case of its own."""
        times = np.append(self.times, np.ones(len(values)))
        return CountedSample(np.append(self.values, values), times)


class ValueInterval(NamedTuple):
    """An interval from `low` to `high`, in the unit of the values."""

    low: float
    high: float

    def clip(self, least: float, most: float) -> ValueInterval:
        """The interval cut to the scale from `least` to `most`."""
        return ValueInterval(min(max(self.low, least), most), max(min(self.high, most), least))


def cluster_sums(values: Floats, codes: Codes) -> Floats:
    """The sum of the values of each cluster."""
    sums = np.bincount(codes, weights=values).astype(np.float64)
    return sums[np.bincount(codes) > 0]  # a number without cases is no cluster


def z_of(confidence: float) -> float:
    """The two-sided quantile of the normal distribution: 1.96 for 0.95."""
    return float(ndtri(0.5 + confidence / 2))


def t_of(confidence: float, degrees: float) -> float:
    """The two-sided quantile of Student's t with these degrees of freedom."""
    return float(stdtrit(degrees, 0.5 + confidence / 2))


def rate_interval(passes: Sample | CountedSample) -> ValueInterval | None:
    """The interval of a pass rate; `None` without cases, or where all cases are in one cluster.

    For cases without clusters that passed or failed it is Wilson's interval. For clusters, or for
    fractions from repetitions, it takes the quantile of t, and the effective number of cases
    p (1 - p) / SE^2, where SE is the clustered error (Franco, Little, Louis, Slud 2019).
    """
    if not passes.size:
        return None
    rate, clusters = passes.mean, passes.clusters
    whole = bool(((passes.values == 0) | (passes.values == 1)).all())
    if whole and clusters == passes.size:
        return wilson(rate, passes.size, z_of(CONFIDENCE))
    if clusters < 2:
        return None
    spread = passes.error**2
    # Where all passed or all failed SE is 0: each cluster then counts as one case.
    effective = rate * (1 - rate) / spread if spread > 0 and 0 < rate < 1 else float(clusters)
    return wilson(rate, effective, t_of(CONFIDENCE, clusters - 1))


def wilson(rate: float, cases: float, quantile: float) -> ValueInterval:
    """Wilson's score interval (1927) of a rate p over n cases; n need not be whole.

    Its center is (p + z^2/2n) / (1 + z^2/n), its half-width is z / (1 + z^2/n) x sqrt(p (1 - p) / n
    + z^2 / 4 n^2), where z is the quantile.
    """
    extra = quantile * quantile / cases  # z^2/n
    center = (rate + extra / 2) / (1 + extra)
    half = quantile / (1 + extra) * sqrt(rate * (1 - rate) / cases + extra / (4 * cases))
    return ValueInterval(center - half, center + half).clip(0.0, 1.0)


def mean_interval(values: Sample | CountedSample) -> ValueInterval | None:
    """The interval of a mean; `None` for fewer than two clusters."""
    return t_interval(values, CONFIDENCE) if values.clusters >= 2 else None


def t_interval(values: Sample | CountedSample, confidence: float) -> ValueInterval:
    """The mean +- t x clustered error, with C - 1 degrees of freedom for C >= 2 clusters."""
    half = t_of(confidence, values.clusters - 1) * values.error
    return ValueInterval(values.mean - half, values.mean + half)


def quantile_interval(values: Sample, share: float) -> ValueInterval | None:
    """The interval of a quantile (Woodruff 1952); `None` where its share has no interval."""
    if not values.size:
        return None
    # The share of values up to the quantile has an interval; its ends give the bounds.
    below = (values.values <= np.quantile(values.values, share)).astype(np.float64)
    span = rate_interval(Sample(below, values.codes))
    if span is None:
        return None
    low, high = np.quantile(values.values, [span.low, span.high])
    return ValueInterval(float(low), float(high))


def minimum_detectable(error: float, alpha: float = 0.05) -> float:
    """The smallest change that is detected, (z_{1-alpha/2} + z_power) x its standard error."""
    return float(ndtri(1 - alpha / 2) + ndtri(POWER)) * error  # 2.80 errors by default


def cases_needed(variance: float, change: float, alpha: float = 0.05) -> int:
    """The number of independent cases to detect a change D: (z_{1-alpha/2} + z_power)^2 V / D^2.

    V is the variance of one case's difference: for pass or fail the share of cases that flip, minus
    the square of the change.
    """
    return ceil(minimum_detectable(1.0, alpha) ** 2 * variance / change**2)
