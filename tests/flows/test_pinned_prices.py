"""The prices a run was begun with are those it ends with."""

from __future__ import annotations

from pathlib import Path

import pytest

from assizes.deployments.samples import sample_cases
from assizes.judge.config.run import RunConfig
from assizes.tasks.store import open_store
from tests.doubles.fixtures import OpenAIServer
from tests.flows.test_evaluate import config, outcome_of, tables, written

pytestmark = pytest.mark.usefixtures("prefect_server")

CASES = 6


def wanted(folder: Path, server: OpenAIServer, usd_per_million: float, **limits: int) -> RunConfig:
    price = {"input_usd_per_million": usd_per_million, "output_usd_per_million": 0}
    return config(
        folder,
        written(folder / "t.jsonl", sample_cases()[:CASES]),
        judge={"model": "openai/stub", "api_base": server.api_base},
        limits={"prices": {"openai/stub": price}, **limits},
        runner={"shard_size": 2},
    )


@pytest.mark.full
async def test_a_run_that_goes_on_after_prices_rose_is_charged_as_it_was_begun(
    tmp_path: Path, judge_server
):
    begun = await outcome_of(wanted(tmp_path, judge_server, 10, max_asks=3))
    assert begun.conclusion == "OverBudget"
    ended = await outcome_of(wanted(tmp_path, judge_server, 1000))
    assert (ended.run_id, ended.conclusion) == (begun.run_id, "Passed")

    chosen = wanted(tmp_path, judge_server, 10)
    asks = tables(chosen.store, ended.run_id)["asks"]
    assert asks.height == CASES
    assert (asks["cost_usd"] / asks["input_tokens"] * 1e6).to_list() == pytest.approx([10] * CASES)
    with open_store(chosen.store) as store:
        pinned = store.run(ended.run_id).config["prices"]
    assert pinned["openai/stub"]["input_usd_per_million"] == 10
