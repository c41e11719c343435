"""Runs of a known truth for `benchmarks.labels`: one trial of each kind of number, and its limit."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri  # type: ignore[import-untyped]  # it has no types

from assizes.judge.statistics.effects import share_interval, unpaired_effect
from assizes.judge.statistics.intervals import (
    CONFIDENCE,
    Codes,
    Floats,
    Sample,
    ValueInterval,
    mean_interval,
    rate_interval,
    t_interval,
)
from assizes.judge.statistics.labelled_cases import LabelledCases
from assizes.judge.statistics.prediction_powered import (
    CorrectedEstimate,
    corrected_difference,
    corrected_mean,
)

Rng = np.random.Generator

KAPPAS = (0.0, 0.3, 0.6, 0.9, 1.0)
LENIENT, RARE = -1.0, -2.0  # in place of a kappa
NAMES = {LENIENT: "lenient", RARE: "rare"}
RATES = (0.5, 0.8, 0.95)
FEW = ((30, 400), (50, 1000))
MANY = ((100, 1000), (200, 2000))
PLENTY = ((400, 4000), (800, 4000))
"""Labels, and cases of the run."""

MOST = 0.97
"""The highest coverage where it is possible."""

SIZES = (1, 4)
"""Cases of a cluster."""

MEANS = ("mean", "mean_difference")

TWICE = 2.0
"""How much likelier a queue draws what the judge fails, where slices are simulated."""


class Cell(NamedTuple):
    """One combination of a simulation."""

    labels: int
    cases: int
    size: int  # cases of a cluster
    rate: float
    kappa: float  # or `LENIENT`, or `RARE`


class Trial(NamedTuple):
    """One drawn run: the true number, the corrected one and the interval of labels alone."""

    true: float
    corrected: CorrectedEstimate
    alone: ValueInterval
    faultless: bool = False  # the labels show no error of the judge


def cells(
    rates: tuple[float, ...], kappa: float, counts: tuple[tuple[int, int], ...]
) -> Iterator[Cell]:
    """Every combination of counts, sizes and rates for one judge."""
    for (labels, cases), size, rate in product(counts, SIZES, rates):
        if labels // size >= 12:  # clusters, of which there must be ten with a label
            yield Cell(labels - labels % size, cases, size, rate, kappa)


def least_possible(name: str, cell: Cell) -> float:
    """The least coverage of a faultless judge, at least `MOST`, to the normal approximation.

    Let no label show an error, let m be the judge's mean, s its standard error, and the interval
    from m - a to m + b. A judge whose errors are all false passes, on a share e of the cases, shows
    none among n labels with the chance q = (1 - e)^n; the truth is then m - e. To hold the truth in
    95 % of all samples, even if all others hold it, the share of these must be (0.95 - 1 + q) / q,
    so a >= e + s z of that share, for every e. False fails ask the same of b. The faultless judge
    is then covered with the chance Phi(a / s) + Phi(b / s) - 1.
    """
    if name in MEANS:
        return MOST
    name = "rate" if name in ("slice", "queued_slice") else name
    error = judge_error(name, cell)
    errors = np.linspace(0.0005, 0.25, 500)
    clean = (1 - errors) ** cell.labels
    share = (CONFIDENCE - 1 + clean) / clean
    asked = np.where(share > 0, errors + error * ndtri(np.clip(share, 1e-12, 1)), 0.0)
    sides = (cell.rate, 1 - cell.rate) if name == "rate" else (1.0, 1.0)
    held = [float(ndtr(asked[errors <= side].max(initial=0.0) / error)) for side in sides]
    return max(MOST, sum(held) - 1)


def judge_error(name: str, cell: Cell) -> float:
    """The standard error of a faultless judge's number over all cases of a run."""
    own, more = cell.rate * (1 - cell.rate), 0.5 * (cell.size - 1)
    if name == "rate":
        return float(np.sqrt(own * (1 + more) / cell.cases))
    if name == "unpaired":
        other = 0.9 * cell.rate * (1 - 0.9 * cell.rate)
        return float(np.sqrt((own + other) * (1 + more) / cell.cases))
    # Of pairs, also where labels differ: the judge has both runs of every case.
    moved = 0.4 * (0.6 * (1 - cell.rate) + 0.4 * cell.rate) - (0.4 * (0.6 - cell.rate)) ** 2
    return float(np.sqrt((moved + more * 0.4**2 * own) / cell.cases))


def passes(rng: Rng, cell: Cell) -> tuple[Floats, Codes]:
    """True passes; in clusters they have an intraclass correlation of one half."""
    codes = np.repeat(np.arange(cell.cases // cell.size), cell.size)
    if cell.size == 1:
        return (rng.random(cell.cases) < cell.rate).astype(float), codes
    shares = rng.beta(cell.rate, 1 - cell.rate, codes[-1] + 1)
    return (rng.random(codes.size) < shares[codes]).astype(float), codes


def judged(rng: Rng, truth: Floats, rate: float | Floats, kappa: float) -> Floats:
    """What the judge says of true passes and fails."""
    if kappa == LENIENT:
        return np.maximum(truth, rng.random(truth.size) < 0.3)
    if kappa == RARE:
        return np.maximum(truth, rng.random(truth.size) < 0.03 / (1 - rate))
    own = rng.random(truth.size) < rate
    return np.where(rng.random(truth.size) < kappa, truth, own).astype(float)


def drawn(rng: Rng, cell: Cell, codes: Codes) -> Codes:
    """The places of the labelled cases: whole clusters, drawn at random."""
    count = codes[-1] + 1
    clusters = rng.choice(count, cell.labels // cell.size, replace=False)
    taken = np.zeros(count, dtype=bool)
    taken[clusters] = True
    return np.flatnonzero(taken[codes])


def labelled(judge: Floats, truth: Floats, places: Codes, codes: Codes) -> LabelledCases:
    """The run with the labels of the drawn cases."""
    labels = np.full(truth.size, np.nan)
    labels[places] = truth[places]
    return LabelledCases.of(judge, labels, np.full(truth.size, places.size / truth.size), codes)


def are_faultless(run: LabelledCases) -> bool:
    """Whether the labels show no error of the judge."""
    places = ~np.isnan(run.labels)
    return bool((run.labels[places] == run.judged[places]).all())


def known(estimate: CorrectedEstimate | None) -> CorrectedEstimate:
    """An estimate that must be there."""
    assert estimate is not None
    return estimate


def rate_trial(rng: Rng, cell: Cell) -> Trial:
    """A pass rate."""
    truth, codes = passes(rng, cell)
    judge = judged(rng, truth, cell.rate, cell.kappa)
    places = drawn(rng, cell, codes)
    alone = rate_interval(Sample(truth[places], codes[places]))
    assert alone is not None
    run = labelled(judge, truth, places, codes)
    faultless = are_faultless(run)
    return Trial(cell.rate, known(corrected_mean(run, share=True)), alone, faultless)


def slice_trial(rng: Rng, cell: Cell) -> Trial:
    """The pass rate of a slice, half of the cases of a run; labels are drawn from all at random."""
    return _slice_trial(rng, cell, queued=False)


def queued_slice_trial(rng: Rng, cell: Cell) -> Trial:
    """The same, of a queue that draws what the judge fails `TWICE` as likely as other cases."""
    return _slice_trial(rng, cell, queued=True)


def _slice_trial(rng: Rng, cell: Cell, *, queued: bool) -> Trial:
    """How many labels the slice has is chance; a draw of too few for a number is left out."""
    halves = [passes(rng, cell._replace(rate=share * cell.rate)) for share in (1.0, 0.9)]
    truth, codes = np.concatenate([half[0] for half in halves]), halves[0][1]
    own = np.arange(truth.size) < codes.size
    codes = np.concatenate([codes, halves[1][1] + codes[-1] + 1])
    rates = np.where(own, cell.rate, 0.9 * cell.rate)
    judge = judged(rng, truth, rates, cell.kappa)
    # A queue has strata of whole clusters, by what the judge says of their first case.
    strata = (judge[:: cell.size] == 0) & queued
    while True:
        labels, chances = _drawn_by_stratum(rng, cell, truth, codes, strata)
        run = LabelledCases.of(judge, labels, chances, codes).part(own)
        blind = LabelledCases.of(np.zeros(truth.size), labels, chances, codes).part(own)
        estimate, alone = (corrected_mean(side, share=True) for side in (run, blind))
        if estimate is not None and alone is not None:
            span = ValueInterval(alone.low, alone.high)
            return Trial(cell.rate, estimate, span, are_faultless(run))


def _drawn_by_stratum(
    rng: Rng, cell: Cell, truth: Floats, codes: Codes, strata: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """Labels, NaN where there is none, and chances of the cases; clusters are drawn by stratum."""
    count = 2 * cell.labels // cell.size
    share = TWICE * strata.sum() / (TWICE * strata.sum() + (~strata).sum())
    taken, chances = np.zeros(strata.size, dtype=bool), np.ones(strata.size)
    for side, part in ((False, 1 - share), (True, share)):
        places = np.flatnonzero(strata == side)
        number = min(round(count * part), places.size)
        taken[rng.choice(places, number, replace=False)] = True
        chances[places] = number / max(1, places.size)
    return np.where(taken[codes], truth, np.nan), np.where(taken, chances, 1.0)[codes]


_LEVELS = np.arange(6)
_CUTS = (_LEVELS[1:] - 0.5 - 3.2) / 1.3  # where a quality, standard normal, becomes the next level


def quality(rng: Rng, codes: Codes) -> Floats:
    """Standard normal qualities; cases of one cluster share half of the variance."""
    alone = codes[-1] + 1 == codes.size
    shared = 0.0 if alone else np.sqrt(0.5) * rng.normal(size=codes[-1] + 1)[codes]
    return shared + rng.normal(size=codes.size) * (1.0 if alone else np.sqrt(0.5))


def level(values: Floats) -> Floats:
    """Levels 0 to 5 of qualities."""
    return np.searchsorted(_CUTS, values).astype(float)


MEAN_LEVEL = float((1 - ndtr(_CUTS)).sum())


def graded(rng: Rng, truth: Floats, kappa: float) -> Floats:
    """The judge's levels, one too high by half: the correlation with the true quality is kappa."""
    return level(kappa * truth + np.sqrt(1 - kappa**2) * rng.normal(size=truth.size) + 0.4)


def mean_trial(rng: Rng, cell: Cell) -> Trial:
    """A mean of levels 0 to 5 by a judge that is too friendly; kappa is its correlation."""
    codes = np.repeat(np.arange(cell.cases // cell.size), cell.size)
    values = quality(rng, codes)
    truth, judge = level(values), graded(rng, values, cell.kappa)
    places = drawn(rng, cell, codes)
    alone = mean_interval(Sample(truth[places], codes[places]))
    assert alone is not None
    run = labelled(judge, truth, places, codes)
    return Trial(MEAN_LEVEL, known(corrected_mean(run, share=False)), alone)


def difference_trial(rng: Rng, cell: Cell) -> Trial:
    """A difference of pass rates over the same cases, with labels of the same cases in both runs."""
    before, codes = passes(rng, cell)
    fresh = rng.random(before.size) < 0.4  # as often as agents answer a case anew
    after = np.where(fresh, rng.random(before.size) < 0.6, before)
    rate = 0.6 * cell.rate + 0.4 * 0.6
    places = drawn(rng, cell, codes)
    first = 1.0 if cell.kappa == RARE else cell.kappa
    sides = [
        labelled(judged(rng, truth, share, kappa), truth, places, codes)
        for truth, share, kappa in (
            (before, cell.rate, first),
            (after.astype(float), rate, cell.kappa),
        )
    ]
    moved = Sample(after[places] - before[places], codes[places])
    estimate = known(corrected_difference(*sides, share=True))
    faultless = all(are_faultless(side) for side in sides)
    return Trial(rate - cell.rate, estimate, share_interval(moved, CONFIDENCE), faultless)


def mean_difference_trial(rng: Rng, cell: Cell) -> Trial:
    """A difference of means over the same cases; the candidate is the same agent again."""
    codes = np.repeat(np.arange(cell.cases // cell.size), cell.size)
    shared, places = quality(rng, codes), drawn(rng, cell, codes)
    sides, truths = [], []
    for _ in range(2):
        values = np.sqrt(0.6) * shared + np.sqrt(0.4) * rng.normal(size=codes.size)
        truths.append(level(values))
        sides.append(labelled(graded(rng, values, cell.kappa), truths[-1], places, codes))
    moved = Sample(truths[1][places] - truths[0][places], codes[places])
    estimate = known(corrected_difference(*sides, share=False))
    return Trial(0.0, estimate, t_interval(moved, CONFIDENCE))


def unpaired_trial(rng: Rng, cell: Cell) -> Trial:
    """A difference of pass rates over different cases."""
    sides, samples, rates = [], [], (cell.rate, 0.9 * cell.rate)
    for number, rate in enumerate(rates):
        truth, codes = passes(rng, cell._replace(rate=rate))
        judge, places = judged(rng, truth, rate, cell.kappa), drawn(rng, cell, codes)
        samples.append(Sample(truth[places], codes[places]))
        sides.append(labelled(judge, truth, places, codes + number * codes.size))
    alone = unpaired_effect(samples[0], samples[1], CONFIDENCE, share=True).span
    estimate, faultless = corrected_difference(*sides, share=True), all(map(are_faultless, sides))
    return Trial(rates[1] - rates[0], known(estimate), alone, faultless)


def shared_trial(rng: Rng, cell: Cell) -> Trial:
    """A difference over the same cases, of which each run has labels of its own, half the same."""
    before, codes = passes(rng, cell)
    after = np.where(rng.random(before.size) < 0.4, rng.random(before.size) < 0.6, before)
    rate = 0.6 * cell.rate + 0.4 * 0.6
    count, taken = codes[-1] + 1, cell.labels // cell.size
    order, sides, samples = rng.permutation(count), [], []
    first = 1.0 if cell.kappa == RARE else cell.kappa
    runs = ((before, cell.rate, first, 0), (after.astype(float), rate, cell.kappa, taken // 2))
    for truth, share, kappa, start in runs:
        places = np.flatnonzero(np.isin(codes, order[start : start + taken]))
        samples.append(Sample(truth[places], codes[places]))
        sides.append(labelled(judged(rng, truth, share, kappa), truth, places, codes))
    alone = unpaired_effect(samples[0], samples[1], CONFIDENCE, share=True).span
    estimate, faultless = corrected_difference(*sides, share=True), all(map(are_faultless, sides))
    return Trial(rate - cell.rate, known(estimate), alone, faultless)
