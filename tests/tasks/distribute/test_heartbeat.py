"""How a partition shows that it lives: told to a real Prefect server."""

from __future__ import annotations

import asyncio

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.runtime import flow_run
from prefect.states import Completed, Pending, Running

from assizes.tasks.distribute.flow_runs import halt_flow_run, halt_flow_runs, open_flow_runs
from assizes.tasks.distribute.heartbeat import HALT_LABEL, HEARTBEAT_LABEL, send_heartbeats

pytestmark = pytest.mark.usefixtures("prefect_server")


@flow
async def told_to_end() -> tuple[list[str], bool]:
    """What it was told, and whether it went on to show life."""
    told: list[str] = []
    heard = asyncio.Event()
    async with send_heartbeats(2.0) as pulse, get_client() as client:
        pulse.on_halt(lambda why: (told.append(why), heard.set()))
        await halt_flow_run(client, await client.read_flow_run(flow_run.id), "enough")
        await heard.wait()
        then = (await client.read_flow_run(flow_run.id)).labels.get(HEARTBEAT_LABEL)
        for _ in range(100):
            await asyncio.sleep(0.1)
            if (await client.read_flow_run(flow_run.id)).labels.get(HEARTBEAT_LABEL) != then:
                return told, True
    return told, False


async def test_a_partition_that_was_told_to_end_shows_life_until_it_has_and_is_told_once():
    assert await told_to_end() == (["enough"], True)


async def test_a_partition_that_ends_while_it_is_called_back_keeps_its_end():
    async with get_client() as client:
        run = await client.create_flow_run(told_to_end, tags=["ends"], state=Running())
        (listed,) = await open_flow_runs(client, ["ends"])
        await client.set_flow_run_state(run.id, Completed(name="Judged"), force=True)
        await halt_flow_run(client, listed, "enough")
        assert (await client.read_flow_run(run.id)).state_name == "Judged"


async def test_one_that_is_gone_keeps_no_other_from_being_called_back():
    async with get_client() as client:
        gone = await client.create_flow_run(told_to_end, tags=["back"], state=Running())
        (listed,) = await open_flow_runs(client, ["back"])
        await client.delete_flow_run(gone.id)
        await halt_flow_run(client, listed, "enough")
        begun, waits = [
            await client.create_flow_run(told_to_end, tags=["back"], state=state)
            for state in (Running(), Pending())
        ]
        await halt_flow_runs(client, ["back"], "enough")
        runs = [await client.read_flow_run(one.id) for one in (begun, waits)]
    assert [one.state_name for one in runs] == ["Running", "Cancelled"]
    assert [one.labels[HALT_LABEL] for one in runs] == ["enough", "enough"]
