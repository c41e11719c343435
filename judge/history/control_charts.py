"""Control charts find the runs of a series that differ from its usual value.

Three charts read the same series: single runs (Shewhart), EWMA (an exponentially weighted moving
average) and CUSUM (a cumulative sum). All work with z: how far a run lies on the bad side of the
reference, in standard deviations. The variance of a run is the squared clustered error of its own
mean plus the variance from run to run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import NormalDist, fmean, variance
from typing import Final, Literal

from scipy.special import chdtri  # type: ignore[import-untyped]  # it has no types

from assizes.judge.config.gates import SeriesConfig

ChartSide = Literal["worse", "better"]

HARD_P: Final = 0.001
"""A run whose p value is below this is a signal at once; several series share the probability."""

SOFT_P: Final = 0.01
"""A run whose p value is below this is a signal if the p value of the run before it was too."""

SAME_CASES: Final = 0.4
"""Below this ratio, runs differ so little that they must have judged the same cases.

The ratio is the variance between the runs, divided by the squared error of their means. Chance
alone gives a lower ratio once in hundreds of histories.
"""

SURE: Final = 0.95
"""Confidence of the upper bound that is used for the variance of runs over the same cases.

Without an upper bound, a few reference runs that differ little by chance would raise false alarms
for as long as they are the reference.
"""

RESOLVED_RUNS: Final = 3
"""An incident is resolved when the mean z of this many runs in a row is below `RESOLVED_Z`."""

RESOLVED_Z: Final = 0.5
"""Standard deviations from the reference below which runs count as usual again."""


@dataclass(frozen=True, slots=True)
class Point:
    """One run of a series."""

    run_id: str
    at: datetime  # the beginning of the day that the run is about, else when it began
    value: float  # mean of the scores of the run
    se: float  # clustered standard error of the mean; 0 where it cannot be computed
    items: int  # scores behind the mean
    judge: str = ""  # fingerprint; a change breaks the series, unless bridged
    usable: bool = True  # false: coverage under its floor; shown, but no chart reads it
    begun: datetime | None = None  # orders runs about one day; None: `at`


@dataclass(frozen=True, slots=True)
class Reference:
    """The usual value of a series, learned from its first runs."""

    mean: float
    between: float  # variance from run to run that the errors of their own means do not explain
    runs: int  # those it was learned from
    same_cases: bool = False  # then `between` is a bound of the whole variance between runs

    def deviation(self, point: Point, span: float) -> float:
        """The standard deviation expected of a run, in a series whose scale is `span` wide."""
        # Half of what one score can move the mean; after equal runs alone, z would be infinite.
        floor = 0.5 * span / max(1, point.items)
        # Over the same cases the error of a mean is the same in each run, and moves none of them.
        own = 0.0 if self.same_cases else point.se**2
        return max(math.sqrt(self.between + own), floor)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits beyond which the charts give a signal, in standard deviations."""

    ewma: float  # of the average itself
    cusum: float
    hard: float  # of a single run
    soft: float  # of two runs in a row

    @classmethod
    def of(cls, config: SeriesConfig, series: int) -> Limits:
        """The limits for so many series watched together, with the false alarms of one alone."""
        many, normal = max(1, series), NormalDist()
        return cls(
            ewma=normal.inv_cdf(1 - (1 - normal.cdf(config.ewma_limit)) / many),
            # The time to a false alarm grows with exp(2 k h).
            cusum=config.cusum_limit + math.log(many) / (2 * max(config.cusum_slack, 0.1)),
            hard=normal.inv_cdf(1 - HARD_P / many),
            soft=normal.inv_cdf(1 - SOFT_P / math.sqrt(many)),  # two runs: the chance is squared
        )


@dataclass(frozen=True, slots=True)
class ChartReading:
    """The state of the charts of one side (worse or better) after one run."""

    z: float  # how far the run lies on this side of the reference, in standard deviations
    ewma: float  # exponentially weighted moving average of z
    cusum: float  # cumulative sum of z, never below 0
    signals: tuple[str, ...]  # charts beyond their limits: `run`, `ewma`, `cusum`
    open: bool  # an incident, on this side


def reference(points: Sequence[Point], config: SeriesConfig) -> Reference | None:
    """The reference from a series' first usable runs, in order of time; `None` while too few."""
    first = [point for point in points if point.usable][: config.reference_runs]
    if len(first) < config.reference_runs:
        return None
    values = [point.value for point in first]
    seen, errors = variance(values), fmean(point.se**2 for point in first)
    same_cases, degrees = seen < SAME_CASES * errors, len(first) - 1
    # The 95 % bound of a variance by chi-squared (docs/decisions.md, decision 53): few runs that
    # differ little by chance would raise alarms for a year.
    upper_bound = seen * degrees / float(chdtri(degrees, SURE))
    between = upper_bound if same_cases else max(0.0, seen - errors)
    return Reference(fmean(values), between, len(first), same_cases)


class ControlChart:
    """The charts of one side of one series, which read the series run by run."""

    def __init__(
        self, usual: Reference, config: SeriesConfig, limits: Limits, sign: int, span: float
    ) -> None:
        # `sign` is -1 to look for a fall of the value, 1 for a rise; `span` is the scale's width.
        self._usual, self._config, self._limits = usual, config, limits
        self._sign, self._span = sign, span
        # The reference is a mean of few runs: its own error shifts every later z alike.
        self._doubt = 1 / usual.runs
        self._slack = config.cusum_slack + 0.5 * math.sqrt(self._doubt)
        self._ewma = self._cusum = self._spread = 0.0
        self._out = 0  # runs with signals in a row, up to now
        self._soft = self._open = False
        self._recent: list[float] = []  # z of the last RESOLVED_RUNS runs

    def read(self, point: Point) -> ChartReading:
        """Read the next usable run, and return the state of the charts after it."""
        deviation = self._usual.deviation(point, self._span)
        z = self._sign * (point.value - self._usual.mean) / deviation
        weight, limits = self._config.ewma_weight, self._limits
        self._ewma = weight * z + (1 - weight) * self._ewma
        # The variance of the average, which grows from 0 to its steady value with the runs read.
        self._spread = weight**2 + (1 - weight) ** 2 * self._spread
        self._cusum = max(0.0, self._cusum + z - self._slack)
        steady = math.sqrt(self._spread + self._doubt)
        beyond = {
            "run": z > limits.hard or (z > limits.soft and self._soft),
            "ewma": self._ewma > limits.ewma * steady,
            "cusum": self._cusum > limits.cusum,
        }
        signals = tuple(name for name, is_beyond in beyond.items() if is_beyond)
        self._soft = z > limits.soft
        self._recent = [*self._recent, z][-RESOLVED_RUNS:]
        self._out = self._out + 1 if signals else 0
        ewma, cusum = self._ewma, self._cusum  # before a reset below
        back = len(self._recent) == RESOLVED_RUNS and fmean(self._recent) < RESOLVED_Z
        # A single run beyond the limits of chart `run` opens an incident at once, and so do other
        # signals that persist; the incident closes when the latest runs are usual again.
        if not self._open:
            self._open = "run" in signals or self._out >= self._config.confirm
        elif back and "run" not in signals:
            self._open = False
            self._ewma = self._cusum = self._spread = 0.0
            self._out = 0
        return ChartReading(z, ewma, cusum, signals, self._open)
