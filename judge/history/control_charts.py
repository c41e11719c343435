"""Control charts over one series: EWMA, CUSUM and single runs, with a rule of confirmation.

z is how far a run lies on the bad side of the reference, in standard deviations; the deviation of
a run joins the error of its own mean (clustered) with the variance from run to run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import NormalDist, fmean, variance
from typing import Final, Literal

from scipy.special import chdtri  # type: ignore[import-untyped]  # it has no types

from assizes.judge.config.series import SeriesConfig

ChartSide = Literal["worse", "better"]

HARD_P: Final = 0.001
"""A single run this unlikely needs no confirmation."""

SOFT_P: Final = 0.01
"""A run this unlikely needs another one."""

SAME_CASES: Final = 0.4
"""Variance between runs over that of their means; lower by chance once in hundreds of histories."""

SURE: Final = 0.95
"""Where the reference alone says how far runs differ, this upper bound of its variance counts: a
few runs that differ little by chance would else raise alarms for as long as they are the reference.
"""

RESOLVED_RUNS: Final = 3
RESOLVED_Z: Final = 0.5
"""An incident is resolved when this many runs lie, on average, less than this beside the reference."""


@dataclass(frozen=True, slots=True)
class Point:
    """One run of a series.

    Args:
        run_id: the run.
        at: when it was, or what its transcripts are of.
        value: the mean.
        se: its standard error, clustered; 0 where there is no telling.
        items: scores in the mean.
        judge: fingerprint of who judged; a series breaks where it changes.
        usable: false where coverage was under its floor: shown, never judged by.
    """

    run_id: str
    at: datetime
    value: float
    se: float
    items: int
    judge: str = ""
    usable: bool = True


@dataclass(frozen=True, slots=True)
class Reference:
    """What is usual.

    Args:
        mean: of the first runs.
        between: variance from run to run, beyond the errors of their own means; where runs differ
            by far less than those errors, as over the same cases every time, an upper bound of all
            their variance.
        same_cases: whether that is so; the error of a run's own mean then does not count.
        runs: how many they were.
    """

    mean: float
    between: float
    runs: int
    same_cases: bool = False

    def deviation(self, point: Point, span: float) -> float:
        """Standard deviation expected of a run; never under half of what one item can move."""
        floor = 0.5 * span / max(1, point.items)
        own = 0.0 if self.same_cases else point.se**2
        return max(math.sqrt(self.between + own), floor)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of the charts, widened for as many series as are watched together."""

    ewma: float
    cusum: float
    hard: float
    soft: float

    @classmethod
    def of(cls, config: SeriesConfig, series: int) -> Limits:
        """As if one series were watched, in the rate of false alarms over all."""
        many = max(1, series)
        return cls(
            ewma=_beyond((1 - NormalDist().cdf(config.ewma_limit)) / many),
            # The time to a false alarm grows with exp(2 k h).
            cusum=config.cusum_limit + math.log(many) / (2 * max(config.cusum_slack, 0.1)),
            hard=_beyond(HARD_P / many),
            soft=_beyond(SOFT_P / math.sqrt(many)),
        )


@dataclass(frozen=True, slots=True)
class ChartReading:
    """The charts after one run, on one side."""

    z: float
    ewma: float
    cusum: float
    signals: tuple[str, ...]
    open: bool


def _beyond(share: float) -> float:
    """The z beyond which this share of a normal distribution lies."""
    return NormalDist().inv_cdf(1 - share)


def reference(points: Sequence[Point], config: SeriesConfig) -> Reference | None:
    """What the first usable runs say is usual; null while there are too few."""
    first = [point for point in points if point.usable][: config.reference_runs]
    if len(first) < config.reference_runs:
        return None
    values = [point.value for point in first]
    seen, errors = variance(values), fmean(point.se**2 for point in first)
    if seen < SAME_CASES * errors:
        degrees = len(first) - 1
        most = seen * degrees / float(chdtri(degrees, SURE))
        return Reference(fmean(values), most, len(first), same_cases=True)
    return Reference(fmean(values), max(0.0, seen - errors), len(first))


class ControlChart:
    """The charts of one series, read run by run.

    Args:
        usual: the reference.
        config: weights and slack.
        limits: where a signal begins.
        sign: -1 where a fall is what is looked for, 1 for a rise.
        span: the width of the scale, for the smallest deviation.
    """

    def __init__(
        self, usual: Reference, config: SeriesConfig, limits: Limits, sign: int, span: float
    ) -> None:
        self._usual, self._config, self._limits = usual, config, limits
        self._sign, self._span = sign, span
        # A mean of few runs is off by itself, on every later run alike.
        self._doubt = 1 / usual.runs
        self._slack = config.cusum_slack + 0.5 * math.sqrt(self._doubt)
        self._ewma = self._cusum = self._spread = 0.0
        self._out = 0
        self._soft = False
        self._recent: list[float] = []
        self._open = False

    def read(self, point: Point) -> ChartReading:
        """Take in the next usable run."""
        deviation = self._usual.deviation(point, self._span)
        z = self._sign * (point.value - self._usual.mean) / deviation
        weight = self._config.ewma_weight
        self._ewma = weight * z + (1 - weight) * self._ewma
        self._spread = weight**2 + (1 - weight) ** 2 * self._spread
        self._cusum = max(0.0, self._cusum + z - self._slack)
        signals = self._signals(z)
        self._recent = [*self._recent, z][-RESOLVED_RUNS:]
        reading = (z, self._ewma, self._cusum, signals)
        self._step(signals)
        return ChartReading(*reading, open=self._open)

    def _signals(self, z: float) -> tuple[str, ...]:
        limits, steady = self._limits, math.sqrt(self._spread + self._doubt)
        signals = {
            "run": z > limits.hard or (z > limits.soft and self._soft),
            "ewma": self._ewma > limits.ewma * steady,
            "cusum": self._cusum > limits.cusum,
        }
        self._soft = z > limits.soft
        return tuple(name for name, beyond in signals.items() if beyond)

    def _step(self, signals: Sequence[str]) -> None:
        """Open on a run of its own, or on charts that stay out; close when the runs are back."""
        self._out = self._out + 1 if signals else 0
        if not self._open:
            self._open = "run" in signals or self._out >= self._config.confirm
            return
        back = len(self._recent) == RESOLVED_RUNS and fmean(self._recent) < RESOLVED_Z
        if back and "run" not in signals:
            self._open = False
            self._ewma = self._cusum = self._spread = 0.0
            self._out = 0
