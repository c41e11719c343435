"""Intervals by resampling whole clusters, with a fixed seed: the same labels give the same bounds."""

from __future__ import annotations

from typing import Final

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.calibration.measures import Measure, Tables
from assizes.judge.statistics.exact import rounded_value

DRAWS: Final = 10_000
"""Number of resamples behind an interval."""

SEED: Final = 20_240_401
MIN_CLUSTERS: Final = 10
"""The fewest clusters for an interval: with fewer ones a resampled interval is too narrow."""

_BLOCK: Final = 1_000
"""Number of resamples that are in memory at once."""


class Estimate(BaseModel):
    """A number with its 95 % interval.

    `value` is `None` where the number is not defined; the bounds are `None` where there are too few
    data.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: float | None
    low: float | None = Field(default=None, description="lower bound of the 95 % interval")
    high: float | None = None

    def __str__(self) -> str:
        """`0.71 [0.62, 0.79]`; without the bounds where there are none."""
        if self.value is None:
            return "not defined"
        bounds = "" if self.low is None else f" [{self.low:.2f}, {self.high:.2f}]"
        return f"{self.value:.2f}{bounds}"


def estimate(tables: Tables, measure: Measure, draws: int = DRAWS) -> Estimate:
    """Compute a measure over all clusters, with an interval from resampled clusters.

    The bounds are the 2.5 and 97.5 percentiles over the resamples in which the measure is defined.
    """
    if not tables.clusters:
        return Estimate(value=None)
    value = _number(float(measure(tables.whole[None])[0]))
    if value is None or tables.clusters < MIN_CLUSTERS:
        return Estimate(value=value)
    values = _resampled_values(tables, measure, draws)
    low, high = np.nanquantile(values, [0.025, 0.975])
    return Estimate(value=value, low=_number(float(low)), high=_number(float(high)))


def _resampled_values(tables: Tables, measure: Measure, draws: int) -> np.ndarray:
    """The measure over each resample of the clusters, drawn with replacement."""
    # A resample is drawn as the number of times that each kind of cluster occurs.
    random = np.random.default_rng(SEED)
    shares = tables.times / tables.clusters
    blocks = []
    for start in range(0, draws, _BLOCK):
        size = min(_BLOCK, draws - start)
        drawn = random.multinomial(tables.clusters, shares, size=size)
        blocks.append(measure(np.tensordot(drawn, tables.kinds, axes=1)))
    return np.concatenate(blocks)


def _number(value: float) -> float | None:
    return rounded_value(value) if np.isfinite(value) else None
