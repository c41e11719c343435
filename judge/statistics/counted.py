"""Values that stand alone, held by how often each occurs: a run of millions as a few numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from assizes.judge.statistics.clusters import Floats


@dataclass(frozen=True, slots=True, eq=False)
class CountedSample:
    """Different values and how often each was seen, every case a cluster of its own.

    It says what a `Sample` of the cases one by one would say, up to the last digits of a float.
    """

    values: Floats
    times: Floats

    @property
    def size(self) -> int:
        """How many cases."""
        return int(self.times.sum())

    @property
    def clusters(self) -> int:
        """As many as cases."""
        return self.size

    @property
    def is_clustered(self) -> bool:
        """Never."""
        return False

    @property
    def moved_count(self) -> int:
        """How many cases have another value than 0."""
        return sum(self.sides)

    @property
    def sides(self) -> tuple[int, int]:
        """How many cases have a value under 0, and how many over it."""
        return int(self.times[self.values < 0].sum()), int(self.times[self.values > 0].sum())

    @property
    def mean(self) -> float:
        """The mean over cases; there must be one."""
        return float(self.values @ self.times) / self.size

    @property
    def error(self) -> float:
        """sqrt(s^2 / n); infinite for fewer than two cases."""
        count = self.size
        if count < 2:
            return float("inf")
        squares = float(np.square(self.values - self.mean) @ self.times)
        return float(np.sqrt(squares / (count - 1) / count))

    def with_cases(self, *values: float) -> CountedSample:
        """These values added, each a case of its own."""
        return CountedSample(
            np.append(self.values, values), np.append(self.times, np.ones(len(values)))
        )
