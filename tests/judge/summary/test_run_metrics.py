"""The numbers of a run under their published names."""

from __future__ import annotations

import math

from assizes.judge.summary.run_summary import run_metrics
from tests.judge.run_frames import ask_row, case_row, fraction_row, score_row, summary_of

SURE = ("ci_low", "ci_high", "worst", "best")
"""Intervals of the numbers are tested in test_run_intervals.py."""

NUMBERS = {
    "avg_overall_score": 85.0,
    "cases_pass_rate_pct": 100.0,
    "cases_pass_threshold": 100.0,
    "cases_passed": 1.0,
    "counts/duplicate": 0.0,
    "counts/errored": 0.0,
    "counts/judged": 2.0,
    "counts/not_attempted": 0.0,
    "counts/quarantined": 0.0,
    "counts/read": 2.0,
    "counts/reused": 0.0,
    "counts/skipped": 0.0,
    "coverage": 0.5,
    "error_count": 0.0,
    "failed_count": 0.0,
    "failures/timeout": 1.0,
    "gates/error": 0.0,
    "gates/expected_outcomes": 0.0,
    "gates/overall_score": 2.0,
    "judges/conversation/asks": 1.0,
    "judges/conversation/cached": 0.0,
    "judges/conversation/calls": 1.0,
    "judges/conversation/cost_usd": 0.01,
    "judges/conversation/input_tokens": 700.0,
    "judges/conversation/output_tokens": 300.0,
    "latency_avg_ms": 100.0,
    "latency_max_ms": 100.0,
    "latency_p50_ms": 100.0,
    "latency_p95_ms": 100.0,
    "metrics/reward/failed": 0.0,
    "metrics/reward/mean_raw": 1.0,
    "metrics/reward/mean_value": 1.0,
    "metrics/reward/pass_rate": 1.0,
    "metrics/reward/scored": 2.0,
    "metrics/reward/skipped": 0.0,
    "metrics/tool_routing/failed": 1.0,
    "metrics/tool_routing/mean_raw": 4.0,
    "metrics/tool_routing/mean_value": 0.8,
    "metrics/tool_routing/scored": 1.0,
    "metrics/tool_routing/skipped": 0.0,
    "metrics_pass_threshold": 80.0,
    "metrics_passed": 1.0,
    "min_coverage": 0.5,
    "model_calls/asks": 1.0,
    "model_calls/attempts": 1.0,
    "model_calls/cached": 0.0,
    "model_calls/unanswered": 0.0,
    "pass@1": 1.0,
    "pass@2": 1.0,
    "pass^1": 1.0,
    "pass^2": 1.0,
    "pass_flagged_count": 0.0,
    "pass_rate": 1.0,
    "passed_count": 2.0,
    "reward/pass@1": 1.0,
    "reward/pass@2": 1.0,
    "reward/pass^1": 1.0,
    "reward/pass^2": 1.0,
    "root_causes/safety": 1.0,
    "skipped_count": 0.0,
    "task_unjudged_count": 0.0,
    "tiers/execution": 80.0,
    "total_executions": 2.0,
    "total_platform_cost_usd": 0.01,
    "total_platform_token_usage/input": 700.0,
    "total_platform_token_usage/output": 300.0,
    "total_platform_token_usage/total": 1000.0,
    "undecided_count": 0.0,
    "unique_test_case_count": 1.0,
    "weighted_metrics_score_pct": 85.0,
}


def test_run_metrics_are_the_known_numbers_under_their_published_names():
    cases = [
        case_row("a", overall_score=80.0, agent_latency_ms=100.0),
        case_row("a", overall_score=90.0, repetition=1, root_cause="safety"),
    ]
    scores = [
        score_row("a", raw=4),
        score_row("a", raw=None, repetition=1),
        *(fraction_row("a", "reward", 1.0, passed=True, repetition=i) for i in (0, 1)),
    ]
    numbers = run_metrics(summary_of(cases, scores, [ask_row("a")], min_coverage=0.5))
    assert list(numbers) == sorted(numbers)
    assert all(math.isfinite(value) for value in numbers.values())
    said = {name: value for name, value in numbers.items() if name.rpartition("/")[2] not in SURE}
    assert said == NUMBERS


def test_a_metric_name_that_two_judges_share_is_published_with_its_judge():
    scores = [fraction_row("a", "clear", 1.0, judge=judge) for judge in ("j1", "j2")]
    numbers = run_metrics(summary_of([case_row("a")], scores))
    means = {name: value for name, value in numbers.items() if name.endswith("mean_raw")}
    assert means == {"metrics/j1/clear/mean_raw": 1.0, "metrics/j2/clear/mean_raw": 1.0}
