"""What steps do, read off what they take and return and off names: SQL, searches and charts."""

from __future__ import annotations

import time
from typing import Any

import pytest

from assizes.judge.evidence.step_kinds import (
    SqlCall,
    chart_steps,
    chart_type,
    found_items,
    is_same_chart,
    is_sql,
    search_steps,
    sql_calls,
)
from assizes.judge.evidence.steps import AgentStep

KEYS = ("sql", "query", "statement")


def step(result: str | None = None, raw: str | None = None, **arguments: Any) -> AgentStep:
    return AgentStep(0, "tool", arguments, raw=raw, result=result)


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


@pytest.mark.row("005-10")
@pytest.mark.parametrize(
    ("step", "is_search"),
    [
        (step('["A"]', query="lamp"), True),
        (step("A red lamp, in stock", query="lamp"), True),
        (step("timeout", search_terms=["lamp"]), True),
        (step('[{"no": "HAT1"}]', origin="Oslo", date="2026-03-01"), True),
        (step("No articles found", text="refunds"), True),
        (step('["A1"]', customer_id="C7"), False),
        (step('["A1"]', customer="C7"), False),
        (step("Error: order not found", order_id="#W1", reason="late"), False),
        (step("[]", flight="HAT7", cabin="business"), False),
        (step('{"id": 1, "tags": ["a"]}', name="lamp"), False),
        (step("", thought="I should look it up"), False),
        (step("4", query="2 + 2"), False),
        (step("[[1]]", query="SELECT 1"), False),
        (step("sent", text="Your parcel is here"), False),
        (step('["A1"]', query="sales", chart_type="bar"), False),
    ],
)
def test_a_search_takes_words_and_returns_a_list_or_is_named_for_a_query(step, is_search):
    assert search_steps([step], ()) == ((step,) if is_search else ())


@pytest.mark.row("002-53", "005-10")
def test_every_call_of_a_tool_that_searches_is_a_search_and_named_tools_decide_alone():
    found, failed = step('["A"]', text="lamp"), step("down", text="desk")
    other = AgentStep(1, "other", {"query": "lamp"}, result='["A"]')
    assert search_steps([found, failed, other], ()) == (found, failed, other)
    assert search_steps([found, failed, other], ["other"]) == (other,)


def test_a_tool_that_runs_sql_does_not_search():
    ran = AgentStep(0, "db", {"query": "SELECT 1"}, result="[[1]]")
    odd = AgentStep(1, "db", {"query": "vacuum orders"}, result="done")
    assert search_steps([ran, odd], ()) == ()


def test_a_title_that_speaks_of_an_error_is_an_item():
    assert found_items(step("Error codes of the oven\nLogin failed: what to do")) != ()
    assert found_items(step("Error 404 explained")) == ("Error 404 explained",)


def test_handing_over_to_a_sub_agent_is_no_search_but_what_the_sub_agent_does():
    handed = AgentStep(0, "helper", {"query": "find a lamp"}, result="found")
    inner = AgentStep(0, "look", {"query": "lamp"}, result="[]", within=("helper",))
    assert search_steps([handed, inner], ()) == (inner,)


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


@pytest.mark.row("005-10")
@pytest.mark.parametrize(
    ("step", "is_chart"),
    [
        (step(kind="scatter"), True),
        (step(plot_type="any"), True),
        (step('["Blue Bar"]', type="bar", city="Oslo"), False),
        (step(type="bar", data=[1]), True),
        (step("clicked", x=10, y=20), False),
        (step("clicked", x="10", y="20"), False),
        (step("https://x.org/cat.png", prompt="a cat"), False),
        (step("graph", graph="friends"), False),
        (step(flight_type="round_trip"), False),
        (step('["A"]', query="bar chart"), False),
    ],
)
def test_a_chart_takes_a_kind_or_both_axes_or_turns_data_into_an_image(step, is_chart):
    assert chart_steps([step], ()) == ((step,) if is_chart else ())
