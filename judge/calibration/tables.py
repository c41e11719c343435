"""Graded items as count tables, one a cluster: every measure of agreement is a function of their sum.

A confusion table has a row a grade of the first rater (people) and a column a grade of the second
(the judge). A coincidence table has a count for every ordered pair of grades that two raters gave
the same item, each item weighing as many units as it has grades (Krippendorff).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Tables:
    """Tables of clusters, equal ones once.

    Args:
        levels: the grades, in order; they name rows and columns.
        kinds: the different tables, an array (kinds, levels, levels).
        times: how many clusters have each of them.
    """

    levels: tuple[float, ...]
    kinds: Array
    times: NDArray[np.int64]

    @property
    def clusters(self) -> int:
        """How many clusters there are."""
        return int(self.times.sum())

    @property
    def whole(self) -> Array:
        """The table of everything."""
        whole: Array = np.tensordot(self.times, self.kinds, axes=1)
        return whole


def confusions(pairs: Iterable[tuple[str, float, float]], levels: Sequence[float]) -> Tables:
    """Confusion tables of (cluster, grade of the one, grade of the other)."""
    place = {level: index for index, level in enumerate(levels)}
    tables: dict[str, Array] = {}
    for cluster, first, second in pairs:
        table = tables.setdefault(cluster, np.zeros((len(levels), len(levels))))
        table[place[first], place[second]] += 1
    return _distinct(tables, levels)


def coincidences(items: Iterable[tuple[str, Sequence[float]]], levels: Sequence[float]) -> Tables:
    """Coincidence tables of (cluster, the grades of an item); one grade alone pairs with none."""
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
    """A confusion table as plain numbers."""
    counts: Any = table.round().astype(int).tolist()
    return [[int(count) for count in row] for row in counts]
