"""Heartbeats of the flow run of a partition, and the request to halt that it looks for."""

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
"""The label of a flow run whose value changes with every heartbeat."""

HEARTBEATS_PER_TIMEOUT: Final = 4
"""Heartbeats in `runner.lost_after_s`: several, so that one may be late or missing."""

HALT_CHECK_INTERVAL_S: Final = 5.0
"""Seconds between two looks for a request to halt, about."""

HALT_LABEL: Final = "assizes.halt"
"""The label that asks a flow run to make no further call; its value is the reason."""


class Heartbeat:
    """Passes a request to halt on to a callback, whichever of the two comes first."""

    def __init__(self) -> None:
        self._why: str | None = None
        self._halt: Callable[[str], None] | None = None

    def on_halt(self, halt: Callable[[str], None]) -> None:
        """Have `halt` called with the reason once this flow run is asked to halt, or at once."""
        self._halt = halt
        if self._why is not None:
            halt(self._why)

    def request_halt(self, why: str) -> None:
        """Ask this flow run to make no further call."""
        self._why = why
        if self._halt is not None:
            self._halt(why)


@asynccontextmanager
async def send_heartbeats(lost_after_s: float) -> AsyncIterator[Heartbeat]:
    """Send heartbeats of this flow run during the block, and look for a request to halt.

    Outside of a flow run the block does neither.

    Args:
        lost_after_s: seconds without a heartbeat after which a flow run counts as dead.
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
    """Send heartbeats to the end of the block, also after a request to halt.

    A halted flow run still waits for its calls in flight and stores the replies.
    """
    checks_per_beat = max(1, round(every_s / HALT_CHECK_INTERVAL_S))
    halting = False
    async with get_client() as client:
        for check_number in count():
            number = None if check_number % checks_per_beat else check_number // checks_per_beat
            why = await _exchange_heartbeat(client, flow_run_id, number)
            if why is not None and not halting:
                halting = True
                heartbeat.request_halt(why)
            await asyncio.sleep(every_s / checks_per_beat)


async def _exchange_heartbeat(
    client: PrefectClient, flow_run_id: UUID, number: int | None
) -> str | None:
    """Send heartbeat `number`, if not None, and read why this flow run must halt.

    Returns:
        The reason; None while there is none, or while the server cannot be reached.
    """
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
