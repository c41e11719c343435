"""Values of cases and the clusters they were sampled in: the mean and its clustered error.

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
"""With fewer clusters the clustered error is itself too uncertain for a verdict."""


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One value a case, its repetitions averaged, and the number 0.. of the cluster it is of."""

    values: Floats
    codes: Codes

    @classmethod
    def of(cls, values: Sequence[float] | Floats, clusters: Sequence[object] = ()) -> Sample:
        """Values with the names of their clusters; without names each case is its own."""
        numbers = np.asarray(values, dtype=np.float64)
        if not len(clusters):
            return cls(numbers, np.arange(numbers.size))
        return cls(numbers, codes_of(clusters))

    @property
    def size(self) -> int:
        """How many cases."""
        return int(self.values.size)

    @property
    def clusters(self) -> int:
        """How many clusters."""
        return int(np.count_nonzero(np.bincount(self.codes)))

    @property
    def is_clustered(self) -> bool:
        """Whether some cluster holds more than one case."""
        return self.clusters < self.size

    @property
    def sides(self) -> tuple[int, int]:
        """How many cases have a value under 0, and how many over it."""
        return int((self.values < 0).sum()), int((self.values > 0).sum())

    @property
    def mean(self) -> float:
        """The mean over cases."""
        return float(self.values.mean())

    @property
    def error(self) -> float:
        """Clustered standard error: sqrt(C / (C - 1) x sum over clusters of (sum of value - mean)^2)
        / n; with one case a cluster the usual sqrt(s^2 / n). Infinite for fewer than two clusters.
        """
        count = self.clusters
        if count < 2:
            return float("inf")
        sums = cluster_sums(self.values - self.mean, self.codes)
        return float(np.sqrt(count / (count - 1) * np.square(sums).sum())) / self.size

    def with_cases(self, *values: float) -> Sample:
        """These values added, each a cluster of its own."""
        first = int(self.codes.max(initial=-1)) + 1
        more = np.arange(first, first + len(values))
        return Sample(np.append(self.values, values), np.append(self.codes, more))


def codes_of(names: Sequence[object]) -> Codes:
    """Names of clusters as numbers 0.., the same name the same number."""
    known: dict[object, int] = {}
    return np.asarray([known.setdefault(name, len(known)) for name in names], dtype=np.int64)


def cluster_sums(values: Floats, codes: Codes) -> Floats:
    """The sum of the values of each cluster."""
    sums = np.bincount(codes, weights=values).astype(np.float64)
    return sums[np.bincount(codes) > 0]
