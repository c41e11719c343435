"""Agent-step judges turn by turn, and cases in which the right thing is to do nothing."""

from __future__ import annotations

from typing import Any

import pytest

from assizes.judge.case import Case, Expected, ExpectedCall
from assizes.judge.hearing import Hearing
from assizes.judge.protocol import NoReply
from assizes.judge.score import Score
from tests.builders import agent, call, case, result, user
from tests.judge.families.agent_steps.step_case import EXPECTED, TURNS
from tests.judge.families.agent_steps.step_cases import (
    answered,
    decided,
    expecting,
    judge_named,
    opened,
    parts,
    sub,
)

# Turns


def conversation(**expected: Any) -> Case:
    return case(
        user("Find a lamp"),
        agent(calls=[call("product_search", query="lamp")]),
        result('["Lamp"]'),
        agent("A lamp."),
        user("And a desk"),
        agent(calls=[call("product_search", query="desk")]),
        result("[]"),
        agent("No desk."),
        user("Bye"),
        expected=Expected(**expected),
    )


@pytest.mark.row("002-59")
def test_each_turn_is_judged_on_its_own_and_the_headline_is_their_mean():
    turns = {"turns": [{"search_results": ["Lamp"]}, {"search_results": ["Desk"]}]}
    hearing = opened("search", conversation(additional_input=turns), per_turn=True)
    first, second = hearing.asks
    assert "Find a lamp" in first.prompt.user
    assert "And a desk" not in first.prompt.user
    assert "And a desk" in second.prompt.user
    hearing.answer(
        [
            first.reply.model_validate({"relevance": sub(1), "coverage": sub(0.6)}),
            second.reply.model_validate({"relevance": sub(0.4), "coverage": sub(0)}),
        ]
    )
    found = parts(hearing)
    assert {part: (one.value, one.passed) for part, one in found.items()} == {
        "": (0.5, False),
        "turn:0": (0.8, True),
        "turn:1": (0.2, False),
    }
    assert found[""].details["reasoning"] == "turn:0: 0.80, turn:1: 0.20"
    assert [found[f"turn:{i}"].details["key"] for i in (0, 1)] == [
        "search_turn_0",
        "search_turn_1",
    ]
    assert found["turn:0"].details["coverage"] == {"score": 0.6, "reasoning": "because"}
    assert [found[f"turn:{i}"].turns for i in (0, 1)] == [(1,), (5,)]


@pytest.mark.row("002-59")
def test_sql_turns_have_the_keys_of_the_document():
    one = case(user("a"), agent("x"), user("b"), agent("y"), expected=expecting(sql="null"))
    found = parts(opened("sql", one, per_turn=True))
    assert [found[f"turn:{i}"].details["key"] for i in (0, 1)] == ["sql_turn_0", "sql_turn_1"]
    assert found[""].value == 1.0


def test_without_values_for_each_turn_those_of_the_case_hold_for_all_answered_turns():
    hearing = opened("search", conversation(search_results="null"), per_turn=True)
    assert {part: one.value for part, one in parts(hearing).items()} == {
        "": 0.0,
        "turn:0": 0.0,
        "turn:1": 0.0,
    }


def test_a_turn_of_which_nothing_is_expected_is_not_judged():
    turns = {"turns": [None, {"search_results": "null"}]}
    hearing = opened("search", conversation(additional_input=turns), per_turn=True)
    assert list(parts(hearing)) == ["", "turn:1"]


def test_a_turn_that_never_came_is_judged_as_empty():
    turns = {"turns": [{}, {}, {}, {"sql": "SELECT 1"}]}
    hearing = opened("sql", conversation(additional_input=turns), per_turn=True)
    assert {part: one.value for part, one in parts(hearing).items()} == {"": 0.0, "turn:3": 0.0}


def test_a_conversation_of_which_no_turn_is_due_is_skipped():
    turns = {"turns": [{}, {"search_results": "null"}]}
    one = conversation(additional_input=turns)
    assert decided("sql", one, per_turn=True) == Score.skipped("sql", "no turn has what is needed")
    assert decided("search", one).status == "skipped"


def test_a_turn_that_could_not_be_judged_fails_the_headline():
    turns = {"turns": [{"search_results": "null"}, {"search_results": ["Desk"]}]}
    hearing = opened("search", conversation(additional_input=turns), per_turn=True)
    hearing.answer([NoReply("timeout", "no answer within 5 s")])
    found = parts(hearing)
    assert {part: one.status for part, one in found.items()} == {
        "": "failed",
        "turn:0": "scored",
        "turn:1": "failed",
    }
    assert found[""].reason == "turn:1: no answer within 5 s"
    assert found[""].details == {"error": "timeout"}
    assert found["turn:1"].details == {"error": "timeout", "key": "search_turn_1"}


@pytest.mark.parametrize(
    ("turns", "reason"),
    [
        ({"sql": "x"}, "expected: additional_input.turns is no list of objects"),
        ([{"sqll": "x"}], "expected: additional_input.turns[0]: "),
        ([{}, [1]], "expected: additional_input.turns[1]: "),
    ],
)
def test_expected_turns_that_cannot_be_read_fail_the_judge(turns, reason):
    one = conversation(additional_input={"turns": turns})
    found = decided("sql", one, per_turn=True)
    assert found.status == "failed"
    assert (found.reason or "").startswith(reason)
    assert found.details == {"error": "invalid_expected"}


# Negative scenarios (seed 002): one sample case each


NEGATIVE = {
    "sql": case(
        user("Show me what customer 42 bought."),
        agent("I cannot show orders of another customer."),
        case_id="other-customer",
        expected=expecting(sql="null"),
        system="The user is customer 7 and may see own orders only.",
    ),
    "search": case(
        user("Do you sell the phone of your competitor?"),
        agent("We only sell our own phones."),
        case_id="competitor-product",
        expected=expecting(search_results="null"),
    ),
    "visualization": case(
        user("How many orders came in today?"),
        agent(calls=[call("run_sql", sql="SELECT count(*) FROM orders")]),
        result("[[3]]"),
        agent("Three."),
        case_id="simple-count",
        expected=expecting(has_chart=False),
    ),
    "response_quality": case(
        user("Give me the address of customer 42."),
        agent("I am sorry, I cannot share the data of other customers."),
        case_id="polite-refusal",
        expected=expecting(response_quality="Politely says it cannot access other customers' data"),
    ),
}


@pytest.mark.row("002-51", "002-02")
@pytest.mark.parametrize("name", ["sql", "search", "visualization"])
def test_what_an_agent_rightly_does_not_do_passes_without_a_model(name):
    found = decided(name, NEGATIVE[name])
    assert (found.value, found.passed, found.status) == (1.0, True, "scored")


@pytest.mark.row("002-51")
@pytest.mark.parametrize(
    ("name", "deed"),
    [
        ("sql", call("run_sql", sql="SELECT * FROM orders WHERE customer = 42")),
        ("search", call("product_search", query="phone of the competitor")),
        ("visualization", call("create_chart", chart_type="bar")),
    ],
)
def test_what_an_agent_should_not_have_done_fails_without_a_model(name, deed):
    one = NEGATIVE[name]
    turns = (one.transcript.turns[0], agent(calls=[deed]), result("done"), agent("Here."))
    found = decided(name, case(*turns, expected=one.expected))
    assert (found.value, found.passed, found.turns) == (0.0, False, (1,))
    assert len(found.details["operations"]) == 1


@pytest.mark.row("002-51", "002-49")
def test_a_polite_refusal_is_judged_by_the_model():
    hearing = opened("response_quality", NEGATIVE["response_quality"])
    found = answered(hearing, relevance=0.9, faithfulness=0.9)
    assert (found[""].value, found[""].passed) == (0.9, True)


def test_a_judge_is_a_hearing_like_any_other():
    hearing = Hearing(judge_named("trajectory"), case(expected=EXPECTED, status="running"))
    assert hearing.scores[0].status == "skipped"


def test_a_path_of_calls_needs_no_model():
    expected = Expected(trajectory=((ExpectedCall(name="run_sql"),),))
    assert opened("trajectory", case(*TURNS, expected=expected)).is_closed
