"""How a partition shows that its process lives, and hears that it is to end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Final
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient, get_client
from prefect.exceptions import PrefectException
from prefect.runtime import flow_run

log = logging.getLogger(__name__)

HEARTBEAT_LABEL: Final = "assizes.beat"
"""The label of a flow run that changes while its process lives."""

HEARTBEATS_PER_TIMEOUT: Final = 4
"""So often in `runner.lost_after_s`: one that comes late or not at all is no death."""

HALT_CHECK_INTERVAL_S: Final = 5.0
"""About so often it looks whether it is to end."""

HALT_LABEL: Final = "assizes.halt"
"""The label of a flow run that is to begin no further call: why."""


class Heartbeat:
    """Keeps what is to be done when this flow run is to end, also where it was told before."""

    def __init__(self) -> None:
        self._why: str | None = None
        self._halt: Callable[[str], None] | None = None

    def on_halt(self, halt: Callable[[str], None]) -> None:
        """Call it with the reason, now or later."""
        self._halt = halt
        if self._why is not None:
            halt(self._why)

    def end(self, why: str) -> None:
        """The flow run is to end."""
        self._why = why
        if self._halt is not None:
            self._halt(why)


@asynccontextmanager
async def send_heartbeats(lost_after_s: float) -> AsyncIterator[Heartbeat]:
    """For the length of the block, say that this flow run lives, and hear when it is to end.

    Outside of a flow run nobody asks.

    Args:
        lost_after_s: a flow run that says nothing for so long is taken for dead.
    """
    heartbeat, flow_run_id = Heartbeat(), flow_run.id
    if flow_run_id is None:
        yield heartbeat
        return
    task = asyncio.create_task(
        _beat_until_cancelled(
            heartbeat, UUID(str(flow_run_id)), lost_after_s / HEARTBEATS_PER_TIMEOUT
        )
    )
    try:
        yield heartbeat
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _beat_until_cancelled(heartbeat: Heartbeat, flow_run_id: UUID, every_s: float) -> None:
    """One that was told to end lives until it has kept what it is still asking."""
    checks_per_beat = max(1, round(every_s / HALT_CHECK_INTERVAL_S))
    ending = False
    async with get_client() as client:
        for check_number in count():
            number = None if check_number % checks_per_beat else check_number // checks_per_beat
            why = await _exchange_heartbeat(client, flow_run_id, number)
            if why is not None and not ending:
                ending = True
                heartbeat.end(why)
            await asyncio.sleep(every_s / checks_per_beat)


async def _exchange_heartbeat(
    client: PrefectClient, flow_run_id: UUID, number: int | None
) -> str | None:
    """Why this flow run is to end; null while it is not, and while nobody can be asked."""
    try:
        if number is not None:
            await client.update_flow_run_labels(flow_run_id, {HEARTBEAT_LABEL: number})
        run = await client.read_flow_run(flow_run_id)
    except (httpx.HTTPError, PrefectException) as error:
        log.warning("cannot tell the Prefect server that this partition is judged: %s", error)
        return None
    if HALT_LABEL in run.labels:
        return str(run.labels[HALT_LABEL])
    state = run.state
    if state is None or state.is_running():
        return None
    return state.message or f"its flow run is {state.name}"
