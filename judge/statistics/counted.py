"""Samples without clusters, stored as counts: a run of millions of cases is a few numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from assizes.judge.statistics.clusters import Floats


@dataclass(frozen=True, slots=True, eq=False)
class CountedSample:
    """Different values and how many cases have each value; every case is a cluster of its own.

    The results equal those of a `Sample` of the single cases, up to the last digits of a float.
    """

    values: Floats
    times: Floats

    @property
    def size(self) -> int:
        """The number of cases."""
        return int(self.times.sum())

    @property
    def clusters(self) -> int:
        """The number of clusters, which is the number of cases."""
        return self.size

    @property
    def is_clustered(self) -> bool:
        """Always `False`: no cluster holds more than one case."""
        return False

    @property
    def moved_count(self) -> int:
        """The number of cases with a value other than 0."""
        return sum(self.sides)

    @property
    def sides(self) -> tuple[int, int]:
        """The number of cases with a value below 0, and the number of those above 0."""
        return int(self.times[self.values < 0].sum()), int(self.times[self.values > 0].sum())

    @property
    def mean(self) -> float:
        """The mean over the cases; there must be at least one case."""
        return float(self.values @ self.times) / self.size

    @property
    def error(self) -> float:
        """The standard error of the mean, sqrt(s^2 / n); infinite for fewer than two cases."""
        count = self.size
        if count < 2:
            return float("inf")
        squares = float(np.square(self.values - self.mean) @ self.times)
        return float(np.sqrt(squares / (count - 1) / count))

    def with_cases(self, *values: float) -> CountedSample:
        """The sample with these values added, each as a case of its own."""
        return CountedSample(
            np.append(self.values, values), np.append(self.times, np.ones(len(values)))
        )
