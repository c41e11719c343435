"""Every statistic equals a reference implementation to 1e-9: scipy's, or the formula written out."""

from __future__ import annotations

import warnings
from fractions import Fraction
from itertools import product
from math import comb, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from assizes.judge.statistics.effects import (
    DRAWS,
    SEED,
    benjamini_hochberg,
    bootstrap,
    holm,
    mcnemar,
    paired_effect,
    share_interval,
    sign_flip,
    strata,
    unpaired_effect,
    weighted_effect,
)
from assizes.judge.statistics.intervals import (
    CountedSample,
    Sample,
    cases_needed,
    cluster_sums,
    mean_interval,
    minimum_detectable,
    quantile_interval,
    rate_interval,
    wilson,
    z_of,
)

SOME = settings(max_examples=80, deadline=None)
FEW = settings(max_examples=15, deadline=None)

scores = st.integers(0, 1000).map(lambda tenths: tenths / 10)
rows = st.lists(st.tuples(scores, st.integers(0, 6)), min_size=3, max_size=30)
p_values = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def near(value):
    return pytest.approx(value, rel=1e-9, abs=1e-9)


def clustered(pairs) -> Sample:
    return Sample.of([value for value, _ in pairs], [f"u{name}" for _, name in pairs])


def written_out_error(pairs) -> float:
    mean = sum(value for value, _ in pairs) / len(pairs)
    names = {name for _, name in pairs}
    squares = [sum(value - mean for value, of in pairs if of == name) ** 2 for name in names]
    return sqrt(len(names) / (len(names) - 1) * sum(squares)) / len(pairs)


@SOME
@given(rows)
def test_the_clustered_error_is_the_formula(pairs):
    sample = clustered(pairs)
    if sample.clusters > 1:
        assert sample.error == near(written_out_error(pairs))


@SOME
@given(st.lists(scores, min_size=2, max_size=40))
def test_without_clusters_error_and_interval_are_those_of_t(values):
    sample = Sample.of(values)
    assert sample.error == near(float(stats.sem(values)))
    span = mean_interval(sample)
    if sample.error:
        low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
        assert (span.low, span.high) == near((low, high))


@SOME
@given(st.lists(scores, min_size=2, max_size=60))
def test_values_that_are_counted_say_what_they_say_one_by_one(values):
    known, times = np.unique(values, return_counts=True)
    counted, alone = CountedSample(known, times.astype(float)), Sample.of(values)
    assert (counted.size, counted.clusters) == (alone.size, alone.clusters)
    assert counted.mean == near(float(np.mean(values)))
    assert counted.error == near(float(stats.sem(values)))
    first, other = mean_interval(counted), mean_interval(alone)
    assert (first.low, first.high) == near((other.low, other.high))


@SOME
@given(st.integers(0, 200), st.integers(1, 200))
def test_a_rate_that_is_counted_has_wilsons_interval(passed, failed):
    held = [(0.0, failed), (1.0, passed)] if passed else [(0.0, failed)]
    values, times = (np.array(column, dtype=float) for column in zip(*held, strict=True))
    span = rate_interval(CountedSample(values, times))
    of_one_by_one = rate_interval(Sample.of([1.0] * passed + [0.0] * failed))
    assert (span.low, span.high) == near((of_one_by_one.low, of_one_by_one.high))
    wanted = stats.binomtest(passed, passed + failed).proportion_ci(0.95, method="wilson")
    assert (span.low, span.high) == near((wanted.low, wanted.high))


@SOME
@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_is_scipys(counts):
    passed, cases = counts
    reference = stats.binomtest(passed, cases).proportion_ci(0.95, method="wilson")
    span = wilson(passed / cases, cases, z_of(0.95))
    assert (span.low, span.high) == near((reference.low, reference.high))
    sample = Sample.of([1.0] * passed + [0.0] * (cases - passed))
    assert rate_interval(sample) == span


@SOME
@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_the_exact_binomial_test(worse, better):
    flips = worse + better
    tail = sum(Fraction(comb(flips, k), 2**flips) for k in range(min(worse, better) + 1))
    assert mcnemar(worse, better) == near(float(min(Fraction(1), 2 * tail)))
    if flips:
        assert mcnemar(worse, better) == near(stats.binomtest(worse, flips).pvalue)


@pytest.mark.parametrize(
    ("worse", "better", "p_value"), [(9, 1, 0.021484375), (6, 0, 0.03125), (5, 0, 0.0625)]
)
def test_mcnemars_known_values(worse, better, p_value):
    assert mcnemar(worse, better) == p_value


@SOME
@given(st.lists(st.integers(-40, 40), min_size=1, max_size=9))
def test_the_sign_flip_test_counts_every_way(sums):
    total = abs(sum(sums))
    ways = [
        abs(sum(sign * value for sign, value in zip(signs, sums, strict=True)))
        for signs in product((-1, 1), repeat=len(sums))
    ]
    expected = sum(way >= total for way in ways) / len(ways)
    assert sign_flip(np.asarray(sums, dtype=float)) == near(expected)


@FEW
@given(st.lists(st.integers(-40, 40).filter(bool), min_size=2, max_size=8, unique=True))
def test_the_sign_flip_test_is_scipys_permutation_test(sums):
    reference = stats.permutation_test(
        (np.asarray(sums, dtype=float), np.zeros(len(sums))),
        lambda before, after: np.sum(before) - np.sum(after),
        permutation_type="samples",
        n_resamples=np.inf,
    )
    assert sign_flip(np.asarray(sums, dtype=float)) == near(reference.pvalue)


@SOME
@given(st.integers(0, 6), st.integers(0, 6))
def test_flipping_signs_of_cases_that_stand_alone_is_mcnemar(worse, better):
    sums = np.asarray([-1.0] * worse + [1.0] * better)
    assert sign_flip(sums) == near(mcnemar(worse, better))


def test_a_drawn_sign_flip_test_is_close_to_the_exact_one():
    sums = np.asarray([-1.0] * 20 + [1.0] * 8)
    assert sign_flip(sums) == pytest.approx(mcnemar(20, 8), abs=0.01)
    many = np.asarray([-1.0] * 1300 + [1.0] * 1200)
    assert sign_flip(many) == pytest.approx(mcnemar(1300, 1200), rel=0.1)


@SOME
@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 100))
def test_the_interval_of_paired_shares_is_that_of_bonett_and_price_with_t(worse, better, same):
    cases = worse + better + same
    if cases < 2:
        return
    values = [-1.0] * worse + [1.0] * better + [0.0] * same
    fell, rose = (worse + 1) / (cases + 2), (better + 1) / (cases + 2)
    spread = sqrt((fell + rose - (rose - fell) ** 2) / (cases + 1))
    half = stats.t.ppf(0.975, cases + 1) * spread
    span = share_interval(Sample.of(values), 0.95)
    expected = (max(-1.0, rose - fell - half), min(1.0, rose - fell + half))
    assert (span.low, span.high) == near(expected)


@FEW
@given(rows)
def test_the_bootstrap_is_the_mean_over_drawn_clusters(pairs):
    names = sorted({name for _, name in pairs})
    if len(names) < 2:
        return
    sums = np.asarray([sum(v for v, of in pairs if of == name) for name in names])
    sizes = np.asarray([float(sum(of == name for _, of in pairs)) for name in names])
    drawn = np.random.default_rng(SEED).integers(0, len(names), size=(DRAWS, len(names)))
    means = [sum(sums[way]) / sum(sizes[way]) for way in drawn]
    beyond = stats.norm.cdf(
        -sqrt(len(names) / (len(names) - 1)) * stats.t.ppf(0.975, len(names) - 1)
    )
    span = bootstrap(sums, sizes, 0.95)
    assert (span.low, span.high) == near(tuple(np.quantile(means, [beyond, 1 - beyond])))


@SOME
@given(rows, rows)
def test_an_unpaired_difference_of_cases_that_stand_alone_is_welchs_test(before, after):
    old, new = ([value for value, _ in side] for side in (before, after))
    if min(np.std(old), np.std(new)) < 1e-9:  # equal values: scipy warns of what it cancels
        return
    effect = unpaired_effect(Sample.of(old), Sample.of(new), 0.95, share=False)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scipy: nearly equal values cancel
        reference = stats.ttest_ind(new, old, equal_var=False)
    interval = reference.confidence_interval(0.95)
    assert effect.p_value == near(reference.pvalue)
    assert (effect.span.low, effect.span.high) == near((interval.low, interval.high))


@SOME
@given(rows, rows)
def test_quality_and_mix_add_up_to_the_difference(before, after):
    sides = [
        {f"s{part}": [value for value, of in side if of % 2 == part] for part in (0, 1)}
        for side in (before, after)
    ]
    if not all(all(len(values) for values in side.values()) for side in sides):
        return
    samples = [{name: Sample.of(values) for name, values in side.items()} for side in sides]
    parts, moved = strata(*samples)
    whole = [np.mean([value for value, _ in side]) for side in (before, after)]
    assert moved.quality + moved.mix == near(float(whole[1] - whole[0]))
    assert weighted_effect(parts, 0.95, share=False).delta == near(moved.quality)


@SOME
@given(p_values)
def test_holm_and_benjamini_hochberg_are_their_definitions(p_values_given):
    ordered, many = sorted(p_values_given), len(p_values_given)
    stepped = [
        max(min(1.0, (many - rank) * ordered[rank]) for rank in range(place + 1))
        for place in range(many)
    ]
    stepped_up = [
        min(min(1.0, many / (rank + 1) * ordered[rank]) for rank in range(place, many))
        for place in range(many)
    ]
    by_place = [ordered.index(p_value) for p_value in p_values_given]
    ties = [len(ordered) - 1 - ordered[::-1].index(p_value) for p_value in p_values_given]
    assert holm(p_values_given) == near([stepped[place] for place in ties])
    assert benjamini_hochberg(p_values_given) == near([stepped_up[place] for place in by_place])
    assert (
        benjamini_hochberg(p_values_given) == stats.false_discovery_control(p_values_given).tolist()
    )


@pytest.mark.parametrize(
    ("share_of_flips", "points"),
    [(0.1, (12.5, 8.9, 6.3, 4.0, 2.8, 2.0)), (0.3, (21.7, 15.3, 10.9, 6.9, 4.9, 3.4))],
)
def test_the_minimum_detectable_effect_is_that_of_the_table(share_of_flips, points):
    sizes = (50, 100, 200, 500, 1000, 2000)
    detectable = [100 * minimum_detectable(sqrt(share_of_flips / size)) for size in sizes]
    assert detectable == pytest.approx(points, abs=0.06)


def test_as_many_cases_are_needed_as_show_the_change():
    assert cases_needed(0.1, 0.063) == 198
    assert minimum_detectable(sqrt(0.1 / 198)) <= 0.063 < minimum_detectable(sqrt(0.1 / 197))


def test_four_equal_rows_a_cluster_count_as_one():
    values = [float(i % 5) for i in range(20)]
    fourfold = Sample.of(
        [v for v in values for _ in range(4)], [i for i in range(20) for _ in "abcd"]
    )
    assert fourfold.error == near(Sample.of(values).error)
    alone = Sample.of(fourfold.values)
    assert (fourfold.error / alone.error) ** 2 == pytest.approx(4, rel=0.1)


@SOME
@given(rows, rows)
def test_swapping_the_sides_mirrors_an_effect(before, after):
    old, new = clustered(before), clustered(after)
    if min(old.clusters, new.clusters) < 2:
        return
    there = unpaired_effect(old, new, 0.95, share=False)
    back = unpaired_effect(new, old, 0.95, share=False)
    assert (there.delta, there.span.low) == near((-back.delta, -back.span.high))
    assert there.p_value == near(back.p_value)


@FEW
@given(rows)
def test_a_paired_p_value_does_not_know_the_direction(pairs):
    sample = clustered(pairs)
    mirrored = Sample(-sample.values, sample.codes)
    effects = [paired_effect(each, 0.95, share=False) for each in (sample, mirrored)]
    assert effects[0].p_value == near(effects[1].p_value)
    assert effects[0].delta == near(-effects[1].delta)


@SOME
@given(rows, st.sampled_from([0.5, 0.95]))
def test_the_interval_of_a_quantile_is_that_of_the_share_up_to_it(pairs, share):
    sample = clustered(pairs)
    interval = quantile_interval(sample, share)
    at = np.quantile(sample.values, share)
    shares = rate_interval(Sample((sample.values <= at).astype(float), sample.codes))
    if shares is None:
        assert interval is None
        return
    ordered = sorted(value for value, _ in pairs)
    for bound, part in zip(interval, shares, strict=True):
        place = part * (len(ordered) - 1)
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        assert bound == near(ordered[low] + (place - low) * (ordered[high] - ordered[low]))


@SOME
@given(st.lists(st.tuples(scores, st.sampled_from([0, 2, 5, 9])), min_size=1, max_size=30))
def test_clusters_may_have_any_numbers(pairs):
    values, codes = np.array([v for v, _ in pairs]), np.array([c for _, c in pairs])
    sample, named = Sample(values, codes), Sample.of(values, [str(code) for code in codes])
    assert (sample.clusters, sample.error) == (named.clusters, near(named.error))
    by_code = [values[codes == code].sum() for code in sorted(set(codes))]
    assert list(cluster_sums(values, codes)) == near(by_code)
