"""Corrected means and differences: formulas by hand, and what holds for every judge."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import ndtri

from assizes.judge.statistics.effects import share_interval
from assizes.judge.statistics.intervals import Sample, mean_interval, rate_interval, t_of
from assizes.judge.statistics.labelled_cases import LabelledCases
from assizes.judge.statistics.prediction_powered import (
    ALONE,
    CALIBRATED,
    TUNED,
    corrected_difference,
    corrected_mean,
)


def run(kappa=0.9, cases=400, labels=80, seed=1, size=1, **more):
    rng = np.random.default_rng(seed)
    truth = (rng.random(cases) < 0.7).astype(float)
    judge = np.where(rng.random(cases) < kappa, truth, rng.random(cases) < 0.7).astype(float)
    known = np.full(cases, np.nan)
    places = rng.choice(cases, labels, replace=False)
    known[places] = truth[places]
    return LabelledCases.of(judge, known, codes=np.arange(cases) // size, **more)


def alone(cases, judge=0.0):
    return LabelledCases(
        np.full_like(cases.judged, judge), cases.labels, cases.chances, cases.codes
    )


def sample(cases):
    known = ~np.isnan(cases.labels)
    return Sample(cases.labels[known], cases.codes[known])


@pytest.mark.parametrize("size", [1, 4])
def test_a_judge_that_says_one_thing_only_leaves_the_interval_of_the_labels(size):
    cases = alone(run(size=size))
    for share, reference in ((True, rate_interval), (False, mean_interval)):
        estimate, span = corrected_mean(cases, share=share), reference(sample(cases))
        assert (estimate.low, estimate.high) == pytest.approx((span.low, span.high))
        assert (estimate.how, estimate.weight, estimate.effective) == (ALONE, 0, estimate.labels)
        assert estimate.value == pytest.approx(sample(cases).mean)


def test_the_estimate_is_that_of_ppi_with_the_weight_of_least_variance():
    cases = run()
    known = ~np.isnan(cases.labels)
    y, f = cases.labels[known], cases.judged[known]
    estimate = corrected_mean(cases, share=False)
    # The cluster sums by hand, over a fine grid of weights.
    own = np.zeros(400)
    own[known] = (y - y.mean()) / y.size
    judge = (cases.judged - cases.judged.mean()) / 400
    judge[known] -= (f - f.mean()) / f.size
    grid = np.linspace(0, 1, 100_001)
    squares = own @ own + 2 * grid * (own @ judge) + grid**2 * (judge @ judge)
    best = grid[squares.argmin()]
    assert estimate.weight == pytest.approx(best, abs=1e-4)
    shift = cases.judged.mean() - f.mean()
    assert estimate.value == pytest.approx(y.mean() + best * shift, abs=1e-5)
    lost = (79 / 78) ** 2
    labelled = np.square(own + best * judge)[known].sum()
    others = np.square(best * judge)[~known].sum()
    variance = lost * 80 / 79 * labelled + others
    assert estimate.error == pytest.approx(np.sqrt(variance), rel=1e-4)
    assert estimate.how == TUNED


def test_weights_are_one_by_the_chance():
    chances = np.where(np.arange(400) < 200, 0.1, 0.4)
    cases = alone(run(chances=chances))
    known = ~np.isnan(cases.labels)
    expected = np.average(cases.labels[known], weights=1 / chances[known])
    assert corrected_mean(cases, share=True).value == pytest.approx(expected)


@pytest.mark.parametrize(("kappa", "seed", "share"), list(product((0, 0.5, 1), (1, 2), (0, 1))))
def test_no_judge_makes_the_interval_wider_than_labels_alone(kappa, seed, share):
    for size in (1, 2):
        cases = run(kappa, seed=seed, size=size)
        with_judge, without = (corrected_mean(c, share=bool(share)) for c in (cases, alone(cases)))
        assert with_judge.error <= without.error
        assert with_judge.effective >= with_judge.labels
        if kappa == 1:
            assert with_judge.high - with_judge.low < 0.7 * (without.high - without.low)


def test_a_judge_with_many_levels_is_calibrated():
    rng = np.random.default_rng(5)
    quality = rng.random(1000)
    labels = np.full(1000, np.nan)
    labels[:200] = rng.random(200) < (quality[:200] > 0.8)
    estimate = corrected_mean(LabelledCases.of(quality**0.1, labels), share=True)
    assert estimate.how == CALIBRATED
    assert estimate.low < 0.2 < estimate.high


def test_a_judge_without_any_value_and_labels_in_few_clusters():
    cases = run()
    assert corrected_mean(alone(cases, np.nan), share=True).how == ALONE
    gaps = np.where(np.arange(400) % 10 == 0, np.nan, cases.judged)
    partly = LabelledCases(gaps, cases.labels, cases.chances, cases.codes)
    assert corrected_mean(partly, share=True).how == TUNED
    assert corrected_mean(run(labels=9), share=True) is None
    assert corrected_mean(run(size=100), share=True) is None
    assert corrected_difference(run(), run(labels=9), share=True) is None


def test_labels_of_the_same_cases_in_two_runs_are_pairs():
    before = alone(run())
    turned = np.where(np.arange(400) % 7 == 0, 1 - before.labels, before.labels)
    after = LabelledCases(before.judged, turned, before.chances, before.codes)
    estimate = corrected_difference(before, after, share=True)
    moved = Sample.of((turned - before.labels)[~np.isnan(turned)])
    span = share_interval(moved, 0.95)
    assert estimate.value == pytest.approx(moved.mean)
    assert span.low < estimate.low < estimate.high < span.high  # which adds a whole pair each way
    assert (estimate.low, estimate.high) == pytest.approx((span.low, span.high), abs=0.01)
    same = corrected_difference(before, after, share=False)
    assert same.error == pytest.approx(moved.error)


def test_different_cases_are_two_samples():
    before, other = run(), run(seed=3)
    after = LabelledCases(other.judged, other.labels, other.chances, other.codes + 400)
    estimate = corrected_difference(before, after, share=True)
    apart = [corrected_mean(side, share=True) for side in (before, after)]
    assert estimate.value == pytest.approx(apart[1].value - apart[0].value, abs=0.01)
    assert estimate.error == pytest.approx(np.hypot(apart[0].error, apart[1].error), rel=0.05)
    assert corrected_difference(before, after, share=False).how == TUNED


def test_a_run_whose_labels_all_passed_is_not_taken_for_sure():
    cases = np.arange(400)
    before = LabelledCases.of(np.ones(400), np.where(cases < 48, 1.0, np.nan), codes=cases // 4)
    after = LabelledCases(before.judged, before.labels, before.chances, before.codes + 100)
    estimate = corrected_difference(before, after, share=True)
    assert (estimate.value, estimate.weight, estimate.error) == (0, 0, 0)
    # Twelve clusters count as twelve cases, and 0.4 of them are unlike in each run.
    half = 2.0555 * np.sqrt(2 * 0.4) / 14  # Student's t with 26 degrees of freedom
    assert (estimate.low, estimate.high) == pytest.approx((-half, half), abs=1e-4)


def test_a_slice_is_a_mean_of_its_cases():
    cases = run()
    part = cases.part(np.arange(400) < 200)
    assert part.judged.size == 200
    assert corrected_mean(part, share=True).labels < corrected_mean(cases, share=True).labels


def drawn_by_stratum(share=1.0):
    """A population of two strata; the judge errs often in the small one, labelled much oftener."""
    rng = np.random.default_rng(11)
    sure = np.arange(2000) < 1800
    truth = (rng.random(2000) < 0.8).astype(float)
    judge = np.abs(truth - (rng.random(2000) < np.where(sure, 0.02, 0.4)))
    labels, chances = np.full(2000, np.nan), np.where(sure, 90 / 1800, 90 / 200)
    for stratum in (sure, ~sure):
        places = rng.choice(np.flatnonzero(stratum), int(90 * share), replace=False)
        labels[places] = truth[places]
    return LabelledCases.of(judge, labels, chances)


def test_the_variance_of_a_stratified_draw_is_that_within_its_strata():
    cases = drawn_by_stratum()
    assert cases.drawn == pytest.approx(1.0)
    known = ~np.isnan(cases.labels)
    estimate = corrected_mean(cases, share=False)
    residual = cases.labels - estimate.weight * cases.judged
    within = 0.0
    for size in (1800, 200):
        own = known & (cases.chances == 90 / size)
        within += (size / 2000) ** 2 * residual[own].var(ddof=1) / 90 * (1 - 90 / size)
    weights = 1 / cases.chances[known] / (1 / cases.chances[known]).sum()
    values = cases.labels[known]
    population = weights @ np.square(values - weights @ values) / 2000
    assert estimate.error**2 == pytest.approx(within + population, rel=0.1)
    # Without the strata, as for a slice, the same labels are worth less.
    assert corrected_mean(cases.part(np.arange(2000)), share=False).error > estimate.error


def test_a_queue_that_is_half_answered_counts_its_strata_in_part():
    assert drawn_by_stratum(0.5).drawn == pytest.approx(0.5)
    assert drawn_by_stratum().part(np.arange(2000) < 1000).drawn == 0


def test_a_judge_without_an_error_among_the_labels_is_not_taken_as_faultless():
    rng = np.random.default_rng(2)
    truth = (rng.random(4000) < 0.8).astype(float)
    labels = np.where(np.arange(4000) < 40, truth, np.nan)
    estimate = corrected_mean(LabelledCases.of(truth, labels), share=True)
    sampling = truth.std() / np.sqrt(4000)
    # Half-width that holds in 94 % of all samples, whatever number of errors is expected among 40.
    expected = np.linspace(0, 2.8, 1000)
    asked = expected / 40 + sampling * ndtri(1 - 0.06 * np.exp(expected))
    assert estimate.error == pytest.approx(asked.max() / 1.96, rel=0.02)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_labels_that_are_all_alike_leave_nothing_to_the_judge(value):
    """For many weights, as in some a rounding error looked like a variance of the labels."""
    rng = np.random.default_rng(4)
    for _ in range(200):
        sizes = rng.integers(12, 60, 3)
        taken = np.array([rng.integers(8, size + 1) for size in sizes])
        strata = np.repeat(np.arange(3), sizes)
        judge = (rng.random(strata.size) < 0.75).astype(float)
        labels = np.full(strata.size, np.nan)
        for stratum, count in enumerate(taken):
            labels[rng.choice(np.flatnonzero(strata == stratum), count, replace=False)] = value
        estimate = corrected_mean(
            LabelledCases.of(judge, labels, (taken / sizes)[strata]), share=True
        )
        assert (estimate.how, estimate.weight) == (ALONE, 0)
        assert estimate.effective == estimate.labels == taken.sum()
        assert estimate.value == pytest.approx(value, abs=1e-9)
        # Wilson's interval of equal labels, each as heavy as the heaviest of them.
        cases = min(taken.sum(), strata.size / (sizes / taken).max())
        least = 1 / (1 + t_of(0.95, taken.sum() - 1) ** 2 / cases)
        spread = (estimate.low, 1.0) if value else (0.0, estimate.high)
        assert spread == pytest.approx((least, 1.0) if value else (0.0, 1 - least))
