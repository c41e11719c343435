"""How a partition shows that its process lives, and hears that it is to end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Final
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient, get_client
from prefect.exceptions import PrefectException
from prefect.runtime import flow_run

from tasks.room import Room

log = logging.getLogger(__name__)

BEAT: Final = "assizes.beat"
"""The label of a flow run that changes while its process lives."""

BEATS: Final = 4
"""So often in `runner.lost_after_s`: one that comes late or not at all is no death."""

HALTING: Final = "Halting"
"""The name of the state of a running flow run that is to begin no further call."""


@asynccontextmanager
async def beating(room: Room, run_id: str) -> AsyncIterator[None]:
    """For the length of the block, say that this flow run lives, and heed it when it is to end.

    Calls in flight are then waited for and kept. Outside of a flow run nobody asks.
    """
    own = flow_run.id
    if own is None:
        yield
        return
    every_s = room.config.runner.lost_after_s / BEATS
    task = asyncio.create_task(_beat(room, run_id, UUID(str(own)), every_s))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _beat(room: Room, run_id: str, own: UUID, every_s: float) -> None:
    async with get_client() as client:
        for number in count(1):
            why = await _told(client, own, number)
            if why is not None:
                room.halt(run_id, why)
                return
            await asyncio.sleep(every_s)


async def _told(client: PrefectClient, own: UUID, number: int) -> str | None:
    """Why this flow run is to end; null while it is not, and while nobody can be asked."""
    try:
        await client.update_flow_run_labels(own, {BEAT: number})
        state = (await client.read_flow_run(own)).state
    except (httpx.HTTPError, PrefectException) as error:
        log.warning("cannot tell the Prefect server that this partition is judged: %s", error)
        return None
    if state is None or (state.is_running() and state.name != HALTING):
        return None
    return state.message or f"its flow run is {state.name}"
