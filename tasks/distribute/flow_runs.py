"""Finds the flow runs of partitions on the Prefect server by tags, and asks them to halt."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterId,
    FlowRunFilterState,
    FlowRunFilterStateType,
    FlowRunFilterTags,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.exceptions import ObjectNotFound, PrefectException
from prefect.states import Cancelled

from assizes.tasks.distribute.heartbeat import HALT_LABEL
from assizes.tasks.distribute.partitions import JUDGED_STATE, PartitionEnd

log = logging.getLogger(__name__)

_PAGE_SIZE: Final = 200
"""Flow runs in one answer of the server, at most."""

_OPEN_STATES: Final = [StateType.SCHEDULED, StateType.PENDING, StateType.RUNNING, StateType.PAUSED]

_STATES_WITHOUT_REASON: Final = ("Failed", "Crashed", "Deleted")
"""Names of final states that give no reason of ours: another process may succeed."""


def tags_of(run_id: str) -> list[str]:
    """The tags of every partition of a run."""
    return ["assizes", f"run:{run_id}"]


async def open_flow_runs(
    client: PrefectClient, tags: Sequence[str], deployment_id: UUID | None = None
) -> list[FlowRun]:
    """Flow runs with all these tags that have not ended, of one deployment or of any."""
    states = FlowRunFilterState(type=FlowRunFilterStateType(any_=_OPEN_STATES))
    run_filter = FlowRunFilter(tags=FlowRunFilterTags(all_=list(tags)), state=states)
    if deployment_id is not None:
        run_filter.deployment_id = FlowRunFilterDeploymentId(any_=[deployment_id])
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
    flow_runs: dict[UUID, FlowRun] = {}
    for start in range(0, len(ids), _PAGE_SIZE):
        run_filter = FlowRunFilter(id=FlowRunFilterId(any_=list(ids[start : start + _PAGE_SIZE])))
        page = await client.read_flow_runs(flow_run_filter=run_filter, limit=_PAGE_SIZE)
        flow_runs |= {flow_run.id: flow_run for flow_run in page}
    return flow_runs


async def halt_flow_runs(client: PrefectClient, tags: Sequence[str], why: str) -> None:
    """Cancel flow runs that have not begun, and ask the others to make no further call.

    When the server cannot be reached, only a warning is logged.
    """
    try:
        for run in await open_flow_runs(client, tags):
            if HALT_LABEL not in run.labels:
                await halt_flow_run(client, run, why)
    except (httpx.HTTPError, PrefectException) as error:
        log.warning("the partitions with %s could not be called back: %s", list(tags), error)


async def halt_flow_run(client: PrefectClient, run: FlowRun, why: str) -> None:
    """Ask a flow run that was open when it was read to make no further call.

    A running flow run gets a label only. Cancelling it would kill its process with the calls in
    flight. Any other state could replace a final state that the flow run has reached since.
    """
    try:
        await client.update_flow_run_labels(run.id, {HALT_LABEL: why})
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
