"""Why a case is to be read first: its judge's own sentence, and advice that fits the case."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl

from assizes.judge.rows import as_json
from tests.tasks.reports.sample import Run, Said, compared, run

OUTCOMES = (
    ("The booking is cancelled", True, "Turn 7 confirms it."),
    ("The refund is named", False, "No amount is mentioned."),
)


def first(data: dict[str, Any]) -> dict[str, Any]:
    case: dict[str, Any] = data["cases"]["read_first"][0]
    return case


def test_a_case_that_an_outcome_decided_shows_the_outcome_and_why_it_does_not_hold():
    case = first(run([Said("a", (5, 5), outcomes=OUTCOMES)]).data())
    assert case["reason"] == {
        "metric": "expected_outcomes",
        "text": "No amount is mentioned.",
        "expected": "The refund is named",
        "failure_code": None,
    }


def test_a_metric_that_fell_speaks_before_one_that_was_low_all_along():
    before = run([Said("a", (1, 5), code="low_before")], run_id="before")
    after = run([Said("a", (1, 5), done=False, why="The booking was never made.")])
    case = first(compared(before, after))
    assert case["reason"] == {
        "metric": "task_completion",
        "text": "The booking was never made.",
        "expected": None,
        "failure_code": "goal_not_reached",
    }
    assert (case["flip"], case["baseline_score"]) == ("failed both times", 60.0)


def test_without_a_baseline_the_lowest_score_speaks():
    case = first(run([Said("a", (1, 4), why="Called a tool that does not exist.")]).data())
    assert (case["reason"]["metric"], case["reason"]["text"]) == (
        "tool_routing",
        "Called a tool that does not exist.",
    )
    assert (case["flip"], case["baseline_score"]) == (None, None)


def test_a_case_without_a_verdict_has_its_error_and_no_advice():
    case = first(run([Said("a", (0, 0), error="timeout: no answer in 120 s")]).data())
    assert (case["error"], case["suggested_fix"]) == ("timeout: no answer in 120 s", None)
    assert case["reason"] is None


def test_the_advice_fits_the_failure_code_of_the_case():
    routed = first(run([Said("a", (1, 4))]).data())
    verbose = first(run([Said("a", (4, 1), code="verbose")]).data())
    assert routed["suggested_fix"].startswith("Say in the description of each tool")
    assert verbose["suggested_fix"].startswith("Limit the length of an answer")


def test_an_own_code_of_a_judge_has_the_advice_of_its_metric():
    case = first(run([Said("a", (4, 1), code="too_many_emoji")]).data())
    assert case["suggested_fix"].startswith("Limit the length of an answer")


def test_a_case_that_passed_has_neither_a_reason_nor_advice():
    case = first(run([Said("a", (5, 2), code="verbose")]).data())
    assert case["passed"]
    assert (case["reason"], case["suggested_fix"]) == (None, None)


def test_a_case_that_passed_but_got_worse_says_why():
    before = run([Said("a", (5, 5))], run_id="before")
    case = first(compared(before, run([Said("a", (5, 2), code="verbose", why="Nine lists.")])))
    assert (case["passed"], case["change"], case["reason"]["text"]) == (
        True,
        "regression",
        "Nine lists.",
    )


def test_advice_that_was_stored_with_a_root_cause_stays_as_it_was_given():
    made = run([Said("a", (1, 4))])
    advice = as_json({"justification": "It fails.", "suggested_fix": "Index the missing page."})
    scores = made.frames["scores"].with_columns(
        details=pl.when(pl.col("metric") == "tool_routing")
        .then(pl.lit(advice))
        .otherwise("details")
    )
    cases = made.frames["cases"].with_columns(root_cause=pl.lit("tool_routing"))
    frames = {**made.frames, "scores": scores, "cases": cases}
    case = first(Run(made.record, made.summary, frames).data())
    assert case["suggested_fix"] == "Index the missing page."
    assert case["reason"]["text"] == "It fails."


def test_a_case_whose_judge_says_nothing_has_no_reason():
    made = run([Said("a", (1, 1))])
    scores = made.frames["scores"].with_columns(details=pl.lit("{}"))
    silent = replace(made, frames={**made.frames, "scores": scores})
    assert first(silent.data())["reason"] is None
