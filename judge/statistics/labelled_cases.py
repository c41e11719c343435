"""The judged cases of a run, and the labels that people gave to a drawn part of them.

Labels weigh 1 / chance (Hajek 1971). Labels with the same chance are of one stratum of the draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from assizes.judge.statistics.intervals import Codes, Floats

UNSEEN: Final = 0.4
"""The errors, or the labels unlike the others, that are expected where no label shows one."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelledCases:
    """All judged cases of a run, in one order, and the labels that some of them have."""

    judged: Floats  # value of the judge; NaN: none
    labels: Floats  # value of people, in the same unit; NaN: not labelled
    chances: Floats  # chance of the case to be labelled, above 0 to 1; read where it is labelled
    codes: Codes  # number of the cluster, from 0; in two runs the same number is the same cluster
    drawn: float = 0.0  # share of the drawn cases that are labelled, 0..1; 0: not known

    @classmethod
    def of(
        cls,
        judged: Sequence[float] | Floats,
        labels: Sequence[float] | Floats,
        chances: Sequence[float] | Floats | None = None,
        codes: Sequence[int] | Codes | None = None,
    ) -> LabelledCases:
        """The cases from plain numbers; by default all chances and all clusters are alike."""
        values, people = (np.asarray(side, dtype=np.float64) for side in (judged, labels))
        odds = np.ones(values.size) if chances is None else np.asarray(chances, dtype=np.float64)
        numbers = np.arange(values.size) if codes is None else np.asarray(codes, dtype=np.int64)
        stood_for = float((1 / odds[~np.isnan(people)]).sum())  # cases; all, if all drawn have one
        return cls(values, people, odds, numbers, min(1.0, stood_for / max(1, values.size)))

    def part(self, chosen: Codes | NDArray[np.bool_]) -> LabelledCases:
        """The chosen cases, such as those of a slice; `chosen` is a mask or a list of places.

        How many cases of a slice each stratum holds is chance, so `drawn` is not known of it.
        """
        return LabelledCases(
            self.judged[chosen], self.labels[chosen], self.chances[chosen], self.codes[chosen]
        )


@dataclass(frozen=True, slots=True, eq=False)
class DrawnLabels:
    """The labels of one run, their weights, and the strata that they were drawn from."""

    places: Codes  # of the labelled cases among all
    values: Floats
    weights: Floats  # 1 / chance, scaled to the sum 1
    codes: Codes
    clusters: int
    strata: Codes  # number of the group of labels with the same chance
    between: Floats  # 0..1: how far the difference of a stratum from the mean is still by chance

    @classmethod
    def of(cls, cases: LabelledCases) -> DrawnLabels:
        """The labels among the cases, of which there must be one."""
        places = np.flatnonzero(~np.isnan(cases.labels))
        chances, codes = cases.chances[places], cases.codes[places]
        weights, clusters = 1 / chances, int(np.unique(codes).size)
        strata = np.unique(chances.round(12), return_inverse=True)[1]
        counts = np.bincount(strata, minlength=1)[strata]
        # All drawn cases labelled: how many of each stratum is design, and only the size of the
        # stratum among all cases is chance, as 1 / N is to 1 / n. A stratum of one has no spread.
        between = np.sqrt(1 - cases.drawn * (1 - chances))
        between = np.where((counts == 1) | (strata.max(initial=0) == 0), 1.0, between)
        return cls(
            places, cases.labels[places], weights / weights.sum(), codes, clusters, strata, between
        )

    def deviations(self, values: Floats) -> Floats:
        """The deviations of values of the labelled cases that count for the variance of the mean.

        They are those from the mean of the stratum, and what of that mean's own is by chance.
        """
        counts, values = np.bincount(self.strata), values - values[0]  # equal ones are exactly 0
        means = (np.bincount(self.strata, values) / counts)[self.strata]
        if counts.size == 1:
            return values - means
        free = np.sqrt(counts / np.maximum(1, counts - 1))[self.strata]
        return free * (values - means) + self.between * (means - self.weights @ values)

    @property
    def mean(self) -> float:
        """The weighted mean of the labels; of equal ones exactly their value."""
        first = float(self.values[0])
        return first + float(self.weights @ (self.values - first))

    @property
    def spread(self) -> float:
        """The variance of the labels themselves."""
        return float(self.weights @ np.square(self.values - self.mean))

    @property
    def even(self) -> bool:
        """Whether all labelled cases had the same chance."""
        return bool(np.ptp(self.weights) < 1e-9 * self.weights[0])

    @property
    def plain(self) -> bool:
        """Whether these are passes and fails of independent cases with the same chance."""
        alone = self.clusters == self.values.size
        return alone and self.even and bool(((self.values == 0) | (self.values == 1)).all())

    def unseen(self, errors: Floats, *, share: bool) -> float:
        """What errors that no label shows add to the variance, beside the weighted ones of labels.

        A judge that errs nowhere among few labels is not faultless, nor is a stratum without a
        fail: each has at least `UNSEEN` errors of size 1, or of the deviation of the labels.
        """
        least = UNSEEN * (1.0 if share else self.spread) * np.square(self.weights)
        seen = np.bincount(self.strata, np.square(errors))
        count = np.bincount(self.strata)
        lacking = np.bincount(self.strata, least) / count - seen
        return float(np.maximum(0.0, lacking).sum())

    def half_errors(self, *, share: bool) -> float:
        """What half an error more in each stratum adds to the variance.

        After k errors among n labels (k + 1/2) / (n + 1) is the expected share of errors
        (Jeffreys 1946), so samples that show none by chance do not promise too much. An error has
        the size 1, or that of the deviation of the labels.
        """
        size = 1.0 if share else self.spread
        squares = np.bincount(self.strata, np.square(self.weights)) / np.bincount(self.strata)
        return float(0.5 * size * squares.sum())
