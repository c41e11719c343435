from __future__ import annotations

import polars as pl
import pytest

from assizes.judge.errors import Unreconciled
from assizes.judge.rows import frame
from assizes.judge.score import Metric
from assizes.judge.summary.run_summary import FailureCode, RunSummary
from assizes.judge.summary.summary import summarise
from tests.judge.run_frames import (
    case_row,
    config,
    fraction_row,
    lazy,
    outcomes,
    score_row,
    scored,
    skipped_row,
    summary_of,
)
from tests.judge.verdicts.quality_scores import Promising


@pytest.mark.row("001-30", "001-52")
def test_the_metrics_dimension_is_the_mean_over_cases_with_a_verdict():
    assert summary_of(scored(90, 70, None)).weighted_metrics_score_pct == 80.0
    judge_error = summary_of(scored(90, None))
    assert (judge_error.weighted_metrics_score_pct, judge_error.error_count) == (90.0, 1)


@pytest.mark.row("001-31")
def test_without_any_verdict_the_mean_is_null():
    summary = summary_of(scored(None, None))
    assert summary.weighted_metrics_score_pct is None
    assert summary.metrics_passed is None
    assert summary.outcome == "inconclusive"


@pytest.mark.row("001-32", "001-33")
def test_the_thresholds_are_those_of_the_runs_own_configuration():
    default = summary_of(scored(90))
    assert (default.metrics_pass_threshold, default.cases_pass_threshold) == (80.0, 100.0)
    strict = summary_of(scored(90), metrics_pass_threshold=95.0)
    assert (strict.metrics_pass_threshold, strict.metrics_passed) == (95.0, False)


@pytest.mark.row("001-34", "001-40")
def test_the_two_dimensions_are_independent():
    cases = [
        case_row("a", True, overall_score=90.0),
        case_row("b", False, overall_score=70.0),
        case_row("c", None),
    ]
    summary = summary_of(cases)
    assert summary.cases_pass_rate_pct == 33.333333333
    assert (summary.metrics_passed, summary.cases_passed) == (True, False)
    assert summary.outcome == "inconclusive"
    assert summary_of(cases, min_coverage=0.0).outcome == "failed"


@pytest.mark.row("001-35")
def test_an_error_counts_as_not_passed_and_not_as_failed():
    summary = summary_of(outcomes(passed=1, errored=1))
    assert summary.cases_pass_rate_pct == 50.0
    assert (summary.error_count, summary.failed_count) == (1, 0)


def test_an_errored_case_enters_no_average_whatever_its_row_says():
    summary = summary_of([*scored(80.0), case_row("b", None, overall_score=10.0)])
    assert summary.avg_overall_score == summary.weighted_metrics_score_pct == 80.0


@pytest.mark.row("001-36")
@pytest.mark.parametrize(("score", "passed"), [(80.0, True), (79.99, False)])
def test_the_metrics_threshold_is_inclusive(score, passed):
    assert summary_of(scored(score)).metrics_passed is passed


@pytest.mark.row("001-37")
def test_a_mean_that_lies_on_the_threshold_passes_in_spite_of_float_noise():
    scores = [81.6, 98.99, 66.88, 86.89, 65.64]
    assert sum(scores) / 5 < 80
    summary = summary_of(scored(*scores))
    assert (summary.weighted_metrics_score_pct, summary.metrics_passed) == (80.0, True)


def test_a_mean_just_under_the_threshold_is_not_rounded_up_to_it():
    assert summary_of(scored(80.0, 79.99)).metrics_passed is False


@pytest.mark.row("001-38")
@pytest.mark.parametrize(
    ("passed", "failed", "threshold", "expected"),
    [(3, 0, 100, True), (2, 1, 100, False), (2, 1, 50, True)],
)
def test_the_cases_threshold_is_inclusive(passed, failed, threshold, expected):
    summary = summary_of(outcomes(passed, failed), cases_pass_threshold=threshold)
    assert summary.cases_passed is expected


@pytest.mark.row("001-39")
def test_a_rate_that_lies_on_the_threshold_passes_in_spite_of_float_noise():
    assert 29 / 50 * 100 < 58
    summary = summary_of(outcomes(29, 21), cases_pass_threshold=58)
    assert (summary.cases_pass_rate_pct, summary.cases_passed) == (58.0, True)


@pytest.mark.row("001-41")
def test_every_published_name_is_a_field():
    names = """unique_test_case_count total_executions passed_count failed_count error_count
        pass_rate latency_p50_ms latency_p95_ms latency_max_ms latency_avg_ms
        total_agent_token_usage total_platform_token_usage total_agent_cost_usd
        total_platform_cost_usd total_estimated_cost_usd avg_overall_score
        weighted_metrics_score_pct metrics_pass_threshold metrics_passed cases_pass_rate_pct
        cases_pass_threshold cases_passed"""
    assert set(names.split()) <= RunSummary.model_fields.keys()


@pytest.mark.row("001-42")
def test_an_empty_run_knows_nothing_and_passes_nothing():
    summary = summary_of([])
    assert (summary.metrics_passed, summary.cases_passed, summary.pass_rate) == (None, None, 0.0)
    assert summary.outcome == "inconclusive"
    assert summary.coverage is None


@pytest.mark.row("001-45")
def test_executions_are_passed_failed_or_errored():
    summary = summary_of(outcomes(1, 1, 1))
    counts = (summary.passed_count, summary.failed_count, summary.error_count)
    assert (counts, summary.total_executions) == ((1, 1, 1), 3)


def test_a_judged_case_to_which_no_gate_applied_is_not_passed_and_not_a_verdict():
    summary = summary_of([case_row("a", None, status="judged", gate=None)])
    assert (summary.undecided_count, summary.total_executions, summary.pass_rate) == (1, 1, 0.0)
    assert summary.outcome == "inconclusive"
    assert summary.counts["judged"] == 1


@pytest.mark.row("001-46")
def test_every_repetition_is_an_execution():
    summary = summary_of([case_row("a", repetition=i) for i in range(4)])
    assert (summary.unique_test_case_count, summary.total_executions) == (1, 4)


@pytest.mark.row("001-47")
def test_the_pass_rate_is_a_fraction():
    assert summary_of(outcomes(1, 3)).pass_rate == 0.25


@pytest.mark.row("001-51")
def test_the_average_score_has_two_equal_names():
    summary = summary_of(scored(81.6, 98.99, 66.88))
    assert summary.avg_overall_score == summary.weighted_metrics_score_pct == 82.49


def test_skipped_cases_are_no_executions():
    summary = summary_of([*outcomes(1), skipped_row("s", agent_latency_ms=9e9)])
    assert (summary.total_executions, summary.skipped_count) == (1, 1)
    assert (summary.pass_rate, summary.unique_test_case_count) == (1.0, 1)
    assert summary.latency_max_ms is None


def test_coverage_counts_failed_but_not_skipped_scores():
    scores = [
        score_row("c00000"),
        score_row("c00001"),
        score_row("c00002", raw=None),
        score_row("c00003", raw=None, status="skipped"),
        fraction_row("c00000", "unweighted", 1.0),
    ]
    summary = summary_of(outcomes(3, 0, 1), scores)
    assert summary.coverage == 0.666666667
    assert summary.outcome == "inconclusive"
    assert summary.failures == {"timeout": 1}


def test_scores_that_an_errored_case_lacks_altogether_are_due():
    scores = [score_row("c00000", name) for name in ("m1", "m2")]
    bare = summary_of(outcomes(1, 0, 1), scores)
    assert bare.coverage == 0.5
    half = summary_of(outcomes(1, 0, 1), [*scores, score_row("c00001", "m1")])
    assert half.coverage == 0.75


def test_scores_of_judges_that_gate_are_due_as_those_of_weighted_metrics_are():
    judge = Promising("j", (Metric("sql", gate="judges"), Metric("recall")))
    scores = [
        score_row("a"),
        fraction_row("a", "sql", 0.9, judge="j"),
        fraction_row("a", "recall", 0.9, judge="j"),
        score_row("b", "sql", raw=None, judge="j", weight=None),
        score_row("b", "recall", raw=None, judge="j", weight=None),
    ]
    cases = [case_row("a"), case_row("b")]
    tables = (lazy("cases", cases), lazy("scores", scores), lazy("asks", []))
    assert summarise(*tables, config(), {"read": 2}, [judge]).coverage == 0.666666667


def test_every_score_that_was_promised_is_found_failed_or_skipped_or_the_run_does_not_add_up():
    judge = Promising("j", (Metric("sql"), Metric("recall")))
    scores = [
        fraction_row("a", "sql", 0.9, judge="j"),
        fraction_row("a", "recall", 0.9, judge="j"),
        score_row("b", "sql", raw=None, judge="j", weight=None),
        score_row("b", "recall", raw=None, judge="j", weight=None),
    ]
    cases = [case_row("a"), case_row("b")]

    def summed(rows):
        tables = (lazy("cases", cases), lazy("scores", rows), lazy("asks", []))
        return summarise(*tables, config(), {"read": 2}, [judge]).score_counts

    assert summed(scores) == {"due": 4, "scored": 2, "skipped": 0, "failed": 2}
    with pytest.raises(Unreconciled, match="2 scores due of j/recall, but 1 scored"):
        summed(scores[:-1])
    with pytest.raises(Unreconciled, match="2 scores due of j/sql, but 2 scored"):
        summed([*scores, fraction_row("a", "sql", 0.8, judge="j")])
    with pytest.raises(Unreconciled, match="2 scores due of j/sql, but 0 scored"):
        summed([])


def test_a_gate_of_other_families_is_counted_where_it_decided_something():
    cases = [case_row("a", gate="quality"), case_row("b", gate="all_judges"), case_row("c")]
    assert summary_of(cases).gates == {
        "expected_outcomes": 0,
        "overall_score": 1,
        "error": 0,
        "all_judges": 1,
        "quality": 1,
    }


@pytest.mark.row("002-58")
def test_a_case_to_which_no_judge_applies_does_not_enter_the_pass_rate():
    cases = [
        case_row("a", gate="all_judges"),
        case_row("b", None, status="skipped", gate=None, summary="SKIPPED (no sql expected)"),
    ]
    summary = summary_of(cases)
    assert (summary.pass_rate, summary.skipped_count, summary.total_executions) == (1.0, 1, 1)
    assert (summary.cases_pass_rate_pct, summary.cases_passed) == (100.0, True)


def test_without_weighted_metrics_coverage_is_that_of_all():
    scores = [fraction_row("a", "reward", 1.0)]
    assert summary_of([case_row("a")], scores).coverage == 1.0


@pytest.mark.row("005-05")
@pytest.mark.parametrize(
    ("cases", "limits", "sure"),
    [
        ([(True, 90.0), (False, 70.0), (None, None)], {}, True),
        ([(True, 90.0), (True, 90.0), (None, None)], {}, False),
        ([(True, 90.0), (False, 70.0), (None, None)], {"cases_pass_threshold": 60.0}, False),
        ([(True, 50.0), (None, None)], {"metrics_pass_threshold": 76.0}, True),
        ([(True, 50.0), (None, None)], {"metrics_pass_threshold": 75.0}, False),
        ([(None, None), (None, None)], {}, False),
    ],
)
def test_a_gate_is_surely_missed_where_no_missing_score_could_turn_it(cases, limits, sure):
    rows = [
        case_row(f"c{i}", passed, overall_score=score) for i, (passed, score) in enumerate(cases)
    ]
    summary = summary_of(rows, **limits)
    assert (summary.outcome, summary.surely_failed) == ("inconclusive", sure)


@pytest.mark.parametrize(("failed", "outcome"), [(1, "passed"), (2, "inconclusive")])
def test_a_run_is_inconclusive_under_its_coverage_floor_whatever_its_numbers(failed, outcome):
    cases = scored(*[100.0] * 20)
    scores = [score_row(f"c{i:05}", raw=None if i < failed else 5) for i in range(20)]
    summary = summary_of(cases, scores)
    assert (summary.metrics_passed, summary.cases_passed) == (True, True)
    assert (summary.min_coverage, summary.outcome) == (0.95, outcome)


def test_a_missed_gate_fails_the_run():
    assert summary_of(scored(100.0), min_coverage=0).outcome == "passed"
    assert summary_of(scored(50.0)).outcome == "failed"
    assert summary_of(outcomes(1, 1)).outcome == "failed"
    assert summary_of(outcomes(0, 2)).outcome == "failed"


@pytest.mark.row("004-95")
def test_gates_root_causes_and_failure_codes_are_counted():
    cases = [
        case_row("a", gate="expected_outcomes", root_cause="safety"),
        case_row("b", gate="expected_outcomes", root_cause="groundedness"),
        case_row("c", root_cause="groundedness"),
        case_row("d", None),
    ]
    scores = [
        score_row("a", "m2", failure_code="x"),
        score_row("b", "m1", failure_code="y"),
        score_row("c", "m1", failure_code="y"),
        score_row("c", "m1", part="aspect:1", failure_code="y"),
    ]
    summary = summary_of(cases, scores)
    assert summary.gates == {"expected_outcomes": 2, "overall_score": 1, "error": 1}
    assert list(summary.root_causes.items()) == [("groundedness", 2), ("safety", 1)]
    assert summary.failure_codes == (
        FailureCode(metric="m1", failure_code="y", count=2),
        FailureCode(metric="m2", failure_code="x", count=1),
    )


def test_what_is_counted_comes_the_most_frequent_first_and_ties_by_name():
    names = [*"hgfedcba", "z", "z"]
    cases = [case_row(f"c{i}", False, root_cause=name) for i, name in enumerate(names)]
    scores = [
        score_row(f"c{i}", f"m{i % 2}", failure_code=name, raw=0) for i, name in enumerate(names)
    ]
    scores.append(score_row("c9", "m0", failure_code="z", repetition=1, raw=0))
    summary = summary_of(cases, scores)
    assert list(summary.root_causes.items()) == [("z", 2), *((name, 1) for name in "abcdefgh")]
    assert [(one.count, one.metric, one.failure_code) for one in summary.failure_codes] == [
        (2, "m0", "z"),
        *((1, "m0", name) for name in "bdfh"),
        *((1, "m1", name) for name in "acegz"),
    ]


def test_a_failure_that_does_not_say_its_code_is_unknown():
    scores = [score_row("a", raw=None), score_row("a", "other", raw=None, details="{}")]
    assert summary_of([case_row("a")], scores).failures == {"timeout": 1, "unknown": 1}


def test_what_was_read_is_the_sum_of_what_became_of_it():
    cases = [*outcomes(5, 1, 2), skipped_row("s")]
    intake = {
        "read": 20,
        "duplicate": 1,
        "quarantined": 2,
        "unselected": 3,
        "reused": 4,
        "not_attempted": 5,
    }
    assert summary_of(cases, intake=intake).counts == {
        "read": 20,
        "judged": 2,
        "reused": 4,
        "quarantined": 2,
        "duplicate": 1,
        "errored": 2,
        "skipped": 4,
        "not_attempted": 5,
    }


@pytest.mark.parametrize(
    "intake", [{"read": 3}, {"read": 1}, {"read": 2, "reused": 3}, {"read": 2, "duplicate": 1}]
)
def test_counts_that_do_not_reconcile_are_an_error(intake):
    with pytest.raises(Unreconciled, match=r"do not reconcile: \d records read, but -?\d judged"):
        summary_of(outcomes(2), intake=intake)


def test_the_summary_reads_parquet_without_loading_it_first(tmp_path):
    frame("cases", outcomes(2)).write_parquet(tmp_path / "cases.parquet")
    frame("scores", [score_row("c00000")]).write_parquet(tmp_path / "scores.parquet")
    tables = [pl.scan_parquet(tmp_path / f"{name}.parquet") for name in ("cases", "scores")]
    summary = summarise(*tables, lazy("asks", []), config(), {"read": 2})
    assert (summary.passed_count, summary.coverage) == (2, 1.0)
