"""The visualization judge."""

from __future__ import annotations

from typing import Any

import pytest

from assizes.judge.case import Case
from assizes.judge.families.agent_steps.single_steps import CONFLICT, VisualizationEvidence
from tests.builders import agent, call, case, result, user
from tests.judge.families.agent_steps.step_cases import (
    answered,
    asked,
    decided,
    expecting,
    golden,
    opened,
)


def drawn(*kinds: str | None, failed: bool = False, **expected: Any) -> Case:
    """A case with one chart call for each kind; `None`: a call that names no kind."""
    calls = [
        call("create_chart", f"call_{i}", **({"chart_type": kind} if kind else {}))
        for i, kind in enumerate(kinds)
    ]
    results = [result("done", call_id=one.id, is_error=failed) for one in calls]
    turns = (user("Show sales by month"), agent(calls=calls), *results, agent("Here."))
    return case(*turns, expected=expecting(**expected))


@pytest.mark.row("002-39", "002-40", "002-02")
@pytest.mark.parametrize("said", [False, "false", "null", " NULL "])
@pytest.mark.parametrize(("kinds", "value"), [((), 1.0), (("bar",), 0.0)], ids=str)
def test_no_chart_where_none_is_wanted_is_decided_without_a_model(said, kinds, value):
    found = decided("visualization", drawn(*kinds, has_chart=said))
    assert (found.value, found.passed) == (value, value == 1)
    assert found.details["expected_has_chart"] is False
    assert "warnings" not in found.details


@pytest.mark.row("002-43")
@pytest.mark.parametrize("expected", [{"has_chart": True}, {"chart_type": "bar"}], ids=str)
def test_a_chart_that_was_not_made_is_a_zero_without_a_question(expected):
    found = decided("visualization", drawn(**expected))
    assert (found.value, found.passed) == (0.0, False)
    assert found.details["reasoning"] == ("no chart: one expected, but no call is seen to do that")


@pytest.mark.row("002-44")
@pytest.mark.parametrize(("kinds", "value"), [((), 1.0), (("bar",), 0.0)], ids=str)
def test_no_chart_wins_over_a_kind_of_chart_with_a_warning(kinds, value):
    found = decided("visualization", drawn(*kinds, has_chart=False, chart_type="bar"))
    assert found.value == value
    assert found.details["warnings"] == [CONFLICT]


def test_a_kind_that_is_null_means_no_chart():
    assert decided("visualization", drawn(chart_type="null")).value == 1.0


@pytest.mark.row("002-36")
@pytest.mark.parametrize("blank", ["", " ", "\n"])
def test_blank_texts_are_no_expectation(blank):
    for expected in ({"has_chart": blank}, {"chart_type": blank}):
        assert decided("visualization", drawn("bar", **expected)).status == "skipped"
    assert decided("visualization", drawn(has_chart=blank, chart_type="bar")).value == 0.0
    refused = decided("visualization", drawn(has_chart=False, chart_type=blank))
    assert (refused.value, "warnings" in refused.details) == (1.0, False)


def test_another_word_for_has_chart_fails_the_judge():
    found = decided("visualization", drawn("bar", has_chart="maybe"))
    assert found.status == "failed"
    assert found.reason == "expected: has_chart is 'maybe', wanted true, false or 'null'"


@pytest.mark.row("002-36", "002-41", "002-42")
@pytest.mark.parametrize(
    ("expected", "kind"),
    [
        ({"chart_type": "bar"}, "bar"),
        ({"has_chart": True}, "any"),
        ({"has_chart": "true", "chart_type": "pie"}, "pie"),
    ],
    ids=str,
)
def test_a_kind_alone_implies_a_chart_and_no_kind_means_any(expected, kind):
    one = drawn("bar", **expected)
    assert f"<data: Expected kind of chart>\n{kind}\n</data>" in (
        asked("visualization", one).prompt.user
    )
    found = answered(opened("visualization", one), appropriateness=1, chart_type=1)
    details = found[""].details
    assert (details["expected_has_chart"], details["expected_chart_type"]) == (True, kind)
    assert (details["extracted_has_chart"], details["extracted_chart_type"]) == (True, "bar")


@pytest.mark.row("002-37", "002-38", "002-12")
@pytest.mark.parametrize(
    ("appropriateness", "chart_type", "value", "passed"),
    [(1.0, 0.4, 0.7, True), (1.0, 0.3, 0.65, False)],
)
def test_the_score_is_the_mean_of_its_sub_scores(appropriateness, chart_type, value, passed):
    hearing = opened("visualization", drawn("bar", has_chart=True))
    found = answered(hearing, appropriateness=appropriateness, chart_type=chart_type)
    assert (found[""].value, found[""].passed) == (value, passed)
    assert list(found) == ["", "appropriateness", "chart_type"]


@pytest.mark.parametrize(
    ("one", "made", "as_expected"),
    [
        (drawn("Bar Chart", chart_type="bar"), ("Bar Chart",), True),
        (drawn("line", None, chart_type="bar"), ("line", None), False),
        (drawn("line", has_chart=True), ("line",), None),
        (drawn("bar", chart_type="bar", failed=True), (), False),
    ],
)
def test_the_kinds_made_without_an_error_are_compared(one, made, as_expected):
    found = asked("visualization", one).evidence
    assert isinstance(found, VisualizationEvidence)
    assert (found.chart_types, found.as_expected) == (made, as_expected)


@pytest.mark.row("002-53")
def test_other_tools_may_make_charts():
    assert decided("visualization", drawn("bar", has_chart=False), tools=["plot"]).value == 1.0
    found = decided("visualization", drawn("bar", has_chart=True), tools=["plot"])
    assert found.details["reasoning"].endswith("none of plot was called (not at create_chart)")


@pytest.mark.row("005-10")
@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ({"chart_type": "line"}, "drawn"),
        ({"kind": "line", "metric": "sales"}, "ok"),
        ({"spec": {"mark": "line"}}, "ok"),
        ({"x": "month", "y": "sales"}, "ok"),
        ({"xAxis": ["May", "June"], "yAxis": [3, 4]}, "ok"),
        ({"data": [3, 4]}, "https://charts.example.org/7.png"),
    ],
    ids=str,
)
def test_a_tool_that_is_seen_to_make_charts_is_judged_and_named_in_the_reason(arguments, answer):
    turns = (user("Sales?"), agent(calls=[call("render_plot", "1", **arguments)]),
             result(answer, call_id="1"), agent("Here."))  # fmt: skip
    hearing = opened("visualization", case(*turns, expected=expecting(has_chart=True)))
    found = answered(hearing, appropriateness=1, chart_type=1)[""]
    assert found.details["reasoning"] == (
        "Appropriateness: 1.00, Chart Type: 1.00 (looked at render_plot)"
    )
    banned = decided("visualization", case(*turns, expected=expecting(has_chart=False)))
    assert banned.value == 0.0


@pytest.mark.parametrize(
    ("one", "scores", "why"),
    [
        (drawn("pie", chart_type="bar"), (1, 1), "chart_type is 1, but the evidence counts 0"),
        (drawn("bar", chart_type="bar"), (1, 0), "chart_type is 0, but the evidence counts 1"),
        (drawn("bar", chart_type="bar"), (0, 1), None),
        (drawn("bar", has_chart=True), (0, 0), None),
        (
            drawn("bar", has_chart=True, failed=True),
            (1, 0),
            "appropriateness is 1, but the evidence counts 0",
        ),
    ],
)
def test_a_score_that_the_charts_contradict_is_suspect(one, scores, why):
    hearing = opened("visualization", one)
    found = answered(hearing, appropriateness=scores[0], chart_type=scores[1])[""]
    assert found.details.get("suspect") == why


@pytest.mark.row("002-15", "002-42")
def test_the_whole_prompt_is_as_on_record():
    one = drawn("line", None, chart_type="bar")
    shown, recorded = golden("visualization", asked("visualization", one))
    assert shown == recorded


def test_a_chart_of_no_kind_that_failed_is_said():
    shown = asked("visualization", drawn("bar", has_chart=True, failed=True)).prompt.user
    assert "none without an error; the expected one among them: any kind will do" in shown
    assert "  result (failed): done" in shown
