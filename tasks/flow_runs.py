"""The flow runs of partitions on the Prefect server: found by the tag of their run, and ended."""

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
from prefect.states import Cancelled, Running

from tasks.partitions import DONE, Ended
from tasks.pulse import HALTING

log = logging.getLogger(__name__)

_PAGE: Final = 200
"""Flow runs in one answer of the server, at most."""

_OPEN: Final = [StateType.SCHEDULED, StateType.PENDING, StateType.RUNNING, StateType.PAUSED]

_WORDLESS: Final = ("Failed", "Crashed", "Deleted")
"""How a flow run ends that could not say why: another process may do better."""


def tags_of(run_id: str) -> list[str]:
    """The tags of every partition of a run."""
    return ["assizes", f"run:{run_id}"]


async def open_runs(
    client: PrefectClient, tags: Sequence[str], deployment_id: UUID | None = None
) -> list[FlowRun]:
    """Flow runs with all these tags that have not ended, of one deployment or wherever they are
    from.
    """
    states = FlowRunFilterState(type=FlowRunFilterStateType(any_=_OPEN))
    wanted = FlowRunFilter(tags=FlowRunFilterTags(all_=list(tags)), state=states)
    if deployment_id is not None:
        wanted.deployment_id = FlowRunFilterDeploymentId(any_=[deployment_id])
    found: list[FlowRun] = []
    while True:
        page = await client.read_flow_runs(flow_run_filter=wanted, limit=_PAGE, offset=len(found))
        found += page
        if len(page) < _PAGE:
            return found


async def runs_of(client: PrefectClient, ids: Sequence[UUID]) -> dict[UUID, FlowRun]:
    """Flow runs by id, in one request for two hundred; one that was deleted is missing."""
    found: dict[UUID, FlowRun] = {}
    for start in range(0, len(ids), _PAGE):
        wanted = FlowRunFilter(id=FlowRunFilterId(any_=list(ids[start : start + _PAGE])))
        page = await client.read_flow_runs(flow_run_filter=wanted, limit=_PAGE)
        found |= {one.id: one for one in page}
    return found


async def halt(client: PrefectClient, tags: Sequence[str], why: str) -> None:
    """Cancel flow runs that have not begun, and let the others end by themselves.

    Cancelling one that runs would kill its process with the calls it has in flight. A server that
    cannot be reached is only a warning.
    """
    try:
        for run in await open_runs(client, tags):
            if run.state is None or run.state.name != HALTING:
                await _halt_one(client, run, why)
    except httpx.HTTPError as error:
        log.warning("the partitions with %s could not be called back: %s", list(tags), error)


async def _halt_one(client: PrefectClient, run: FlowRun, why: str) -> None:
    begun = run.state is not None and run.state.is_running()
    state: State[Any] = Running(name=HALTING, message=why) if begun else Cancelled(message=why)
    await client.set_flow_run_state(run.id, state, force=True)


def ended(state: State[Any] | None, *, stale: bool = False) -> Ended:
    """How a flow run ended, by its last state."""
    name = (state.name if state is not None else None) or DONE
    message = (state.message if state is not None else None) or f"its flow run is {name}"
    return Ended(name, message, lost=name in _WORDLESS, stale=stale)
