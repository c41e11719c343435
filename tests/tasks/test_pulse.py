"""How a partition shows that it lives: told to a real Prefect server."""

from __future__ import annotations

import asyncio

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.runtime import flow_run
from prefect.states import Running

from tasks.pulse import BEAT, HALTING, beating

pytestmark = pytest.mark.usefixtures("prefect_server")


@flow
async def told_to_end() -> tuple[list[str], bool]:
    """What it was told, and whether it went on to show life."""
    told: list[str] = []
    heard = asyncio.Event()
    async with beating(2.0) as pulse, get_client() as client:
        pulse.on_halt(lambda why: (told.append(why), heard.set()))
        await client.set_flow_run_state(
            flow_run.id, Running(name=HALTING, message="enough"), force=True
        )
        await heard.wait()
        then = (await client.read_flow_run(flow_run.id)).labels.get(BEAT)
        for _ in range(100):
            await asyncio.sleep(0.1)
            if (await client.read_flow_run(flow_run.id)).labels.get(BEAT) != then:
                return told, True
    return told, False


async def test_a_partition_that_was_told_to_end_shows_life_until_it_has_and_is_told_once():
    assert await told_to_end() == (["enough"], True)
