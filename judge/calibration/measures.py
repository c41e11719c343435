"""Count tables of graded items, and the measures of agreement over them.

There is one table for each cluster, and every measure is a function of the sum of the tables. A
confusion table has a row for each grade of the first rater (people) and a column for each grade of
the second (the judge). A coincidence table counts every ordered pair of grades that two raters gave
the same item; each item weighs as many units as it has grades (Krippendorff).

A measure takes a stack of tables, an array (..., levels, levels), and gives a number for each; the
number is NaN where the denominator of the measure is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Measure = Callable[[Array], Array]
Distance = Literal["nominal", "ordinal"]


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of all clusters; equal tables are stored once.

    Args:
        levels: the grades in order, one for each row and each column.
        kinds: the different tables, an array (kinds, levels, levels).
        times: the number of clusters that have each of these tables.
    """

    levels: tuple[float, ...]
    kinds: Array
    times: NDArray[np.int64]

    @property
    def clusters(self) -> int:
        """The number of clusters."""
        return int(self.times.sum())

    @property
    def whole(self) -> Array:
        """The sum of the tables of all clusters."""
        whole: Array = np.tensordot(self.times, self.kinds, axes=1)
        return whole


def confusions(pairs: Iterable[tuple[str, float, float]], levels: Sequence[float]) -> Tables:
    """The confusion tables of (cluster, grade of the first rater, grade of the second rater)."""
    place = {level: index for index, level in enumerate(levels)}
    tables: dict[str, Array] = {}
    for cluster, first, second in pairs:
        table = tables.setdefault(cluster, np.zeros((len(levels), len(levels))))
        table[place[first], place[second]] += 1
    return _distinct(tables, levels)


def coincidences(items: Iterable[tuple[str, Sequence[float]]], levels: Sequence[float]) -> Tables:
    """The coincidence tables of (cluster, grades of an item); items with one grade are left out."""
    place = {level: index for index, level in enumerate(levels)}
    tables: dict[str, Array] = {}
    for cluster, grades in items:
        if len(grades) < 2:
            continue
        counts = np.bincount([place[grade] for grade in grades], minlength=len(levels))
        pairs = np.outer(counts, counts) - np.diag(counts)
        table = tables.setdefault(cluster, np.zeros((len(levels), len(levels))))
        table += pairs / (len(grades) - 1)
    return _distinct(tables, levels)


def _distinct(tables: Mapping[str, Array], levels: Sequence[float]) -> Tables:
    kinds: dict[bytes, tuple[Array, int]] = {}
    for name in sorted(tables):
        key = tables[name].tobytes()
        kinds[key] = (tables[name], kinds[key][1] + 1 if key in kinds else 1)
    size = len(levels)
    stacked = [table for table, _ in kinds.values()]
    return Tables(
        tuple(levels),
        np.stack(stacked) if stacked else np.zeros((0, size, size)),
        np.array([times for _, times in kinds.values()], dtype=np.int64),
    )


def as_counts(table: Array) -> list[list[int]]:
    """A confusion table as plain integers, row by row."""
    counts: Any = table.round().astype(int).tolist()
    return [[int(count) for count in row] for row in counts]


def accuracy(tables: Array) -> Array:
    """The share of items on which both raters agree exactly."""
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
    """Krippendorff's alpha over coincidence tables, for this distance between grades."""
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
    """Alpha with ordinal distances: the units between two grades, with half of both ends."""
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
