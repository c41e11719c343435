"""It runs by itself: a real server, a real worker, everything registered by `assizes deploy`.

`make test-server` runs these, in this order; `make test` does not.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import polars as pl
import pytest
from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterId,
    FlowRunFilter,
    FlowRunFilterParentFlowRunId,
)
from prefect.client.schemas.objects import FlowRun
from prefect.events import emit_event
from prefect.states import Scheduled

from assizes.deployments.commands.deploy import DeployOptions, register_or_remove
from assizes.deployments.settings import read_config
from assizes.judge.config.run import StoreConfig
from assizes.tasks.store import open_store
from tests.command import assizes
from tests.server.house import BROKEN, DAYS, EMPTY, YESTERDAY, Told, Worker, furnish, webhook

T = TypeVar("T")

PATIENCE_S = 300.0
EVERY_MINUTE = "nightly.cron='* * * * *'"


@dataclass
class Operated:
    """The scene: what was begun before the first test looks."""

    server: str
    folder: Path
    told: Told
    backfill: UUID
    killed: int
    judged_before: set[str]


async def until(look: Callable[[], Awaitable[T | None]], what: str) -> T:
    """What a look finds, as soon as it finds something."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                if found := await look():
                    return found
                await asyncio.sleep(0.5)
    except TimeoutError:
        pytest.fail(f"waited {PATIENCE_S:.0f} s in vain for {what}")


async def deployed(folder: Path, name: str, *settings: str) -> set[str]:
    """As `assizes deploy` does it, in this process; what became of the objects."""
    config = read_config(folder / f"{name}.toml", settings)
    return {one.state for one in await register_or_remove(DeployOptions(config, str(folder)))}


def runs(folder: Path, name: str) -> pl.DataFrame:
    with open_store(StoreConfig(uri=str(folder / "lake"))) as store:
        return store.runs().filter(pl.col("name") == name)


def complete(folder: Path, name: str) -> set[str]:
    if not (folder / "lake").exists():
        return set()
    return set(runs(folder, name).filter(pl.col("status") == "complete")["run_id"])


async def begun(client: PrefectClient, name: str, **parameters: Any) -> UUID:
    deployment = await client.read_deployment_by_name(name)
    body = {**deployment.parameters, **parameters}
    return (await client.create_flow_run_from_deployment(deployment.id, parameters=body)).id


async def final(client: PrefectClient, run_id: UUID) -> FlowRun | None:
    run = await client.read_flow_run(run_id)
    return run if run.state and run.state.is_final() else None


async def flow_runs(name: str) -> list[FlowRun]:
    async with get_client() as client:
        deployment = await client.read_deployment_by_name(name)
        of_it = DeploymentFilter(id=DeploymentFilterId(any_=[deployment.id]))
        return await client.read_flow_runs(deployment_filter=of_it)


def is_regression(run: FlowRun) -> bool:
    return run.state is not None and run.state.name == "Regression"


@pytest.fixture(scope="session")
async def operated(
    prefect_server: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Operated]:
    """A backfill whose worker died, a night before the last, a schedule that is due, an event."""
    folder = tmp_path_factory.mktemp("house")
    furnish(folder)
    log = folder / "worker.log"
    with webhook() as told:
        await Webhook(url=told.url, allow_private_urls=True).save("tests", overwrite=True)
        assert "created" in await deployed(folder, "history")
        assert "created" in await deployed(folder, "nights")
        worker = Worker(prefect_server, log)
        async with get_client() as client:
            since, last = DAYS[0].isoformat(), DAYS[-1].isoformat()
            backfill = await begun(client, "backfill/assizes-history", since=since, until=last)

            async def some() -> set[str] | None:
                done = complete(folder, "history")
                return done if len(done) >= 4 else None

            await until(some, f"some days to be judged; see {log}")
            killed = worker.die()
            before = complete(folder, "history")
            worker = Worker(prefect_server, log)
            try:
                eve = (YESTERDAY - timedelta(days=1)).isoformat()
                night = await begun(client, "nightly/assizes-nights", on=eve)
                await until(lambda: final(client, night), f"the night of {eve}; see {log}")
                assert "changed" in await deployed(folder, "nights", EVERY_MINUTE)
                emit_event(
                    "model.deployed",
                    resource={"prefect.resource.id": "model.airline"},
                    payload={"version": 2, "min_transcripts": 3, "note": "for people"},
                )
                yield Operated(prefect_server, folder, told, backfill, killed, before)
            finally:
                worker.end()


async def test_deploying_again_changes_nothing(operated: Operated):
    assert await deployed(operated.folder, "history") == {"unchanged"}
    command = ("deploy", "-c", "nights.toml", "--json", "--set", EVERY_MINUTE)
    env = {"PREFECT_API_URL": operated.server}
    answer = await asyncio.to_thread(assizes, *command, cwd=operated.folder, env=env)
    assert answer.code == 0, answer.err
    assert {one["state"] for one in json.loads(answer.out)["objects"]} == {"unchanged"}


async def test_a_scheduled_nightly_run_starts_by_itself_and_finds_the_regression(
    operated: Operated,
):
    async def scheduled() -> FlowRun | None:
        ended = [
            one
            for one in await flow_runs("nightly/assizes-nights")
            if one.auto_scheduled and one.state is not None and one.state.is_final()
        ]
        return min(ended, key=lambda one: one.end_time) if ended else None

    run = await until(scheduled, f"a scheduled night; see {operated.folder}/worker.log")
    assert run.name == f"nightly-nights-{YESTERDAY}"
    assert "assizes" in run.tags
    assert (run.state.type.value, run.state.name) == ("FAILED", "Regression"), run.state.message


async def test_a_regression_is_told_to_the_webhook_within_a_minute(
    operated: Operated, record_property: Callable[[str, object], None]
):
    async def regression() -> tuple[dict[str, Any], datetime] | None:
        pairs = zip(operated.told.bodies, operated.told.times, strict=True)
        return next((pair for pair in pairs if pair[0]["finding"] == "regression"), None)

    told, when = await until(regression, "the webhook to be called")
    ended = min(
        one.end_time for one in await flow_runs("nightly/assizes-nights") if is_regression(one)
    )
    told_after_s = (when - ended).total_seconds()  # the event goes out just before the flow ends
    record_property("told_after_s", round(told_after_s, 1))
    assert told_after_s < 60
    (judged,) = [
        one
        for one in runs(operated.folder, "nights").iter_rows(named=True)
        if one["run_id"] == told["run_id"]
    ]
    assert (told["name"], told["trigger"]) == ("nights", "nightly")
    assert told["baseline"] in complete(operated.folder, "nights")
    assert told["reasons"]
    summary = json.loads(judged["summary"])
    assert told["cases_pass_rate_pct"] == pytest.approx(summary["cases_pass_rate_pct"])
    assert set(told) <= {
        *("finding", "run_id", "name", "trigger", "outcome", "coverage", "baseline", "reasons"),
        *("weighted_metrics_score_pct", "cases_pass_rate_pct", "report"),
    }


async def test_an_event_of_a_model_starts_the_evaluation_of_its_version(operated: Operated):
    async def event_run() -> FlowRun | None:
        found = [
            one
            for one in await flow_runs("after-deployment/assizes-nights")
            if one.state is not None and one.state.is_final()
        ]
        return found[0] if found else None

    run = await until(event_run, f"the run of the event; see {operated.folder}/worker.log")
    assert run.parameters["version"] == "2"
    assert run.parameters["min_transcripts"] == 3
    assert run.parameters["agent"] is None
    assert run.state.name in ("Passed", "Regression", "NotComparable", "Inconclusive")
    (judged,) = runs(operated.folder, "nights").filter(pl.col("trigger") == "deployment")["run_id"]
    with open_store(StoreConfig(uri=str(operated.folder / "lake"))) as store:
        assert set(store.table(judged, "cases")["agent_version"]) == {"2"}


@pytest.mark.row("O9")
async def test_a_backfill_whose_worker_died_is_closed_then_finishes_beside_another(
    operated: Operated,
):
    assert operated.killed >= 2, "the worker and the process of the flow run"
    await deployed(operated.folder, "nights")  # no night every minute any more
    async with get_client() as client:
        crashed = await until(lambda: final(client, operated.backfill), "the dead run to be closed")
        assert crashed.state.type.value == "CRASHED"
        assert "no heartbeat" in crashed.state.message
        await client.set_flow_run_state(operated.backfill, Scheduled(), force=True)
        span = ("--from", str(DAYS[5]), "--to", str(DAYS[24]))
        beside = await asyncio.to_thread(
            assizes,
            *("backfill", "-c", "history.toml", *span),
            cwd=operated.folder,
            env={"PREFECT_API_URL": operated.server},
        )
        assert beside.code == 4, beside.err
        assert str(BROKEN) in beside.out
        run = await until(lambda: final(client, operated.backfill), "the backfill to finish")
        children = await client.read_flow_runs(
            flow_run_filter=FlowRunFilter(
                parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[run.id])
            ),
            limit=200,
        )
    assert (run.state.name, run.run_count) == ("Inconclusive", 2), run.state.message
    assert str(BROKEN) in run.state.message
    assert all(one.state is not None and one.state.is_final() for one in children)
    check_days(operated)


def check_days(operated: Operated) -> None:
    """One complete run a day, no row twice, and nothing of what was judged before judged again."""
    found = runs(operated.folder, "history")
    days = [json.loads(one)["day"] for one in found["config"]]
    assert sorted(days) == [one.isoformat() for one in DAYS]
    assert set(found["status"]) == {"complete"}
    assert operated.judged_before <= set(found["run_id"])
    counts = {day: json.loads(one) for day, one in zip(days, found["counts"], strict=True)}
    for day in DAYS:
        expected = 0 if day in (*EMPTY, BROKEN) else 1
        assert counts[day.isoformat()]["judged"] == expected
    assert counts[BROKEN.isoformat()]["quarantined"] > 0
    with open_store(StoreConfig(uri=str(operated.folder / "lake"))) as store:
        cases = pl.concat([store.table(one, "cases") for one in found["run_id"]])
        scores = pl.concat([store.table(one, "scores") for one in found["run_id"]])
    assert cases.height == cases["case_id"].n_unique() == len(DAYS) - 3
    keys = ("case_id", "repetition", "judge", "metric", "part")
    assert scores.height == scores.select(keys).n_unique()
