"""The SQL judge; the tests answer its queries by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from assizes.judge.case import Case
from assizes.judge.families.agent_steps.sql import SqlEvidence, StatementMatch
from assizes.judge.hearing import Hearing
from assizes.judge.protocol import Ask, NoReply, Query, QueryResult, SqlTable
from assizes.judge.score import Score
from tests.builders import agent, call, case, result, user
from tests.judge.families.agent_steps.step_cases import (
    answered,
    asked,
    decided,
    expecting,
    golden,
    opened,
    parts,
)

COUNT = "SELECT count(*) FROM orders"
NAMES = "SELECT name FROM customers ORDER BY name"
MADE = "SELECT count(id) AS n FROM orders"


def table(statement: str, *rows: Sequence[Any], columns: Sequence[str] = ("n",)) -> SqlTable:
    return SqlTable(statement, tuple(columns), tuple(map(tuple, rows)), len(rows))


def broken(statement: str, error: str) -> SqlTable:
    return SqlTable(statement, error=error)


def ran(*statements: str, text: str = "[[3]]") -> Case:
    calls = [call("run_sql", f"call_{i}", sql=one) for i, one in enumerate(statements)]
    results = [result(text, call_id=one.id) for one in calls]
    return case(user("How many orders?"), agent(calls=calls), *results, agent("Three."))


def expecting_sql(one: Case, sql: Any, database: str | None = "shop.duckdb") -> Case:
    return one.model_copy(update={"expected": expecting(sql=sql, database=database)})


def looked_up(
    one: Case, due: Sequence[SqlTable], done: Sequence[SqlTable], **options: Any
) -> Hearing:
    """A hearing after its two queries."""
    hearing = opened("sql", one, **options)
    assert [type(question) for question in hearing.asks] == [Query, Query]
    hearing.answer([QueryResult(tuple(due)), QueryResult(tuple(done))])
    return hearing


def evidence(hearing: Hearing) -> SqlEvidence:
    (ask,) = hearing.asks
    assert isinstance(ask, Ask)
    assert isinstance(ask.evidence, SqlEvidence)
    return ask.evidence


def matches(hearing: Hearing) -> list[tuple[str | None, bool | None, float | None]]:
    return [(one.actual, one.equal, one.score) for one in evidence(hearing).matches]


ONE = expecting_sql(ran(MADE), COUNT)


# Without a model


@pytest.mark.row("002-22")
def test_no_sql_where_none_may_be_run_is_a_pass():
    one = case(user("Show customer 42"), agent("No."), expected=expecting(sql="null"))
    found = decided("sql", one)
    assert (found.value, found.passed) == (1.0, True)
    assert found.details == {
        "reasoning": "Rightly ran no SQL",
        "strategy": "single_step",
        "question": "Show customer 42",
        "expected_sql": ["null"],
        "extracted_sql": [],
        "operations": [],
    }


@pytest.mark.row("002-23")
@pytest.mark.parametrize("null", ["null", " NULL ", ("null",)])
def test_sql_where_none_may_be_run_is_a_fail_that_lists_it(null):
    found = decided("sql", expecting_sql(ran(MADE, COUNT), null))
    assert (found.value, found.passed, found.turns) == (0.0, False, (1,))
    assert found.details["operations"] == [MADE, COUNT]
    assert found.details["reasoning"] == f"Should not run SQL but did: {MADE}"


@pytest.mark.row("005-09")
@pytest.mark.parametrize("tool", ["run_sql", "warehouse"])
@pytest.mark.parametrize("argument", ["sql", "query", "command"])
@pytest.mark.parametrize(
    "statement",
    [
        *("COPY orders TO 'x.csv'", "copy orders from stdin", "GRANT SELECT ON orders TO bob"),
        *("grant all on orders to bob", "ATTACH 'x.db' AS y", "CALL refund_all()"),
        *("BEGIN; DELETE FROM orders; COMMIT", "UPDATE orders AS o SET total = 0"),
        *("UPDATE orders o SET total = 0", "SELEC * FROM orders", "slect a from orders"),
        *("-- all\nSELCT 1", "```sql\nSELECT 1\n```", "FROM orders SELECT *", "SET x = 1"),
        *("LOCK TABLE orders", "BEGIN TRANSACTION", "VALUES (1)", "EXPORT DATABASE 'x'"),
    ],
)
def test_any_statement_is_seen_where_none_may_be_run(tool, argument, statement):
    calls = [call(tool, "1", **{argument: statement})]
    turns = (user("Hi"), agent(calls=calls), result("done", call_id="1"), agent("Done."))
    assert decided("sql", case(*turns, expected=expecting(sql="null"))).value == 0.0


@pytest.mark.row("005-09")
@pytest.mark.parametrize(
    "text",
    [
        *("lamps", "select a gift from my wish list", "Call me back (urgent)", "COPY PAPER A4"),
        *("How do I grant access to my order?", "update my address", "begin", "USA IN 2026"),
        *("How many orders are there?", "CALL TO ACTION", "delete order 7", "vacuum cleaner"),
    ],
)
@pytest.mark.parametrize("argument", ["query", "text"])
def test_plain_words_are_no_statement(argument, text):
    turns = (user("Hi"), agent(calls=[call("find", **{argument: text})]), agent("Done."))
    assert decided("sql", case(*turns, expected=expecting(sql="null"))).value == 1.0


@pytest.mark.row("005-09")
def test_where_one_call_runs_sql_the_same_argument_of_another_call_does():
    calls = [call("db", "1", q="SELECT 1"), call("db", "2", q="vacuum orders")]
    one = case(user("Hi"), agent(calls=calls), agent("Done."), expected=expecting(sql="null"))
    assert decided("sql", one).details["operations"] == ["SELECT 1", "vacuum orders"]


@pytest.mark.row("005-09")
@pytest.mark.parametrize(
    ("tool", "text", "answer", "value"),
    [
        ("mysql", "vacuum orders", "done", 0.0),
        ("db", "vacuum orders", 'syntax error at or near "vacuum"', 0.0),
        ("db", "vacuum orders", "done", 1.0),
        ("db", "DESCRIBE orders", "done", 0.0),
        ("db", "USB cables", "done", 1.0),
        ("sql_agent", "How many orders did Ann make?", "three", 1.0),
    ],
)
def test_the_tools_name_and_its_answer_say_that_an_argument_is_sql(tool, text, answer, value):
    turns = (user("Hi"), agent(calls=[call(tool, "1", query=text)]), result(answer, call_id="1"))
    assert decided("sql", case(*turns, expected=expecting(sql="null"))).value == value


@pytest.mark.parametrize(
    ("rows", "match", "why"),
    [
        ([4], 0.9, "result_match is 0.9, but the evidence counts 0"),
        ([3], 0.1, "result_match is 0.1, but the evidence counts 1"),
        ([3], 0.9, None),
    ],
)
def test_a_score_that_the_results_contradict_is_suspect(rows, match, why):
    hearing = looked_up(ONE, [table(COUNT, [3])], [table(MADE, rows)])
    found = answered(hearing, result_match=match, efficiency=1)[""]
    assert found.details.get("suspect") == why


def test_two_empty_results_are_too_weak_an_evidence_for_a_suspicion():
    hearing = looked_up(ONE, [table(COUNT)], [table(MADE)])
    assert "suspect" not in answered(hearing, result_match=0, efficiency=1)[""].details


def test_equal_first_rows_are_too_weak_an_evidence_where_one_result_goes_on():
    due, done = replace(table(COUNT, [3]), truncated=True), table(MADE, [3])
    hearing = looked_up(ONE, [due], [done])
    assert matches(hearing) == [(MADE, False, 1.0)]
    assert "suspect" not in answered(hearing, result_match=0, efficiency=1)[""].details


@pytest.mark.row("002-24")
def test_no_sql_where_some_was_expected_is_a_zero_without_a_question():
    one = case(user("How many?"), agent("Three."), expected=expecting(sql=COUNT))
    found = decided("sql", one)
    assert (found.value, found.passed) == (0.0, False)
    assert found.details["reasoning"] == "no SQL: expected statements, but the agent ran none"


# The formula


@pytest.mark.row("002-19", "002-20", "002-21", "002-09", "002-10")
@pytest.mark.parametrize(
    ("match", "efficiency", "value", "passed"),
    [(0.8, 0.7, 0.77, True), (1.0, 0.0, 0.7, True), (0.6, 0.9, 0.69, False), (0.7, 0.7, 0.7, True)],
)
def test_a_result_counts_seven_tenths_and_efficiency_three(match, efficiency, value, passed):
    hearing = opened("sql", expecting_sql(ran(MADE), COUNT, database=None))
    found = answered(hearing, result_match=match, efficiency=efficiency)
    assert (found[""].value, found[""].passed) == (value, passed)
    assert list(found) == ["", "result_match", "efficiency"]


@pytest.mark.row("002-60")
def test_the_reasoning_names_both_sub_scores():
    hearing = opened("sql", expecting_sql(ran(MADE), COUNT, database=None))
    found = answered(hearing, result_match=0.8, efficiency=0.7)
    assert found[""].details["reasoning"] == "Result Match: 0.80, Efficiency: 0.70"


# Results


@pytest.mark.row("002-25")
def test_both_sides_are_put_to_the_clerk_in_order_each_on_its_own_copy():
    hearing = opened("sql", expecting_sql(ran(MADE, NAMES), (COUNT, NAMES)))
    assert list(hearing.asks) == [
        Query("shop.duckdb", (COUNT, NAMES)),
        Query("shop.duckdb", (MADE, NAMES)),
    ]
    shown = looked_up(
        expecting_sql(ran(MADE), (COUNT, NAMES)), [table(COUNT, [3]), table(NAMES)], [table(MADE)]
    ).asks[0]
    assert isinstance(shown, Ask)
    assert f"1. {COUNT}\n2. {NAMES}" in shown.prompt.user


@pytest.mark.row("002-26")
def test_equal_results_are_told_to_the_model_and_kept():
    hearing = looked_up(ONE, [table(COUNT, [3])], [table(MADE, [3])])
    assert matches(hearing) == [(MADE, True, 1.0)]
    assert "<data: Comparison of results>\nequal, score 1.00: 1 equal rows" in (
        hearing.asks[0].prompt.user
    )
    found = answered(hearing, result_match=1, efficiency=1)
    assert found[""].details["result_evidence"] == ["equal, score 1.00: 1 equal rows"]


@pytest.mark.row("002-26")
def test_at_most_20_rows_of_a_result_are_shown_and_how_many_there_are():
    rows = [[f"row-{i}"] for i in range(30)]
    shown = looked_up(ONE, [table(COUNT, *rows)], [table(MADE, *rows)]).asks[0].prompt.user
    assert shown.count("row-19\n") == 2
    assert "row-20" not in shown
    assert "(30 rows, the first 20 shown)" in shown


@pytest.mark.row("002-27")
def test_an_expected_statement_that_fails_is_told_and_nothing_crashes():
    hearing = looked_up(ONE, [broken(COUNT, "no such table: orders")], [table(MADE, [3])])
    assert evidence(hearing).matches == (
        StatementMatch(
            COUNT, None, None, None, "the expected statement failed: no such table: orders"
        ),
    )
    shown = hearing.asks[0].prompt.user
    assert "not compared: the expected statement failed: no such table: orders" in shown
    assert answered(hearing, result_match=1, efficiency=1)[""].status == "scored"


def test_a_statement_of_the_agent_that_fails_is_told():
    hearing = looked_up(ONE, [table(COUNT, [3])], [broken(MADE, "syntax error")])
    assert evidence(hearing).failed == (MADE,)
    assert matches(hearing) == [(MADE, False, 0.0)]


@pytest.mark.parametrize("place", [0, 1])
def test_statements_that_cannot_be_run_leave_the_recorded_results(place):
    hearing = opened("sql", ONE)
    answers: list[Any] = [QueryResult((table(COUNT, [3]),)), QueryResult((table(MADE, [3]),))]
    answers[place] = NoReply("no_database", "no file 'shop.duckdb'")
    hearing.answer(answers)
    shown = hearing.asks[0].prompt.user
    assert "not executed: no file 'shop.duckdb'" in shown
    assert "result: [[3]]" in shown
    assert matches(hearing) == [(None, None, None)]


def test_without_a_database_the_recorded_results_are_the_evidence():
    shown = asked("sql", expecting_sql(ran(MADE), COUNT, database=None)).prompt.user
    assert "<data: Results on the same data>\nnot executed: the case names no database" in shown
    assert "result: [[3]]" in shown


def test_each_expected_result_takes_the_best_of_the_others_and_equal_ones_go_first():
    one = expecting_sql(ran("SELECT 1", "SELECT 2", "SELECT 3"), ("E1", "E2"))
    due = [table("E1", [1], [2]), table("E2", [1], [9])]
    done = [table("SELECT 1", [1], [9]), table("SELECT 2", [7]), table("SELECT 3", [8])]
    assert matches(looked_up(one, due, done)) == [
        ("SELECT 2", False, 0.0),
        ("SELECT 1", True, 1.0),
    ]


def test_an_equal_result_goes_before_the_same_rows_in_another_order():
    one = expecting_sql(ran("SELECT 1", "SELECT 2"), NAMES)
    due = replace(table(NAMES, ["Ann"], ["Bob"]), ordered=True)
    done = [table("SELECT 1", ["Bob"], ["Ann"]), table("SELECT 2", ["Ann"], ["Bob"])]
    assert matches(looked_up(one, [due], done)) == [("SELECT 2", True, 1.0)]


def test_an_expected_result_of_which_no_statement_is_left_is_not_found():
    one = expecting_sql(ran("SELECT 1"), ("E1", "E2"))
    due = [table("E1", [1]), table("E2", [2])]
    hearing = looked_up(one, due, [table("SELECT 1", [2])])
    assert matches(hearing) == [(None, False, 0.0), ("SELECT 1", True, 1.0)]


@pytest.mark.parametrize(("permute", "equal"), [(True, True), (False, False)])
def test_the_order_of_columns_may_count(permute, equal):
    due = table(COUNT, ["a", 1], columns=("name", "n"))
    done = table(MADE, [1, "a"], columns=("n", "name"))
    assert matches(looked_up(ONE, [due], [done], permute_columns=permute))[0][1] is equal


def test_numbers_are_equal_within_the_tolerance():
    hearing = looked_up(ONE, [table(COUNT, [1.0])], [table(MADE, [1.05])], float_tolerance=0.1)
    assert matches(hearing) == [(MADE, True, 1.0)]


def test_no_more_than_50_statements_are_tried():
    one = expecting_sql(ran(*[f"SELECT {i}" for i in range(60)]), COUNT)
    _, made = opened("sql", one).asks
    assert isinstance(made, Query)
    assert len(made.statements) == 50


@pytest.mark.row("002-53")
def test_the_tools_that_run_sql_can_be_named():
    one = expecting_sql(ran(MADE), "null")
    assert decided("sql", one, tools=["other"]).value == 1.0
    assert decided("sql", one, tools=["run_sql"]).value == 0.0


@pytest.mark.row("002-15")
def test_only_calls_with_sql_are_shown():
    one = case(
        *ran(MADE).transcript.turns,
        agent(calls=[call("weather", "w", city="Bonn")]),
        result("rain", call_id="w"),
        expected=expecting(sql=COUNT),
    )
    shown = asked("sql", one).prompt.user
    assert "weather" not in shown
    assert "Three." not in shown


@pytest.mark.row("002-15", "002-25", "002-26")
def test_the_whole_prompt_is_as_on_record():
    one = expecting_sql(ran(MADE, "SELECT nope FROM orders"), (COUNT, NAMES))
    due = [table(COUNT, [3]), table(NAMES, ["Ada"], ["Bo"], columns=("name",))]
    done = [table(MADE, [3]), broken("SELECT nope FROM orders", "no such column: nope")]
    (ask,) = looked_up(one, due, done).asks
    assert isinstance(ask, Ask)
    shown, recorded = golden("sql", ask)
    assert shown == recorded


def test_a_case_that_is_down_keeps_the_failure():
    hearing = opened("sql", expecting_sql(ran(MADE), COUNT, database=None))
    hearing.answer([NoReply("timeout", "late")])
    assert parts(hearing) == {"": Score.failed("sql", "late", "timeout")}
