"""Looks before the end of a run: boundaries, chances of the whole run's word, and what stops it."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from assizes.judge.statistics.intervals import Sample
from assizes.judge.statistics.sequential import (
    Bounds,
    Chances,
    PartialEffect,
    StopRules,
    chances,
    crosses,
    decided_word,
    final_alpha,
    look_bounds,
    partial_effect,
    rate_chance,
    reaching_chance,
    spending_bounds,
    spent_alpha,
)

RULES = StopRules(margin=2.0, alpha=0.05, certainty=0.95)
LOW = Bounds(2.0, 2.0)

SHARES = st.lists(st.integers(1, 100), min_size=1, max_size=6, unique=True).map(
    lambda parts: [part / 100 for part in sorted(parts)]
)


def test_a_single_look_has_the_quantile_of_a_plain_test():
    (bound,) = spending_bounds([1.0], 0.025)
    assert bound == pytest.approx(stats.norm.isf(0.025), abs=1e-9)


def test_two_looks_are_crossed_as_often_as_alpha_says():
    first, second = spending_bounds([0.3, 1.0], 0.025)
    held = stats.multivariate_normal([0, 0], [[1, sqrt(0.3)], [sqrt(0.3), 1]]).cdf([first, second])
    assert 1 - held == pytest.approx(0.025, abs=1e-5)
    assert first == pytest.approx(stats.norm.isf(spent_alpha(0.3, 0.025)), abs=1e-9)


@given(shares=SHARES, alpha=st.sampled_from([0.005, 0.025, 0.05]))
def test_no_look_is_easier_than_the_plain_test_and_all_of_them_spend_no_more(shares, alpha):
    bounds = spending_bounds(shares, alpha)
    assert all(bound >= stats.norm.isf(alpha) - 1e-6 for bound in bounds)
    # Bonferroni over the looks is never easier.
    steps = np.diff([0.0, *(spent_alpha(share / shares[-1], alpha) for share in shares)])
    assert all(b <= stats.norm.isf(step) + 1e-3 for b, step in zip(bounds, steps, strict=True))


def test_simulated_paths_cross_as_often_as_alpha_says():
    shares = np.arange(1, 10) / 10
    rng = np.random.default_rng(3)
    paths = np.cumsum(rng.normal(0, sqrt(0.1), (200_000, 9)), axis=1) / np.sqrt(shares)
    crossed = (paths > np.array(spending_bounds(list(shares), 0.05))).any(axis=1).mean()
    assert crossed == pytest.approx(0.05, abs=0.002)


@pytest.mark.parametrize("shares", [[], [0.0, 0.5], [0.5, 0.5], [0.5, 0.4], [0.5, 1.1]])
def test_shares_that_do_not_ascend_are_refused(shares):
    with pytest.raises(ValueError, match="share"):
        spending_bounds(shares, 0.05)


def test_looks_and_end_spend_alpha_together():
    shares = tuple(number / 10 for number in range(1, 10))
    bounds = look_bounds(shares, 0.05, 2)
    assert [bound.worse for bound in bounds] == list(spending_bounds(shares, 0.2 * 0.05 / 2))
    assert final_alpha(0.05) + 0.2 * 0.05 == pytest.approx(0.05)
    assert all(bound.fine < bound.worse for bound in bounds)


@given(
    delta=st.floats(-20, 20),
    error=st.floats(0.1, 10),
    clusters=st.integers(10, 5000),
    margin=st.floats(0.5, 10),
)
def test_of_a_whole_run_the_chances_are_what_its_comparison_says(delta, error, clusters, margin):
    found = chances(PartialEffect(delta, error, clusters, 1.0), margin, 0.05)
    half = stats.t.ppf(0.975, clusters - 1) * error
    wanted = Chances(float(delta <= -max(margin, half)), float(delta - half > -margin))
    assert found == wanted


@given(
    delta=st.floats(-20, 20),
    error=st.floats(0.1, 10),
    share=st.floats(0.05, 0.95),
    more=st.floats(0.1, 5),
)
def test_a_higher_change_is_less_likely_regressed_and_more_likely_fine(delta, error, share, more):
    low, high = (
        chances(PartialEffect(value, error, 200, share), 2.0, 0.05)
        for value in (delta, delta + more)
    )
    assert low.regressed >= high.regressed
    assert low.fine <= high.fine
    assert low.regressed + low.fine <= 1 + 1e-9


def test_chances_come_true_as_often_as_they_say():
    rng = np.random.default_rng(5)
    foreseen, happened = [], []
    for _ in range(3000):
        values = rng.normal(rng.uniform(-4, 2), 20, 1000)
        seen = partial_effect(Sample.of(values[:300]), 0.3, least_move=0.0)
        foreseen.append(chances(seen, 2.0, 0.05).regressed)
        whole = PartialEffect(values.mean(), values.std(ddof=1) / sqrt(1000), 1000, 1.0)
        happened.append(chances(whole, 2.0, 0.05).regressed)
    sure = np.array(foreseen) > 0.9
    assert np.mean(np.array(happened)[sure]) >= 0.92
    assert np.mean(foreseen) == pytest.approx(np.mean(happened), abs=0.02)


def test_the_part_of_the_error_that_a_baseline_holds_stays():
    seen = PartialEffect(0.0, 5.0, 100, 0.25, fixed=3.0)
    assert seen.left == pytest.approx(sqrt(16 * 0.75))
    assert seen.full == pytest.approx(sqrt(9 + 16 * 0.25))


def test_a_large_drop_no_change_and_too_few_cases_stop_with_their_words():
    drop, none = PartialEffect(-12, 2, 200, 0.2), PartialEffect(0.5, 0.4, 400, 0.4)
    wide = PartialEffect(0.0, 3.0, 50, 0.97)
    assert decided_word([[drop], [none]], RULES, LOW) == "regressed"
    assert decided_word([[none], [none]], RULES, LOW) == "fine"
    assert decided_word([[wide], [none]], RULES, LOW) == "inconclusive"
    assert decided_word([[PartialEffect(-2, 2, 200, 0.2)]], RULES, LOW) is None


def test_a_boundary_that_is_not_crossed_keeps_a_run_going():
    drop, none = PartialEffect(-12, 2, 200, 0.2), PartialEffect(0.5, 0.4, 400, 0.4)
    high = Bounds(7.0, 7.0)
    assert decided_word([[drop]], RULES, high) is None
    assert decided_word([[none]], RULES, high) is None


def test_no_filling_of_missing_scores_may_contradict():
    drop, none = PartialEffect(-12, 2, 200, 0.2), PartialEffect(0.5, 0.4, 400, 0.4)
    assert decided_word([[drop, drop, none]], RULES, LOW) != "regressed"
    assert decided_word([[none, drop, none]], RULES, LOW) != "fine"


def test_a_boundary_is_that_of_student_for_few_clusters():
    assert crosses(2.1, 1.0, 10_000, 2.0)
    assert not crosses(2.1, 1.0, 11, 2.0)
    assert crosses(0.1, 0.0, 11, 2.0)


def test_where_nothing_moved_the_error_is_not_zero():
    still = partial_effect(Sample.of([0.0] * 100), 0.1, least_move=10.0)
    assert still.delta == 0
    assert still.error == pytest.approx(sqrt(200 * 102 / 101) / 102)


@pytest.mark.parametrize(("passed", "judged", "cases"), [(30, 40, 100), (40, 40, 200), (0, 30, 90)])
def test_the_chance_of_a_rate_is_beta_binomial(passed, judged, cases):
    sample = Sample.of([1.0] * passed + [0.0] * (judged - passed))
    for needed in range(passed, passed + cases - judged + 1, 7):
        law = stats.betabinom(cases - judged, passed + 1, judged - passed + 1)
        wanted = law.sf(needed - passed - 1)
        found = rate_chance(sample, cases, needed / cases)
        assert found == pytest.approx(wanted, abs=1e-9)
    assert rate_chance(sample, cases, 0.0) == 1.0


def test_a_rate_that_cannot_be_reached_or_missed_any_more_is_certain():
    sample = Sample.of([1.0] * 50 + [0.0] * 50)
    assert rate_chance(sample, 200, 0.76) == 0.0
    assert rate_chance(sample, 200, 0.25) == 1.0


def test_clusters_make_a_rate_less_certain():
    values = [1.0] * 80 + [0.0] * 20
    alone = rate_chance(Sample.of(values), 400, 0.7)
    alike = rate_chance(Sample.of(values, [number // 10 for number in range(100)]), 400, 0.7)
    assert 0.5 < alike < alone


def test_the_chance_of_a_mean_is_certain_at_the_end():
    assert reaching_chance(PartialEffect(80.0, 2.0, 100, 1.0), 80.0) == 1.0
    assert reaching_chance(PartialEffect(80.0, 2.0, 100, 0.5), 80.0) == pytest.approx(0.5)
