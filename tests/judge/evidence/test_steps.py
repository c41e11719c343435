"""Steps: the agent's tool calls in a case."""

from __future__ import annotations

import json

import pytest

from assizes.judge.case import Case, Expected, ToolCall, ToolResult, Transcript, Turn
from assizes.judge.evidence.steps import (
    AgentStep,
    as_data,
    case_of,
    exchanges,
    final_response,
    json_value,
    requests,
    steps_of,
)
from tests.builders import agent, call, case, result, user


def team() -> Case:
    """A sub-agent that calls a tool of its own, and a tool beside it."""
    inner = ToolCall(name="run_sql", arguments={"sql": "SELECT 1"}, result="1")
    deeper = ToolCall(name="helper", tool_calls=(inner,), result="done")
    return case(
        user("How many?"),
        agent(
            calls=[ToolCall(name="sql_agent", id="a", tool_calls=(deeper,)), call("lookup", "b")]
        ),
        result("one", call_id="a"),
        result("none", call_id="b", is_error=True),
        agent("One."),
    )


@pytest.mark.row("002-03")
def test_top_level_and_nested_calls_are_found_in_order():
    assert steps_of(team().transcript) == (
        AgentStep(1, "sql_agent", {}, result="one"),
        AgentStep(1, "helper", {}, result="done", within=("sql_agent",)),
        AgentStep(1, "run_sql", {"sql": "SELECT 1"}, result="1", within=("sql_agent", "helper")),
        AgentStep(1, "lookup", {}, result="none", failed=True),
    )


@pytest.mark.row("002-53")
def test_a_call_that_an_outage_prevented_is_left_out_where_the_agent_made_it_again():
    tries = case(
        agent(calls=[call("look", "c1", n=1)]),
        result("503 Service Unavailable", call_id="c1"),
        agent(calls=[call("look", "c2", n=1), call("look", "c3", n=2)]),
        result("ok", call_id="c2"),
        result("Read timed out", call_id="c3", is_error=True),
    )
    steps = steps_of(tries.transcript)
    assert [(step.arguments, step.failed, step.prevented) for step in steps] == [
        ({"n": 1}, False, False),
        ({"n": 2}, True, True),
    ]


# The conversation


def test_the_conversation_is_cut_where_the_user_speaks():
    turns = (agent("Hi"), user("a"), user("b"), agent("x"), agent("y"), user("c"))
    assert [
        (exchange.start, len(exchange.turns)) for exchange in exchanges(case(*turns).transcript)
    ] == [
        (0, 5),
        (5, 1),
    ]
    assert exchanges(Transcript()) == ()
    assert [exchange.start for exchange in exchanges(case(agent("Hi")).transcript)] == [0]


@pytest.mark.parametrize(
    ("turns", "response"),
    [
        ((user("a"), agent("x"), user("b"), agent("y")), "y"),
        ((user("a"), agent("x"), agent(" ")), "x"),
        ((agent("Hello"), user("a"), agent("")), ""),
        ((user("a"), agent("x"), user("bye")), "x"),
        ((user("a"),), ""),
        ((agent("Hello"),), "Hello"),
        ((), ""),
        ((user("a"), agent("x"), agent("I note that.", calls=[call("f")]), result("7")), "x"),
        ((user("a"), agent("x"), user("b"), agent("wait", calls=[call("f")])), "wait"),
    ],
)
@pytest.mark.row("005-12")
def test_the_final_response_answers_the_user_who_may_have_the_last_word(turns, response):
    assert final_response(case(*turns).transcript) == response


def test_the_requests_are_what_the_user_said():
    assert requests(case(user("a"), agent("x"), user(""), user("b")).transcript) == ("a", "b")


@pytest.mark.parametrize("text", [None, "", "x", "NaN", '{"a": Infinity}', "[" * 100_000])
def test_what_is_no_json_is_null(text):
    assert json_value(text) is None


# The shape of seed 002


STEPS = [
    {
        "name": "sql_agent",
        "input": {"question": "how many"},
        "output": {"rows": 1},
        "tool_calls": [{"tool": "run_sql", "args": '{"sql": "SELECT 1"}', "result": [1]}],
    },
    {"tool_name": "note", "input": "plain words", "error": "timeout"},
    {"name": "silent"},
]


@pytest.mark.row("002-03")
def test_a_case_is_made_of_question_answer_and_steps():
    made = case_of(
        {"id": "q1", "question": "How many?", "context": {"role": "clerk"}},
        {"response": "One.", "steps": STEPS},
        {"sql": "SELECT 1", "tone": "kind", "additional_input": {"Complete": "x"}},
    )
    inner = ToolCall(name="run_sql", arguments={"sql": "SELECT 1"}, result="[1]")
    calls = (
        ToolCall(
            name="sql_agent",
            arguments={"question": "how many"},
            id="step_0",
            tool_calls=(inner,),
        ),
        ToolCall(name="note", raw="plain words", id="step_1"),
        ToolCall(name="silent", id="step_2"),
    )
    assert made == Case(
        case_id="q1",
        transcript=Transcript(
            system='{"role": "clerk"}',
            turns=(
                user("How many?"),
                agent(calls=calls),
                Turn(role="tool", tool_result=ToolResult(content='{"rows": 1}', call_id="step_0")),
                Turn(
                    role="tool",
                    tool_result=ToolResult(content="timeout", call_id="step_1", is_error=True),
                ),
                agent("One."),
            ),
        ),
        expected=Expected(sql="SELECT 1", additional_input={"tone": "kind", "Complete": "x"}),
    )


def test_a_case_without_steps_is_a_question_and_an_answer():
    made = case_of({"question": "Hi"}, {"response": "Hello"})
    assert made == case(user("Hi"), agent("Hello"), case_id="case")


def test_a_case_is_told_as_data_and_made_again_from_it():
    made = case_of({"id": "q1", "question": "How many?"}, {"response": "One.", "steps": STEPS})
    input_data, output_data, expected = as_data(made)
    assert input_data == {
        "id": "q1",
        "question": "How many?",
        "questions": ["How many?"],
        "context": None,
    }
    assert output_data == {
        "response": "One.",
        "steps": [
            {
                "name": "sql_agent",
                "input": {"question": "how many"},
                "output": '{"rows": 1}',
                "tool_calls": [
                    {
                        "name": "run_sql",
                        "input": {"sql": "SELECT 1"},
                        "output": "[1]",
                        "tool_calls": [],
                    }
                ],
            },
            {"name": "note", "input": "plain words", "output": "timeout", "tool_calls": []},
            {"name": "silent", "input": {}, "output": None, "tool_calls": []},
        ],
    }
    assert expected == {}
    assert json.loads(json.dumps(output_data)) == output_data
    again = case_of(input_data, output_data, expected)
    assert [step.name for step in steps_of(again.transcript)] == [
        step.name for step in steps_of(made.transcript)
    ]


@pytest.mark.row("002-52")
def test_expected_values_that_are_null_are_not_specified():
    expected = Expected(sql=None, has_chart=False, search_results=())
    made = case(user("Hi"), agent("Hello"), expected=expected)
    assert as_data(made)[2] == {"has_chart": False, "search_results": []}
