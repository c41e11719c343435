"""Heartbeats of a partition and requests to halt, on a real Prefect server."""

from __future__ import annotations

import asyncio

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.runtime import flow_run
from prefect.states import Completed, Pending, Running

from assizes.tasks.distribute.flow_runs import (
    HALT_LABEL,
    HEARTBEAT_LABEL,
    halt_flow_run,
    halt_flow_runs,
    open_flow_runs,
    send_heartbeats,
)

pytestmark = pytest.mark.usefixtures("prefect_server")


@flow
async def halted_flow() -> tuple[list[str], bool]:
    """The reasons for which it was asked to halt, and whether heartbeats went on afterwards."""
    reasons: list[str] = []
    asked = asyncio.Event()
    async with send_heartbeats(2.0) as heartbeat, get_client() as client:
        heartbeat.on_halt(lambda why: (reasons.append(why), asked.set()))
        await halt_flow_run(client, await client.read_flow_run(flow_run.id), "enough")
        await asked.wait()
        then = (await client.read_flow_run(flow_run.id)).labels.get(HEARTBEAT_LABEL)
        for _ in range(100):
            await asyncio.sleep(0.1)
            if (await client.read_flow_run(flow_run.id)).labels.get(HEARTBEAT_LABEL) != then:
                return reasons, True
    return reasons, False


async def test_a_partition_that_was_asked_to_halt_sends_heartbeats_until_its_end_and_is_asked_once():
    assert await halted_flow() == (["enough"], True)


async def test_a_partition_that_ends_while_it_is_halted_keeps_its_end():
    async with get_client() as client:
        run = await client.create_flow_run(halted_flow, tags=["ends"], state=Running())
        (listed,) = await open_flow_runs(client, ["ends"])
        await client.set_flow_run_state(run.id, Completed(name="Judged"), force=True)
        await halt_flow_run(client, listed, "enough")
        assert (await client.read_flow_run(run.id)).state_name == "Judged"


async def test_a_deleted_flow_run_keeps_no_other_from_being_halted():
    async with get_client() as client:
        gone = await client.create_flow_run(halted_flow, tags=["back"], state=Running())
        (listed,) = await open_flow_runs(client, ["back"])
        await client.delete_flow_run(gone.id)
        await halt_flow_run(client, listed, "enough")
        begun, waits = [
            await client.create_flow_run(halted_flow, tags=["back"], state=state)
            for state in (Running(), Pending())
        ]
        await halt_flow_runs(client, ["back"], "enough")
        runs = [await client.read_flow_run(run.id) for run in (begun, waits)]
    assert [run.state_name for run in runs] == ["Running", "Cancelled"]
    assert [run.labels[HALT_LABEL] for run in runs] == ["enough", "enough"]
