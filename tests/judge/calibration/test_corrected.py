"""The pass rate corrected by the judge's errors: algebra, bounds, coverage."""

from __future__ import annotations

import numpy as np
import pytest

from judge.calibration.corrected import JudgeErrors, Observed, corrected_rate, design_effect


def errors(passes: tuple[int, int], fails: tuple[int, int]) -> JudgeErrors:
    return JudgeErrors(
        passes=passes[1], passes_right=passes[0], fails=fails[1], fails_right=fails[0]
    )


def test_the_corrected_rate_undoes_the_errors():
    # 90 % truly pass: the judge passes .9 * .95 + .1 * .2 = 87.5 %.
    found = corrected_rate(Observed(875, 1000), errors((95, 100), (80, 100)))
    assert found.value == pytest.approx(0.9, abs=1e-9)
    assert found.low < 0.9 < found.high


def test_a_faultless_judge_changes_nothing_but_the_interval_knows_that_labels_are_few():
    few = corrected_rate(Observed(70, 100), errors((10, 10), (10, 10)))
    many = corrected_rate(Observed(70, 100), errors((1000, 1000), (1000, 1000)))
    assert few.value == many.value == 0.7
    assert few.high - few.low > many.high - many.low


@pytest.mark.parametrize(
    "bad", [errors((5, 10), (5, 10)), errors((0, 0), (9, 10)), errors((9, 10), (0, 0))]
)
def test_a_judge_by_chance_or_a_class_without_labels_corrects_nothing(bad: JudgeErrors):
    assert corrected_rate(Observed(70, 100), bad).value is None


def test_the_rate_stays_within_zero_and_one():
    over = corrected_rate(Observed(99, 100), errors((90, 100), (90, 100)))
    under = corrected_rate(Observed(1, 100), errors((90, 100), (90, 100)))
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
        found = corrected_rate(Observed(passed, n), of)
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
    wide = corrected_rate(Observed(40, 80, 4.0), errors((90, 100), (90, 100)))
    narrow = corrected_rate(Observed(40, 80), errors((90, 100), (90, 100)))
    assert wide.high - wide.low > narrow.high - narrow.low
