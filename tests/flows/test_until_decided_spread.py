"""A run that stops when it is decided, spread over a Dask cluster: the same looks, the same end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flows.decided_runs import decided_config, transcripts_file
from tests.flows.test_evaluate import outcome_of, tables
from tests.flows.test_until_decided import passes
from tests.flows.test_workers import same_rows

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("prefect_server")]


async def test_processes_stop_where_one_process_stops(tmp_path: Path):
    file = transcripts_file(tmp_path / "t.jsonl", passes(1, cases=200))
    thresholds = {"cases_pass_threshold": 70}
    runners = {
        "local": {"shard_size": 7},
        "dask": {"shard_size": 7, "kind": "dask", "partition_shards": 2},
    }
    wanted = {}
    for name, runner in runners.items():
        (tmp_path / name).mkdir()
        store = {"uri": str(tmp_path / name / "lake")}
        wanted[name] = decided_config(
            tmp_path / name, file, thresholds=thresholds, store=store, runner=runner
        )
    local, spread = [await outcome_of(config) for config in wanted.values()]
    assert local.run_id == spread.run_id
    stop = local.summary.early_stop
    assert stop is not None
    assert stop.look > 1
    assert spread.summary.early_stop == stop
    same_rows(*(tables(config.store, local.run_id) for config in wanted.values()))
