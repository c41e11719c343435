"""The power of a comparison: the smallest change that it can detect, and the cases it needs.

Formulas: Miller, "Adding Error Bars to Evals" (arXiv 2411.00640), section 5.
"""

from __future__ import annotations

from math import ceil
from typing import Final

from scipy.special import ndtri  # type: ignore[import-untyped]  # it has no types

POWER: Final = 0.8
"""The chance, 0..1, to detect a change as large as the minimum detectable effect."""


def _quantiles(alpha: float, power: float) -> float:
    return float(ndtri(1 - alpha / 2) + ndtri(power))


def minimum_detectable(error: float, alpha: float = 0.05, power: float = POWER) -> float:
    """The smallest change that is detected, in the unit of the error: 2.80 errors by default.

    It is (z_{1-alpha/2} + z_power) x standard error.
    """
    return _quantiles(alpha, power) * error


def cases_needed(variance: float, change: float, alpha: float = 0.05, power: float = POWER) -> int:
    """The number of independent cases to detect a change: (z_{1-alpha/2} + z_power)^2 V / D^2.

    Args:
        variance: the variance V of one case's difference; for pass or fail it is the share of cases
            that flip, minus the square of the change.
        change: the change D in the unit of the differences.
        alpha: the two-sided level, 0..1.
        power: the chance to detect the change, 0..1.
    """
    return ceil(_quantiles(alpha, power) ** 2 * variance / change**2)
