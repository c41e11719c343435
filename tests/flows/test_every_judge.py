"""One run with every judge switched on: one table, every family's columns filled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from assizes.deployments.commands.output import judge_line
from assizes.deployments.settings import validate_config
from assizes.flows.evaluate import evaluate
from assizes.flows.outcome import RunOutcome
from assizes.judge.case import Case, ExpectedCall, Turn
from assizes.judge.catalog import JUDGES
from assizes.judge.config.run import RunConfig
from assizes.judge.formats import native_line
from assizes.judge.summary.wide_table import results_frame
from assizes.tasks.store import open_store
from tests.builders import agent, case, user
from tests.every_family import lay_out, whole_case

pytestmark = pytest.mark.usefixtures("prefect_server")

FUNCTION = """
from assizes.judge.score import Score

def short(case):
    return [Score("short", value=float(len(case.transcript.turns) < 10), raw=1.0)]

def broken(case):
    raise ZeroDivisionError("no turns to divide by")
"""


def whole(folder: Path) -> Case:
    """A case with the ground truth of every family."""
    return whole_case(
        1.0,
        database=str(folder / "shop.sqlite"),
        trajectory=((ExpectedCall(name="run_sql"), ExpectedCall(name="create_chart")),),
        acceptance_criteria="3 orders are late; refunded within 5 days",
    )


def bare(*turns: Turn) -> Case:
    return case(*turns, case_id="bare")


@pytest.fixture
def wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judge_server) -> RunConfig:
    lay_out(tmp_path)
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
