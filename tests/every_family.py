"""A case in which every family of judges finds something to ask about, its database and a rubric of the user's own."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from assizes.judge.case import Case, Chunk, Expected, ExpectedCall, ExpectedDocument
from tests.builders import agent, call, case, result, user

SQL = "select count(*) from orders where state = 'late'"
POLITENESS = """
kind = "ANSWER"
name = "politeness"
description = "Whether the answer is polite."
question = "Is the answer polite?"
needs = ["request", "response"]
"""


def lay_out(folder: Path) -> None:
    """Write the database and the rubric into a folder: `shop.sqlite` and `own/politeness.toml`."""
    with sqlite3.connect(folder / "shop.sqlite") as database:
        database.execute("create table orders (id integer, state text)")
        database.executemany("insert into orders values (?, 'late')", [(1,), (2,), (3,)])
    database.close()
    (folder / "own").mkdir()
    (folder / "own" / "politeness.toml").write_text(POLITENESS)


def whole_case(reward: float, run_sql: str = SQL, **expected: Any) -> Case:
    """A case with the ground truth of every family; `expected` adds to it, `run_sql` is what ran."""
    chunks = (Chunk(content="3 orders are late", doc_uri="kb/late"), Chunk(content="Menu"))
    turns = (
        user("How many orders are late? Show me a chart and the policy."),
        agent(calls=[call("run_sql", id="q", sql=run_sql)], latency_ms=900),
        result("[[3]]", call_id="q", name="run_sql"),
        agent(calls=[call("product_search", id="s", query="late policy")]),
        result('["late policy"]', call_id="s", name="product_search").model_copy(
            update={"chunks": chunks}
        ),
        agent(calls=[call("create_chart", id="c", chart_type="bar")]),
        result("ok", call_id="c", name="create_chart"),
        agent("3 orders are late. Late orders are refunded within 5 days.", latency_ms=700),
    )
    truth: dict[str, Any] = {
        "outcomes": ("The number of late orders was told.",),
        "tool_calls": (ExpectedCall(name="run_sql", arguments={"sql": SQL}),),
        "sql": SQL,
        "database": "shop.sqlite",
        "search_results": ("late policy",),
        "has_chart": True,
        "chart_type": "bar",
        "response_quality": "tells that 3 orders are late",
        "response": "3 orders are late. Late orders are refunded within 5 days.",
        "retrieved_context": (ExpectedDocument(doc_uri="kb/late"),),
    }
    labels = {"reward": reward}
    return case(*turns, case_id="whole", expected=Expected(**truth | expected), labels=labels)
