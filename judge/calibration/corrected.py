"""Corrects a pass rate for the known errors of the judge (Rogan and Gladen; Lee et al. 2025)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.calibration.resampling import Estimate
from assizes.judge.statistics.exact import rounded_value
from assizes.judge.statistics.intervals import CONFIDENCE, z_of

Z = z_of(CONFIDENCE)


class JudgeErrors(BaseModel):
    """How often a judge is right on items that people passed, and on items that people failed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    passes: int = Field(description="items that people passed")
    passes_right: int = Field(description="those of them that the judge passed")
    fails: int = Field(description="items that people failed")
    fails_right: int = Field(description="those of them that the judge failed")

    @property
    def is_usable(self) -> bool:
        """Whether the judge is better than chance, and both kinds of items were labelled."""
        if not self.passes or not self.fails:
            return False
        return self.passes_right / self.passes + self.fails_right / self.fails > 1


@dataclass(frozen=True, slots=True)
class ObservedPasses:
    """The number of items that a judge passed.

    Attributes:
        passed: items that the judge passed.
        judged: all items that the judge graded.
        deff: the design effect of clusters, at least 1; see `design_effect`.
    """

    passed: int
    judged: int
    deff: float = 1.0


def corrected_rate(observed: ObservedPasses, errors: JudgeErrors) -> Estimate:
    """The share of items that truly pass: (p + q0 - 1) / (q0 + q1 - 1), within 0 and 1.

    p is the share that the judge passed, q1 its share of right answers on true passes, q0 that on
    true fails. The interval adds the errors of all three; p is smoothed by z^2 / 2, q0 and q1 by
    one item each, so that a judge without an error among few labels does not count as faultless.
    The value is `None` where the judge is no better than chance or one kind of label is missing.
    """
    if not errors.is_usable or not observed.judged:
        return Estimate(value=None)
    p = observed.passed / observed.judged
    q1, q0 = errors.passes_right / errors.passes, errors.fails_right / errors.fails
    value = _within((p + q0 - 1) / (q0 + q1 - 1))
    low, high = _bounds(observed, errors)
    return Estimate(value=value, low=min(low, value), high=max(high, value))


def _bounds(observed: ObservedPasses, errors: JudgeErrors) -> tuple[float, float]:
    n = observed.judged / max(1.0, observed.deff) + Z**2
    p = (observed.passed / observed.judged * (n - Z**2) + Z**2 / 2) / n
    m1, m0 = errors.passes + 2, errors.fails + 2
    q1, q0 = (errors.passes_right + 1) / m1, (errors.fails_right + 1) / m0
    gain = q0 + q1 - 1
    if gain <= 0:
        return 0.0, 1.0
    theta = (p + q0 - 1) / gain
    fails, passes = q0 * (1 - q0) / m0, q1 * (1 - q1) / m1
    shift = 2 * Z**2 * (theta * passes - (1 - theta) * fails)
    spread = p * (1 - p) / n + (1 - theta) ** 2 * fails + theta**2 * passes
    half = Z * math.sqrt(spread) / gain
    return _within(theta + shift - half), _within(theta + shift + half)


def _within(value: float) -> float:
    return rounded_value(min(1.0, max(0.0, value)))


def design_effect(outcomes: list[tuple[str, bool]]) -> float:
    """The factor by which clusters raise the variance of a share: clustered / independent, at least 1.

    Args:
        outcomes: (cluster, passed) of every judged item.
    """
    n = len(outcomes)
    mean = sum(passed for _, passed in outcomes) / n if n else 0.0
    sums: dict[str, float] = {}
    for cluster, passed in outcomes:
        sums[cluster] = sums.get(cluster, 0.0) + passed - mean
    plain = n * mean * (1 - mean)
    if len(sums) < 2 or plain == 0:
        return 1.0
    grown = len(sums) / (len(sums) - 1) * math.fsum(part**2 for part in sums.values())
    return max(1.0, grown / plain)
