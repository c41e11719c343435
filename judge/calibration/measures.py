"""Measures of agreement over count tables; each takes a stack of tables and gives a number a table.

A measure is not a number (NaN) where its denominator is 0. Tables are arrays (..., levels, levels).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from assizes.judge.calibration.tables import Array

Measure = Callable[[Array], Array]
Distance = Literal["nominal", "ordinal"]


def accuracy(tables: Array) -> Array:
    """The share of items on which both agree exactly."""
    return _quotient(np.trace(tables, axis1=-2, axis2=-1), tables.sum((-2, -1)))


def kappa(tables: Array) -> Array:
    """Cohen's kappa: 1 - observed / expected disagreement."""
    size = tables.shape[-1]
    return _chance_corrected(tables, 1.0 - np.eye(size))


def quadratic_kappa(levels: Sequence[float]) -> Measure:
    """Cohen's kappa with disagreements weighted by the square of their distance in grades."""
    grades = np.asarray(levels, dtype=float)
    weights = (grades[:, None] - grades[None, :]) ** 2
    return lambda tables: _chance_corrected(tables, weights)


def alpha(distance: Distance) -> Measure:
    """Krippendorff's alpha over coincidence tables."""
    return _ordinal_alpha if distance == "ordinal" else _nominal_alpha


def f1(tables: Array) -> Array:
    """2 TP / (2 TP + FP + FN) of the first level, over tables of two levels."""
    twice = 2 * tables[..., 0, 0]
    return _quotient(twice, twice + tables[..., 0, 1] + tables[..., 1, 0])


def false_positive_rate(tables: Array) -> Array:
    """The share of the people's second level that the judge calls the first."""
    return _quotient(tables[..., 1, 0], tables[..., 1, :].sum(-1))


def false_negative_rate(tables: Array) -> Array:
    """The share of the people's first level that the judge calls the second."""
    return _quotient(tables[..., 0, 1], tables[..., 0, :].sum(-1))


def _chance_corrected(tables: Array, weights: Array) -> Array:
    total = tables.sum((-2, -1))
    expected = tables.sum(-1)[..., :, None] * tables.sum(-2)[..., None, :]
    observed = (tables * weights).sum((-2, -1)) * total
    return 1 - _quotient(observed, (expected * weights).sum((-2, -1)))


def _nominal_alpha(tables: Array) -> Array:
    return _alpha(tables, np.broadcast_to(1.0 - np.eye(tables.shape[-1]), tables.shape))


def _ordinal_alpha(tables: Array) -> Array:
    """The distance of two grades: how many units lie between them, half of both ends counted."""
    units = tables.sum(-1)
    below = np.cumsum(units, axis=-1) - units / 2
    return _alpha(tables, (below[..., :, None] - below[..., None, :]) ** 2)


def _alpha(tables: Array, squares: Array) -> Array:
    units = tables.sum(-1)
    expected = (units[..., :, None] * units[..., None, :] * squares).sum((-2, -1))
    observed = (tables * squares).sum((-2, -1)) * (units.sum(-1) - 1)
    return 1 - _quotient(observed, expected)


def _quotient(part: Array, whole: Array) -> Array:
    undefined = np.full(np.shape(whole), np.nan)
    quotient: Array = np.divide(part, whole, out=undefined, where=np.asarray(whole) > 0)
    return quotient
