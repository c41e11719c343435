"""How sure the numbers of a run are: intervals, coverage, and bounds of what is missing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from assizes.judge.summary.run_summary import RunSummary, run_metrics
from tests.judge.run_frames import binary_row, case_row, fraction_row, score_row, summary_of


def cases_of(passed: list[bool], **rest):
    return [case_row(f"c{i}", one, **rest) for i, one in enumerate(passed)]


def test_a_pass_rate_has_wilsons_interval():
    found = summary_of(cases_of([True] * 27 + [False] * 3)).intervals["pass_rate"]
    wilson = stats.binomtest(27, 30).proportion_ci(0.95, method="wilson")
    assert (found.low, found.high) == pytest.approx((wilson.low, wilson.high), abs=1e-9)
    assert (found.method, found.cases, found.clusters) == ("wilson", 30, 30)


def test_the_same_rate_in_percent_has_the_same_interval_in_percent():
    found = summary_of(cases_of([True] * 27 + [False] * 3)).intervals
    share, percent = found["pass_rate"], found["cases_pass_rate_pct"]
    assert (percent.low, percent.high) == pytest.approx((share.low * 100, share.high * 100))


def test_a_mean_score_has_the_interval_of_t():
    points = [70.0, 80.0, 85.0, 90.0, 60.0]
    rows = [case_row(f"c{i}", overall_score=one) for i, one in enumerate(points)]
    found = summary_of(rows).intervals["avg_overall_score"]
    low, high = stats.t.interval(0.95, 4, np.mean(points), stats.sem(points))
    assert (found.low, found.high) == pytest.approx((low, min(high, 100.0)), abs=1e-9)


def test_repetitions_are_averaged_first_and_are_no_more_evidence():
    once = [case_row(f"c{i}", overall_score=50.0 + i) for i in range(12)]
    thrice = [row | {"repetition": repeat} for row in once for repeat in range(3)]
    one, three = (summary_of(rows).intervals["avg_overall_score"] for rows in (once, thrice))
    assert (one.low, one.high, one.cases) == (three.low, three.high, three.cases)


def test_cases_of_one_cluster_count_as_sampled_together():
    passed = [i < 20 for i in range(40)]
    alone = summary_of(cases_of(passed)).intervals["pass_rate"]
    rows = [case_row(f"c{i}", one, cluster=f"u{i // 4}") for i, one in enumerate(passed)]
    together = summary_of(rows).intervals["pass_rate"]
    assert together.clusters == 10
    assert together.high - together.low > 1.5 * (alone.high - alone.low)


def test_a_metric_has_its_interval_in_its_own_unit_its_coverage_and_bounds():
    cases = [case_row(f"c{i}") for i in range(10)]
    scores = [score_row(f"c{i}", raw=None if i < 2 else 4) for i in range(10)]
    found = summary_of(cases, scores).intervals
    raw, value = (found[f"metrics/tool_routing/{name}"] for name in ("mean_raw", "mean_value"))
    assert (raw.low, raw.high, raw.worst) == (4.0, 4.0, None)
    assert (value.coverage, value.worst, value.best) == (0.8, 0.64, 0.84)


def test_missing_verdicts_could_all_be_failures_or_all_be_passes():
    rows = [case_row(f"c{i}", None if i < 2 else True) for i in range(10)]
    found = summary_of(rows).intervals["pass_rate"]
    assert (found.coverage, found.worst, found.best) == (0.8, 0.8, 1.0)


def test_a_yes_no_metric_has_an_interval_of_its_share():
    scores = [fraction_row(f"c{i}", "safe", float(i > 0), passed=i > 0) for i in range(20)]
    found = summary_of([case_row(f"c{i}") for i in range(20)], scores).intervals
    wilson = stats.binomtest(19, 20).proportion_ci(0.95, method="wilson")
    assert found["metrics/safe/pass_rate"].low == pytest.approx(wilson.low, abs=1e-9)


def test_the_mean_of_a_yes_no_metric_is_its_share_of_yes():
    scores = [binary_row(f"c{i}", True) for i in range(5)]
    found = summary_of([case_row(f"c{i}") for i in range(5)], scores).intervals
    names = [f"metrics/task_completion/{name}" for name in ("pass_rate", "mean_value", "mean_raw")]
    share, *means = (found[name] for name in names)
    wilson = stats.binomtest(5, 5).proportion_ci(0.95, method="wilson")
    assert (share.method, share.low) == ("wilson", pytest.approx(wilson.low, abs=1e-9))
    assert means == [share, share]


def test_failed_scores_could_all_be_passes_or_fails_whatever_the_mean_value_is():
    scores = [fraction_row(f"c{i}", "coverage", 0.6, passed=i > 1) for i in range(18)]
    scores += [score_row(f"c{i}", "coverage", None) for i in range(18, 20)]
    cases = [case_row(f"c{i}") for i in range(20)]
    for rows in (cases, [*cases, case_row("c0", repetition=1)]):  # the second is by case
        found = summary_of(rows, scores).intervals
        rate, value = (found[f"metrics/coverage/{name}"] for name in ("pass_rate", "mean_value"))
        assert (rate.coverage, rate.worst, rate.best) == (0.9, 0.8, 0.9)
        assert (value.coverage, value.worst, value.best) == (0.9, 0.54, 0.64)


def test_a_score_that_says_neither_pass_nor_fail_is_not_due_in_the_pass_rate():
    scores = [fraction_row(f"c{i}", "coverage", 0.6, passed=i > 1 or None) for i in range(18)]
    scores += [score_row(f"c{i}", "coverage", None) for i in range(18, 20)]
    summary = summary_of([case_row(f"c{i}") for i in range(20)], scores)
    (metric,), found = summary.metrics, summary.intervals["metrics/coverage/pass_rate"]
    assert (metric.pass_rate, found.cases) == (1.0, 16)
    assert (found.coverage, found.worst, found.best) == pytest.approx((16 / 18, 16 / 18, 1.0))


def test_intervals_are_run_metrics_under_the_name_of_their_number():
    summary = summary_of(cases_of([True] * 9 + [False]))
    numbers, found = run_metrics(summary), summary.intervals["pass_rate"]
    assert numbers["pass_rate/ci_low"] == found.low
    assert numbers["pass_rate/ci_high"] == found.high
    assert RunSummary.model_validate(summary.model_dump(mode="json")) == summary


def test_a_run_without_executions_has_no_intervals():
    assert summary_of([]).intervals == {}


def test_mean_latency_has_the_interval_of_t_and_its_quantiles_those_of_woodruff():
    measured = [100.0 * (1 + i) for i in range(40)]
    rows = [case_row(f"c{i}", agent_latency_ms=one) for i, one in enumerate(measured)]
    rows += [case_row("quiet", agent_latency_ms=None)]
    found = summary_of(rows).intervals
    mean = found["latency_avg_ms"]
    low, high = stats.t.interval(0.95, 39, np.mean(measured), stats.sem(measured))
    assert (mean.low, mean.high) == pytest.approx((low, high), rel=1e-9, abs=1e-9)
    assert (mean.method, mean.coverage, mean.worst) == ("clustered_t", pytest.approx(40 / 41), None)
    wilson = stats.binomtest(20, 40).proportion_ci(0.95, method="wilson")
    median = found["latency_p50_ms"]
    wanted = np.quantile(measured, [wilson.low, wilson.high])
    assert (median.low, median.high) == pytest.approx(tuple(wanted), rel=1e-9, abs=1e-9)
    assert median.method == "woodruff"
    assert found["latency_p95_ms"].low > median.high


def test_the_agents_cost_has_the_interval_of_another_such_run():
    paid = [0.01, 0.02, 0.03, 0.02, 0.05, 0.01]
    rows = [case_row(f"c{i}", agent_cost_usd=one) for i, one in enumerate(paid)]
    summary = summary_of(rows)
    found = summary.intervals["total_agent_cost_usd"]
    low, high = stats.t.interval(0.95, 5, np.mean(paid), stats.sem(paid))
    assert (found.low, found.high) == pytest.approx((6 * max(low, 0), 6 * high), abs=1e-9)
    assert found.low < summary.total_agent_cost_usd < found.high


def test_a_tier_has_the_interval_of_its_case_values_and_bounds_for_errored_cases():
    cases = [case_row(f"c{i}", None if i < 2 else True) for i in range(12)]
    scores = [score_row(f"c{i}", raw=3 + i % 3) for i in range(2, 12)]
    summary = summary_of(cases, scores)
    found, points = summary.intervals["tiers/execution"], [(3 + i % 3) * 20 for i in range(2, 12)]
    low, high = stats.t.interval(0.95, 9, np.mean(points), stats.sem(points))
    assert (found.low, found.high) == pytest.approx((low, min(high, 100)), abs=1e-9)
    assert summary.tier_scores["execution"] == pytest.approx(np.mean(points))
    assert (found.worst, found.best) == pytest.approx((sum(points) / 12, (sum(points) + 200) / 12))


def test_pass_hat_k_has_an_interval_over_cases_not_trials():
    rows = [
        case_row(f"c{i}", trial < (3, 2, 0)[i % 3], repetition=trial)
        for i in range(30)
        for trial in range(3)
    ]
    summary = summary_of(rows)
    found = summary.intervals
    for k in (1, 2, 3):
        one = found[f"pass^{k}"]
        assert (one.cases, one.clusters) == (30, 30)
        assert one.low < summary.pass_hat_k[f"pass^{k}"] < one.high
        assert found[f"pass@{k}"].low < summary.pass_at_k[f"pass@{k}"] < found[f"pass@{k}"].high
    wilson = stats.binomtest(10, 30).proportion_ci(0.95, method="wilson")
    assert (found["pass^3"].low, found["pass^3"].high) == pytest.approx(tuple(wilson), abs=1e-9)
    assert run_metrics(summary)["pass^3/ci_low"] == found["pass^3"].low
