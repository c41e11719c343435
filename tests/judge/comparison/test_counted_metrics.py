"""Counting the values of a metric gives the same averages as joining the cases one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assizes.judge.comparison.compare import compare
from assizes.judge.comparison.metrics import counted_metrics, metric_names
from assizes.judge.config.gates import ComparisonConfig
from tests.drawn import examples
from tests.judge.run_frames import case_row, fraction_row, run_of, score_row

CASES = 14
METRICS = {"level": range(6), "share": (0.0, 0.25, 1.0), "binary": (True, False)}


def row(case_id, metric, given):
    if given == "skipped":
        return score_row(case_id, metric, None, status="skipped", details="{}")
    if given == "failed":
        return score_row(case_id, metric, None)
    if metric == "share":
        return fraction_row(case_id, metric, given)
    if metric == "binary":
        word = "pass" if given else "fail"
        return score_row(
            case_id, metric, float(given), value=float(given), label=word, passed=given
        )
    return score_row(case_id, metric, given)


def given_for(metric):
    return st.lists(
        st.sampled_from([*METRICS[metric], "failed", "skipped"]), min_size=CASES, max_size=CASES
    )


sides = st.fixed_dictionaries({metric: given_for(metric) for metric in METRICS})


def rows_of(side):
    return [
        row(f"c{number:02d}", metric, side[metric][number])
        for number in range(CASES)
        for metric in METRICS
    ]


def run(scores, name):
    cases = [
        case_row(f"c{number:02d}", number % 3 > 0, overall_score=50.0) for number in range(CASES)
    ]
    return run_of(cases, scores, run_id=name)


def counted(before, after, **rest):
    names = metric_names((before.summary, after.summary))
    return counted_metrics((before.scores, after.scores), names, **rest)


@pytest.mark.promised
@examples(60)
@given(sides, sides)
def test_counts_and_joined_cases_come_to_the_same_comparison(one, other):
    before, after = run(rows_of(one), "before"), run(rows_of(other), "after")
    turned = replace(after, scores=after.scores.reverse())
    assert counted(before, after) is not None
    assert counted(before, turned) is None
    for mode in ("rules", "both"):
        limits = ComparisonConfig(mode=mode)
        assert compare(before, after, limits) == compare(before, turned, limits)


@pytest.mark.promised
@examples(20)
@given(sides, sides, st.integers(1, 50))
def test_blocks_of_any_size_come_to_the_same_counts(one, other, block):
    before, after = run(rows_of(one), "before"), run(rows_of(other), "after")
    whole, pieces = counted(before, after), counted(before, after, block=block)
    assert [metric.name for metric in whole] == [metric.name for metric in pieces]
    for metric, same in zip(whole, pieces, strict=True):
        assert metric.rows.rows() == same.rows.rows()


def test_a_case_that_one_side_gave_another_metric_is_joined():
    before = run([score_row("c00", "level", 3), score_row("c01", "level", 3)], "before")
    after = run([score_row("c00", "level", 3), score_row("c01", "other", 3)], "after")
    assert counted(before, after) is None


def test_rows_that_cannot_be_had_block_by_block_are_counted_only_in_one():
    one = run([score_row(f"c{number:02d}", "level", 3) for number in range(CASES)], "before")
    assert counted(one, one, block=CASES, sliceable=False) is not None
    assert counted(one, one, block=CASES - 1, sliceable=False) is None
    assert counted(one, one, block=CASES - 1) is not None


def test_parts_of_a_metric_do_not_count():
    parts = [score_row("c00", "level", 1, part="step 1"), score_row("c01", "level", 3)]
    before = run([score_row("c00", "level", 3), *parts], "before")
    after = run([score_row("c00", "level", 3), *parts[::-1]], "after")
    (metric,) = counted(before, after)
    assert metric.rows["cases"].to_list() == [2]
