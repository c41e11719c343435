"""The search judge."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assizes.judge.case import Case, Expected
from assizes.judge.families.agent_steps.single_steps import SearchEvidence
from tests.builders import agent, call, case, result, user
from tests.judge.families.agent_steps.step_cases import (
    answered,
    asked,
    decided,
    expecting,
    golden,
    judge_named,
    opened,
)


def searched(expected: Any, *found: Any, tool: str = "product_search") -> Case:
    """A case with one search call for each result."""
    calls = [call(tool, f"call_{i}", query="lamp") for i in range(len(found))]
    texts = [one if isinstance(one, str) else json.dumps(one) for one in found]
    results = [result(text, call_id=f"call_{i}") for i, text in enumerate(texts)]
    turns = (user("Find a lamp"), agent(calls=calls), *results, agent("Here."))
    return case(*turns, expected=expecting(search_results=expected))


def evidence(one: Case) -> SearchEvidence:
    found = asked("search", one).evidence
    assert isinstance(found, SearchEvidence)
    return found


@pytest.mark.row("002-32", "002-33")
@pytest.mark.parametrize(("found", "value"), [((), 1.0), (([],), 0.0), ((["Lamp"],), 0.0)], ids=str)
def test_null_is_judged_on_calls_whatever_they_found(found, value):
    one = decided("search", searched("null", *found))
    assert (one.value, one.passed) == (value, value == 1)
    assert one.details["operations"] == (['product_search({"query": "lamp"})'] if found else [])
    assert one.details["expected_results"] == "null"


@pytest.mark.row("002-34")
@pytest.mark.parametrize("expected", [[], "[]"])
@pytest.mark.parametrize(("found", "value"), [((), 1.0), (([],), 1.0), ((["X"],), 0.0)], ids=str)
def test_an_empty_list_is_judged_on_results(expected, found, value):
    one = decided("search", searched(expected, *found))
    assert (one.value, one.passed) == (value, value == 1)
    assert one.details["extracted_results"] == (["X"] if value == 0 else [])


@pytest.mark.row("002-29")
def test_expected_results_without_a_search_are_a_zero_without_a_question():
    found = decided("search", searched(["A"]))
    assert (found.value, found.passed) == (0.0, False)
    assert found.details["reasoning"] == (
        "no search: results expected, but no call is seen to do that"
    )


def test_a_case_in_which_an_outage_prevented_every_search_is_skipped():
    def searching(expected, content):
        return case(
            user("A lamp?"),
            agent(calls=[call("product_search", query="lamp")]),
            result(content, is_error=True),
            expected=Expected(search_results=expected),
        )

    judge = judge_named("search")
    outage, refusal = "503 Service Unavailable", "Error: query must be longer"
    assert judge.missing(searching(["lamp"], outage)) == "an outage prevented every search"
    assert judge.missing(searching("null", outage)) is None  # it must not have searched
    assert judge.missing(searching([], outage)) is None  # nothing found is what was expected
    assert judge.missing(searching(["lamp"], refusal)) is None


def test_an_exchange_in_which_an_outage_prevented_every_search_is_left_out():
    searches = [call("product_search", str(place), query="lamp") for place in range(2)]
    answers = [
        result("503 Service Unavailable", call_id="0", is_error=True),
        result("[]", call_id="1"),
    ]
    turns = [
        turn
        for search, answer in zip(searches, answers, strict=True)
        for turn in (user("A lamp?"), agent(calls=[search]), answer, agent("None."))
    ]
    values = {"turns": [{"search_results": ["Lamp"]}, {"search_results": []}]}
    searching = case(*turns, expected=expecting(additional_input=values))
    hearing = opened("search", searching, per_turn=True)
    assert {score.part: score.value for score in hearing.scores} == {"": 1.0, "turn:1": 1.0}


def test_where_a_named_tool_was_not_called_that_and_what_was_called_is_said():
    found = decided("search", searched(["A"], ["A"]), tools=["kb_lookup"])
    assert found.details["reasoning"] == (
        "no search: results expected, but none of kb_lookup was called (not at product_search)"
    )


@pytest.mark.row("002-30", "002-31", "002-11")
@pytest.mark.parametrize(
    ("relevance", "coverage", "value", "passed"),
    [(0.9, 0.8, 0.85, True), (0.5, 0.7, 0.6, True), (0.5, 0.68, 0.59, False)],
)
def test_the_score_is_the_mean_of_relevance_and_coverage(relevance, coverage, value, passed):
    hearing = opened("search", searched(["A"], ["A"]))
    found = answered(hearing, relevance=relevance, coverage=coverage)
    assert (found[""].value, found[""].passed) == (value, passed)
    assert list(found) == ["", "relevance", "coverage"]


@pytest.mark.row("002-35")
def test_coverage_is_counted_and_given_as_evidence():
    one = searched(["A", "B"], ["A", "C"])
    ask = asked("search", one)
    assert evidence(one).coverage == 0.5
    assert (
        "<data: Counted coverage>\n1 of 2 expected results found, coverage 0.50; not found: B\n"
        in ask.prompt.user
    )
    found = answered(opened("search", one), relevance=1, coverage=0.5)
    assert found[""].details["counted_coverage"] == 0.5
    assert found[""].details["expected_results"] == ["A", "B"]
    assert found[""].details["extracted_results"] == ["A", "C"]


@pytest.mark.parametrize(
    ("due", "item", "is_it"),
    [
        ("lamp", "Lamp", True),
        ("Lamp", {"id": 7, "name": "lamp"}, True),
        ("Lamp", {"title": "The red lamp, large"}, True),
        ("Lamp", "Lampshade", False),
        (7, {"id": "7"}, True),
        (7, {"id": 17}, False),
        ({"id": 7}, {"id": 7, "name": "Lamp"}, True),
        ({"id": 7, "name": "Desk"}, {"id": 7, "name": "Lamp"}, False),
        ({"name": "Lamp", "colour": "red"}, "a red lamp", True),
        ({"name": "Lamp"}, "a desk", False),
        ("a.c", "abc", False),
        ("x", {"a": {"b": ["y", "x"]}}, True),
        ("", "lamp", False),
    ],
)
def test_an_expected_result_is_known_by_its_value_or_its_words(due, item, is_it):
    assert evidence(searched([due], [item])).covered == (is_it,)


def test_a_description_in_words_is_not_counted():
    one = searched("lamps under 50 euros", ["Lamp"])
    assert evidence(one).coverage is None
    assert "not counted: what is expected is described in words" in asked("search", one).prompt.user


def test_a_list_may_be_given_as_text():
    assert evidence(searched('["A", "B"]', ["B"])).covered == (False, True)


@pytest.mark.row("002-53")
def test_other_tools_may_search():
    one = searched(["A"], ["A"], tool="kb_lookup")
    assert decided("search", one, tools=["find"]).value == 0.0
    assert "[1] kb_lookup(" in asked("search", one, tools=["kb_lookup"]).prompt.user


@pytest.mark.row("005-10")
@pytest.mark.parametrize(
    "answer", [["A"], {"articles": [{"title": "A"}]}, {"hits": {"hits": ["A"]}}, "A\nB"], ids=str
)
def test_a_tool_that_is_seen_to_search_is_judged_and_named_in_the_reason(answer):
    one = searched(["A"], answer, tool="kb_lookup")
    assert evidence(one).coverage == 1
    found = answered(opened("search", one), relevance=1, coverage=1)[""]
    assert found.details["reasoning"] == "Relevance: 1.00, Coverage: 1.00 (looked at kb_lookup)"


@pytest.mark.row("005-10")
@pytest.mark.parametrize(
    "answer",
    [
        *([], {"results": []}, {"articles": [], "status": "ok"}, {"hits": {"hits": []}}, ""),
        *({"count": 0}, {"error": "timeout"}, {"status": "error", "message": "down"}),
        *("Error: timeout", "HTTPError: 503", "Search failed: timeout", "Error 503"),
        *("No results found for 'lamp'.", "I couldn't find anything about that."),
        *("No articles found", "no matching documents found in the index"),
    ],
    ids=str,
)
def test_an_error_or_an_empty_answer_is_nothing_found(answer):
    found = decided("search", searched([], answer, tool="kb_lookup"))
    assert (found.value, found.passed) == (1.0, True)
    assert found.details["reasoning"] == "Rightly found nothing (looked at kb_lookup)"


@pytest.mark.row("005-10")
def test_a_search_where_none_may_be_made_is_known_by_what_it_takes():
    one = searched("null", "Error: timeout", tool="kb_lookup")
    assert decided("search", one).value == 0.0


def test_a_tool_that_does_not_search_is_named_where_nothing_was_looked_for():
    turns = (user("Cancel"), agent(calls=[call("get_order", order_id="A7")]), agent("Done."))
    found = decided("search", case(*turns, expected=expecting(search_results="null")))
    assert found.details["reasoning"] == "Rightly did not search (not at get_order)"


@pytest.mark.parametrize(
    ("coverage", "relevance", "why"),
    [
        (1.0, 0.5, "coverage is 1, but the evidence counts 0"),
        (0.0, 0.9, "relevance is 0.9, but the evidence counts 0"),
        (0.2, 0.1, None),
    ],
)
def test_a_score_that_the_counted_evidence_contradicts_is_suspect(coverage, relevance, why):
    hearing = opened("search", searched(["A"], []))
    found = answered(hearing, coverage=coverage, relevance=relevance)[""]
    assert found.details.get("suspect") == why


def test_a_long_list_of_calls_and_a_long_result_are_cut_in_the_prompt():
    shown = asked("search", searched(["A"], *["x" * 5000] * 60)).prompt.user
    assert "and 10 more calls" in shown
    assert "... (1000 more characters)" in shown
    assert len(shown) < 250_000


@pytest.mark.row("002-15", "002-35")
def test_the_whole_prompt_is_as_on_record():
    one = searched(["Lamp 3", {"id": 9}], ["Lamp 3", {"id": 4}], "line one\nline two", [])
    shown, recorded = golden("search", asked("search", one))
    assert shown == recorded
