from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assizes.judge.comparison.compare import compare
from assizes.judge.config.gates import ComparisonConfig
from tests.drawn import examples
from tests.judge.run_frames import case_row, fraction_row, run_of, score_row

pytestmark = pytest.mark.promised  # takes seconds, too many for `make quick`

FEW = examples(40)


points = st.integers(0, 10_000).map(lambda cents: cents / 100)


executions = st.tuples(st.sampled_from([True, False, None]), points, st.floats(1, 1e5))


runs = st.dictionaries(st.integers(0, 9), st.lists(executions, min_size=1, max_size=3), max_size=8)


def rows_of(run):
    cases, scores = [], []
    for case_id, repeats in run.items():
        for i, (passed, score, ms) in enumerate(repeats):
            known = None if passed is None else score
            key = {"repetition": i}
            cases.append(
                case_row(str(case_id), passed, overall_score=known, agent_latency_ms=ms, **key)
            )
            scores.append(
                fraction_row(str(case_id), "m", score / 100, **key)
                if known is not None
                else score_row(str(case_id), "m", raw=None, **key)
            )
    return cases, scores


@FEW
@given(runs)
def test_a_run_compared_with_itself_is_unchanged(run):
    data = run_of(*rows_of(run))
    comparison = compare(data, data, ComparisonConfig())
    errored = {str(key) for key, repeats in run.items() if any(r[0] is None for r in repeats)}
    assert {one.status for one in comparison.test_case_comparisons} <= {"unchanged", "error"}
    assert comparison.aggregate.total_errors == len(errored)
    assert not comparison.verdict.regression_detected
    deltas = comparison.aggregate
    numbers = (deltas.pass_rate_delta, deltas.avg_score_delta, deltas.latency_avg_delta_ms)
    assert set(numbers) <= {0.0, None}
    for case in comparison.test_case_comparisons:
        assert {case.score_delta, case.latency_delta_ms} <= {0.0, None}
        assert {(one.delta, one.status) for one in case.metric_deltas} <= {(0.0, "unchanged")}


@FEW
@given(runs, runs)
def test_swapping_the_sides_mirrors_everything(one_run, other_run):
    one_side, other_side = run_of(*rows_of(one_run)), run_of(*rows_of(other_run))
    there = compare(one_side, other_side, ComparisonConfig())
    back = compare(other_side, one_side, ComparisonConfig())
    assert there.baseline_only_test_cases == back.candidate_only_test_cases
    assert there.candidate_only_test_cases == back.baseline_only_test_cases
    mirror = {"regression": "improvement", "improvement": "regression"}
    assert [mirror.get(case.status, case.status) for case in there.test_case_comparisons] == [
        case.status for case in back.test_case_comparisons
    ]
    ahead, behind = there.aggregate, back.aggregate
    assert ahead.total_regressions == behind.total_improvements
    assert ahead.total_improvements == behind.total_regressions
    for name in ("pass_rate_delta", "avg_score_delta", "latency_avg_delta_ms"):
        delta, mirrored = getattr(ahead, name), getattr(behind, name)
        assert delta == (None if mirrored is None else -mirrored)


@FEW
@given(runs, st.sets(st.integers(0, 9)))
def test_errors_of_the_judge_never_raise_the_pass_rate(run, errored):
    broken = {
        key: [(None, *rest) if key in errored else (passed, *rest) for passed, *rest in repeats]
        for key, repeats in run.items()
    }
    before = run_of(*rows_of(run))
    delta = compare(before, run_of(*rows_of(broken)), ComparisonConfig()).aggregate.pass_rate_delta
    assert delta is None or delta <= 0
