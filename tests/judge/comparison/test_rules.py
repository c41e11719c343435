from __future__ import annotations

import pytest

from tests.judge.run_frames import case_row, compared, only_case, outcomes, verdict


@pytest.mark.row("001-53")
def test_any_drop_of_the_pass_rate_is_a_regression_by_default():
    found = verdict(outcomes(10), outcomes(9, 1))
    assert found.thresholds_used["max_pass_rate_drop"] == 0.0
    assert found.regression_detected
    assert found.reasons == ("pass rate fell from 100.0 % to 90.0 % (limit 0.0 %)",)


@pytest.mark.row("001-54")
def test_one_new_failure_in_twenty_thousand_is_a_drop():
    comparison = compared(outcomes(20_000), outcomes(19_999, 1))
    assert comparison.aggregate.pass_rate_delta == -0.00005
    assert comparison.verdict.reasons == (
        "pass rate fell from 100.000 % to 99.995 % (limit 0.0 %)",
    )


@pytest.mark.row("001-55")
@pytest.mark.parametrize(
    ("failed", "limit", "regression"),
    [(2, 0.05, False), (5, 0.05, False), (6, 0.05, True), (30, 0.3, False), (31, 0.3, True)],
)
def test_the_pass_rate_may_drop_by_its_limit(failed, limit, regression):
    found = verdict(outcomes(100), outcomes(100 - failed, failed), max_pass_rate_drop=limit)
    assert found.regression_detected is regression


@pytest.mark.row("001-56")
@pytest.mark.parametrize(
    ("after", "reasons"),
    [
        (75.0, ()),
        (74.99, ("average score fell from 80.00 to 74.99 (limit 5.0 points)",)),
    ],
)
def test_the_average_score_may_drop_by_five_points(after, reasons):
    found = verdict(only_case(), only_case(score=after))
    assert (found.thresholds_used["max_avg_score_drop"], found.reasons) == (5.0, reasons)


def test_a_drop_of_exactly_five_points_is_none_in_spite_of_float_noise():
    assert 68.9 - 63.9 > 5
    assert not verdict(only_case(score=68.9), only_case(score=63.9)).regression_detected


@pytest.mark.row("001-57")
@pytest.mark.parametrize(
    ("after", "reasons"),
    [
        (600.0, ()),
        (601.0, ("average latency rose from 500.0 ms to 601.0 ms, by 20.2 % (limit 20.0 %)",)),
    ],
)
def test_the_latency_may_grow_by_a_fifth(after, reasons):
    found = verdict(only_case(agent_latency_ms=500.0), only_case(agent_latency_ms=after))
    assert (found.thresholds_used["max_latency_increase_pct"], found.reasons) == (0.2, reasons)


@pytest.mark.row("001-58")
def test_growth_by_exactly_a_fifth_is_none_in_spite_of_float_noise():
    assert (120.12 - 100.1) / 100.1 > 0.2
    found = verdict(only_case(agent_latency_ms=100.1), only_case(agent_latency_ms=120.12))
    assert not found.regression_detected


@pytest.mark.row("001-59")
@pytest.mark.parametrize(
    ("before", "warning"),
    [
        (None, "latency rule skipped: no latencies to compare"),
        (0.0, "latency rule skipped: the baseline's average latency is 0"),
    ],
)
def test_without_a_baseline_latency_the_rule_is_skipped(before, warning):
    comparison = compared(only_case(agent_latency_ms=before), only_case(agent_latency_ms=900.0))
    assert not comparison.verdict.regression_detected
    assert warning in comparison.warnings


@pytest.mark.row("001-60")
def test_three_rules_that_fire_give_three_reasons():
    found = verdict(
        only_case(passed=True, score=90.0, agent_latency_ms=100.0),
        only_case(passed=False, score=50.0, agent_latency_ms=200.0),
    )
    assert found.regression_detected
    assert [reason.partition(" from ")[0] for reason in found.reasons] == [
        "pass rate fell",
        "average score fell",
        "average latency rose",
    ]


@pytest.mark.row("001-61")
def test_improvements_never_flag():
    found = verdict(
        only_case(passed=False, score=50.0, agent_latency_ms=200.0),
        only_case(passed=True, score=90.0, agent_latency_ms=100.0),
    )
    assert (found.regression_detected, found.reasons) == (False, ())


@pytest.mark.row("001-62")
def test_thresholds_given_by_the_caller_are_used_and_echoed():
    found = verdict(only_case(score=80.0), only_case(score=72.0), max_avg_score_drop=10)
    assert not found.regression_detected
    assert found.thresholds_used == {
        "max_pass_rate_drop": 0.0,
        "max_avg_score_drop": 10.0,
        "max_latency_increase_pct": 0.2,
    }


@pytest.mark.row("001-63")
def test_a_regressed_case_alone_is_no_regression_of_the_suite():
    before = [case_row("a", overall_score=90.0), case_row("b", overall_score=80.0)]
    after = [case_row("a", overall_score=84.0), case_row("b", overall_score=80.0)]
    comparison = compared(before, after)
    assert comparison.aggregate.total_regressions == 1
    assert not comparison.verdict.regression_detected
