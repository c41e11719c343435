"""Samples of case values with their clusters: the mean and its clustered standard error.

Formulas: Miller, "Adding Error Bars to Evals" (arXiv 2411.00640), section 2.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Codes: TypeAlias = NDArray[np.int64]

MIN_CLUSTERS: Final = 10
"""The fewest clusters for a verdict: with fewer, the clustered error itself is too uncertain."""


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One value for each case, averaged over its repetitions, and the number of its cluster.

    `codes` holds the numbers of the clusters, from 0.
    """

    values: Floats
    codes: Codes

    @classmethod
    def of(cls, values: Sequence[float] | Floats, clusters: Sequence[object] = ()) -> Sample:
        """A sample of values with the names of their clusters; without names, no two share one."""
        numbers = np.asarray(values, dtype=np.float64)
        if not len(clusters):
            return cls(numbers, np.arange(numbers.size))
        return cls(numbers, codes_of(clusters))

    @property
    def size(self) -> int:
        """The number of cases."""
        return int(self.values.size)

    @property
    def clusters(self) -> int:
        """The number of clusters."""
        return int(np.count_nonzero(np.bincount(self.codes)))

    @property
    def is_clustered(self) -> bool:
        """Whether any cluster holds more than one case."""
        return self.clusters < self.size

    @property
    def sides(self) -> tuple[int, int]:
        """The number of cases with a value below 0, and the number of those above 0."""
        return int((self.values < 0).sum()), int((self.values > 0).sum())

    @property
    def mean(self) -> float:
        """The mean over the cases."""
        return float(self.values.mean())

    @property
    def error(self) -> float:
        """The clustered standard error of the mean; infinite for fewer than two clusters.

        It is sqrt(C / (C - 1) x sum over C clusters of (sum of (value - mean))^2) / n; with one
        case in each cluster this is the usual sqrt(s^2 / n).
        """
        count = self.clusters
        if count < 2:
            return float("inf")
        sums = cluster_sums(self.values - self.mean, self.codes)
        return float(np.sqrt(count / (count - 1) * np.square(sums).sum())) / self.size

    def with_cases(self, *values: float) -> Sample:
        """The sample with these values added, each in a cluster of its own."""
        first = int(self.codes.max(initial=-1)) + 1
        more = np.arange(first, first + len(values))
        return Sample(np.append(self.values, values), np.append(self.codes, more))


def codes_of(names: Sequence[object]) -> Codes:
    """The names of clusters as numbers from 0; the same name gives the same number."""
    known: dict[object, int] = {}
    return np.asarray([known.setdefault(name, len(known)) for name in names], dtype=np.int64)


def cluster_sums(values: Floats, codes: Codes) -> Floats:
    """The sum of the values of each cluster."""
    sums = np.bincount(codes, weights=values).astype(np.float64)
    return sums[np.bincount(codes) > 0]
