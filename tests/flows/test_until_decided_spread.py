"""A run that stops when it is decided, judged by other processes: the same looks, the same end."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from assizes.flows.nightly import SeriesOutcome, nightly
from assizes.judge.config.run import RunConfig
from assizes.judge.summary.early_stop import EarlyStop
from assizes.judge.summary.run_summary import RunSummary
from assizes.tasks.store import open_store
from tests.command import ROOT, started
from tests.doubles.workers import online, registered, running_workers
from tests.flows.decided_runs import decided_config, transcripts_file
from tests.flows.nights import ago, ended, rows
from tests.flows.test_evaluate import outcome_of, tables
from tests.flows.test_until_decided import passes
from tests.flows.test_workers import partition_runs, same_rows

pytestmark = [pytest.mark.full, pytest.mark.long, pytest.mark.usefixtures("prefect_server")]

POOL = "decided"
STATISTICS = {"baseline": "latest", "mode": "statistics", "margin": 30.0}


@pytest.mark.parametrize(
    "spread", [{"kind": "dask", "partition_shards": 2}, {"processes": 2}], ids=["dask", "processes"]
)
async def test_processes_stop_where_one_process_stops(tmp_path: Path, spread: dict[str, Any]):
    file = transcripts_file(tmp_path / "t.jsonl", passes(1, cases=200))
    thresholds = {"cases_pass_threshold": 66}
    wanted = {}
    for name, runner in {"local": {}, "spread": spread}.items():
        (tmp_path / name).mkdir()
        wanted[name] = decided_config(
            tmp_path / name,
            file,
            thresholds=thresholds,
            store={"uri": str(tmp_path / name / "lake")},
            runner={"shard_size": 7, **runner},
        )
    local, elsewhere = [await outcome_of(config) for config in wanted.values()]
    assert local.run_id == elsewhere.run_id
    stop = local.summary.early_stop
    assert stop is not None
    assert stop.look > 1
    assert elsewhere.summary.early_stop == stop
    same_rows(*(tables(config.store, local.run_id) for config in wanted.values()))
    runs = await partition_runs(elsewhere.run_id)
    clusters = {tag for run in runs for tag in run.tags if tag.startswith("dask:")}
    assert len(clusters) == ("kind" in spread)  # one for all looks


@pytest.fixture
async def workers(prefect_server: str, tmp_path: Path) -> AsyncIterator[None]:
    await registered(POOL)
    with running_workers(POOL, tmp_path, prefect_server, "one", "two"):
        await online(POOL, "one", "two")
        yield


def night_config(folder: Path, place: str, **runner: Any) -> RunConfig:
    own = folder / place
    own.mkdir(exist_ok=True)
    return decided_config(
        own,
        folder / "logs",
        transcripts={"uri": f"{folder}/logs/{{date}}/"},
        store={"uri": str(own / "lake")},
        limits={"ledger": str(own / "ledger.db")},
        comparison=STATISTICS,
        runner={"shard_size": 15, **runner},
    )


async def night_of(config: RunConfig, days: int) -> SeriesOutcome:
    found = await ended(await nightly(config, ago(days), return_state=True))
    assert isinstance(found, SeriesOutcome)
    return found


def stop_of(config: RunConfig, run_id: str | None) -> EarlyStop | None:
    with open_store(config.store) as store:
        return RunSummary.model_validate(store.run(run_id or "").summary).early_stop


PROGRAM = """
import asyncio, datetime, sys
from assizes.flows.nightly import nightly
from assizes.judge.config.run import RunConfig
from assizes.tasks.runs import stored_runs
stored_runs.LOCK_DURATION_S = 20.0  # of a dead process it would hold for 90 s
config = RunConfig.model_validate_json(sys.argv[1])
asyncio.run(nightly(config, datetime.date.fromisoformat(sys.argv[2]), return_state=True))
"""


def killed_after_a_look(config: RunConfig, days: int, api_url: str) -> None:
    """Judge a night in a process that is killed once it has looked at its numbers."""
    words = [config.model_dump_json(), str(ago(days))]
    with started(*words, program=PROGRAM, cwd=ROOT, env={"PREFECT_API_URL": api_url}) as job:
        deadline = time.monotonic() + 300
        while not any("look-01" in counts_of(config, row["run_id"]) for row in running(config)):
            assert job.poll() is None, "it ended before it looked"
            assert time.monotonic() < deadline, "it does not look"
            time.sleep(0.1)
        job.send_signal(signal.SIGKILL)


def running(config: RunConfig) -> list[dict[str, Any]]:
    return [row for row in rows(config) if row["status"] == "running"]


def counts_of(config: RunConfig, run_id: str) -> dict[str, Any]:
    with open_store(config.store) as store:
        return dict(store.shard_counts(run_id))


async def test_a_night_over_workers_killed_and_resumed_decides_as_one_process_does(
    tmp_path: Path, workers, prefect_server: str
):
    for number, days in enumerate((2, 1)):
        file = tmp_path / "logs" / ago(days).isoformat() / "part-0.jsonl"
        file.parent.mkdir(parents=True)
        transcripts_file(file, passes(number, cases=300))
    here = night_config(tmp_path, "here")
    there = night_config(tmp_path, "there", kind="workers", work_pool=POOL, partition_shards=1)
    for config in (here, there):  # the first night is whole, and its baseline
        await night_of(config.model_copy(update={"runner": here.runner}), 2)
    wanted = await night_of(here, 1)
    stop = stop_of(here, wanted.parts[0].run_id)
    assert stop is not None
    assert (stop.comparison, stop.look > 1) == ("fine", True)
    await asyncio.to_thread(killed_after_a_look, there, 1, prefect_server)
    found = await night_of(there, 1)
    run_id = found.parts[0].run_id or ""
    assert found.conclusion == wanted.conclusion == "Passed"
    assert stop_of(there, run_id) == stop
    same_rows(*(tables(config.store, run_id) for config in (here, there)))
    given = await partition_runs(run_id)
    numbers = sorted(run.parameters["partition"] for run in given)
    assert numbers == list(range(2 * stop.look))  # each partition once, none of a later wave
    assert {run.state_name for run in given} == {"Judged"}
