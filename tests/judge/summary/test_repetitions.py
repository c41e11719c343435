from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drawn import examples
from tests.judge.run_frames import fraction_row, outcomes, repeated, score_row, summary_of

FEW = examples(40)


def test_repeated_cases_have_pass_hat_k():
    summary = summary_of(repeated([True, True, False, True], [True, None]))
    assert summary.pass_hat_k == {
        "pass^1": 0.625,
        "pass^2": 0.25,
        "pass^3": 0.25,
        "pass^4": 0.0,
    }
    assert summary.pass_at_k == {"pass@1": 0.625, "pass@2": 1.0, "pass@3": 1.0, "pass@4": 1.0}


def test_without_repetitions_there_is_no_pass_hat_k():
    summary = summary_of(outcomes(3), [fraction_row("c00000", "reward", 1.0, passed=True)])
    assert (summary.pass_hat_k, summary.pass_at_k) == ({}, {})


def test_metrics_that_pass_or_fail_have_pass_hat_k_too():
    rows = [
        fraction_row("c0", "reward", 1.0, passed=True),
        fraction_row("c0", "reward", 0.0, passed=False, repetition=1),
        fraction_row("c0", "level", 0.4),
        fraction_row("c0", "level", 0.4, repetition=1),
        score_row("c0", "answered", 5, label="yes"),
        score_row("c0", "answered", None, repetition=1),
    ]
    assert summary_of(repeated([True, True]), rows).pass_hat_k == {
        "pass^1": 1.0,
        "pass^2": 1.0,
        "reward/pass^1": 0.5,
        "reward/pass^2": 0.0,
        "answered/pass^1": 0.5,
        "answered/pass^2": 0.0,
    }


@pytest.mark.promised
@FEW
@given(
    st.lists(st.lists(st.booleans(), min_size=1, max_size=5), min_size=1, max_size=5).filter(
        lambda cases: max(map(len, cases)) > 1
    )
)
def test_pass_hat_k_and_pass_at_k_are_what_counting_all_choices_gives(cases):
    summary = summary_of(repeated(*cases))
    for k in range(1, max(map(len, cases)) + 1):
        drawn = [list(combinations(case, k)) for case in cases if len(case) >= k]
        every = sum(Fraction(sum(map(all, d)), len(d)) for d in drawn) / len(drawn)
        some = sum(Fraction(sum(map(any, d)), len(d)) for d in drawn) / len(drawn)
        assert summary.pass_hat_k[f"pass^{k}"] == round(float(every), 9)
        assert summary.pass_at_k[f"pass@{k}"] == round(float(some), 9)
