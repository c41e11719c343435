"""A run in several processes of one machine: real processes, a real server, a model over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assizes.deployments.samples import sample_cases
from assizes.judge.config.run import RunConfig
from tests.doubles.fixtures import OPENAI_KEY, OpenAIServer, running_openai_server
from tests.flows.test_evaluate import config, outcome_of, tables, written
from tests.flows.test_workers import same_rows

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("prefect_server")]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI_KEY)
    with running_openai_server("--latency", "0.1") as server:
        yield server


def settings(folder: Path, model: OpenAIServer, cases: int, **changed: Any) -> RunConfig:
    """Shards of four cases, in a store of the folder's own."""
    folder.mkdir(exist_ok=True)
    uri = written(folder.parent / "t.jsonl", sample_cases()[:cases])
    return config(
        folder,
        uri,
        judge={"model": "openai/gpt-4o-mini", "api_base": model.api_base},
        store={"uri": changed.pop("store", "{}/lake").format(folder)},
        limits={"max_in_flight": 4, **changed.pop("limits", {})},
        runner={"shard_size": 4, "processes": 2, **changed.pop("runner", {})},
        **changed,
    )


@pytest.mark.parametrize("store", ["duckdb:///{}/rows.duckdb", "{}/lake"])
async def test_two_processes_write_the_rows_of_one(tmp_path: Path, model, store, caplog):
    alone = settings(tmp_path / "alone", model, 24, store=store, runner={"processes": 1})
    first = await outcome_of(alone)
    shared = settings(tmp_path / "two", model, 24, store=store)
    with caplog.at_level("INFO", "assizes"):
        second = await outcome_of(shared)
    assert first.run_id == second.run_id
    assert "2 processes judge the shards" in caplog.text
    assert model.stats()["requests"] == 48
    same_rows(*(tables(each.store, first.run_id) for each in (alone, shared)))
