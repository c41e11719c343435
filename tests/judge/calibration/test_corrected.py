"""The pass rate corrected by the judge's errors: algebra, bounds, coverage."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from assizes.judge.calibration.measures import (
    JudgeErrors,
    ObservedPasses,
    corrected_rate,
    design_effect,
)


def errors(passes: tuple[int, int], fails: tuple[int, int]) -> JudgeErrors:
    return JudgeErrors(
        passes=passes[1], passes_right=passes[0], fails=fails[1], fails_right=fails[0]
    )


def test_the_corrected_rate_undoes_the_errors():
    # 90 % truly pass: the judge passes .9 * .95 + .1 * .2 = 87.5 %.
    found = corrected_rate(ObservedPasses(875, 1000), errors((95, 100), (80, 100)))
    assert found.value == pytest.approx(0.9, abs=1e-9)
    assert found.low < 0.9 < found.high


def test_a_judge_hardly_better_than_chance_on_few_labels_leaves_the_rate_anywhere():
    found = corrected_rate(ObservedPasses(50, 100), errors((1, 1), (1, 100)))
    assert found.value is not None
    assert (found.low, found.high) == (0.0, 1.0)


def test_a_faultless_judge_changes_nothing_but_the_interval_knows_that_labels_are_few():
    few = corrected_rate(ObservedPasses(70, 100), errors((10, 10), (10, 10)))
    many = corrected_rate(ObservedPasses(70, 100), errors((1000, 1000), (1000, 1000)))
    assert few.value == many.value == 0.7
    assert few.high - few.low > many.high - many.low


rights = st.integers(2, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(rights, rights, rights, st.floats(1, 5))
def test_rate_and_interval_are_the_formulas_in_exact_fractions(seen, passes, fails, deff):
    """Rogan and Gladen's rate; the interval of Lang and Reiczigel (2014), worked out apart."""
    found = corrected_rate(ObservedPasses(*seen, deff), errors(passes, fails))
    sure = Fraction(passes[0], passes[1]) + Fraction(fails[0], fails[1]) - 1
    if sure <= 0:
        assert found.value is None
        return
    rate = (Fraction(*seen) + Fraction(fails[0], fails[1]) - 1) / sure
    assert found.value == pytest.approx(float(min(1, max(0, rate))), abs=1e-9)
    z = Fraction(stats.norm.ppf(0.975))
    alone = Fraction(seen[1]) / Fraction(deff)
    p = (alone * Fraction(*seen) + z**2 / 2) / (alone + z**2)
    q1, q0 = (Fraction(right + 1, of + 2) for right, of in (passes, fails))
    gain = q0 + q1 - 1
    if gain <= 0:
        return
    theta = (p + q0 - 1) / gain
    a, b = q1 * (1 - q1) / (passes[1] + 2), q0 * (1 - q0) / (fails[1] + 2)
    middle = theta + 2 * z**2 * (theta * a - (1 - theta) * b)
    variance = p * (1 - p) / (alone + z**2) + (1 - theta) ** 2 * b + theta**2 * a
    half = float(z) * float(variance) ** 0.5 / float(gain)
    low, high = (min(1.0, max(0.0, float(middle) + side)) for side in (-half, half))
    assert found.low == pytest.approx(min(low, found.value), abs=1e-9)
    assert found.high == pytest.approx(max(high, found.value), abs=1e-9)


@pytest.mark.parametrize(
    "bad", [errors((5, 10), (5, 10)), errors((0, 0), (9, 10)), errors((9, 10), (0, 0))]
)
def test_a_judge_by_chance_or_a_class_without_labels_corrects_nothing(bad: JudgeErrors):
    assert corrected_rate(ObservedPasses(70, 100), bad).value is None


def test_the_rate_stays_within_zero_and_one():
    over = corrected_rate(ObservedPasses(99, 100), errors((90, 100), (90, 100)))
    under = corrected_rate(ObservedPasses(1, 100), errors((90, 100), (90, 100)))
    assert (over.value, over.high) == (1.0, 1.0)
    assert (under.value, under.low) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("theta", "q0", "q1", "labels"), [(0.9, 0.8, 0.95, (30, 60)), (0.7, 0.85, 0.9, (50, 100))]
)
def test_the_interval_covers_the_truth_where_the_uncorrected_one_does_not(theta, q0, q1, labels):
    random, n, trials = np.random.default_rng(7), 500, 1500
    (m0, m1), corrected, bare = labels, 0, 0
    for _ in range(trials):
        true = random.binomial(n, theta)
        passed = int(random.binomial(true, q1) + random.binomial(n - true, 1 - q0))
        of = errors((int(random.binomial(m1, q1)), m1), (int(random.binomial(m0, q0)), m0))
        found = corrected_rate(ObservedPasses(passed, n), of)
        corrected += found.low is None or found.low <= theta <= found.high
        p = passed / n
        bare += abs(p - theta) < 1.96 * (p * (1 - p) / n) ** 0.5
    assert 0.93 <= corrected / trials <= 0.99
    assert bare / trials < 0.8


def test_clusters_that_pass_or_fail_together_count_as_one():
    together = [(str(n // 4), n // 4 % 2 == 0) for n in range(80)]
    apart = [(str(n), n % 2 == 0) for n in range(80)]
    assert design_effect(together) == pytest.approx(4 * 20 / 19)
    assert design_effect(apart) == pytest.approx(80 / 79)
    assert design_effect([]) == design_effect([("a", True)]) == 1.0
    wide = corrected_rate(ObservedPasses(40, 80, 4.0), errors((90, 100), (90, 100)))
    narrow = corrected_rate(ObservedPasses(40, 80), errors((90, 100), (90, 100)))
    assert wide.high - wide.low > narrow.high - narrow.low
