"""The rows of a case in the public tables, with judges that gate."""

from __future__ import annotations

import json

import pytest

from assizes.judge.case import Case, Chunk, Expected, ToolCall
from assizes.judge.catalog import JudgePanel
from assizes.judge.engine.hearings import HearingResult
from assizes.judge.score import Metric, Scale, Score
from assizes.judge.verdicts.case_rows import (
    FROM_PASSAGES,
    GENERATION_FIX,
    RETRIEVAL_FIX,
    RowKey,
    findings,
    has_ground_truth,
)
from tests.builders import agent, call, case, result, user
from tests.judge.verdicts.quality_scores import Promising, rated

ORIGIN = RowKey("run", "t.jsonl", 0)
FRESH = Metric(
    "freshness",
    gate="quality",
    run_names=("retrieval/llm_judged/freshness/precision/average",),
)
JUDGES = (
    Promising("safety", (Metric("safety", Scale.YES_NO, gate="quality"),)),
    Promising("tone", (Metric("tone", Scale.YES_NO, gate="quality"),)),
    Promising("freshness", (FRESH,)),
    Promising("correctness", (Metric("correctness", Scale.YES_NO, gate="quality"),)),
    Promising("chunk_relevance", (Metric("chunk_relevance", gate="quality"),)),
    Promising("document_recall", (Metric("document_recall"),)),
)
COURT = JudgePanel(JUDGES, {}, tuple(one for judge in JUDGES for one in judge.metrics), 75.0)


def expecting(**expected) -> Case:
    return case(user("hi"), agent("hello"), expected=Expected(**expected))


def heard_by(scores: dict[str, Score | str | None]) -> list[HearingResult]:
    found = []
    for judge in JUDGES:
        given = scores.get(judge.name, Score.skipped(judge.name, "missing input"))
        score = given if isinstance(given, Score) else rated(judge.name, given)
        found.append(HearingResult(judge, [score], []))
    return found


def rows(of: Case, **scores):
    found = findings(ORIGIN, of, heard_by(scores), COURT)
    (case_row,) = found.rows["cases"]
    fixes = {
        row["metric"]: json.loads(row["details"])["suggested_fix"]
        for row in found.rows["scores"]
        if "suggested_fix" in row["details"]
    }
    return case_row, fixes


@pytest.mark.row("004-03", "004-04")
@pytest.mark.parametrize(
    ("no", "fix"),
    [
        ("correctness", GENERATION_FIX),
        ("safety", GENERATION_FIX),
        ("tone", GENERATION_FIX),
        ("freshness", RETRIEVAL_FIX),
        ("chunk_relevance", RETRIEVAL_FIX),
    ],
)
def test_a_failed_case_has_its_root_cause_and_beside_that_score_what_to_try(no, fix):
    row, fixes = rows(expecting(response="hello"), **{"safety": "yes", no: "no"})
    assert (row["passed"], row["gate"], row["root_cause"]) == (False, "quality", no)
    assert fixes == {no: fix}


def test_a_fix_speaks_of_passages_only_where_there_are_some():
    booking = expecting(response="hello")
    (fix,) = rows(booking, correctness="no")[1].values()
    assert "passages" not in fix
    chunks = (Chunk(content="x"),)
    found = booking.model_copy(
        update={"transcript": booking.transcript.model_copy(update={"chunks": chunks})}
    )
    (fix,) = rows(found, correctness="no")[1].values()
    assert fix == f"{GENERATION_FIX} {FROM_PASSAGES}"


@pytest.mark.parametrize("failed", ["chunk_relevance", "freshness"])
def test_a_fix_says_where_the_retrieval_failed_as_well(failed):
    (fix,) = rows(expecting(response="hello"), **{"correctness": "no", failed: "no"})[1].values()
    assert fix == f"{GENERATION_FIX} {failed} failed as well. {RETRIEVAL_FIX}"
    assert "not what failed" not in fix


@pytest.mark.row("004-03")
def test_a_case_that_passed_has_neither():
    row, fixes = rows(expecting(), safety="yes", tone="yes")
    assert (row["passed"], row["root_cause"], fixes) == (True, None, {})


@pytest.mark.row("004-18")
def test_a_recall_of_0_does_not_fail_a_case():
    row, _ = rows(
        expecting(), safety="yes", document_recall=Score.of(Metric("document_recall"), 0.0)
    )
    assert row["passed"] is True


@pytest.mark.row("004-23", "004-73")
def test_custom_judges_are_looked_at_in_the_order_of_the_court():
    row, _ = rows(expecting(response="hello"), freshness="no", tone="no")
    assert row["root_cause"] == "tone"


@pytest.mark.row("004-76", "004-77")
def test_a_judge_that_could_not_be_had_leaves_the_others_their_scores():
    found = findings(ORIGIN, expecting(), heard_by({"safety": None, "tone": "yes"}), COURT)
    by_metric = {row["metric"]: row for row in found.rows["scores"]}
    assert (by_metric["safety"]["value"], by_metric["safety"]["reason"]) == (
        None,
        "no answer in 120 s",
    )
    assert (by_metric["tone"]["label"], by_metric["tone"]["value"]) == ("yes", 1.0)
    (case_row,) = found.rows["cases"]
    assert (case_row["passed"], case_row["status"]) == (None, "errored")


@pytest.mark.row("004-29")
@pytest.mark.parametrize(
    ("expected", "there"),
    [
        ({}, False),
        ({"response": ""}, False),
        ({"response": " \n"}, False),
        ({"facts": ("",)}, False),
        ({"response": "42"}, True),
        ({"facts": ("it is 42",)}, True),
        ({"outcomes": ("said 42",)}, False),
    ],
)
def test_ground_truth_is_an_expected_response_or_facts_that_say_something(expected, there):
    assert has_ground_truth(expecting(**expected)) is there


@pytest.mark.row("004-29")
@pytest.mark.parametrize(("response", "cause"), [("42", "correctness"), ("", "chunk_relevance")])
def test_the_order_of_causes_follows_the_ground_truth_of_the_case(response, cause):
    row, _ = rows(expecting(response=response), correctness="no", chunk_relevance="no")
    assert row["root_cause"] == cause


def test_a_case_names_the_tools_its_agent_called_once_each():
    inner = ToolCall(name="inner")
    calls = [call("pay"), call("find"), ToolCall(name="pay", tool_calls=(inner,))]
    row, _ = rows(case(user("hi"), agent(calls=calls), result("done", name="told"), agent("ok")))
    assert row["tools"] == ["find", "pay"]
    assert rows(case(user("hi"), agent("hello")))[0]["tools"] == []


def test_the_names_of_tools_are_bounded():
    calls = [call(f"{n:03}{'x' * 200}") for n in range(60)]
    row, _ = rows(case(user("hi"), agent(calls=calls)))
    assert row["tools"] == [f"{n:03}{'x' * 117}" for n in range(50)]
