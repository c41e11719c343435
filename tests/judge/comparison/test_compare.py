from __future__ import annotations

import json

import pytest

from assizes.judge.comparison.compare import RunComparison, compare
from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.errors import NotComparable
from tests.judge.run_frames import (
    case_row,
    compared,
    config,
    only_case,
    run_of,
    score_row,
    skipped_row,
    summary_of,
)


@pytest.mark.row("001-70")
def test_cases_of_one_side_are_listed_and_the_rules_look_at_the_shared_ones():
    before = [case_row("1", overall_score=90.0), case_row("2", overall_score=80.0)]
    after = [case_row("2", overall_score=80.0), case_row("3", False, overall_score=10.0)]
    comparison = compared(before, after)
    assert comparison.baseline_only_test_cases == ("1",)
    assert comparison.candidate_only_test_cases == ("3",)
    assert [case.test_case_id for case in comparison.test_case_comparisons] == ["2"]
    assert comparison.warnings[0] == (
        "the runs executed different cases: 1 matched, 1 only in the baseline, 1 only in the "
        "candidate; the rules look at the matched ones"
    )
    assert not comparison.verdict.regression_detected
    assert (comparison.aggregate.pass_rate_delta, comparison.aggregate.avg_score_delta) == (0, 0)


def test_runs_that_share_no_case_are_compared_as_wholes():
    comparison = compared(
        [case_row("1", overall_score=90.0, agent_latency_ms=100.0)],
        [case_row("2", False, overall_score=60.0, agent_latency_ms=110.0)],
    )
    deltas = comparison.aggregate
    assert (deltas.pass_rate_delta, deltas.avg_score_delta) == (-1.0, -30.0)
    assert (deltas.latency_avg_delta_ms, deltas.latency_p95_delta_ms) == (10.0, 10.0)
    assert len(comparison.verdict.reasons) == 2
    assert comparison.warnings[0].startswith("the runs share no case")


def test_a_skipped_case_is_missing_on_its_side():
    comparison = compared([case_row("a"), case_row("b", False)], [case_row("a"), skipped_row("b")])
    assert comparison.baseline_only_test_cases == ("b",)
    assert comparison.aggregate.pass_rate_delta == 0.0


def test_a_run_without_executions_gives_no_verdict_on_anything():
    comparison = compared(only_case(), [skipped_row("a")])
    assert (comparison.aggregate.pass_rate_delta, comparison.verdict.reasons) == (None, ())
    assert "the candidate run executed no case: no rule could be applied" in comparison.warnings


def test_an_errored_case_counts_as_not_passed_and_enters_no_average():
    before = [case_row("a", overall_score=90.0), case_row("b", overall_score=50.0)]
    after = [case_row("a", overall_score=88.0), case_row("b", None)]
    comparison = compared(before, after)
    deltas = comparison.aggregate
    assert (deltas.pass_rate_delta, deltas.avg_score_delta) == (-0.5, -2.0)
    assert (
        "1 cases have a score in one run only; neither average score counts them"
        in comparison.warnings
    )


def test_an_inconclusive_side_is_named():
    scores = [score_row("a", raw=None)]
    comparison = compare(
        run_of(only_case()), run_of(only_case(None, None), scores), ComparisonConfig()
    )
    assert (
        "the candidate run is inconclusive (coverage 0.0, floor 0.95): that no rule fired does not "
        "mean that nothing got worse" in comparison.warnings
    )


@pytest.mark.row("001-75")
@pytest.mark.parametrize(
    ("sides", "role"),
    [(("running", "complete"), "baseline"), (("complete", "running"), "candidate")],
)
def test_a_run_that_is_not_complete_cannot_be_compared(sides, role):
    runs = [run_of(only_case(), run_id=f"r-{name}", status=name) for name in sides]
    message = f"{role} run 'r-running' has status 'running'; only 'complete' runs are compared"
    with pytest.raises(NotComparable, match=message) as raised:
        compare(*runs, ComparisonConfig())
    assert raised.value.exit_code == 3


def test_a_run_without_a_summary_cannot_be_compared():
    with pytest.raises(NotComparable, match="baseline run 'run'"):
        compare(run_of(only_case(), summary=None), run_of(only_case()), ComparisonConfig())


def test_the_latencies_and_costs_of_both_runs_are_set_side_by_side():
    before = [case_row(f"c{i}", agent_latency_ms=100.0 * i, agent_cost_usd=0.1) for i in range(3)]
    after = [case_row(f"c{i}", agent_latency_ms=110.0 * i, agent_cost_usd=0.3) for i in range(3)]
    deltas = compared(before, after).aggregate
    assert (deltas.latency_avg_delta_ms, deltas.latency_p95_delta_ms) == (10.0, 19.0)
    assert deltas.cost_delta_usd == 0.6


def test_an_unknown_cost_has_no_delta():
    assert compared(only_case(agent_cost_usd=0.1), only_case()).aggregate.cost_delta_usd is None


def test_a_changed_judge_is_a_warning():
    other = config().model_dump(mode="json")
    other["judge"]["model"] = "openai/gpt-4.1"
    comparison = compare(run_of(only_case()), run_of(only_case(), config=other), ComparisonConfig())
    assert [change.field for change in comparison.config_diff] == ["judge.model"]
    assert comparison.warnings[0] == (
        "the runs were judged differently (judge.model): a change need not be the agent's"
    )


def test_the_comparison_carries_both_runs_and_survives_json():
    sides = [
        run_of(
            only_case(), [score_row("a")], run_id=name, name=f"{name}-run", agent_version=version
        )
        for name, version in (("before", "1.0"), ("after", "1.1"))
    ]
    comparison = compare(*sides, ComparisonConfig())
    assert (comparison.baseline_run_id, comparison.candidate_run_id) == ("before", "after")
    assert (comparison.baseline_run_name, comparison.candidate_run_name) == (
        "before-run",
        "after-run",
    )
    assert (comparison.baseline_agent_version, comparison.candidate_agent_version) == ("1.0", "1.1")
    assert comparison.aggregate.baseline_metrics == summary_of(only_case(), [score_row("a")])
    assert comparison.regression_analysis is None
    body = json.loads(json.dumps(comparison.model_dump(mode="json"), allow_nan=False))
    assert RunComparison.model_validate(body) == comparison


def test_every_published_name_is_a_field():
    assert set(RunComparison.model_fields) == {
        "baseline_run_id",
        "candidate_run_id",
        "baseline_agent_version",
        "candidate_agent_version",
        "baseline_run_name",
        "candidate_run_name",
        "aggregate",
        "test_case_comparisons",
        "baseline_only_test_cases",
        "candidate_only_test_cases",
        "case_counts",
        "config_diff",
        "prompt_diff",
        "verdict",
        "warnings",
        "regression_analysis",
        "corrected",
    }


@pytest.mark.row("001-78")
def test_identical_runs_are_unchanged_without_a_warning():
    cases = [
        case_row(f"c{i}", i % 2 == 0, overall_score=12.3 * i, agent_latency_ms=7.7 * i + 1)
        for i in range(5)
    ]
    run = run_of(cases, [score_row(f"c{i}", raw=i) for i in range(5)])
    comparison = compare(run, run, ComparisonConfig())
    deltas = comparison.aggregate
    assert (deltas.total_unchanged, deltas.pass_rate_delta, deltas.avg_score_delta) == (5, 0, 0)
    assert (deltas.latency_avg_delta_ms, deltas.latency_p95_delta_ms) == (0, 0)
    assert [metric.delta for metric in deltas.per_metric_aggregate_deltas] == [0]
    assert not comparison.verdict.regression_detected
    assert (comparison.config_diff, comparison.warnings) == ((), ())
