"""Cases in which every family of judges finds something to ask about, and the configuration of a trial."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit

from assizes.judge.case import Case, Chunk, Expected, ExpectedCall, ExpectedDocument, Turn
from assizes.judge.formats import native_line
from tests.builders import agent, call, case, result, user

SQL = "select count(*) from orders where state = 'late'"
OTHER_SQL = "select count(id) from orders where state like 'late%'"

FAMILIES: Mapping[str, str] = {  # judge -> family
    "conversation": "conversation metrics",
    "diagnosis": "diagnosis",
    "sql": "sql",
    "search": "search",
    "visualization": "visualization",
    "response_quality": "response quality",
    "answer_criteria": "answer criteria",
    "answer_completeness": "answer criteria",
    "relevance_to_query": "rag",
    "groundedness": "rag",
    "safety": "rag",
    "correctness": "rag",
    "context_sufficiency": "rag",
    "chunk_relevance": "rag",
    "run_criteria": "run criteria",
    "politeness": "custom rubric",
}

_CUSTOM = """
kind = "ANSWER"
name = "politeness"
description = "Whether the answer is polite."
question = "Is the answer polite?"
needs = ["request", "response"]
"""
_QUESTIONS = ("Where is order {}?", "Can I return order {}?", "Who packed order {}?")


def write(folder: Path, cases: list[Case]) -> None:
    """Lay out what a trial reads: transcripts, the database of the case, a rubric of the user's own."""
    (folder / "own").mkdir(parents=True)
    (folder / "own" / "politeness.toml").write_text(_CUSTOM)
    (folder / "t.jsonl").write_bytes(native_lines(cases))
    with sqlite3.connect(folder / "shop.sqlite") as database:
        database.execute("create table orders (id integer, state text)")
        database.executemany("insert into orders values (?, 'late')", [(1,), (2,), (3,)])
    database.close()


def native_lines(cases: list[Case]) -> bytes:
    """The cases as a file of transcripts."""
    return b"".join(native_line(one) for one in cases)


def configure(folder: Path, model: str, api_base: str, tables: Mapping[str, Any]) -> None:
    """Write `assizes.toml`; `tables` are added to, and count before, what stands here."""
    body: dict[str, dict[str, Any]] = {
        "transcripts": {"uri": "t.jsonl", "databases": "."},
        "judge": {
            "model": f"openai/{model}",
            "api_base": api_base,
            "temperature": 0.0,
            "rubrics": ["own"],
        },
        "limits": {"max_in_flight": 1, "ledger": "ledger.db"},
        "thresholds": {
            "metrics_pass_threshold": 0,
            "cases_pass_threshold": 0,
            "min_coverage": 0,
        },
        "store": {"uri": "duckdb:///rows.duckdb"},
        "cache": {"uri": "replies"},
        "report": {"uri": "reports"},
    }
    for name, table in tables.items():
        if isinstance(table, Mapping):
            body[name] = {**body.get(name, {}), **table}
    body = {**{k: v for k, v in tables.items() if not isinstance(v, Mapping)}, **body}
    (folder / "assizes.toml").write_text(tomlkit.dumps(body))


def whole() -> Case:
    """A failed case with the ground truth of every family."""
    chunks = (Chunk(content="3 orders are late", doc_uri="kb/late"), Chunk(content="Menu"))
    turns = (
        user("How many orders are late? Show me a chart and the policy."),
        agent(calls=[call("run_sql", id="q", sql=OTHER_SQL)], latency_ms=900),
        result("[[3]]", call_id="q", name="run_sql"),
        agent(calls=[call("product_search", id="s", query="late policy")]),
        result('["late policy"]', call_id="s", name="product_search").model_copy(
            update={"chunks": chunks}
        ),
        agent(calls=[call("create_chart", id="c", chart_type="bar")]),
        result("ok", call_id="c", name="create_chart"),
        agent("3 orders are late. Late orders are refunded within 5 days.", latency_ms=700),
    )
    expected = Expected(
        outcomes=("The number of late orders was told.",),
        tool_calls=(ExpectedCall(name="run_sql", arguments={"sql": SQL}),),
        sql=SQL,
        database="shop.sqlite",
        search_results=("late policy",),
        has_chart=True,
        chart_type="bar",
        response_quality="tells that 3 orders are late",
        acceptance_criteria=("3 orders are late", "A late order is refunded within 5 days"),
        response="3 orders are late. Late orders are refunded within 5 days.",
        retrieved_context=(ExpectedDocument(doc_uri="kb/late"),),
    )
    return case(*turns, case_id="whole", expected=expected, labels={"reward": 0.0})


def long_run() -> Case:
    """A run of a hundred turns that the judge `run_criteria` must look into."""
    turns: list[Turn] = [user("Ship the forty oldest orders, then tell me how many went out.")]
    for number in range(40):
        row = json.dumps(
            {"order": number, "state": "shipped", "carrier": "north", "note": "x" * 90}
        )
        turns += [
            agent(calls=[call("ship", id=f"c{number}", order=number)]),
            result(row, call_id=f"c{number}", name="ship"),
        ]
    turns.append(agent("All 40 orders were shipped."))
    criteria = ("Order 17 was shipped.", "The user was told how many orders went out.")
    return case(*turns, case_id="long", expected=Expected(acceptance_criteria=criteria))


def short_ones(count: int, *, other: bool = False) -> list[Case]:
    """Cases with a question and an answer; `other`: with another answer to the same questions."""
    told = "I do not know." if other else "It is on its way and arrives on Friday."
    return [
        case(
            user(_QUESTIONS[number % 3].format(number)),
            agent(f"{told} (order {number})"),
            case_id=f"s{number}",
        )
        for number in range(count)
    ]
