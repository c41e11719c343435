"""How small a change a comparison could have seen (Miller, arXiv 2411.00640, section 5)."""

from __future__ import annotations

from math import ceil
from typing import Final

from scipy.special import ndtri  # type: ignore[import-untyped]  # it has no types

POWER: Final = 0.8
"""The chance to see a change as large as the minimum detectable effect."""


def _quantiles(alpha: float, power: float) -> float:
    return float(ndtri(1 - alpha / 2) + ndtri(power))


def minimum_detectable(error: float, alpha: float = 0.05, power: float = POWER) -> float:
    """(z_{1-alpha/2} + z_power) x standard error, in the error's unit: 2.80 errors by default."""
    return _quantiles(alpha, power) * error


def cases_needed(variance: float, change: float, alpha: float = 0.05, power: float = POWER) -> int:
    """Independent cases to see a change: (z_{1-alpha/2} + z_power)^2 V / D^2, rounded up.

    Args:
        variance: of one case's difference; for pass or fail the share of cases that flip, minus the
            square of the change.
        change: in the unit of the differences.
        alpha: two-sided level, 0..1.
        power: the chance to see it, 0..1.
    """
    return ceil(_quantiles(alpha, power) ** 2 * variance / change**2)
