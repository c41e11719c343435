"""The flow runs of partitions on the Prefect server: heartbeats, ends, and requests to halt."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, Final
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas import filters
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.exceptions import ObjectNotFound, PrefectException
from prefect.runtime import flow_run
from prefect.states import Cancelled

from assizes.tasks.distribute.partitions import JUDGED_STATE, PartitionEnd

log = logging.getLogger(__name__)

_PAGE_SIZE: Final = 200  # flow runs in one answer of the server, at most

_OPEN_STATES: Final = [StateType.SCHEDULED, StateType.PENDING, StateType.RUNNING, StateType.PAUSED]

_STATES_WITHOUT_REASON: Final = ("Failed", "Crashed", "Deleted")
"""Names of final states that give no reason of ours: another process may succeed."""

HEARTBEAT_LABEL: Final = "assizes.beat"
"""The label of a flow run whose value changes with every heartbeat."""

HEARTBEATS_PER_TIMEOUT: Final = 4
"""Heartbeats in `runner.lost_after_s`: several, so that one may be late or missing."""

HALT_CHECK_INTERVAL_S: Final = 5.0  # seconds between two looks for a request to halt, about

HALT_LABEL: Final = "assizes.halt"
"""The label that asks a flow run to make no further call; its value is the reason."""


@dataclass
class Heartbeat:
    """Passes a request to halt on to a callback, whichever of the two comes first."""

    _why: str | None = None  # the reason of a request to halt, once there is one
    _halt: Callable[[str], None] | None = None

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
    """Within a flow run, send its heartbeats during the block, and look for a request to halt.

    A flow run counts as dead after `lost_after_s` seconds without a heartbeat.
    """
    heartbeat, flow_run_id = Heartbeat(), flow_run.id
    if flow_run_id is None:
        yield heartbeat  # outside of a flow run there is nobody to tell
        return
    every_s = lost_after_s / HEARTBEATS_PER_TIMEOUT
    beats = _beat_until_cancelled(heartbeat, UUID(str(flow_run_id)), every_s)
    task = asyncio.create_task(beats)
    try:
        yield heartbeat
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _beat_until_cancelled(heartbeat: Heartbeat, flow_run_id: UUID, every_s: float) -> None:
    """Send heartbeats to the end of the block, also after a request to halt."""
    checks_per_beat = max(1, round(every_s / HALT_CHECK_INTERVAL_S))
    # A halted flow run still waits for its calls in flight and stores the replies: it is alive.
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
    """Send heartbeat `number`, if any; returns why this flow run must halt, None for no reason."""
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
    return state.message or f"its flow run is {state.name}"  # ended or paused from outside


def tags_of(run_id: str) -> list[str]:
    """The tags of every partition of a run."""
    return ["assizes", f"run:{run_id}"]


async def open_flow_runs(
    client: PrefectClient, tags: Sequence[str], deployment_id: UUID | None = None
) -> list[FlowRun]:
    """Flow runs with all these tags that have not ended, of one deployment or of any."""
    states = filters.FlowRunFilterState(type=filters.FlowRunFilterStateType(any_=_OPEN_STATES))
    all_tags = filters.FlowRunFilterTags(all_=list(tags))
    run_filter = filters.FlowRunFilter(tags=all_tags, state=states)
    if deployment_id is not None:
        run_filter.deployment_id = filters.FlowRunFilterDeploymentId(any_=[deployment_id])
    flow_runs: list[FlowRun] = []
    while True:
        page = await client.read_flow_runs(
            flow_run_filter=run_filter, limit=_PAGE_SIZE, offset=len(flow_runs)
        )
        flow_runs += page
        if len(page) < _PAGE_SIZE:
            return flow_runs


async def flow_runs_by_id(client: PrefectClient, ids: Sequence[UUID]) -> dict[UUID, FlowRun]:
    """Flow runs by id, in a request for each `_PAGE_SIZE`; deleted flow runs are left out."""
    flow_runs: list[FlowRun] = []
    for start in range(0, len(ids), _PAGE_SIZE):
        some = filters.FlowRunFilterId(any_=list(ids[start : start + _PAGE_SIZE]))
        run_filter = filters.FlowRunFilter(id=some)
        flow_runs += await client.read_flow_runs(flow_run_filter=run_filter, limit=_PAGE_SIZE)
    return {flow_run.id: flow_run for flow_run in flow_runs}


async def halt_flow_runs(client: PrefectClient, tags: Sequence[str], why: str) -> None:
    """Cancel flow runs that have not begun, and halt the others; only warn without a server."""
    try:
        for run in await open_flow_runs(client, tags):
            if HALT_LABEL not in run.labels:
                await halt_flow_run(client, run, why)
    except (httpx.HTTPError, PrefectException) as error:
        log.warning("the partitions with %s could not be called back: %s", list(tags), error)


async def halt_flow_run(client: PrefectClient, run: FlowRun, why: str) -> None:
    """Ask a flow run that was open when it was read to make no further call."""
    try:
        await client.update_flow_run_labels(run.id, {HALT_LABEL: why})
        # Decision 73: to cancel a running one would kill its process with the calls in flight, and
        # another state could replace a final one that it has reached since.
        if run.state is None or not run.state.is_running():
            await client.set_flow_run_state(run.id, Cancelled(message=why), force=True)
    except ObjectNotFound:  # the flow run was deleted
        return
    except httpx.HTTPStatusError as error:
        if error.response.status_code != httpx.codes.NOT_FOUND:
            raise


def partition_end(state: State[Any] | None, *, stale: bool = False) -> PartitionEnd:
    """How a flow run ended, by its final state."""
    name = (state.name if state is not None else None) or JUDGED_STATE
    message = (state.message if state is not None else None) or f"its flow run is {name}"
    return PartitionEnd(name, message, lost=name in _STATES_WITHOUT_REASON, stale=stale)
