"""Statistics with too few data give no answer, and the other results are still computed."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from assizes.judge.comparison import metrics as counting
from assizes.judge.comparison.compare import compare
from assizes.judge.comparison.metrics import counted_metrics, metric_names
from assizes.judge.comparison.runs import case_labels, case_table
from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.statistics.effects import combined_word
from assizes.judge.statistics.intervals import (
    CountedSample,
    Sample,
    mean_interval,
    quantile_interval,
    rate_interval,
)
from tests.judge.run_frames import case_row, fraction_row, lazy, run_of, score_row, summary_of

WORDS = ("regressed", "not_worse", "inconclusive", "improved")


def test_there_is_no_interval_without_values_or_within_one_cluster():
    none, single = Sample.of([]), Sample.of([0.0, 0.5, 1.0], "aaa")
    assert (rate_interval(none), quantile_interval(none, 0.5)) == (None, None)
    assert (rate_interval(single), quantile_interval(single, 0.5), mean_interval(single)) == (
        None,
        None,
        None,
    )
    assert mean_interval(Sample.of([1.0])) is None


def test_one_value_that_is_counted_has_no_error_that_anybody_knows():
    assert CountedSample(np.array([3.0]), np.array([1.0])).error == float("inf")
    assert CountedSample(np.array([3.0]), np.array([2.0])).error == 0.0


@pytest.mark.parametrize(("point", "worst", "best"), list(product(WORDS, repeat=3)))
def test_no_word_is_given_that_another_filling_would_contradict(point, worst, best):
    word = combined_word(point, worst, best)
    if point == worst == best:
        assert word == point
    elif "regressed" in (point, worst, best) or "inconclusive" in (point, worst, best):
        assert word == "inconclusive"
    else:
        assert word == "not_worse"


def run(rows, scores=(), name="before"):
    return run_of(list(rows), list(scores), run_id=name)


def comparison_of(before, after, **limits):
    return compare(before, after, ComparisonConfig(**limits)).verdict.statistics


def mixed(name, **kinds):
    """Cases without clusters, with the given number of cases of each kind."""
    return [
        case_row(f"{name}-{kind}-{n}", n % 2 == 0, overall_score=80.0, agent_version=kind)
        for kind, count in kinds.items()
        for n in range(count)
    ]


def test_a_kind_of_case_that_is_too_rare_to_stand_alone_stands_with_the_others():
    before = run(mixed("a", wide=40, small=12, rare=1))
    after = run(mixed("b", wide=40, small=12), name="after")
    comparison = comparison_of(before, after, mix_by="agent_version")
    assert comparison.mix[0].strata == 2
    with_third = comparison_of(
        run(mixed("a", wide=40, small=12, rare=2)),
        run(mixed("b", wide=40, small=12, rare=2), name="after"),
        mix_by="agent_version",
    )
    assert with_third.mix[0].strata == 3


def test_a_label_that_no_case_has_is_null_for_all():
    table = case_table(lazy("cases", [case_row("a"), case_row("b")])).cases
    assert case_labels(table, "region")["label"].to_list() == [None, None]


def test_a_failure_code_in_a_few_clusters_says_nothing():
    def side(name, clusters):
        cases = [case_row(f"c{n:02}", cluster=f"u{n % clusters}") for n in range(40)]
        code = "wrong_tool" if name == "after" else None
        scores = [score_row(f"c{n:02}", failure_code=code) for n in range(40)]
        return run(cases, scores, name)

    def codes(clusters):
        comparison = comparison_of(side("before", clusters), side("after", clusters))
        return [row.name for row in comparison.exploratory if row.kind == "failure_code"]

    assert codes(40) == ["wrong_tool"]
    assert codes(5) == []


def test_a_gating_metric_that_one_run_never_scored_is_no_measure_of_that_run():
    cases = [case_row(f"c{n:02}", overall_score=80.0) for n in range(20)]
    before = run(cases, [score_row(f"c{n:02}") for n in range(20)])
    after = run(cases, [score_row(f"c{n:02}", raw=None) for n in range(20)], "after")
    comparison = comparison_of(before, after, gating=["pass_rate", "tool_routing"])
    assert [row.measure for row in comparison.metrics] == ["pass_rate"]


def shares(name, values):
    cases = [case_row(f"c{n:02}") for n in range(len(values))]
    scores = [
        score_row(f"c{n:02}", "reward", None)
        if value is None
        else fraction_row(f"c{n:02}", "reward", value)
        for n, value in enumerate(values)
    ]
    return run(cases, scores, name)


def test_values_that_are_too_many_to_count_are_joined_case_by_case(monkeypatch):
    sides = shares("before", [0.1, 0.2, 0.3]), shares("after", [0.2, 0.3, 0.5])
    scores = (sides[0].scores, sides[1].scores)
    names = metric_names(side.summary for side in sides)
    (metric,) = counted_metrics(scores, names)
    assert metric.rows.height == 3
    before = compare(*sides, ComparisonConfig()).aggregate.per_metric_aggregate_deltas
    monkeypatch.setattr(counting, "MAX_PAIRS", 2)
    assert counted_metrics(scores, names) is None
    assert compare(*sides, ComparisonConfig()).aggregate.per_metric_aggregate_deltas == before


@pytest.mark.parametrize(
    ("before", "after", "averages"),
    [
        ([None, None], [None, None], []),
        ([0.5, 1.0], [None, None], [(0.75, None, None)]),
        ([None, None], [0.5, 1.0], [(None, 0.75, None)]),
    ],
)
def test_a_metric_that_one_run_never_scored_has_no_average_there(before, after, averages):
    comparison = compare(shares("before", before), shares("after", after), ComparisonConfig())
    assert [
        (delta.baseline_avg, delta.candidate_avg, delta.delta)
        for delta in comparison.aggregate.per_metric_aggregate_deltas
        if delta.metric == "reward"
    ] == averages


def test_a_metric_that_was_tried_once_a_case_has_no_pass_hat_k_though_the_cases_were_repeated():
    cases = [case_row("c0", repetition=n) for n in range(2)]
    once = [fraction_row("c0", "reward", 1.0, passed=True)]
    summary = summary_of(cases, once)
    assert set(summary.pass_hat_k) == {"pass^1", "pass^2"}
    assert not [name for name in summary.intervals if name.startswith("reward/")]


def test_a_run_that_errored_throughout_is_no_evidence_against_other_cases():
    before = run(mixed("a", wide=40))
    after = run([case_row(f"b{n:02}", None) for n in range(40)], name="after")
    comparison = comparison_of(before, after, gating=["overall_score"])
    assert comparison.verdict == "inconclusive"
    assert [row.verdict for row in comparison.metrics] in ([], ["inconclusive"])
