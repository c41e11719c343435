"""Steps: the agent's tool calls in a case, and the SQL, items and charts in them."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from assizes.judge.case import Case, Expected, ToolCall, ToolResult, Transcript, Turn
from assizes.judge.evidence.steps import (
    AgentStep,
    SqlCall,
    as_data,
    case_of,
    chart_type,
    exchanges,
    final_response,
    found_items,
    is_same_chart,
    is_sql,
    json_value,
    requests,
    sql_calls,
    steps_of,
    steps_of_tools,
)
from tests.builders import agent, call, case, result, user

KEYS = ("sql", "query", "statement")


def step(result: str | None = None, raw: str | None = None, **arguments: Any) -> AgentStep:
    return AgentStep(0, "tool", arguments, raw=raw, result=result)


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
def test_steps_are_chosen_by_the_names_of_their_tools():
    chosen = steps_of_tools(steps_of(team().transcript), ["lookup", "run_sql"])
    assert [step.name for step in chosen] == ["run_sql", "lookup"]


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


# SQL


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t",
        "select name from t",
        "  -- all of them\n/* really */ (SELECT id, name FROM t)",
        "select count(*) as n",
        "select 1",
        "SELECT DISTINCT name, age",
        "SELECT a,\n b\nFROM theatre",
        "WITH x AS (SELECT 1) SELECT * FROM x",
        "with recursive x(n) as materialized (select 1) select n from x",
        "INSERT INTO t VALUES (1)",
        "insert or ignore into t select 1",
        "REPLACE INTO t VALUES (1)",
        'UPDATE "t" SET a = 1',
        "delete from t",
        "MERGE INTO t USING s ON 1",
        "TRUNCATE TABLE t",
        "create or replace temporary table t (a int)",
        "DROP TABLE t",
        "alter table t add b int",
        "EXPLAIN QUERY PLAN SELECT 1",
        "pragma table_info",
        "SHOW TABLES",
    ],
)
def test_statements_read_as_sql(text: str):
    assert is_sql(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "headphones",
        "select a gift from my wish list",
        "Select the best laptop",
        "with milk as usual",
        "update my address",
        "delete order 7",
        "create an account",
        "show me tables made of oak",
        "insert a coin",
        "explain the refund rules",
        "my query: SELECT 1",
        "selection from x",
    ],
)
def test_plain_words_do_not(text: str):
    assert not is_sql(text)


@pytest.mark.parametrize(
    "text",
    [
        "/**/" * 50_000 + "x",
        "(" * 200_000,
        "with a" + " " * 200_000 + "x",
        "select " + "from the " * 50_000,
        "select" + " " * 200_000 + "x",
        "update " + "a" * 200_000,
        "--\n" * 100_000,
    ],
)
def test_reading_sql_stays_fast_on_hostile_text(text: str):
    started = time.perf_counter()
    assert not is_sql(text)
    assert time.perf_counter() - started < 10


@pytest.mark.parametrize(
    ("step", "tools", "statements"),
    [
        (step(sql="SELECT 1 "), (), ["SELECT 1"]),
        (step(anything={"deep": ["SELECT 1", "SELECT 2"]}), (), ["SELECT 1", "SELECT 2"]),
        (step(query="laptops"), (), []),
        (step(query="laptops"), ("tool",), ["laptops"]),
        (step(query=" ", other="laptops"), ("tool",), []),
        (step(other="SELECT 1"), ("tool",), ["SELECT 1"]),
        (step(sql="SELECT 1"), ("other_tool",), []),
        (step(raw="SELECT 1"), (), ["SELECT 1"]),
        (step(raw="laptops"), (), []),
        (step(raw="describe t"), ("tool",), ["describe t"]),
        (step('{"sql": "SELECT 1", "rows": []}', question="how many"), (), ["SELECT 1"]),
        (step('{"sql": "sorry"}', question="how many"), (), []),
        (step("SELECT 1", question="how many"), (), []),
        (step(n=1), (), []),
    ],
)
def test_sql_is_taken_from_arguments_and_from_results_that_tell_it(step, tools, statements):
    assert sql_calls([step], tools, KEYS) == tuple(SqlCall(text, step) for text in statements)


def test_arguments_nested_very_deep_are_not_looked_at():
    value: Any = "SELECT 1"
    for _ in range(20):
        value = {"in": value}
    assert sql_calls([step(**value)], (), KEYS) == ()


# Searches


@pytest.mark.row("002-34")
@pytest.mark.parametrize(
    ("text", "items"),
    [
        (None, ()),
        ("", ()),
        ("[]", ()),
        ("{}", ()),
        ("null", ()),
        ("None", ()),
        ("No products found.", ()),
        ("0 results", ()),
        ("Item not found", ()),
        ('{"results": []}', ()),
        ('{"count": 2, "results": ["A", "B"]}', ("A", "B")),
        ('["A", "", null, {"name": "B"}]', ("A", {"name": "B"})),
        ('{"name": "A"}', ({"name": "A"},)),
        ("A\n\n B ", ("A", "B")),
        ("No 1 headphones", ("No 1 headphones",)),
        ("17", ("17",)),
    ],
)
def test_search_results_are_taken_item_by_item(text, items):
    assert found_items(step(text)) == items


def test_a_failed_search_found_nothing():
    assert found_items(AgentStep(0, "search", {}, result='["A"]', failed=True)) == ()


@pytest.mark.parametrize("text", [None, "", "x", "NaN", '{"a": Infinity}', "[" * 100_000])
def test_what_is_no_json_is_null(text):
    assert json_value(text) is None


# Charts


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (step(chart_type="bar", type="vega"), "bar"),
        (step(type="vega", chart_type="bar"), "bar"),
        (step(spec={"mark": "line"}), "line"),
        (step('{"chart_type": "pie"}', data="x"), "pie"),
        (step("a chart", data="x"), None),
        (step("[1]"), None),
    ],
)
def test_the_kind_of_a_chart_is_what_arguments_or_result_say(step, kind):
    assert chart_type(step) == kind


@pytest.mark.parametrize(
    ("kind", "other", "same"),
    [
        ("bar", "Bar Chart", True),
        ("bar_chart", "column", True),
        ("pie", "doughnut", False),
        ("line-graph", " line", True),
        ("scatterplot", "scatter", True),
        (None, "bar", False),
        ("bar", None, False),
        ("_" * 500_000, "bar", False),
    ],
)
def test_kinds_of_chart_go_by_many_names(kind, other, same):
    assert is_same_chart(kind, other) is same


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
