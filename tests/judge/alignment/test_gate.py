"""The proof on held-out labels: what counts as better, and what a lenient judge gains."""

from __future__ import annotations

import pytest

from assizes.judge.alignment.gate import ALPHA, alpha_of_use, gain_and_p, try_held_out
from assizes.judge.alignment.labelled_cases import LabelledCase
from tests.judge.alignment.labelled import item


def items(count: int = 40) -> list[LabelledCase]:
    """Half of them pass; the judge fails every second pass."""
    return [item(n, people=n % 2 == 0, judge=n % 4 == 0) for n in range(count)]


def test_a_judge_that_mends_its_errors_is_better():
    cases = items()
    result = try_held_out(cases, [case.people for case in cases], 1)
    assert result.is_better
    assert (result.old, result.new) == (pytest.approx(0.75), pytest.approx(1.0))
    assert (result.mended, result.spoilt, result.errors) == (10, 0, 0)
    assert result.p_value == pytest.approx(0.5**10)
    assert result.sentence().startswith("better: 75.0 % -> 100.0 % balanced accuracy")


def test_a_judge_that_only_passes_more_gains_nothing():
    cases = [item(n, people=n % 5 > 0, judge=False) for n in range(50)]  # four of five pass
    gain, _ = gain_and_p(cases, [True] * 50)
    assert gain == pytest.approx(0.0)
    assert not try_held_out(cases, [True] * 50, 1).is_better


def test_a_case_without_a_verdict_counts_as_wrong():
    cases = [item(n, people=n % 2 == 0, judge=n % 2 == 0) for n in range(40)]
    result = try_held_out(cases, [None] * 4 + [case.people for case in cases[4:]], 1)
    assert (result.errors, result.spoilt) == (4, 4)
    assert result.new == pytest.approx(0.9)
    assert "not shown to be better" in result.sentence()


def test_one_large_cluster_proves_nothing():
    cases = [item(n, people=n % 2 == 0, judge=n % 4 == 0, cluster="one") for n in range(40)]
    assert not try_held_out(cases, [case.people for case in cases], 1).is_better


def test_labels_count_by_their_chance():
    cases = [
        item(n, people=n % 2 == 0, judge=n % 4 == 0, weight=1 + 8 * (n % 4 == 2)) for n in range(40)
    ]
    gain, _ = gain_and_p(cases, [case.people for case in cases])
    assert gain == pytest.approx(0.45)  # errors stand for nine of ten passes


def test_each_use_of_the_labels_raises_the_bar_and_all_uses_share_one_alpha():
    shares = [alpha_of_use(use) for use in range(1, 1000)]
    assert shares[0] == pytest.approx(0.025)
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) < ALPHA
