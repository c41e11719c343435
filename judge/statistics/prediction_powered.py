"""Means of a run corrected for the judge's errors by the labels of some of its cases.

Sources: Angelopoulos, Duchi and Zrnic, "PPI++: Efficient Prediction-Powered Inference" (2023, arXiv
2311.01453), for the estimate and its tuned weight of the judge; Chen, Lu, Li, Guo and Li,
"Efficient Inference for Noisy LLM-as-a-Judge Evaluation" (2026, arXiv 2601.05420), for the form
that is efficient for any judge: the judge's value is replaced by the expected label at that value.
For a judge that says pass or fail both forms are the same. Hajek (1971) for the weights.

The labelled cases are some of the judged cases, drawn with known probabilities, and the target is
the population that all cases come from. So the variance is that of one influence value for each
case, over all cases, and not the sum of two independent variances as in the paper on PPI++, where
labelled and other cases are disjoint. The errors of a case's label and of its judge's value are
then counted together, and drawing without replacement needs no other correction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import sqrt
from typing import Final, NamedTuple

import numpy as np

from assizes.judge.statistics.intervals import (
    CONFIDENCE,
    Floats,
    ValueInterval,
    t_of,
    wilson,
    z_of,
)
from assizes.judge.statistics.labelled_cases import UNSEEN, DrawnLabels, LabelledCases
from assizes.judge.statistics.unseen_errors import least_variance

MIN_LABELS: Final = 10
"""The fewest clusters with a label for a corrected number; with fewer the error is too uncertain."""

CALIBRATED_FROM: Final = 60
"""The fewest labels from which the expected label is estimated at each value of the judge."""

FOLDS: Final = 5
"""The parts of the labels; the expected labels of a part are estimated from the other parts."""

ALONE: Final = "labels alone"
TUNED: Final = "labels and the judge"
CALIBRATED: Final = "labels and the calibrated judge"


@dataclass(frozen=True, slots=True)
class CorrectedEstimate:
    """A number corrected for the judge's errors, with its 95 % interval, in the labels' unit."""

    value: float
    low: float
    high: float
    error: float  # standard error, clustered; 0 where all labels are alike
    labels: int  # labelled cases behind it; of a difference: in the run that has fewer
    effective: float  # labels that would give the same error without a judge; at least `labels`
    weight: float  # of the judge, 0..1; 0: the labels alone
    how: str  # `ALONE`, `TUNED` or `CALIBRATED`
    expected: float  # variance with half an error more in each stratum; what more labels divide
    step: float  # the most that an error on one label moves the value


class _Influence(NamedTuple):
    """How each cluster moves the mean label of one run, and what the judge adds to that."""

    shift: float  # judge's mean over all cases minus that over the labelled ones
    labels: Floats  # by cluster, on the mean of the labels
    judge: Floats  # by cluster, on `shift`
    of_labels: Floats  # by labelled case, on the mean of the labels
    of_judge: Floats  # by labelled case, on the judge's mean over labelled cases


class _Tuned(NamedTuple):
    """The estimate with the weights of the judge that give the least variance."""

    value: float
    weight: float  # mean over the runs
    variance: float  # of the labels alone
    ratio: float  # variance with the judge / variance of the labels alone, above 0 to 1
    degrees: float  # of freedom of that variance
    how: str
    hidden: float  # variance that half an error more in each stratum would add


def corrected_mean(cases: LabelledCases, *, share: bool) -> CorrectedEstimate | None:
    """The mean label in the population of the cases; with `share` a label is 0 or 1.

    It is mean(y) + weight x (judge's mean over all cases - judge's mean over labelled cases), where
    means over labelled cases weigh each by 1 / chance. The weight, 0..1, gives the least clustered
    variance, so a judge that is worth nothing has the weight 0. The result is `None` for labels in
    fewer than `MIN_LABELS` clusters.
    """
    return _corrected((cases,), share=share)


def corrected_difference(
    before: LabelledCases, after: LabelledCases, *, share: bool
) -> CorrectedEstimate | None:
    """The mean label of `after` minus that of `before`.

    A cluster that both runs hold moves both means, so equal cases are compared in pairs and
    different cases as two samples. The judge has a weight in each run. The result is `None` where
    one of the runs has labels in fewer than `MIN_LABELS` clusters.
    """
    return _corrected((before, after), share=share)


def _corrected(sides: Sequence[LabelledCases], *, share: bool) -> CorrectedEstimate | None:
    labels = [DrawnLabels.of(side) for side in sides]
    if min(side.clusters for side in labels) < MIN_LABELS:
        return None
    if share and len(sides) == 2 and not np.intersect1d(sides[0].codes, sides[1].codes).size:
        own = [
            _best((side,), (drawn,), share=True) for side, drawn in zip(sides, labels, strict=True)
        ]
        expected, (best, span) = _expected_variance(own), _apart(labels, own)
    else:
        best = _best(sides, labels, share=share)
        expected = _expected_variance([best])
        floor = least_variance(best.variance * best.ratio, _step(labels, share=share))
        if best.variance > 0:
            best = best._replace(ratio=min(1.0, floor / best.variance))
        span = _span(labels, best, share=share)
    count = min(side.values.size for side in labels)
    return CorrectedEstimate(
        value=min(max(best.value, span.low), span.high),
        low=span.low,
        high=span.high,
        error=sqrt(best.variance * best.ratio),
        labels=count,
        effective=count / best.ratio,
        weight=best.weight,
        how=best.how,
        expected=expected,
        step=_step(labels, share=share),
    )


def _expected_variance(parts: Sequence[_Tuned]) -> float:
    """The variance of the estimate with half an error more in each stratum."""
    return sum(best.variance * best.ratio + best.hidden for best in parts)


def _step(labels: Sequence[DrawnLabels], *, share: bool) -> float:
    """The most that an error of size 1, or of the deviation of the labels, moves the estimate."""
    return max(float(side.weights.max()) * (1.0 if share else sqrt(side.spread)) for side in labels)


def _best(sides: Sequence[LabelledCases], labels: Sequence[DrawnLabels], *, share: bool) -> _Tuned:
    """The estimate of least variance: with the judge as it is, or with its expected labels."""
    size = 1 + max(int(side.codes.max()) for side in sides)
    both = list(zip(sides, labels, strict=True))
    best = _tuned(labels, [_as_judged(*side, size) for side in both], TUNED, share=share)
    if all(_has_levels(*side) for side in both):
        expected = [_as_expected(*side, size) for side in both]
        best = min(best, _tuned(labels, expected, CALIBRATED, share=share), key=lambda t: t.ratio)
    return best


def _span(labels: Sequence[DrawnLabels], best: _Tuned, *, share: bool) -> ValueInterval:
    if not share:
        return _mean_span(best)
    if len(labels) == 1:
        return _rate_span(labels[0], best)
    return _share_difference_span(labels, best)


def _as_judged(cases: LabelledCases, labels: DrawnLabels, size: int) -> _Influence:
    judged = _filled(cases.judged)
    return _influence(cases, labels, (judged, judged[labels.places]), size)


def _filled(judged: Floats) -> Floats:
    """The judge's values, and their mean where there is none: such a case says nothing."""
    gaps = np.isnan(judged)
    if not gaps.any():
        return judged
    return np.where(gaps, 0.0 if gaps.all() else judged[~gaps].mean(), judged)


def _has_levels(cases: LabelledCases, labels: DrawnLabels) -> bool:
    """Whether the judge's value has more than two levels, and enough labels to learn them."""
    return labels.clusters >= CALIBRATED_FROM and np.unique(cases.judged).size > 2


def _as_expected(cases: LabelledCases, labels: DrawnLabels, size: int) -> _Influence:
    """The influence with the expected label at each value of the judge, fitted across folds."""
    judged = _filled(cases.judged)
    known = judged[labels.places]
    fold = np.unique(labels.codes, return_inverse=True)[1] % FOLDS
    everywhere, at_labels = np.zeros(judged.size), np.zeros(known.size)
    for own in (fold == number for number in range(FOLDS)):
        levels, expected = _expected(known[~own], labels.values[~own], labels.weights[~own])
        at_labels[own] = np.interp(known[own], levels, expected)
        # A fold weighs as much as its labels, or the two means would be of different fits.
        everywhere += labels.weights[own].sum() * np.interp(judged, levels, expected)
    return _influence(cases, labels, (everywhere, at_labels), size)


def _expected(judged: Floats, labels: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """The judge's levels, and the expected label at each, which never falls from level to level."""
    # Imported here, because scipy.optimize is slow to import.
    from scipy.optimize import isotonic_regression  # type: ignore[import-untyped]  # it has no types

    levels, places = np.unique(judged, return_inverse=True)
    heavy = np.bincount(places, weights)
    means = np.bincount(places, weights * labels) / heavy
    return levels, np.asarray(isotonic_regression(means, weights=heavy).x)


def _influence(
    cases: LabelledCases, labels: DrawnLabels, judged: tuple[Floats, Floats], size: int
) -> _Influence:
    """The influence of each of `size` clusters; `judged` is for all cases, then for labelled ones.

    They are the terms of the linearised ratio estimate: w (y - mean) / sum w of a labelled case,
    and (f - mean) / N of each case minus w (f - mean of labelled ones) / sum w of a labelled one.
    """
    everywhere, at_labels = judged
    mean, known = float(everywhere.mean()), float(labels.weights @ at_labels)
    of_labels = labels.weights * labels.deviations(labels.values)
    of_judge = labels.weights * labels.deviations(at_labels)
    values = np.bincount(labels.codes, of_labels, size).astype(np.float64)
    judge = np.bincount(cases.codes, (everywhere - mean) / everywhere.size, size)
    judge -= np.bincount(labels.codes, of_judge, size)
    return _Influence(mean - known, values, judge.astype(np.float64), of_labels, of_judge)


def _tuned(
    labels: Sequence[DrawnLabels], parts: Sequence[_Influence], how: str, *, share: bool
) -> _Tuned:
    signs = (1.0,) if len(parts) == 1 else (-1.0, 1.0)
    value = sum(sign * side.mean for sign, side in zip(signs, labels, strict=True))
    alone = np.sum([sign * part.labels for sign, part in zip(signs, parts, strict=True)], axis=0)
    judge = np.stack([sign * part.judge for sign, part in zip(signs, parts, strict=True)])
    weights = _least_squares(judge @ judge.T, judge @ alone)
    clusters, degrees = min(side.clusters for side in labels), _degrees(labels)
    scale = clusters / (clusters - 1)
    uneven = sum(
        0.0 if side.even else side.unseen(part.of_labels, share=share)
        for side, part in zip(labels, parts, strict=True)
    )
    variance = scale * float(alone @ alone) + uneven
    squares = np.square(alone + weights @ judge)
    known = np.zeros(squares.size, dtype=bool)
    for side in labels:
        known[side.codes] = True
    # Tuned weights make the squares too small, and move the estimate itself by as much again.
    lost = ((clusters - 1) / (clusters - 1 - len(parts))) ** 2
    own, others = lost * scale * float(squares[known].sum()), float(squares[~known].sum())
    reached = own + others
    hidden = sum(side.half_errors(share=share) for side in labels)
    if not weights.any() or reached >= variance:
        hidden = 0.0 if all(side.even for side in labels) else hidden
        return _Tuned(value, 0.0, variance, 1.0, degrees, ALONE, hidden)
    shifts = np.array([sign * part.shift for sign, part in zip(signs, parts, strict=True)])
    # Welch and Satterthwaite: clusters with labels and without are estimated apart.
    unsure = own**2 / degrees + others**2 / max(1, int(np.count_nonzero(squares[~known])) - 1)
    return _Tuned(
        value + float(weights @ shifts),
        float(weights.mean()),
        variance,
        reached / variance,
        max(degrees, reached**2 / unsure),
        how,
        hidden,
    )


def _least_squares(products: Floats, slopes: Floats) -> Floats:
    """The one or two weights w within 0..1 with the least w'Pw + 2 s'w."""
    size = slopes.size
    if size == 2 and np.linalg.det(products) > 1e-12 * products[0, 0] * products[1, 1]:
        free = np.asarray(np.linalg.solve(products, -slopes), dtype=np.float64)
        if ((free >= 0) & (free <= 1)).all():
            return free
    # The least is on an edge: one weight is 0 or 1, and the other is the best beside it.
    tried = []
    for place, edge in product(range(size), (0.0, 1.0)):
        weights = np.zeros(size)
        if size == 2:
            weights[1 - place] = edge
        own = products[place, place]
        if own > 0:
            weights[place] = np.clip(-(slopes + products @ weights)[place] / own, 0.0, 1.0)
        tried.append(weights)
    return min(tried, key=lambda w: float(w @ products @ w + 2 * slopes @ w))


def _rate_span(labels: DrawnLabels, best: _Tuned) -> ValueInterval:
    """Wilson's interval with as many cases as the variance is worth.

    Plain labels without a judge have exactly their number. Otherwise it is p (1 - p) / variance of
    the labels alone, as in `intervals.rate_interval`; the judge divides it by the ratio. Labels
    that are all alike have no variance that a judge could lower, so it has no weight. They are
    worth their clusters, and no more than if each weighed as the heaviest.
    """
    cases, quantile = float(labels.values.size), z_of(CONFIDENCE)
    if not labels.plain:
        rate, quantile = labels.mean, t_of(CONFIDENCE, best.degrees)
        known = best.variance > 0 and 0 < rate < 1
        few = min(float(labels.clusters), 1 / float(labels.weights.max()))
        cases = rate * (1 - rate) / best.variance if known else few
    return wilson(min(max(best.value, 0.0), 1.0), cases / best.ratio, quantile)


def _apart(labels: Sequence[DrawnLabels], own: Sequence[_Tuned]) -> tuple[_Tuned, ValueInterval]:
    """The difference of two independent rates, with the interval of Agresti and Caffo.

    They add a pass and a fail to each run. The judge makes a run worth 1 / ratio as many cases, by
    its own ratio. Where all labels of a run are alike, each cluster counts as one case, and
    `UNSEEN` of these are unlike. The degrees are those of Satterthwaite, with the added cases.
    """
    before, after = own
    variance = before.variance + after.variance
    reached = before.variance * before.ratio + after.variance * after.ratio
    if reached > 0:
        more = least_variance(reached, _step(labels, share=True)) / reached
        own = [best._replace(ratio=min(1.0, more * best.ratio)) for best in own]
        reached = sum(best.variance * best.ratio for best in own)
    rates, terms = [], []
    for side, best in zip(labels, own, strict=True):
        count, added = (side.values.size, 0.5) if best.variance > 0 else (side.clusters, UNSEEN)
        rates.append((count * best.value + best.ratio) / (count + 2 * best.ratio))
        terms.append(best.ratio * (best.variance * count**2 + added) / (count + 2) ** 2)
    unsure = sum(term**2 / (side.degrees + 2) for term, side in zip(terms, own, strict=True))
    degrees = sum(terms) ** 2 / unsure
    hows = {side.how for side in own}
    best = _Tuned(
        after.value - before.value,
        (before.weight + after.weight) / 2,
        variance,
        reached / variance if variance > 0 else 1.0,
        degrees,
        next(how for how in (CALIBRATED, TUNED, ALONE) if how in hows),
        before.hidden + after.hidden,
    )
    center, half = rates[1] - rates[0], t_of(CONFIDENCE, degrees) * sqrt(sum(terms))
    return best, ValueInterval(center - half, center + half).clip(-1.0, 1.0)


def _mean_span(best: _Tuned) -> ValueInterval:
    half = t_of(CONFIDENCE, best.degrees) * sqrt(best.variance * best.ratio)
    return ValueInterval(best.value - half, best.value + half)


def _degrees(labels: Sequence[DrawnLabels]) -> int:
    """C - 1 over the labelled clusters; of two runs with different ones, the sum of both."""
    if len(labels) == 1 or _paired(labels):
        return labels[0].clusters - 1
    return sum(side.clusters - 1 for side in labels)


def _paired(labels: Sequence[DrawnLabels]) -> bool:
    before, after = (np.sort(side.codes) for side in labels)
    return bool(np.array_equal(before, after))


def _share_difference_span(labels: Sequence[DrawnLabels], best: _Tuned) -> ValueInterval:
    """The interval of Bonett and Price for pairs, else of Agresti and Caffo, with the judge's ratio.

    Both add cases: half a pair that flips each way, or a pass and a fail to each run. A whole pair
    each way, as in Bonett and Price, covers more than is asked for (Agresti and Min 2005).
    """
    count = min(side.values.size for side in labels)
    paired = _paired(labels)
    added = sum((1.0 if paired else 0.5) / (side.values.size + 2) ** 2 for side in labels)
    added = added / 2 if paired else added
    variance = best.variance * (count / (count + 2)) ** 2 + added
    half = t_of(CONFIDENCE, best.degrees + 2) * sqrt(variance * best.ratio)
    center = best.value * count / (count + 2 * best.ratio)
    return ValueInterval(center - half, center + half).clip(-1.0, 1.0)
