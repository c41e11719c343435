from __future__ import annotations

from dataclasses import asdict

import pytest

from assizes.judge.comparison.cases import MetricDelta
from assizes.judge.comparison.compare import compare
from assizes.judge.comparison.metrics import MetricAggregate
from assizes.judge.config.gates import ComparisonConfig
from tests.judge.run_frames import (
    binary_row,
    case_row,
    compared,
    fraction_row,
    only_case,
    run_of,
    score_row,
)


@pytest.mark.row("001-64", "001-65", "001-66", "001-67", "001-74")
@pytest.mark.parametrize(
    ("before", "after", "status"),
    [
        pytest.param((True, 80.0), (False, 90.0), "regression", id="flip down with score +10"),
        pytest.param((False, 80.0), (True, 70.0), "improvement", id="flip up with score -10"),
        pytest.param((True, 85.0), (True, 79.99), "regression", id="down by 5.01"),
        pytest.param((True, 80.0), (True, 85.01), "improvement", id="up by 5.01"),
        pytest.param((True, 85.0), (True, 80.0), "unchanged", id="down by exactly 5"),
        pytest.param((True, 63.9), (True, 68.9), "unchanged", id="up by exactly 5"),
        pytest.param((True, None), (True, 10.0), "unchanged", id="no score to compare"),
    ],
)
def test_a_case_flips_or_moves_by_more_than_five_points(before, after, status):
    comparison = compared(only_case(*before), only_case(*after))
    (case,) = comparison.test_case_comparisons
    assert case.status == status
    totals = comparison.aggregate
    assert {
        "regression": totals.total_regressions,
        "improvement": totals.total_improvements,
        "unchanged": totals.total_unchanged,
        "error": totals.total_errors,
    } == dict.fromkeys(("regression", "improvement", "unchanged", "error"), 0) | {status: 1}


@pytest.mark.row("001-68")
def test_the_limits_of_the_suite_do_not_move_the_threshold_of_a_case():
    comparison = compared(only_case(score=85.0), only_case(score=79.99), max_avg_score_drop=50)
    assert comparison.test_case_comparisons[0].status == "regression"


@pytest.mark.row("001-69")
@pytest.mark.parametrize("sides", [(True, None), (None, True), (None, None)])
def test_an_error_on_either_side_is_an_error(sides):
    comparison = compared(
        *(only_case(passed, None if passed is None else 80.0) for passed in sides)
    )
    assert comparison.test_case_comparisons[0].status == "error"
    assert comparison.aggregate.total_errors == 1


def metric_deltas(before, after, cases=("a",)):
    rows = [case_row(case_id) for case_id in cases]
    comparison = compare(run_of(rows, before), run_of(rows, after), ComparisonConfig())
    return comparison.test_case_comparisons[0].metric_deltas


@pytest.mark.row("001-71")
def test_one_step_down_is_a_regression_of_the_metric():
    assert metric_deltas([score_row("a", raw=4)], [score_row("a", raw=3)]) == (
        MetricDelta(
            metric="tool_routing",
            is_binary=False,
            baseline_score=4.0,
            candidate_score=3.0,
            delta=-1.0,
            baseline_label="good",
            candidate_label="acceptable",
            status="regression",
        ),
    )


@pytest.mark.row("001-71")
def test_a_binary_metric_flips_without_a_delta():
    assert metric_deltas([binary_row("a", True)], [binary_row("a", False)]) == (
        MetricDelta(
            metric="task_completion",
            is_binary=True,
            baseline_score=5.0,
            candidate_score=0.0,
            delta=None,
            baseline_label="pass",
            candidate_label="fail",
            status="regression",
        ),
    )


def test_metrics_improve_too_and_equal_ones_are_unchanged():
    before = [
        score_row("a", raw=1),
        binary_row("a", False),
        binary_row("a", True, "other"),
        fraction_row("a", "tokens", 100.0, value=None),
    ]
    after = [
        score_row("a", raw=2),
        binary_row("a", True),
        binary_row("a", True, "other"),
        fraction_row("a", "tokens", 900.0, value=None),
    ]
    found = {one.metric: (one.delta, one.status) for one in metric_deltas(before, after)}
    assert found == {
        "tool_routing": (1.0, "improvement"),
        "task_completion": (None, "improvement"),
        "other": (None, "unchanged"),
        "tokens": (800.0, "unchanged"),
    }


@pytest.mark.row("001-72")
def test_a_metric_of_one_side_only_is_unchanged():
    candidate = [score_row("a", raw=4), score_row("a", "failing", raw=None)]
    assert metric_deltas([], candidate) == (
        MetricDelta(
            metric="tool_routing",
            is_binary=False,
            baseline_score=None,
            candidate_score=4.0,
            delta=None,
            baseline_label=None,
            candidate_label="good",
            status="unchanged",
        ),
    )


def aggregates(before, after, cases=("a", "b")):
    rows = [case_row(case_id) for case_id in cases]
    comparison = compare(run_of(rows, before), run_of(rows, after), ComparisonConfig())
    return comparison.aggregate.per_metric_aggregate_deltas


@pytest.mark.row("001-73")
def test_metrics_are_averaged_over_the_cases():
    before = [
        score_row("a", raw=3),
        score_row("b", raw=4),
        binary_row("a", True),
        binary_row("b", True),
    ]
    after = [
        score_row("a", raw=5),
        score_row("b", raw=4),
        binary_row("a", True),
        binary_row("b", False),
    ]
    assert aggregates(before, after) == (
        MetricAggregate(
            metric="task_completion",
            is_binary=True,
            baseline_avg=1.0,
            candidate_avg=0.5,
            delta=-0.5,
        ),
        MetricAggregate(
            metric="tool_routing",
            is_binary=False,
            baseline_avg=3.5,
            candidate_avg=4.5,
            delta=1.0,
        ),
    )


def test_a_metric_that_failed_on_the_worst_case_has_not_improved():
    before = [score_row("a", raw=5), score_row("b", raw=1)]
    after = [score_row("a", raw=5), score_row("b", raw=None)]
    (metric,) = aggregates(before, after)
    assert (metric.baseline_avg, metric.candidate_avg, metric.delta) == (5.0, 5.0, 0.0)


def test_a_metric_of_one_side_has_that_sides_average_and_no_delta():
    (metric,) = aggregates([score_row("a", raw=5), score_row("b", raw=4)], [])
    assert (metric.baseline_avg, metric.candidate_avg, metric.delta) == (4.5, None, None)


def test_a_metric_name_that_two_judges_share_is_shown_with_its_judge():
    rows = [fraction_row("a", "clear", 1.0, judge=judge) for judge in ("j1", "j2")]
    assert [one.metric for one in metric_deltas(rows, rows)] == ["j1/clear", "j2/clear"]
    assert [one.metric for one in aggregates(rows, rows)] == ["j1/clear", "j2/clear"]


@pytest.mark.row("001-74")
def test_a_case_shows_both_scores_and_latencies():
    comparison = compared(
        only_case(score=85.0, agent_latency_ms=500.0), only_case(score=92.0, agent_latency_ms=450.0)
    )
    (case,) = comparison.test_case_comparisons
    assert asdict(case) == {
        "test_case_id": "a",
        "test_case_name": "a",
        "status": "improvement",
        "baseline_passed": True,
        "candidate_passed": True,
        "baseline_pass_fraction": 1.0,
        "candidate_pass_fraction": 1.0,
        "baseline_score": 85.0,
        "candidate_score": 92.0,
        "score_delta": 7.0,
        "metric_deltas": (),
        "baseline_latency_ms": 500.0,
        "candidate_latency_ms": 450.0,
        "latency_delta_ms": -50.0,
    }


@pytest.mark.parametrize(
    ("after", "latencies"),
    [
        ({"agent_latency_ms": 2.0, "duration_ms": 300.0}, (200.0, 300.0, 100.0)),
        ({"agent_latency_ms": 2.0}, (1.0, 2.0, 1.0)),
        ({}, (1.0, None, None)),
    ],
)
def test_the_latency_of_a_case_is_its_duration_where_both_sides_have_one(after, latencies):
    before = only_case(agent_latency_ms=1.0, duration_ms=200.0)
    (case,) = compared(before, only_case(**after)).test_case_comparisons
    found = (case.baseline_latency_ms, case.candidate_latency_ms, case.latency_delta_ms)
    assert found == latencies


def repetitions(*passed_and_scores):
    return [
        case_row("a", passed, overall_score=score, repetition=i)
        for i, (passed, score) in enumerate(passed_and_scores)
    ]


def test_repetitions_of_a_case_are_averaged_and_all_must_pass():
    comparison = compared(
        repetitions((True, 90.0), (True, 81.0)), repetitions((True, 90.0), (False, 80.0))
    )
    (case,) = comparison.test_case_comparisons
    assert (case.baseline_passed, case.candidate_passed) == (True, False)
    assert (case.baseline_pass_fraction, case.candidate_pass_fraction) == (1.0, 0.5)
    assert (case.baseline_score, case.candidate_score, case.score_delta) == (85.5, 85.0, -0.5)
    assert case.status == "regression"
    assert comparison.aggregate.pass_rate_delta == -0.5


def numbers(case_id, *verdicts):
    return [
        case_row(
            case_id,
            passed,
            repetition=i,
            overall_score=90.0 if passed else 40.0,
            agent_latency_ms=500.0 if passed else 900.0,
        )
        for i, passed in enumerate(verdicts)
    ]


def deltas_of_the_runs(comparison):
    """What `assizes runs` shows of both runs, as differences."""
    before, after = (
        comparison.aggregate.baseline_metrics,
        comparison.aggregate.candidate_metrics,
    )
    names = ("pass_rate", "avg_overall_score", "latency_avg_ms")
    return [round(getattr(after, name) - getattr(before, name), 9) for name in names]


def deltas_of_the_rules(comparison):
    found = comparison.aggregate
    return [found.pass_rate_delta, found.avg_score_delta, found.latency_avg_delta_ms]


@pytest.mark.row("005-03")
def test_the_rules_compare_the_numbers_that_the_runs_show_whatever_the_repetitions():
    before = [*numbers("a", True, True, False), *numbers("b", True)]
    after = [*numbers("a", True, True, True), *numbers("b", False)]
    comparison = compared(before, after)
    assert comparison.aggregate.baseline_metrics.cases_pass_rate_pct == 75.0
    assert comparison.aggregate.candidate_metrics.cases_pass_rate_pct == 75.0
    assert deltas_of_the_rules(comparison) == deltas_of_the_runs(comparison) == [0.0, 0.0, 0.0]
    assert (comparison.verdict.regression_detected, comparison.verdict.reasons) == (False, ())


@pytest.mark.row("005-03")
def test_other_repetitions_of_the_same_cases_are_no_regression_by_themselves():
    before = [*numbers("a", True, True, True), *numbers("b", False)]
    after = [*numbers("a", True), *numbers("b", False, False, False)]
    comparison = compared(before, after)
    assert deltas_of_the_rules(comparison) == deltas_of_the_runs(comparison) == [-0.5, -25.0, 200.0]
    assert comparison.verdict.reasons == ()
    assert comparison.warnings[0] == (
        "2 cases have different numbers of repetitions in the two runs; a rule fires only if it "
        "also does with each case counted once"
    )
    worse = [*numbers("a", False), *numbers("b", False, False, False)]
    reasons = compared(before, worse).verdict.reasons
    assert [reason.partition(" from ")[0] for reason in reasons] == [
        "pass rate fell",
        "average score fell",
        "average latency rose",
    ]


@pytest.mark.row("005-03")
@pytest.mark.parametrize("number", ["overall_score", "agent_latency_ms"])
def test_a_number_that_one_repetition_lacks_is_no_regression_by_itself(number):
    before = [*numbers("a", True, True), *numbers("b", False, False)]
    # Without its score the good case counts less than the bad one, without its latency the fast one.
    after = [row | {number: None} if n == 1 else row for n, row in enumerate(before)]
    comparison = compared(before, after, max_latency_increase_pct=0.05)
    assert deltas_of_the_rules(comparison) == deltas_of_the_runs(comparison)
    assert comparison.verdict.reasons == ()
    assert comparison.warnings == (
        "1 cases have a score or a latency of different numbers of repetitions in the two runs; "
        "the rule about it fires only if it also does with each case counted once",
    )


@pytest.mark.row("005-03")
def test_a_latency_that_is_missing_hides_no_drop_of_the_pass_rate():
    before = [*numbers("a", True, True, True), *numbers("b", False)]
    after = [*numbers("a", True, False, False), *numbers("b", True)]  # by case 50 % -> 67 %
    assert "pass rate fell" in compared(before, after).verdict.reasons[0]
    after[0]["agent_latency_ms"] = None
    assert "pass rate fell" in compared(before, after).verdict.reasons[0]


@pytest.mark.row("005-03")
def test_a_repeated_case_that_the_other_run_lacks_enters_no_rule():
    before = [*numbers("a", True, False), *numbers("b", False, False, False)]
    found = deltas_of_the_rules(compared(before, numbers("a", True, False)))
    assert found == [0.0, 0.0, 0.0]


def test_a_case_with_an_errored_repetition_has_no_score():
    comparison = compared(
        repetitions((True, 90.0), (False, 10.0)), repetitions((True, 90.0), (None, None))
    )
    (case,) = comparison.test_case_comparisons
    assert (case.status, case.candidate_score, case.score_delta) == ("error", None, None)
    assert comparison.aggregate.avg_score_delta is None


def test_binary_metrics_pass_when_every_repetition_does_and_others_are_averaged():
    cases = repetitions((True, 90.0), (True, 90.0))
    before = [
        *({**binary_row("a", True), "repetition": i} for i in range(2)),
        *(score_row("a", raw=raw, repetition=raw) for raw in (4, 5)),
    ]
    after = [
        *({**binary_row("a", not i), "repetition": i} for i in range(2)),
        *(score_row("a", raw=4, repetition=i) for i in range(2)),
    ]
    comparison = compare(run_of(cases, before), run_of(cases, after), ComparisonConfig())
    completion, routing = comparison.test_case_comparisons[0].metric_deltas
    assert (completion.status, completion.candidate_label) == ("regression", None)
    assert (routing.baseline_score, routing.delta, routing.baseline_label) == (4.5, -0.5, None)


def test_what_another_judge_failed_under_the_same_name_is_none_of_a_metrics_rows():
    cases = [case_row(f"c{n}") for n in range(4)]
    mine = [score_row(f"c{n}", judge="mine", metric="tone", raw=4) for n in range(4)]
    theirs = [score_row(f"c{n}", judge="theirs", metric="tone", raw=None) for n in range(4)]
    sides = [
        compare(*(run_of(cases, scores) for scores in both), ComparisonConfig(gating=("tone",)))
        for both in ((mine, mine), (mine + theirs, mine + theirs))
    ]
    alone, beside = (side.verdict.statistics.metrics for side in sides)
    assert beside == alone
    assert alone[0].candidate_coverage == 1.0
