"""A run spread over a Dask cluster of real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from assizes.deployments.samples import sample_cases
from assizes.judge.errors import ConfigurationError
from tests.flows.test_evaluate import config, outcome_of, tables, written
from tests.flows.test_workers import same_rows

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("prefect_server")]


async def test_a_dask_cluster_writes_the_rows_that_one_process_writes(tmp_path: Path, judge_server):
    uri = written(tmp_path / "t.jsonl", sample_cases()[:12])
    judge = {"model": "openai/gpt-4o-mini", "api_base": judge_server.api_base}
    runners = {
        "local": {"shard_size": 4},
        "dask": {"shard_size": 4, "kind": "dask", "partition_shards": 2},
    }
    wanted = {}
    for name, runner in runners.items():
        (tmp_path / name).mkdir()
        store = {"uri": str(tmp_path / name / "lake")}
        wanted[name] = config(tmp_path / name, uri, judge=judge, store=store, runner=runner)
    local, spread = [await outcome_of(one) for one in wanted.values()]
    assert local.run_id == spread.run_id
    assert judge_server.stats()["requests"] == 24
    same_rows(*(tables(one.store, local.run_id) for one in wanted.values()))


async def test_a_scheduler_that_is_not_there_is_named(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("assizes.flows.partition.CONNECT_S", "1s")
    uri = written(tmp_path / "t.jsonl", sample_cases()[:1])
    runner = {"kind": "dask", "dask_address": "tcp://127.0.0.1:9"}
    with pytest.raises(ConfigurationError, match="dask_address 'tcp://127.0.0.1:9'"):
        await outcome_of(
            config(tmp_path, uri, store={"uri": str(tmp_path / "lake")}, runner=runner)
        )
