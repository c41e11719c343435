"""Count tables of graded items, and the measures of agreement over them.

Every measure is a function of the sum of the tables of all clusters. A confusion table has a row
for each grade of the first rater (people) and a column for each grade of the second (the judge). A
coincidence table counts every ordered pair of grades that two raters gave the same item; each item
weighs as many units as it has grades (Krippendorff).

A measure takes a stack of tables, an array (..., levels, levels), and gives a number for each; the
number is NaN where the denominator of the measure is 0. Intervals come from resampling whole
clusters with a fixed seed: the same labels, the same bounds.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.statistics.exact import rounded_value
from assizes.judge.statistics.intervals import CONFIDENCE, z_of

Array = NDArray[np.float64]
Measure = Callable[[Array], Array]  # tables (..., levels, levels) -> numbers (...)

DRAWS: Final = 10_000
"""Number of resamples behind an interval."""

SEED: Final = 20_240_401
MIN_CLUSTERS: Final = 10
"""The fewest clusters for an interval: with fewer ones a resampled interval is too narrow."""

_BLOCK: Final = 1_000
"""Number of resamples that are in memory at once."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of all clusters; equal tables are stored once."""

    kinds: Array  # the different tables: (kinds, levels, levels), grades in order
    times: NDArray[np.int64]  # clusters that have each of them: (kinds,)

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
    tables = defaultdict[str, Array](lambda: np.zeros((len(levels), len(levels))))
    for cluster, first, second in pairs:
        tables[cluster][place[first], place[second]] += 1
    return _distinct(tables, len(levels))


def coincidences(items: Iterable[tuple[str, Sequence[float]]], levels: Sequence[float]) -> Tables:
    """The coincidence tables of (cluster, grades of an item); items with one grade are left out."""
    place = {level: index for index, level in enumerate(levels)}
    tables = defaultdict[str, Array](lambda: np.zeros((len(levels), len(levels))))
    for cluster, grades in items:
        if len(grades) >= 2:
            counts = np.bincount([place[grade] for grade in grades], minlength=len(levels))
            pairs = np.outer(counts, counts) - np.diag(counts)  # no grade pairs with itself
            tables[cluster] += pairs / (len(grades) - 1)
    return _distinct(tables, len(levels))


def _distinct(tables: Mapping[str, Array], size: int) -> Tables:
    # Sorted by name, since the draws depend on the order. Single cases have few different tables.
    by_bytes = [(tables[name].tobytes(), tables[name]) for name in sorted(tables)]
    kinds, times = dict(by_bytes), Counter(key for key, _ in by_bytes)
    return Tables(
        np.stack([*kinds.values()]) if kinds else np.zeros((0, size, size)),
        np.array([*times.values()], dtype=np.int64),
    )


def as_counts(table: Array) -> list[list[int]]:
    """A confusion table as plain integers, row by row."""
    counts: list[list[int]] = table.round().astype(int).tolist()
    return counts


def accuracy(tables: Array) -> Array:
    """The share of items on which both raters agree exactly."""
    return _quotient(np.trace(tables, axis1=-2, axis2=-1), tables.sum((-2, -1)))


def kappa(tables: Array) -> Array:
    """Cohen's kappa: 1 - observed / expected disagreement."""
    return _chance_corrected(tables, 1.0 - np.eye(tables.shape[-1]))


def quadratic_kappa(levels: Sequence[float]) -> Measure:
    """Cohen's kappa with disagreements weighted by the square of their distance in grades."""
    grades = np.asarray(levels, dtype=float)
    weights = (grades[:, None] - grades[None, :]) ** 2
    return lambda tables: _chance_corrected(tables, weights)


def alpha(distance: Literal["nominal", "ordinal"]) -> Measure:
    """Krippendorff's alpha over coincidence tables, for this distance between grades."""

    def measure(tables: Array) -> Array:
        units = tables.sum(-1)
        squares: Array = 1.0 - np.eye(tables.shape[-1])
        if distance == "ordinal":  # the units between two grades, with half of both ends
            below = np.cumsum(units, axis=-1) - units / 2
            squares = (below[..., :, None] - below[..., None, :]) ** 2
        expected = (units[..., :, None] * units[..., None, :] * squares).sum((-2, -1))
        observed = (tables * squares).sum((-2, -1)) * (units.sum(-1) - 1)
        return 1 - _quotient(observed, expected)

    return measure


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
    expected = tables.sum(-1)[..., :, None] * tables.sum(-2)[..., None, :]
    observed = (tables * weights).sum((-2, -1)) * tables.sum((-2, -1))
    return 1 - _quotient(observed, (expected * weights).sum((-2, -1)))


def _quotient(part: Array, whole: Array) -> Array:
    undefined = np.full(np.shape(whole), np.nan)
    quotient: Array = np.divide(part, whole, out=undefined, where=np.asarray(whole) > 0)
    return quotient


class Estimate(BaseModel):
    """A number with its 95 % interval.

    `value` is `None` where the number is not defined; the bounds are `None` where there are too few
    data.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: float | None
    low: float | None = Field(default=None, description="lower bound of the 95 % interval")
    high: float | None = None

    def __str__(self) -> str:
        """`0.71 [0.62, 0.79]`; without the bounds where there are none."""
        if self.value is None:
            return "not defined"
        bounds = "" if self.low is None else f" [{self.low:.2f}, {self.high:.2f}]"
        return f"{self.value:.2f}{bounds}"


def estimate(tables: Tables, measure: Measure, draws: int = DRAWS) -> Estimate:
    """Compute a measure over all clusters, with an interval from resampled clusters."""
    if not tables.clusters:
        return Estimate(value=None)
    value = _number(float(measure(tables.whole[None])[0]))
    if value is None or tables.clusters < MIN_CLUSTERS:
        return Estimate(value=value)
    # A resample of the clusters is drawn as the number of times that each kind of them occurs.
    random = np.random.default_rng(SEED)
    shares = tables.times / tables.clusters
    values = []
    for start in range(0, draws, _BLOCK):
        drawn = random.multinomial(tables.clusters, shares, size=min(_BLOCK, draws - start))
        values.append(measure(np.tensordot(drawn, tables.kinds, axes=1)))
    # Of the resamples in which the measure is defined.
    low, high = np.nanquantile(np.concatenate(values), [0.025, 0.975])
    return Estimate(value=value, low=_number(float(low)), high=_number(float(high)))


def _number(value: float) -> float | None:
    return rounded_value(value) if np.isfinite(value) else None


_Z: Final = z_of(CONFIDENCE)


@dataclass(frozen=True, slots=True)
class YesNoAgreement:
    """Counts of the judge's answers against those of people, and their agreement.

    Every measure is `None` where its denominator is 0: without a single no from people there is no
    false positive rate.
    """

    true_positives: int  # both say yes
    false_positives: int  # only the judge says yes
    false_negatives: int  # only people say yes
    true_negatives: int  # both say no

    @property
    def total(self) -> int:
        """The number of pairs of answers."""
        return sum(astuple(self))

    @property
    def accuracy(self) -> float | None:
        """(TP + TN) / all."""
        return _share(self.true_positives + self.true_negatives, self.total)

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa (1960), (po - pe) / (1 - pe); `None` where both say only yes, or only no.

        po is the accuracy, pe the agreement by chance with the same shares of yes.
        """
        tp, fp = self.true_positives, self.false_positives
        fn, tn = self.false_negatives, self.true_negatives
        return _share(2 * (tp * tn - fn * fp), (tp + fp) * (fp + tn) + (tp + fn) * (fn + tn))

    @property
    def f1(self) -> float | None:
        """2 TP / (2 TP + FP + FN), the harmonic mean of precision and recall of yes."""
        twice = 2 * self.true_positives
        return _share(twice, twice + self.false_positives + self.false_negatives)

    @property
    def false_positive_rate(self) -> float | None:
        """FP / (FP + TN): the share of the people's no that the judge calls yes."""
        return _share(self.false_positives, self.false_positives + self.true_negatives)

    @property
    def false_negative_rate(self) -> float | None:
        """FN / (FN + TP): the share of the people's yes that the judge calls no."""
        return _share(self.false_negatives, self.false_negatives + self.true_positives)


def yes_no_agreement(pairs: Iterable[tuple[bool, bool]]) -> YesNoAgreement:
    """Count pairs of (judge says yes, people say yes)."""
    counts = Counter(pairs)
    return YesNoAgreement(
        true_positives=counts[True, True],
        false_positives=counts[True, False],
        false_negatives=counts[False, True],
        true_negatives=counts[False, False],
    )


def _share(part: int, whole: int) -> float | None:
    return rounded_value(part / whole) if whole else None


class JudgeErrors(BaseModel):
    """How often a judge is right on items that people passed, and on items that people failed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    passes: int = Field(description="items that people passed")
    passes_right: int = Field(description="those of them that the judge passed")
    fails: int = Field(description="items that people failed")
    fails_right: int = Field(description="those of them that the judge failed")

    @property
    def is_usable(self) -> bool:
        """Whether the judge is better than chance, and both kinds of items were labelled."""
        both = self.passes > 0 and self.fails > 0
        return both and self.passes_right / self.passes + self.fails_right / self.fails > 1


@dataclass(frozen=True, slots=True)
class ObservedPasses:
    """How many of the judged items a judge passed."""

    passed: int
    judged: int
    deff: float = 1.0  # `design_effect`, at least 1


def corrected_rate(observed: ObservedPasses, errors: JudgeErrors) -> Estimate:
    """The share of items that truly pass: (p + q0 - 1) / (q0 + q1 - 1) (Rogan and Gladen 1978).

    p is the share that the judge passed, q1 its share of right answers on true passes, q0 that on
    true fails. The value is `None` where the judge is no better than chance or one kind of label is
    missing; it and its interval (Lee et al. 2025) lie within 0 and 1.
    """
    if not errors.is_usable or not observed.judged:
        return Estimate(value=None)
    p = observed.passed / observed.judged
    q1, q0 = errors.passes_right / errors.passes, errors.fails_right / errors.fails
    value = _within((p + q0 - 1) / (q0 + q1 - 1))
    low, high = _bounds(observed, errors)
    return Estimate(value=value, low=min(low, value), high=max(high, value))


def _bounds(observed: ObservedPasses, errors: JudgeErrors) -> tuple[float, float]:
    # p is smoothed by z^2 / 2, q0 and q1 by one item of each kind: a judge without an error among
    # few labels does not count as faultless.
    n = observed.judged / max(1.0, observed.deff) + _Z**2
    p = (observed.passed / observed.judged * (n - _Z**2) + _Z**2 / 2) / n
    m1, m0 = errors.passes + 2, errors.fails + 2
    q1, q0 = (errors.passes_right + 1) / m1, (errors.fails_right + 1) / m0
    gain = q0 + q1 - 1
    if gain <= 0:
        return 0.0, 1.0  # smoothed, the judge is no better than chance
    theta = (p + q0 - 1) / gain
    fails, passes = q0 * (1 - q0) / m0, q1 * (1 - q1) / m1
    shift = 2 * _Z**2 * (theta * passes - (1 - theta) * fails)
    spread = p * (1 - p) / n + (1 - theta) ** 2 * fails + theta**2 * passes
    half = _Z * math.sqrt(spread) / gain
    return _within(theta + shift - half), _within(theta + shift + half)


def _within(value: float) -> float:
    return rounded_value(min(1.0, max(0.0, value)))


def design_effect(outcomes: list[tuple[str, bool]]) -> float:
    """The factor, at least 1, by which clusters raise the variance of a share.

    The outcomes are (cluster, passed) of every judged item.
    """
    n = len(outcomes)
    mean = sum(passed for _, passed in outcomes) / n if n else 0.0
    sums: defaultdict[str, float] = defaultdict(float)
    for cluster, passed in outcomes:
        sums[cluster] = sums[cluster] + passed - mean
    plain = n * mean * (1 - mean)  # variance of the sum of independent items
    if len(sums) < 2 or plain == 0:
        return 1.0
    grown = len(sums) / (len(sums) - 1) * math.fsum(part**2 for part in sums.values())
    return max(1.0, grown / plain)
