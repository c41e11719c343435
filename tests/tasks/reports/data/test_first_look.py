"""The data of the first screen: what got worse, how sure that is, and the failure code behind it."""

from __future__ import annotations

from typing import Any

import pytest

from assizes.judge.config.gates import ComparisonConfig
from assizes.tasks.reports.data.first_look import without_blame
from tests.tasks.reports.sample import Run, Said, compared, run


def night(name: str, bad: int, cases: int = 20, **tables: Any) -> Run:
    """A run of which the first `bad` cases fail."""
    said = [
        Said(f"c{n:02}", (1, 4), done=False, why=f"Case {n} called the wrong tool.")
        if n < bad
        else Said(f"c{n:02}", (5, 4))
        for n in range(cases)
    ]
    return run(said, run_id=name, **tables)


def fallen(**tables: Any) -> dict[str, Any]:
    return compared(night("before", 2), night("after", 12, **tables))


def test_each_change_has_its_interval_its_limit_and_what_it_means():
    rate, score, latency = fallen()["first_look"]["changes"]
    assert (rate["name"], rate["baseline"], rate["candidate"]) == ("pass rate", "90.0 %", "40.0 %")
    assert (rate["change"], rate["limit"]) == ("\u221250.0 points", "may drop by 0 points")
    assert rate["low"] < rate["high"] < 0
    assert rate["span"] == f"\u2212{-rate['low']:.1f} to \u2212{-rate['high']:.1f}"
    assert [item["worse"] for item in (rate, score, latency)] == [True, True, False]
    assert (latency["word"], latency["span"]) == ("within its limit", None)


def test_the_reasons_leave_out_what_the_changes_show():
    data = fallen()
    assert any(reason.startswith("pass rate fell") for reason in data["verdict"]["reasons"])
    assert data["first_look"]["reasons"] == [
        "metrics gate: 56.00, needs 80 of 100",
        "cases gate: 40.0 %, needs 100 %",
    ]


def test_how_sure_it_is_stands_in_a_sentence():
    assert fallen()["first_look"]["sure"] == (
        "With 95 % confidence the agent got worse; chance does not explain it."
    )


def test_too_few_cases_are_the_reason_that_nobody_can_be_sure():
    first = compared(night("before", 0, cases=3), night("after", 1, cases=3))["first_look"]
    assert first["sure"] == (
        "The data cannot tell whether the agent got worse: too few independent cases: 3, and a "
        "verdict takes 10."
    )


def test_limits_alone_are_said_to_be_no_measure_of_sureness():
    rules = {"comparison": ComparisonConfig(mode="rules").model_dump()}
    first = compared(night("before", 2, **rules), night("after", 12, **rules))["first_look"]
    assert first["changes"][0]["worse"]
    assert first["changes"][0]["change"] == "\u221250.0 points"
    assert first["sure"] == (
        "Only the limits of [comparison] were applied; how sure the change is was not computed."
    )


def test_the_failure_code_that_moved_most_is_named_with_its_interval():
    data = fallen()
    first = data["first_look"]
    shifts = {code["code"]: code["shift"] for code in data["failure_codes"]["shown"]}
    shift = shifts[first["failure_code"]]
    assert shift["delta"] == max(item["delta"] for item in shifts.values())
    assert (shift["baseline"], shift["candidate"], shift["sure"]) == (10.0, 60.0, True)
    assert first["failure_code_note"] == (
        "is the failure code that moved most: 10.0 % of the cases had it, now 60.0 % "
        f"(+50.0 points, 95 % interval {shift['span']})."
    )


def test_without_a_baseline_the_most_frequent_failure_code_is_named():
    first = night("only", 3).data()["first_look"]
    assert (first["changes"], first["sure"], first["moved"]) == ([], None, None)
    assert first["failure_code"] == "goal_not_reached"
    assert first["failure_code_note"] == "is the most frequent failure code: 3 findings."


def test_a_run_without_a_failure_code_names_none():
    first = run([Said("a", (5, 5))]).data()["first_look"]
    assert (first["failure_code"], first["failure_code_note"]) == (None, None)


def test_where_the_judge_moved_nothing_is_held_against_the_agent():
    first = without_blame(fallen()["first_look"])
    assert [item["word"] for item in first["changes"]] == [
        "judge moved",
        "judge moved",
        "within its limit",
    ]
    assert not any(item["worse"] for item in first["changes"])
    assert first["sure"].startswith("The judge itself changed between the two runs")


def test_a_metric_has_the_interval_of_its_change_in_its_own_unit():
    rows = {row["metric"]: row for row in fallen()["metrics"]}
    routing = rows["tool_routing"]
    assert (routing["delta"], routing["low"], routing["delta_sure"]) == (-2.0, 12, True)
    low, high = (float(end.replace("\u2212", "-")) for end in routing["delta_span"].split(" to "))
    assert -5 < low < -2 < high < 0
    assert (rows["response_delivery"]["low"], rows["response_delivery"]["delta_sure"]) == (0, False)


@pytest.mark.parametrize("side", ["agent_version", "tools"])
def test_a_line_of_a_case_says_what_it_can_be_filtered_by(side: str):
    made = run([Said("a", (1, 4), done=False, tools=("find", "pay"))])
    (line,) = made.data()["cases"]["shown"]
    assert line[side] == {"agent_version": "1.0", "tools": ["find", "pay"]}[side]
    assert line["failure_codes"] == ["goal_not_reached", "wrong_tool_selected"]
    assert line["low_metrics"] == ["task_completion", "tool_routing"]
