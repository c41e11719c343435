"""How wide an interval must be to allow for errors of a judge that no label shows."""

from __future__ import annotations

from math import log, sqrt
from typing import Final

import numpy as np
from scipy.special import ndtri  # type: ignore[import-untyped]  # it has no types

from assizes.judge.statistics.intervals import CONFIDENCE, z_of

RARE_HELD: Final = 0.94
"""The share of all samples in which an interval holds the truth for any judge that errs rarely.

It is below `CONFIDENCE` because samples that show an error hold it more often than is assumed.
"""

_ERRORS: Final = np.linspace(0.0, -log(1 - RARE_HELD), 60, endpoint=False)
_QUANTILES: Final = ndtri(1 - (1 - RARE_HELD) * np.exp(_ERRORS))


def least_variance(variance: float, step: float) -> float:
    """The variance, at least that of an interval which allows for errors that no label shows.

    Let the judge err on a share of cases with x errors expected among the labels. No label shows
    one with the chance exp(-x), and the estimate is then x times the `step` beside the truth: how
    far an error on one label moves it. An interval holds in a share h (`RARE_HELD`) of all samples
    only if it holds in 1 - (1 - h) exp(x) of these. So its half-width is at least
    x step + u z(1 - (1 - h) exp(x)) for every x, where u is the standard error. For u = 0 that is
    the rule of three, and from about u = 1.1 steps on it asks nothing.
    """
    asked = float(np.max(step * _ERRORS + sqrt(variance) * _QUANTILES))
    return max(variance, (asked / z_of(CONFIDENCE)) ** 2)
