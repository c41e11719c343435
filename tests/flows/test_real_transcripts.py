"""The main job over real transcripts made by others, held against their recorded truth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from sklearn.metrics import cohen_kappa_score

from assizes.deployments.samples.make import WRITES
from assizes.deployments.settings import validate_config
from assizes.flows.evaluate import evaluate
from assizes.flows.outcome import RunOutcome
from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.config.run import RunConfig, StoreConfig
from assizes.tasks.runs.stored_comparison import compare_stored
from assizes.tasks.store import open_store

pytestmark = [pytest.mark.data, pytest.mark.usefixtures("prefect_server")]

METRICS = [
    "tool_routing",
    "parameter_extraction",
    "result_interpretation",
    "grounding_fidelity",
    "instruction_compliance",
    "information_gathering",
    "conversation_management",
    "response_delivery",
    {"metric": "task_completion", "weight": 0.5},
]


def config(folder: Path, transcripts: dict[str, Any], **tables: Any) -> RunConfig:
    body = {
        "name": "real",
        "transcripts": transcripts,
        "judge": {"judges": ["conversation", "recorded"], "metrics": METRICS},
        "store": {"uri": f"duckdb:///{folder}/rows.duckdb"},
        "cache": {"uri": f"{folder}/replies"},
        "report": {"uri": f"{folder}/reports"},
        "limits": {"ledger": f"{folder}/ledger.db"},
    }
    return validate_config({**body, **tables}, "test")


async def run(wanted: RunConfig, **kwargs: Any) -> RunOutcome:
    state = await evaluate(wanted, return_state=True, **kwargs)
    outcome = await state.aresult(raise_on_failure=False)
    assert isinstance(outcome, RunOutcome), outcome
    return outcome


def tables(store: StoreConfig, run_id: str) -> dict[str, pl.DataFrame]:
    with open_store(store) as opened:
        return {name: opened.table(run_id, name) for name in ("scores", "asks", "cases")}


@pytest.fixture
def airline(data: Path) -> dict[str, Any]:
    return {
        "uri": str(data / "tau_bench_airline" / "gpt-4o-airline.json.gz"),
        "writes": WRITES,
    }


@pytest.mark.full
async def test_200_transcripts_give_equal_tables_in_duckdb_and_on_s3(
    airline: dict[str, Any], tmp_path: Path, s3
):
    stores = [
        StoreConfig(uri=f"duckdb:///{tmp_path}/rows.duckdb"),
        StoreConfig(uri=f"s3://{s3.bucket()}/lake", storage_options=s3.storage_options),
    ]
    found = []
    for store in stores:
        outcome = await run(config(tmp_path, airline, store=store.model_dump()))
        found.append(tables(store, outcome.run_id))
    assert found[0]["cases"].height == 200
    for name, table in found[0].items():
        assert table.equals(found[1][name], null_equal=True), name
    pairs = (
        found[0]["scores"]
        .filter(pl.col("part") == "")
        .pivot(on="metric", index=["case_id", "repetition"], values="passed")
    )
    assert cohen_kappa_score(pairs["task_completion"], pairs["recorded_reward"]) >= 0.95


@pytest.mark.full
@pytest.mark.row("001-46")
async def test_four_trials_reproduce_the_published_chances_that_all_k_trials_succeed(
    airline: dict[str, Any], tmp_path: Path
):
    summary = (await run(config(tmp_path, airline))).summary
    assert (summary.unique_test_case_count, summary.total_executions) == (50, 200)
    found = [summary.pass_hat_k[f"recorded_reward/pass^{k}"] for k in (1, 2, 3, 4)]
    assert [round(one, 3) for one in found] == [0.42, 0.273, 0.22, 0.2]


@pytest.mark.full
async def test_two_trials_of_one_agent_are_compared_by_the_documents_rules(
    airline: dict[str, Any], tmp_path: Path
):
    store = StoreConfig(uri=f"duckdb:///{tmp_path}/rows.duckdb")
    for trial in ("0", "2"):
        await run(config(tmp_path, {**airline, "where": {"trial": trial}}), run_id=f"t{trial}")
    with open_store(store, writing=True) as opened:
        there = compare_stored(opened, "t0", "t2", ComparisonConfig())
        back = compare_stored(opened, "t2", "t0", ComparisonConfig())
    assert there.verdict.reasons == ("pass rate fell from 42.0 % to 40.0 % (limit 0.0 %)",)
    assert back.verdict.reasons == ()
    changes = there.aggregate
    assert (changes.total_regressions, changes.total_improvements) == (14, 13)
    assert changes.total_unchanged + changes.total_errors == 23


RECORDED = {
    "claude-sonnet-4.5": (0.72, 0.28886496),
    "gpt-4.1": (0.5, 0.0391634),
    "gpt-4.1-finetuned": (0.65, None),
    "gpt-4o": (0.46, 0.08406622),
    "gpt-oss-120b": (0.38, None),
    "qwen2.5-7b": (0.18, None),
}
"""Success rate and mean cost as recorded; the cost is 0 or null where the price was not known."""


@pytest.mark.full
@pytest.mark.parametrize(("agent", "recorded"), RECORDED.items())
async def test_success_and_cost_by_agent_come_out_of_the_rows_as_recorded(
    data: Path, tmp_path: Path, agent: str, recorded: tuple[float, float | None]
):
    uri = str(data / "tau2_airline" / f"{agent}.json.gz")
    wanted = config(tmp_path, {"uri": uri})
    rows = tables(wanted.store, (await run(wanted)).run_id)
    reward = rows["scores"].filter((pl.col("metric") == "recorded_reward") & (pl.col("part") == ""))
    assert reward["value"].mean() == pytest.approx(recorded[0])
    if recorded[1] is not None:
        assert rows["cases"]["agent_cost_usd"].mean() == pytest.approx(recorded[1], abs=1e-8)


@pytest.mark.full
async def test_200_transcripts_through_litellm_are_200_requests_and_none_the_second_time(
    airline: dict[str, Any], tmp_path: Path, judge_server
):
    judge = {"model": "openai/gpt-4o-mini", "api_base": judge_server.api_base}
    wanted = config(tmp_path, airline, judge=judge)
    first = await run(wanted)
    asks = tables(wanted.store, first.run_id)["asks"]
    assert judge_server.stats()["requests"] == asks.height == 200
    assert asks["error"].null_count() == 200
    assert min(asks[name].min() for name in ("input_tokens", "output_tokens", "cost_usd")) > 0
    before = {path: Path(path).read_bytes() for path in first.reports.values()}
    judge_server.reset()
    again = await run(wanted)
    assert judge_server.stats()["requests"] == 0
    assert {path: Path(path).read_bytes() for path in again.reports.values()} == before
    assert json.loads(again.model_dump_json()) == json.loads(first.model_dump_json())

    judge_server.reset()
    replayed = tables(wanted.store, (await run(wanted, run_id="replayed")).run_id)["asks"]
    assert judge_server.stats()["requests"] == 0
    assert replayed["cached"].all()
    assert replayed["cost_usd"].sum() == 0.0
