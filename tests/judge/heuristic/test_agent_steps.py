"""The offline rules for the agent-step judges."""

from __future__ import annotations

from typing import Any

import pytest

from assizes.judge.case import Case
from assizes.judge.config.judging import LimitsConfig
from assizes.judge.engine.hearings import Engine
from assizes.judge.evidence.step_kinds import SqlCall
from assizes.judge.evidence.steps import AgentStep
from assizes.judge.families.agent_steps.conversations import ResponseEvidence
from assizes.judge.families.agent_steps.single_steps import SearchEvidence, VisualizationEvidence
from assizes.judge.families.agent_steps.sql import SqlEvidence, StatementMatch
from assizes.judge.families.criteria.asks import CoverageEvidence, DecomposeEvidence
from assizes.judge.heuristic.agent_steps import (
    ANSWERS,
    efficiency,
    response_quality,
    search,
    sql,
    visualization,
)
from assizes.judge.heuristic.answers import HeuristicModel
from tests.builders import agent, call, case, result, user
from tests.judge.families.agent_steps.step_cases import expecting, judge_named


def scores(reply: dict[str, Any]) -> tuple[float, ...]:
    assert all(part["reasoning"].startswith("Plain text rule: ") for part in reply.values())
    return tuple(part["score"] for part in reply.values())


def sql_asked(
    *made: str, expected: str = "SELECT name FROM t", failed: Any = (), **match: Any
) -> SqlEvidence:
    known = {"actual": None, "equal": None, "score": None, "reason": "why"} | match
    calls = tuple(
        SqlCall(statement, AgentStep(1, "run_sql", {"sql": statement})) for statement in made
    )
    return SqlEvidence(("q",), (expected,), calls, (StatementMatch(expected, **known),), failed)


def response(text: str, expected: str = "Says it is shipped", **rest: Any) -> ResponseEvidence:
    facts = {"context": "", "requests": ("Where is order 1234?",), "steps": (), "refusal": False}
    return ResponseEvidence(**(facts | rest), expected=expected, response=text)


# SQL


@pytest.mark.parametrize("score", [1.0, 0.4, 0.0])
def test_compared_results_decide_the_match(score):
    evidence = sql_asked("SELECT 1", equal=score == 1, score=score)
    assert sql(evidence)["result_match"]["score"] == score


@pytest.mark.parametrize(
    ("made", "score"),
    [
        ("select  NAME from t;", 1.0),
        ("SELECT name FROM t WHERE a = 1", 0.5),
        ("DROP x", 0.0),
    ],
)
def test_results_not_compared_leave_the_words_of_the_closest_statement(made, score):
    assert sql(sql_asked(made, "DROP y"))["result_match"]["score"] == score


def test_several_expected_results_count_alike():
    one = sql_asked("SELECT 1", equal=True, score=1.0)
    two = sql_asked("SELECT 1", equal=False, score=0.5)
    both = SqlEvidence(one.requests, one.expected * 2, one.calls, one.matches + two.matches)
    assert sql(both)["result_match"]["score"] == 0.75


@pytest.mark.parametrize(
    ("evidence", "score"),
    [
        (sql_asked("SELECT name FROM t"), 1.0),
        (sql_asked("SELECT * FROM t"), 0.7),
        (sql_asked("SELECT * FROM t", expected="SELECT * FROM t"), 1.0),
        (sql_asked("SELECT a FROM t", "select a from t ;"), 0.8),
        (sql_asked("SELECT a FROM t", "SELECT b FROM t", failed=("SELECT b FROM t",)), 0.8),
        (sql_asked(*["SELECT * FROM t"] * 9), 0.0),
    ],
)
def test_efficiency_loses_for_select_star_repeats_and_failures(evidence, score):
    assert round(efficiency(evidence)[0], 9) == score


def test_statements_that_an_outage_prevented_cost_no_efficiency():
    calls = [
        SqlCall("SELECT 1", AgentStep(turn, "run_sql", {}, failed=turn < 3, prevented=turn < 3))
        for turn in range(4)
    ]
    evidence = SqlEvidence(("q",), ("SELECT 1",), tuple(calls), (), ())
    assert efficiency(evidence)[0] == 1.0


# Search


@pytest.mark.parametrize(
    ("found", "covered", "expected"),
    [
        (("red lamp", "blue sofa"), (True, False), (0.5, 0.5)),
        (("desk", "lamp"), (True, True), (1.0, 1.0)),
        ((), (False, False), (0.0, 0.0)),
        ((), (), (0.0, 0.0)),
        (({"name": "lamp"}, "sofa"), (), (0.5, 0.5)),
    ],
)
def test_a_search_is_judged_by_coverage_and_shared_words(found, covered, expected):
    evidence = SearchEvidence(("Find a lamp",), ("lamp", "desk"), found, (), covered)
    assert scores(search(evidence)) == expected


# Visualization


def charts(request: str, *made: str | None, kind: str = "any") -> VisualizationEvidence:
    return VisualizationEvidence((request,), kind, (), made)


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        (charts("Draw sales", "Bar Chart", kind="bar"), (1.0, 1.0)),
        (charts("Draw sales", "line", kind="bar"), (1.0, 0.0)),
        (charts("Draw sales", "line"), (1.0, 0.8)),
        (charts("The sales trend", "line"), (0.8, 1.0)),
        (charts("The sales trend", "pie"), (0.8, 0.5)),
        (charts("Shares: the breakdown", "pie"), (0.8, 1.0)),
        (charts("Is there a correlation?", "scatter plot"), (0.8, 1.0)),
        (charts("Sales per region", "column"), (0.8, 1.0)),
        (charts("How many?", "bar"), (0.5, 0.8)),
        (charts("Draw sales"), (0.0, 0.0)),
    ],
)
def test_a_chart_is_judged_by_the_words_of_the_request_and_its_kind(evidence, expected):
    assert scores(visualization(evidence)) == expected


# Response quality


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        (response("It says shipped"), (1.0, 1.0)),
        (response("Shipped."), (0.5, 1.0)),
        (response("Order 1234 says 999 were shipped"), (1.0, 0.5)),
        (response("Order 999", context="ids: 999"), (0.0, 1.0)),
        (response("Order 999", steps=(AgentStep(0, "t", {"id": 999}),)), (0.0, 1.0)),
        (
            response("Order 999", steps=(AgentStep(0, "t", {}, raw="id 999", result=None),)),
            (0.0, 1.0),
        ),
        (response("Order 999", steps=(AgentStep(0, "t", {}, result="999"),)), (0.0, 1.0)),
        (response("I cannot.", "Politely refuses"), (1.0, 1.0)),
        (response("It is shipped.", "cannot access other customer"), (0.0, 1.0)),
        (response("I am sorry, no.", refusal=True), (1.0, 1.0)),
        (response("It is shipped.", refusal=True), (0.0, 1.0)),
        (response("Fine", "is it"), (0.0, 1.0)),
    ],
)
def test_a_response_is_judged_by_expected_words_refusals_and_grounded_figures(evidence, expected):
    assert scores(response_quality(evidence)) == expected


# All together


CASES: dict[str, Case] = {
    "sql": case(
        user("Names?"),
        agent(calls=[call("run_sql", sql="SELECT name FROM t")]),
        result("[]"),
        expected=expecting(sql="SELECT name FROM t"),
    ),
    "search": case(
        user("Find a lamp"),
        agent(calls=[call("product_search", query="lamp")]),
        result('["Lamp"]'),
        expected=expecting(search_results=["Lamp"]),
    ),
    "visualization": case(
        user("Draw sales"),
        agent(calls=[call("create_chart", chart_type="bar")]),
        result("done"),
        expected=expecting(chart_type="bar"),
    ),
    "response_quality": case(
        user("Hi"), agent("Hello there"), expected=expecting(response_quality="Says hello there")
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_the_offline_judge_answers_every_agent_step_judge(name):
    engine = Engine(HeuristicModel(), LimitsConfig(max_in_flight=1, timeout_s=5))
    heard = await engine.hear(judge_named(name), CASES[name])
    assert [score.status for score in heard.scores] == ["scored"] * 3
    assert heard.scores[0].passed is True
    assert engine.cost_usd == 0


def test_every_kind_of_evidence_has_a_rule_with_a_description():
    kinds = [SqlEvidence, SearchEvidence, VisualizationEvidence, ResponseEvidence]
    assert list(ANSWERS) == [*kinds, DecomposeEvidence, CoverageEvidence]
    assert all(rule.__doc__ for rule in ANSWERS.values())
