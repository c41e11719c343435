"""A run spread over a Dask cluster of real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

from assizes.deployments.samples import sample_cases
from assizes.judge.errors import ConfigurationError
from tests.doubles.fixtures import OPENAI_KEY, OpenAIServer
from tests.doubles.workers import kill_host, until
from tests.flows.test_evaluate import config, outcome_of, tables, written
from tests.flows.test_workers import same_rows
from tests.outward import PYTHONPATH

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("prefect_server")]


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[str]:
    """The address of a scheduler with two workers, started as an operator starts them."""
    file = tmp_path / "scheduler.json"
    where = ("--scheduler-file", str(file))
    alone = ("--nthreads", "1", "--no-dashboard", "--no-nanny", *where)
    commands = [
        ("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", *where),
        ("worker", "--name", "one", *alone),
        ("worker", "--name", "two", *alone),
    ]
    with ExitStack() as stack:
        for command in commands:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", *command],
                cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": PYTHONPATH, "OPENAI_API_KEY": OPENAI_KEY},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            stack.callback(process.wait)
            stack.callback(kill_host, process.pid)
            until("no scheduler came", file.exists)
        address = json.loads(file.read_text())["address"]
        with Client(address) as client:
            client.wait_for_workers(2, timeout=60)
        yield address


async def writes_the_rows_of_one_process(folder: Path, judge_server: OpenAIServer, **cluster: Any):
    """A run in this process and one on a cluster: the same rows, each case asked about once by each."""
    uri = written(folder / "t.jsonl", sample_cases()[:12])
    judge = {"model": "openai/gpt-4o-mini", "api_base": judge_server.api_base}
    runners = {
        "local": {"shard_size": 4},
        "dask": {"shard_size": 4, "kind": "dask", "partition_shards": 2, **cluster},
    }
    wanted = {}
    for name, runner in runners.items():
        (folder / name).mkdir()
        store = {"uri": str(folder / name / "lake")}
        wanted[name] = config(folder / name, uri, judge=judge, store=store, runner=runner)
    local, spread = [await outcome_of(one) for one in wanted.values()]
    assert local.run_id == spread.run_id
    assert judge_server.stats()["requests"] == 24
    same_rows(*(tables(one.store, local.run_id) for one in wanted.values()))


async def test_a_dask_cluster_writes_the_rows_that_one_process_writes(tmp_path: Path, judge_server):
    await writes_the_rows_of_one_process(tmp_path, judge_server)


async def test_so_does_a_scheduler_with_two_workers_that_is_there_already(
    tmp_path: Path, judge_server, scheduler: str
):
    await writes_the_rows_of_one_process(tmp_path, judge_server, dask_address=scheduler)
    async with Client(scheduler, asynchronous=True) as client:
        assert await client.run_on_scheduler(finished) >= 2  # a task for each partition


def finished(dask_scheduler: Any) -> int:
    """How often a task of a scheduler has come to its result."""
    return sum(one.finish == "memory" for one in dask_scheduler.transition_log)


async def test_a_scheduler_that_is_not_there_is_named(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("assizes.flows.partition.CONNECT_S", "1s")
    uri = written(tmp_path / "t.jsonl", sample_cases()[:1])
    runner = {"kind": "dask", "dask_address": "tcp://127.0.0.1:9"}
    with pytest.raises(ConfigurationError, match="dask_address 'tcp://127.0.0.1:9'"):
        await outcome_of(
            config(tmp_path, uri, store={"uri": str(tmp_path / "lake")}, runner=runner)
        )
