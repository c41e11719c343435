"""A run spread over workers of a Prefect work pool: real workers, a real server, a model over HTTP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterTags
from prefect.client.schemas.objects import FlowRun

from assizes.deployments.samples import sample_cases
from assizes.judge.config.run import RunConfig
from assizes.tasks.distribute import work_pool
from assizes.tasks.distribute.flow_runs import tags_of
from assizes.tasks.spending.ledger_file import write_stop
from tests.doubles.fixtures import OPENAI_KEY, OpenAIServer, running_openai_server
from tests.doubles.workers import kill_host, online, registered, running_workers
from tests.flows.test_evaluate import PER_RUN, config, outcome_of, tables, written

pytestmark = [pytest.mark.full, pytest.mark.long]

POOL = "spread"
NAMES = ("one", "two")
LATENCY_S = 0.5
TIMES = ("latency_ms", "waited_ms", "trail")


@pytest.fixture(scope="module")
async def workers(prefect_server: str, tmp_path_factory) -> AsyncIterator[list[int]]:
    await registered(POOL)
    folder = tmp_path_factory.mktemp("workers")
    with running_workers(POOL, folder, prefect_server, *NAMES) as pids:
        await online(POOL, *NAMES)
        yield pids


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI_KEY)
    with running_openai_server("--latency", str(LATENCY_S)) as server:
        yield server


def spread(folder: Path, cases: int, model: OpenAIServer, **tables: Any) -> RunConfig:
    """Partitions of two shards of four cases in a Parquet store, one call at a time in each."""
    uri = written(folder / "t.jsonl", sample_cases()[:cases])
    runner = {
        "kind": "workers",
        "work_pool": POOL,
        "shard_size": 4,
        "shards_in_flight": 1,
        "partition_shards": 2,
        **tables.pop("runner", {}),
    }
    return config(
        folder,
        uri,
        judge={"model": "openai/gpt-4o-mini", "api_base": model.api_base},
        store={"uri": str(folder / "lake")},
        limits={"max_in_flight": 1, **tables.pop("limits", {})},
        runner=runner,
        **tables,
    )


def same_rows(local: dict[str, pl.DataFrame], other: dict[str, pl.DataFrame]) -> None:
    for name in PER_RUN:
        rows = [one[name].drop(*TIMES, strict=False) for one in (local, other)]
        if name == "run_metrics":
            rows = [one.filter(~pl.col("name").str.contains("latency|waited")) for one in rows]
        assert rows[0].equals(rows[1], null_equal=True), name
    assert local["cases"].height


async def partition_runs(run_id: str) -> list[FlowRun]:
    wanted = FlowRunFilter(tags=FlowRunFilterTags(all_=tags_of(run_id)))
    async with get_client() as client:
        return await client.read_flow_runs(flow_run_filter=wanted)


async def until(what: str, found: Callable[[], bool], timeout_s: float = 120.0) -> None:
    for _ in range(int(timeout_s / 0.1)):
        if found():
            return
        await asyncio.sleep(0.1)
    pytest.fail(what)


def most_within(timeline: list[tuple[float, bool]], seconds: float) -> int:
    times = [at for at, _ in timeline]
    return max(sum(start <= at < start + seconds for at in times) for start in times)


async def test_two_workers_write_the_rows_of_one_process_and_share_a_rate_limit(
    tmp_path: Path, workers, model
):
    per_minute = 60  # a partition takes eight seconds: both workers look before one is through
    shared = {"requests_per_minute": per_minute, "shared": "two-workers", "max_in_flight": 8}
    there = spread(tmp_path, 16, model, limits={**shared, "budget_usd": 5.0})
    here = there.model_copy(
        update={
            "store": there.store.model_copy(update={"uri": str(tmp_path / "here")}),
            "cache": there.cache.model_copy(update={"uri": str(tmp_path / "kept-here")}),
            "limits": there.limits.model_copy(
                update={
                    "ledger": str(tmp_path / "here.db"),
                    "requests_per_minute": None,
                    "shared": None,
                }
            ),
            "runner": there.runner.model_copy(update={"kind": "local"}),
        }
    )
    local = await outcome_of(here)
    model.reset()
    elsewhere = await outcome_of(there)
    assert elsewhere.run_id == local.run_id
    assert elsewhere.summary.counts == local.summary.counts
    same_rows(tables(here.store, local.run_id), tables(there.store, local.run_id))
    assert model.stats()["requests"] == 16
    window_s = 2.0
    assert most_within(model.timeline(), window_s) <= window_s * per_minute / 60 + 2
    one, two = await partition_runs(local.run_id)
    assert (one.state_name, two.state_name) == ("Judged", "Judged")
    assert {run.labels["prefect.worker.name"] for run in (one, two)} == {"one", "two"}


async def ended_partitions(run_id: str, *names: str) -> bool:
    """Wait until every partition has ended, and check the names of their final states."""
    states: set[str | None] = set()
    for _ in range(600):
        runs = await partition_runs(run_id)
        states = {run.state_name for run in runs}
        if all(run.state is not None and run.state.is_final() for run in runs):
            break
        await asyncio.sleep(0.1)
    return states == set(names)


async def test_a_cancelled_run_and_a_stopped_one_call_their_partitions_back_and_pay_nothing_twice(
    tmp_path: Path, workers, model
):
    cases = 32
    wanted = spread(tmp_path, cases, model, runner={"partition_shards": 8})
    work = asyncio.create_task(outcome_of(wanted, run_id="halted"))
    await until("the workers ask nothing", lambda: model.stats()["requests"] >= 3)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert await ended_partitions("halted", "Halted")
    before = model.stats()["requests"]
    assert before < cases

    work = asyncio.create_task(outcome_of(wanted, run_id="halted"))
    await until("the workers ask nothing", lambda: model.stats()["requests"] >= before + 3)
    write_stop(wanted.limits.ledger, "halted")
    stopped = await work
    assert (stopped.conclusion, stopped.exit_code) == ("Halted", 130)
    assert await ended_partitions("halted", "Halted")
    assert model.stats()["requests"] < cases

    outcome = await outcome_of(wanted, run_id="halted")
    assert outcome.summary.counts["judged"] == cases
    assert model.stats()["requests"] == cases


@pytest.mark.usefixtures("workers")
async def test_a_partition_whose_worker_dies_before_its_process_begins_is_given_out_again(
    tmp_path: Path,
    model,
    prefect_server: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    record_property: Callable[[str, object], None],
):
    monkeypatch.setattr(work_pool, "START_MIN_S", 20.0)
    wanted = spread(tmp_path, 24, model, runner={"lost_after_s": 20})
    with running_workers(POOL, tmp_path, prefect_server, "third") as (third,):
        await online(POOL, "third")
        work = asyncio.create_task(outcome_of(wanted, run_id="pending"))
        taken = None
        async with asyncio.timeout(120):
            while taken is None:
                taken = next(
                    (
                        run
                        for run in await partition_runs("pending")
                        if run.state.is_pending()
                        and run.labels.get(work_pool.WORKER_LABEL) == "third"
                    ),
                    None,
                )
                await asyncio.sleep(0.1)
        kill_host(third)
        killed_at = time.monotonic()
        (run,) = [run for run in await partition_runs("pending") if run.id == taken.id]
        assert run.state.is_pending(), "its process had begun"
        outcome = await work
        took_s = time.monotonic() - killed_at
    assert outcome.summary.counts["judged"] == 24
    record_property("complete_after_s", round(took_s, 1))
    assert took_s < 20 + 120  # a minute where the machine is not busy: `make trial` measures it
    assert model.stats()["requests"] == 24
    gone = [run for run in await partition_runs("pending") if run.state_name == "Crashed"]
    assert [run.id for run in gone] == [taken.id]
    number = taken.parameters["partition"]
    lines = [record.getMessage() for record in caplog.records if "sign of life" in record.message]
    told = [line for line in lines if line.startswith(f"partition {number}")]  # others may be slow
    assert told[0].startswith(f"partition {number}: no sign of life for 1"), lines
    assert "Pending" in told[0] or "Submitting" in told[0]
    again = f"partition {number} is given out again"
    assert told[1].startswith(f"{again}: no sign of life for 2")
    assert not [line for line in told[2:] if line.startswith(again)], lines  # begun late at most


async def test_the_partition_of_a_machine_that_is_gone_is_taken_over(
    tmp_path: Path, workers, model, record_property: Callable[[str, object], None]
):
    wanted = spread(tmp_path, 24, model, runner={"lost_after_s": 15})
    work = asyncio.create_task(outcome_of(wanted, run_id="taken-over"))
    await until("the workers ask nothing", lambda: model.stats()["requests"] >= 5)
    both = [run for run in await partition_runs("taken-over") if run.state.is_running()]
    (judging, *_) = both
    kill_host(workers[NAMES.index(judging.labels["prefect.worker.name"])])
    killed_at = time.monotonic()
    outcome = await work
    took_s = time.monotonic() - killed_at
    record_property("complete_after_s", round(took_s, 1))
    assert took_s < 15 + 60
    assert outcome.conclusion == "Passed"
    assert outcome.summary.counts["judged"] == 24
    rows = tables(wanted.store, "taken-over")
    assert rows["cases"]["case_id"].n_unique() == rows["cases"].height == 24
    assert rows["asks"].select("case_id", "judge", "round", "index").is_duplicated().sum() == 0
    assert model.stats()["requests"] <= 24 + len(both)  # calls that were in flight when it died
    gone = [run for run in await partition_runs("taken-over") if run.state_name == "Crashed"]
    assert ["no sign of life" in run.state.message for run in gone] == [True]
