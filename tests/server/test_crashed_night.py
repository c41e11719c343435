"""A scheduled night that crashes: who is to be told is told within a minute."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterId
from prefect.client.schemas.objects import FlowRun

from assizes.deployments.registration.automations import HEARTBEAT_TIMEOUT
from assizes.deployments.samples import sample_cases
from tests.command import assizes
from tests.doubles.fixtures import OPENAI_KEY, running_openai_server
from tests.doubles.workers import until
from tests.server.house import Told, Worker, descendants, lay, webhook

CONFIG = """
name = "crashing"
[transcripts]
uri = "logs/{{date}}/"
[judge]
model = "openai/gpt-4o-mini"
api_base = "{api_base}"
[limits]
timeout_s = 900
deadline_s = 1800
[nightly]
cron = "* * * * *"
catch_up = 0
[store]
uri = "lake"
[runner]
work_pool = "crashing"
[notify]
block = "webhook/crashing"
"""


async def running_night(client: PrefectClient) -> FlowRun:
    """The scheduled flow run that a worker has begun."""
    deployment = await client.read_deployment_by_name("nightly/assizes-crashing")
    of_it = DeploymentFilter(id=DeploymentFilterId(any_=[deployment.id]))
    async with asyncio.timeout(240):
        while True:
            runs = await client.read_flow_runs(deployment_filter=of_it)
            for run in runs:
                if run.state is not None and run.state.is_running():
                    return run
            await asyncio.sleep(0.5)


async def test_a_scheduled_night_that_crashes_is_told_within_a_minute(
    tmp_path: Path,
    prefect_server: str,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
):
    lay(tmp_path / "logs", datetime.now(UTC).date() - timedelta(days=1), sample_cases()[:4])
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI_KEY)
    began = datetime.now(UTC)
    with webhook() as told, running_openai_server("--latency", "800") as model:
        (tmp_path / "assizes.toml").write_text(CONFIG.format(api_base=model.api_base))
        await Webhook(url=told.url, allow_private_urls=True).save("crashing", overwrite=True)
        call = {"cwd": tmp_path, "env": {"PREFECT_API_URL": prefect_server}}
        answer = await asyncio.to_thread(assizes, "deploy", **call)
        assert answer.code == 0, answer.err
        worker = Worker(prefect_server, tmp_path / "worker.log", "crashing")
        try:
            async with get_client() as client:
                run = await running_night(client)
                asks = partial(until, "nothing is asked", lambda: model.stats()["requests"])
                await asyncio.to_thread(asks)
                for pid in descendants(worker.pid):
                    os.kill(pid, signal.SIGKILL)
                killed = datetime.now(UTC)
                body = await first_told(told, 60.0)
                told_after_s = (told.times[0] - killed).total_seconds()
                record_property("told_after_s", round(told_after_s, 1))
                worker.end()
                assert (body["finding"], body["state"]) == ("failed", "Crashed")
                assert body["flow_run"] == run.name
                await asyncio.sleep(HEARTBEAT_TIMEOUT.total_seconds() + 15)
                failed = await failed_actions(client, began)
                assert [event for event in failed if str(run.id) in json.dumps(event)] == []
        finally:
            worker.end()
            await asyncio.to_thread(assizes, "deploy", "--remove", **call)


async def first_told(told: Told, within_s: float) -> dict[str, Any]:
    """The first message that the webhook gets, for which a test waits so many seconds."""
    deadline = time.monotonic() + within_s
    while not told.bodies:
        assert time.monotonic() < deadline, f"nobody was told within {within_s:.0f} s"
        await asyncio.sleep(0.2)
    return dict(told.bodies[0])


async def failed_actions(client: PrefectClient, since: datetime) -> list[dict[str, Any]]:
    """Events of actions of automations that failed, also for flow runs of other tests."""
    wanted = {
        "event": {"name": ["prefect.automation.action.failed"]},
        "occurred": {"since": since.isoformat()},
    }
    answer = await client._client.post("/events/filter", json={"filter": wanted})
    return list(answer.json()["events"])
