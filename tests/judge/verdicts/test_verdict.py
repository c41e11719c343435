"""The verdict: seed 000's weighted score and seed 001's gates, example by example."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assizes.judge.score import Metric, Scale, Score
from assizes.judge.verdicts.verdict import CaseVerdict, overall_score, points, verdict

W8 = {
    "tool_routing": 0.15,
    "parameter_extraction": 0.15,
    "result_interpretation": 0.15,
    "grounding_fidelity": 0.125,
    "instruction_compliance": 0.125,
    "information_gathering": 0.10,
    "conversation_management": 0.10,
    "response_delivery": 0.10,
}
ROUTING = {"tool_routing": 1.0}
COMPLETION = Metric("task_completion", Scale.BINARY)


def levelled(levels):
    return [
        Score.of(Metric(name, Scale.SCORED), level) for name, level in zip(W8, levels, strict=True)
    ]


def scored(name, level):
    return Score.of(Metric(name, Scale.SCORED), level)


def completed(passed):
    return Score.of(COMPLETION, 5 if passed else 0, passed=passed)


def checklist(*held):
    headline = Score("expected_outcomes", value=sum(map(bool, held)) / len(held), passed=all(held))
    parts = [
        Score("expected_outcomes", part=f"outcome:{i}", value=float(bool(one)), passed=one)
        for i, one in enumerate(held)
    ]
    return [headline, *parts]


def held(scores, weights=W8, threshold=75.0):
    return verdict(scores, weights, threshold)


@pytest.mark.row("000-01", "000-02", "000-03", "000-04", "001-01", "001-03")
@pytest.mark.parametrize(
    ("levels", "score"),
    [
        ([5] * 8, 100.0),
        ([3] * 8, 60.0),
        ([0] * 8, 0.0),
        ([5, 4, 5, 4, 5, 4, 4, 4], 88.5),
        ([0, 5, 5, 5, 5, 5, 5, 5], 85.0),
        ([0, 0, 5, 5, 5, 5, 5, 5], 70.0),
        ([4, 4, 4, 4, 3, 4, 3, 4], 75.5),
    ],
)
def test_the_overall_score_is_the_weighted_sum_of_the_levels(levels, score):
    assert points(overall_score(dict(zip(W8, levels, strict=True)), W8)) == score
    assert held(levelled(levels)).overall_score == score


@pytest.mark.row("000-33", "001-03")
@pytest.mark.parametrize(("passed", "points"), [(True, 86.67), (False, 53.33)])
def test_pass_and_fail_enter_the_sum_as_5_and_0(passed, points):
    weights = {"tool_routing": 1.0, "task_completion": 0.5}
    assert held([scored("tool_routing", 4), completed(passed)], weights).overall_score == points


@pytest.mark.row("000-39", "000-40")
@pytest.mark.parametrize(
    ("weights", "levels", "score"),
    [
        ({"tool_routing": 0.15, "response_delivery": 0.10}, (5, 2), 76.0),
        ({"tool_routing": 0.6, "response_delivery": 0.4}, (5, 2), 76.0),
        ({"tool_routing": 2.0, "response_delivery": 2.0}, (5, 3), 80.0),
    ],
)
def test_weights_of_any_size_are_normalised(weights, levels, score):
    assert points(overall_score(dict(zip(weights, levels, strict=True)), weights)) == score


@pytest.mark.row("000-03", "000-04", "000-05")
@pytest.mark.parametrize(
    ("levels", "threshold", "passed"),
    [
        ([0, 5, 5, 5, 5, 5, 5, 5], 75.0, True),
        ([0, 0, 5, 5, 5, 5, 5, 5], 75.0, False),
        ([4, 4, 4, 4, 3, 4, 3, 4], 75.5, True),
        ([4, 4, 4, 4, 3, 4, 3, 4], 75.51, False),
    ],
)
def test_the_score_gate_is_inclusive(levels, threshold, passed):
    found = held(levelled(levels), threshold=threshold)
    assert (found.passed, found.score_passed, found.gate) == (passed, passed, "overall_score")


@pytest.mark.row("000-05", "001-15")
@pytest.mark.parametrize(("share", "passed"), [(0.75, True), (0.7499, False)])
def test_75_passes_at_75_and_74_99_does_not(share, passed):
    found = held([Score("tool_routing", value=share)], ROUTING)
    assert (found.overall_score, found.passed) == (round(share * 100, 2), passed)


@pytest.mark.row("001-02")
def test_float_noise_does_not_fail_a_case():
    weights = {"tool_routing": 0.1, "response_delivery": 0.3}
    found = held([scored("tool_routing", 0), scored("response_delivery", 5)], weights)
    assert (found.overall_score, found.passed) == (75.0, True)


@pytest.mark.row("005-04")
@pytest.mark.parametrize(
    ("weight", "passed", "words"),
    [
        (0.74996, False, "FAILED (score 74.996, needs 75.0)"),
        (0.75004, True, "PASSED (score 75.0, needs 75.0)"),
    ],
)
def test_the_gate_takes_the_score_before_it_is_rounded(weight, passed, words):
    weights = {"tool_routing": weight, "response_delivery": 1 - weight}
    found = held([scored("tool_routing", 5), scored("response_delivery", 0)], weights)
    assert (found.overall_score, found.passed, found.score_passed) == (75.0, passed, passed)
    assert found.summary.split(", weakest")[0] == words


def test_a_threshold_counts_to_nine_decimals():
    found = [held([scored("tool_routing", 4)], ROUTING, 80 + off) for off in (4e-10, 6e-10)]
    assert [one.passed for one in found] == [True, False]


@pytest.mark.parametrize(("raw", "points"), [(4.0, 80.0), (0.0, 0.0)])
def test_a_level_without_a_share_of_its_scale_counts_as_it_is(raw, points):
    assert held([Score("tool_routing", raw=raw)], ROUTING).overall_score == points


@pytest.mark.row("001-11")
def test_a_level_of_0_does_not_fail_a_case_by_itself():
    scores = levelled([0, 5, 5, 5, 5, 5, 5, 5])
    found = held(scores)
    assert scores[0].label == "critical_fail"
    assert (found.overall_score, found.passed) == (85.0, True)


@pytest.mark.row("001-12")
def test_a_failed_binary_metric_does_not_fail_a_case_by_itself():
    weights = {"tool_routing": 4.0, "task_completion": 1.0}
    found = held([scored("tool_routing", 5), completed(False)], weights)
    assert found.overall_score == 80.0
    assert (found.passed, found.gate) == (True, "overall_score")
    assert found.summary == ("PASSED (score 80.0, needs 75.0), failed task_completion")


@pytest.mark.row("001-13", "001-28", "001-77")
def test_a_case_whose_outcomes_all_hold_passes_with_any_score():
    found = held([Score("tool_routing", value=0.1), *checklist(True, True)], ROUTING)
    assert found == CaseVerdict(
        overall_score=10.0,
        score_passed=False,
        passed=True,
        gate="expected_outcomes",
        status="judged",
        error=None,
        root_cause=None,
        summary="PASSED (2 of 2 expected outcomes), score 10.0, weakest tool_routing 0.5/5",
    )


@pytest.mark.row("001-14", "001-77")
def test_one_outcome_that_does_not_hold_fails_a_perfect_score():
    found = held([*levelled([5] * 8), *checklist(True, False)])
    assert (found.overall_score, found.score_passed) == (100.0, True)
    assert (found.passed, found.gate) == (False, "expected_outcomes")
    assert found.summary == "FAILED (1 of 2 expected outcomes), score 100.0"


@pytest.mark.row("001-15")
def test_the_score_decides_where_no_outcomes_are_defined():
    skipped = Score.skipped("expected_outcomes", "no expected outcomes defined")
    found = held([Score("tool_routing", value=0.75), skipped], ROUTING)
    assert (found.passed, found.gate) == (True, "overall_score")


@pytest.mark.row("001-16")
@pytest.mark.parametrize(("level", "passed"), [(4, True), (3, False)])
def test_the_score_decides_where_the_judge_produced_no_outcome(level, passed):
    none = Score.failed("expected_outcomes", "none evaluated", "no_outcomes")
    found = held([scored("tool_routing", level), none], ROUTING)
    assert (found.passed, found.gate, found.status) == (passed, "overall_score", "judged")


@pytest.mark.row("005-01")
def test_the_summary_says_that_the_score_decides_in_place_of_a_checklist():
    none = Score.failed("expected_outcomes", "none evaluated", "no_outcomes")
    found = held([scored("tool_routing", 3), none], ROUTING)
    words = "score 60.0, needs 75.0, as no expected outcome could be read"
    assert found.summary == f"FAILED ({words})"


@pytest.mark.row("001-16")
def test_a_checklist_without_entries_never_passes_a_case():
    found = held([scored("tool_routing", 1), Score("expected_outcomes", value=1.0)], ROUTING)
    assert (found.passed, found.gate) == (False, "overall_score")


@pytest.mark.row("001-17")
def test_an_outcome_that_was_not_evaluated_has_not_passed():
    failed = Score.failed("expected_outcomes", "not evaluated", "missing", part="outcome:2")
    found = held([scored("tool_routing", 5), *checklist(True, True), failed], ROUTING)
    assert (found.passed, found.gate) == (False, "expected_outcomes")


@pytest.mark.row("001-20")
def test_outcomes_do_not_enter_the_score():
    both = [held([*levelled([4] * 8), *checklist(one)]).overall_score for one in (True, False)]
    assert both == [80.0, 80.0]


@pytest.mark.row("001-25")
def test_the_threshold_is_only_a_fallback():
    scores = [Score("tool_routing", value=0.5), *checklist(True, True)]
    assert held(scores, ROUTING, threshold=90.0).passed is True


@pytest.mark.row("001-26")
@pytest.mark.parametrize(("threshold", "passed"), [(90.0, False), (50.0, True)])
def test_a_threshold_may_be_strict_or_lenient(threshold, passed):
    assert held([scored("tool_routing", 4)], ROUTING, threshold).passed is passed


@pytest.mark.row("001-52")
def test_a_metric_that_could_not_be_had_makes_the_case_errored_and_leaves_it_without_score():
    scores = [
        *levelled([5] * 8)[:6],
        Score.failed("conversation_management", "no answer in 120 s", "timeout"),
        Score.failed("response_delivery", "no answer in 120 s", "timeout"),
        *checklist(True, True),
    ]
    error = "timeout: conversation_management, response_delivery (no answer in 120 s)"
    assert held(scores) == CaseVerdict(
        overall_score=None,
        score_passed=None,
        passed=False,
        gate="error",
        status="errored",
        error=error,
        root_cause=None,
        summary=f"ERROR ({error})",
    )


def test_a_weighted_metric_that_nobody_scored_makes_the_case_errored():
    found = held([scored("response_delivery", 5)], {"tool_routing": 1.0})
    assert (found.status, found.error) == (
        "errored",
        "missing_score: tool_routing (no judge scored it)",
    )


def test_a_checklist_that_could_not_be_had_makes_the_case_errored():
    failed = Score.failed("expected_outcomes", "no\nanswer", "timeout")
    found = held([scored("tool_routing", 5), failed], ROUTING)
    assert (found.status, found.passed) == ("errored", False)
    assert found.error == "timeout: expected_outcomes (no answer)"


def test_a_failed_metric_without_weight_does_not_touch_the_verdict():
    found = held([scored("tool_routing", 5), Score.failed("other", "gone", "timeout")], ROUTING)
    assert (found.status, found.overall_score, found.passed) == ("judged", 100.0, True)


@pytest.mark.parametrize("weights", [ROUTING, {}])
def test_a_case_to_which_nothing_applies_is_skipped(weights):
    found = held([Score.skipped("tool_routing", "status is 'running'")], weights)
    assert found == CaseVerdict(
        None, None, None, None, "skipped", None, None, "SKIPPED (status is 'running')"
    )


def test_a_case_without_any_score_is_skipped():
    assert held([], {}).summary == "SKIPPED (nothing was judged)"


def test_outcomes_decide_a_case_to_which_no_weighted_metric_applies():
    skipped = Score.skipped("tool_routing", "no tools")
    found = held([skipped, *checklist(True)], ROUTING)
    assert (found.overall_score, found.passed, found.gate) == (None, True, "expected_outcomes")
    assert found.summary == "PASSED (1 of 1 expected outcomes)"


def test_weights_are_shared_among_the_metrics_that_apply():
    skipped = Score.skipped("response_delivery", "no text")
    weights = {"tool_routing": 1.0, "response_delivery": 3.0}
    assert held([scored("tool_routing", 4), skipped], weights).overall_score == 80.0


def test_unweighted_findings_alone_decide_nothing():
    found = held([Score("other", value=0.3)], {})
    assert (found.status, found.passed, found.gate) == ("judged", None, None)
    assert found.summary == "NOT DECIDED (no weighted score)"


@pytest.mark.row("001-77")
def test_the_summary_names_the_weakest_the_strongest_and_each_failed_binary_metric():
    weights = {"tool_routing": 1.0, "grounding_fidelity": 1.0, "task_completion": 1.0}
    scores = [scored("tool_routing", 2), scored("grounding_fidelity", 4), completed(False)]
    assert held(scores, weights).summary == (
        "FAILED (score 40.0, needs 75.0), weakest tool_routing 2/5, "
        "strongest grounding_fidelity 4/5, failed task_completion"
    )


def test_the_summary_of_middling_levels_names_no_metric():
    assert held(levelled([3] * 8)).summary == "FAILED (score 60.0, needs 75.0)"


@pytest.mark.parametrize(
    ("levels", "weights", "complaint"),
    [
        ({}, {"a": 1.0}, "no score for a: weights are never shared out anew"),
        ({}, {"b": 1.0, "a": 1.0}, "no score for a, b: weights are never shared out anew"),
        ({"a": 5.0}, {"a": 0.0}, "weights sum to 0.0, a positive sum is needed: {'a': 0.0}"),
    ],
)
def test_an_overall_score_without_its_parts_is_refused(levels, weights, complaint):
    with pytest.raises(ValueError, match="^" + complaint.replace("{", r"\{")):
        overall_score(levels, weights)


@given(
    st.dictionaries(
        st.text(min_size=1),
        st.tuples(st.integers(0, 5), st.floats(0.001, 1000)),
        min_size=1,
        max_size=12,
    ),
    st.floats(0.01, 100),
)
def test_the_overall_score_stays_in_range_and_does_not_depend_on_the_size_of_the_weights(
    drawn, factor
):
    levels = {name: float(level) for name, (level, _) in drawn.items()}
    weights = {name: weight for name, (_, weight) in drawn.items()}
    score = overall_score(levels, weights)
    assert min(levels.values()) * 20 - 0.01 <= score <= max(levels.values()) * 20 + 0.01
    larger = {name: weight * factor for name, weight in weights.items()}
    assert math.isclose(overall_score(levels, larger), score, abs_tol=0.01)
