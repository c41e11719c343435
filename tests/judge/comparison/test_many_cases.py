"""Runs of more cases than a comparison lists: every count is exact, and no path gives other numbers."""

from __future__ import annotations

import random
from dataclasses import replace

import duckdb
import pytest

from assizes.judge.comparison.cases import MAX_LISTED
from assizes.judge.comparison.compare import RunComparison, compare
from assizes.judge.config.gates import ComparisonConfig
from tests.judge.run_frames import case_row, run_of, score_row


def many(count, passed, score, start=0, **rest):
    return [
        case_row(f"c{start + i:05d}", passed, overall_score=score, **rest) for i in range(count)
    ]


def both(before, after, before_scores=(), after_scores=(), **limits):
    return compare(
        run_of(before, before_scores, run_id="before"),
        run_of(after, after_scores, run_id="after"),
        ComparisonConfig(**limits),
    )


@pytest.fixture(scope="module")
def cut():
    """1,100 cases that fell by ten points, 30 of them from pass to fail; 1,050 unchanged; 5 better."""
    before = many(1070, True, 90.0) + many(30, True, 55.0, 1070)
    after = many(1070, True, 80.0) + many(30, False, 45.0, 1070)
    before += many(1050, True, 70.0, 2000) + many(5, False, 40.0, 4000)
    after += many(1050, True, 70.0, 2000) + many(5, True, 60.0, 4000)
    only = many(1200, True, 50.0, 6000)
    scores = [score_row("c01099", raw=4)], [score_row("c01099", raw=2)]
    return both([*before, *only], after, *scores)


def test_each_status_is_listed_up_to_a_limit_and_counted_in_full(cut):
    totals, counts = cut.aggregate, cut.case_counts
    assert (totals.total_regressions, totals.total_improvements, totals.total_unchanged) == (
        1100,
        5,
        1050,
    )
    assert (counts.matched, counts.listed) == (2155, len(cut.test_case_comparisons))
    listed = [case.status for case in cut.test_case_comparisons]
    assert [listed.count(one) for one in ("regression", "improvement", "unchanged", "error")] == [
        MAX_LISTED,
        5,
        MAX_LISTED,
        0,
    ]


def test_verdicts_that_turned_are_listed_before_moves_of_the_score(cut):
    flipped = [
        case.test_case_id
        for case in cut.test_case_comparisons
        if case.status == "regression" and case.baseline_passed != case.candidate_passed
    ]
    assert flipped == [f"c{1070 + i:05d}" for i in range(30)]
    assert (cut.case_counts.flipped_regressions, cut.case_counts.flipped_improvements) == (30, 5)


def test_large_moves_are_listed_before_small_ones_without_a_verdict():
    undecided = many(30, None, 60.0, status="judged")
    before = undecided + many(MAX_LISTED, True, 90.0, 2000)
    after = many(30, False, 54.0) + many(MAX_LISTED, True, 80.0, 2000)
    listed = both(before, after).test_case_comparisons
    assert (len(listed), listed[0].test_case_id) == (MAX_LISTED, "c02000")


def test_a_listed_case_has_its_metrics_and_the_others_none(cut):
    with_metrics = [case for case in cut.test_case_comparisons if case.metric_deltas]
    (case,) = with_metrics
    assert (case.test_case_id, case.metric_deltas[0].delta) == ("c01099", -2)


def test_cases_of_one_run_only_are_cut_and_counted_too(cut):
    assert len(cut.baseline_only_test_cases) == MAX_LISTED
    assert (cut.case_counts.baseline_only, cut.case_counts.candidate_only) == (1200, 0)
    assert "1200 only in the baseline" in " ".join(cut.warnings)


def test_a_cut_comparison_survives_json(cut):
    assert RunComparison.model_validate_json(cut.model_dump_json()) == cut


def rows_of(seed, cases=120, **rest):
    """Cases of nine metrics on levels 0..5 with weights of three decimals, as judges give them."""
    rng = random.Random(seed)
    weights = [0.25, 0.125, 0.175, 0.1, 0.075, 0.075, 0.05, 0.05, 0.1]
    found, scores = [], []
    for number in range(cases):
        levels = [rng.randrange(6) for _ in weights]
        points = round(
            sum(a * round(w * 1000) for a, w in zip(levels, weights, strict=True)) / 50, 2
        )
        case_id = f"c{number:05d}"
        found.append(case_row(case_id, points >= 50, overall_score=points, **rest))
        scores += [
            score_row(case_id, f"m{place}", level, weight=weight)
            for place, (level, weight) in enumerate(zip(levels, weights, strict=True))
        ]
    return found, scores


@pytest.fixture(scope="module")
def pair():
    return rows_of(1), rows_of(2)


def test_the_order_of_the_rows_changes_nothing(pair):
    (before, before_scores), (after, after_scores) = pair
    one = run_of(before, before_scores, run_id="before")
    other = run_of(after, after_scores, run_id="after")
    turned = replace(other, cases=in_disorder(other.cases), scores=in_disorder(other.scores))
    assert compare(one, turned, ComparisonConfig()) == compare(one, other, ComparisonConfig())


def in_disorder(rows):
    return rows.collect().sample(fraction=1.0, shuffle=True, seed=3).lazy()


def test_flags_are_those_of_whole_number_arithmetic_in_another_engine(pair):
    (before, before_scores), (after, after_scores) = pair
    totals = both(before, after, before_scores, after_scores).aggregate
    with duckdb.connect() as con:
        for name, scores in (("a", before_scores), ("b", after_scores)):
            con.execute(f"create table {name} (case_id text, value double, weight double)")
            con.executemany(
                f"insert into {name} values (?, ?, ?)",
                [(one["case_id"], one["value"], one["weight"]) for one in scores],
            )
        points = "select case_id, sum((value*5)::int * (weight*1000)::int)::bigint as p from {} group by 1"
        worse, better = con.execute(
            f"""
            select count(*) filter (case when (a.p >= 2500) != (b.p >= 2500) then a.p >= 2500
                                         else b.p - a.p < -250 end),
                   count(*) filter (case when (a.p >= 2500) != (b.p >= 2500) then b.p >= 2500
                                         else b.p - a.p > 250 end)
            from ({points.format("a")}) a join ({points.format("b")}) b using (case_id)
            """
        ).fetchone()
    assert (totals.total_regressions, totals.total_improvements) == (worse, better)


def test_cases_judged_once_are_compared_alike_beside_one_that_was_repeated(pair):
    (before, before_scores), (after, after_scores) = pair
    alone = both(before, after, before_scores, after_scores)
    twice = [case_row("z", True, overall_score=50.0, repetition=n) for n in range(2)]
    grouped = both([*before, *twice], [*after, *twice], before_scores, after_scores)
    assert grouped.test_case_comparisons[:-1] == alone.test_case_comparisons
    assert (
        grouped.aggregate.per_metric_aggregate_deltas == alone.aggregate.per_metric_aggregate_deltas
    )


def test_metrics_joined_case_by_case_average_as_those_in_one_order(pair):
    (before, before_scores), (after, after_scores) = pair
    straight = both(before, after, before_scores, after_scores)
    extra = case_row("zz", True, overall_score=50.0)
    joined = both([*before, extra], after, before_scores, after_scores)
    assert (
        joined.aggregate.per_metric_aggregate_deltas
        == straight.aggregate.per_metric_aggregate_deltas
    )


def test_intervals_of_lone_cases_are_those_of_clusters_of_one(pair):
    found, scores = pair[0]
    alone = run_of(found, scores).summary
    named = [{**row, "cluster": row["case_id"]} for row in found]
    grouped = run_of(named, scores).summary
    assert alone.intervals.keys() == grouped.intervals.keys()
    for name, interval in alone.intervals.items():
        other = grouped.intervals[name]
        assert (interval.cases, interval.clusters) == (other.cases, other.clusters) == (120, 120)
        if interval.method == "clustered_t":
            assert (interval.low, interval.high) == pytest.approx((other.low, other.high), abs=1e-8)


def test_rules_alone_give_the_same_numbers_as_beside_the_statistics(pair):
    (before, before_scores), (after, after_scores) = pair
    rules = both(before, after, before_scores, after_scores, mode="rules")
    beside = both(before, after, before_scores, after_scores)
    assert rules.aggregate == beside.aggregate
    assert rules.verdict.reasons == beside.verdict.reasons
