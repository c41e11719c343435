"""One run with every judge switched on: one table, every family's columns filled."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from assizes.deployments.commands.output import judge_line
from assizes.deployments.settings import validate_config
from assizes.flows.evaluate import evaluate
from assizes.flows.outcome import RunOutcome
from assizes.judge.case import Case, Chunk, Expected, ExpectedCall, ExpectedDocument, Turn
from assizes.judge.catalog import JUDGES
from assizes.judge.config.run import RunConfig
from assizes.judge.formats import native_line
from assizes.judge.summary.wide_table import results_frame
from assizes.tasks.store import open_store
from tests.builders import agent, call, case, result, user

pytestmark = pytest.mark.usefixtures("prefect_server")

SQL = "select count(*) from orders where state = 'late'"
CUSTOM = """
kind = "ANSWER"
name = "politeness"
description = "Whether the answer is polite."
question = "Is the answer polite?"
needs = ["request", "response"]
"""
FUNCTION = """
from assizes.judge.score import Score

def short(case):
    return [Score("short", value=float(len(case.transcript.turns) < 10), raw=1.0)]

def broken(case):
    raise ZeroDivisionError("no turns to divide by")
"""


def whole(folder: Path) -> Case:
    """A case with the ground truth of every family."""
    chunks = (Chunk(content="3 orders are late", doc_uri="kb/late"), Chunk(content="Menu"))
    turns = (
        user("How many orders are late? Show me a chart and the policy."),
        agent(calls=[call("run_sql", id="q", sql=SQL)], latency_ms=900),
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
        database=str(folder / "shop.sqlite"),
        search_results=("late policy",),
        has_chart=True,
        chart_type="bar",
        response_quality="tells that 3 orders are late",
        trajectory=((ExpectedCall(name="run_sql"), ExpectedCall(name="create_chart")),),
        acceptance_criteria="3 orders are late; refunded within 5 days",
        response="3 orders are late. Late orders are refunded within 5 days.",
        retrieved_context=(ExpectedDocument(doc_uri="kb/late"),),
    )
    return case(*turns, case_id="whole", expected=expected, labels={"reward": 1.0})


def bare(*turns: Turn) -> Case:
    return case(*turns, case_id="bare")


@pytest.fixture
def wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judge_server) -> RunConfig:
    with sqlite3.connect(tmp_path / "shop.sqlite") as database:
        database.execute("create table orders (id integer, state text)")
        database.executemany("insert into orders values (?, 'late')", [(1,), (2,), (3,)])
    database.close()
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "politeness.toml").write_text(CUSTOM)
    (tmp_path / "own_judges.py").write_text(FUNCTION)
    monkeypatch.syspath_prepend(str(tmp_path))
    cases = [whole(tmp_path), bare(user("Hello"), agent("Hello, how can I help?"))]
    (tmp_path / "t.jsonl").write_bytes(b"".join(native_line(one) for one in cases))
    body: dict[str, Any] = {
        "name": "every",
        "transcripts": {"uri": str(tmp_path / "t.jsonl"), "databases": str(tmp_path)},
        "judge": {
            "model": "openai/gpt-4o-mini",
            "api_base": judge_server.api_base,
            "judges": [*JUDGES, "politeness", "own_judges:short"],
            "rubrics": [str(tmp_path / "own")],
        },
        "thresholds": {"metrics_pass_threshold": 0, "cases_pass_threshold": 0, "min_coverage": 0.5},
        "store": {"uri": f"duckdb:///{tmp_path}/rows.duckdb"},
        "cache": {"uri": str(tmp_path / "replies")},
        "report": {"uri": str(tmp_path / "reports")},
        "limits": {"ledger": str(tmp_path / "ledger.db")},
    }
    return validate_config(body, "test")


async def run(config: RunConfig) -> tuple[RunOutcome, dict[str, pl.DataFrame]]:
    state = await evaluate(config, return_state=True)
    outcome = await state.aresult(raise_on_failure=False)
    assert isinstance(outcome, RunOutcome), outcome
    with open_store(config.store) as store:
        names = ("scores", "asks", "cases", "run_metrics")
        return outcome, {name: store.table(outcome.run_id, name) for name in names}


@pytest.mark.row("002-56", "004-76", "004-91")
async def test_every_family_fills_its_columns_and_says_why_it_skipped(
    wanted: RunConfig, judge_server
):
    outcome, rows = await run(wanted)
    headlines = rows["scores"].filter(pl.col("part") == "")
    of_whole = headlines.filter(pl.col("case_id") == "whole")
    not_scored = of_whole.filter(pl.col("status") != "scored")
    assert dict(not_scored.select("metric", "status").iter_rows()) == {
        "total_input_token_count": "skipped",
        "total_output_token_count": "skipped",
        "total_token_count": "skipped",
        "latency_seconds": "skipped",
        "diagnosis": "skipped",  # the case does not say that it failed
    }
    assert set(of_whole["judge"]) == {*JUDGES, "politeness", "short"}

    skipped = headlines.filter((pl.col("case_id") == "bare") & (pl.col("status") == "skipped"))
    assert {"sql", "search", "visualization", "correctness"} <= set(skipped["metric"])
    assert skipped["reason"].null_count() == 0

    assert judge_server.stats()["requests"] == rows["asks"]["attempts"].sum()
    assert rows["asks"]["attempts"].unique().to_list() == [1]
    split = rows["asks"].group_by("judge").agg(pl.col("cost_usd").sum())
    assert split["cost_usd"].min() > 0
    assert outcome.summary.total_platform_cost_usd == pytest.approx(split["cost_usd"].sum())

    published = dict(rows["run_metrics"].select("name", "value").iter_rows())
    assert published["response/llm_judged/correctness/rating/percentage"] == 1.0
    assert published["retrieval/ground_truth/document_recall/average"] == 1.0
    assert published["response/llm_judged/politeness/rating/percentage"] == 1.0
    wide = results_frame(rows["cases"], rows["scores"])
    assert wide.height == 2
    assert "retrieval/llm_judged/chunk_relevance/ratings" in wide.columns


async def test_a_judge_with_a_bug_costs_its_own_scores_only(wanted: RunConfig):
    judge = wanted.judge.model_copy(
        update={"judges": ("conversation", "own_judges:broken"), "model": None, "api_base": None}
    )
    outcome, rows = await run(wanted.model_copy(update={"judge": judge}))
    broken = rows["scores"].filter(pl.col("judge") == "broken")
    assert broken["status"].to_list() == ["failed", "failed"]
    assert broken["reason"].to_list() == ["ZeroDivisionError: no turns to divide by"] * 2
    assert {json.loads(one)["error"] for one in broken["details"]} == {"judge_bug"}
    assert rows["cases"]["overall_score"].null_count() == 0
    assert outcome.exit_code == 0


async def test_a_judge_with_a_model_of_its_own_is_named_beside_the_offline_baseline(
    wanted: RunConfig,
):
    changes = {
        "judges": ("conversation", "recorded", "safety"),
        "model": None,
        "options": {"safety": {"model": "openai/gpt-4o-mini"}},
    }
    judge = wanted.judge.model_copy(update=changes)
    outcome, _ = await run(wanted.model_copy(update={"judge": judge}))
    assert outcome.judge_model == "offline/lexical, openai/gpt-4o-mini"
    assert judge_line(outcome.judge_model) == "Judged by offline/lexical, openai/gpt-4o-mini."
    report = json.loads(Path(outcome.reports["json"]).read_text("utf-8"))
    assert report["judged_by"]["line"].startswith(
        "Judged by offline/lexical, openai/gpt-4o-mini (answered by "
    )
