"""Bring a Prefect server to what a configuration wants, touching only what differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterTags
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.sorting import AutomationSort, DeploymentSort
from prefect.events.schemas.automations import Automation, AutomationCore
from prefect.exceptions import ObjectNotFound
from prefect.workers.process import ProcessWorker

from assizes.deployments.registration.desired import QUEUED, Place, WantedDeployment
from assizes.tasks.distribute.shared_limits import SharedLimit

State = Literal["created", "changed", "unchanged", "removed"]

PAGE: Final = 200
"""Prefect gives no more objects at once."""


@dataclass(frozen=True, slots=True)
class Registered:
    """One object on the server, and what became of it; `differs` names what was not alike."""

    kind: Literal["work pool", "deployment", "automation", "limit"]
    name: str
    state: State
    differs: tuple[str, ...] = ()
    id: UUID | None = None


class Registrar:
    """Creates, changes and removes; with `dry_run` it only says what it would do."""

    def __init__(self, client: PrefectClient, *, dry_run: bool = False) -> None:
        """Speak to one server."""
        self._client = client
        self._dry_run = dry_run

    async def work_pool(self, name: str) -> Registered:
        """A process work pool of that name; one that is there is left as it is, whatever its type."""
        try:
            await self._client.read_work_pool(name)
        except ObjectNotFound:
            if not self._dry_run:
                template = ProcessWorker.get_default_base_job_template()
                pool = WorkPoolCreate(name=name, type="process", base_job_template=template)
                await self._client.create_work_pool(pool)
            return Registered("work pool", name, "created")
        return Registered("work pool", name, "unchanged")

    async def deployment(self, wanted: WantedDeployment, place: Place) -> Registered:
        """A deployment as wanted; a schedule that somebody switched off stays off."""
        name = wanted.full_name
        try:
            there = await self._client.read_deployment_by_name(name)
        except ObjectNotFound:
            made = None if self._dry_run else await self._put(wanted, place)
            return Registered("deployment", name, "created", id=made)
        differs = () if wanted.left_alone else tuple(_differences(there, wanted, place))
        if differs and not self._dry_run:
            await self._put(wanted, place, there)
        return Registered(
            "deployment", name, "changed" if differs else "unchanged", differs, there.id
        )

    async def _put(
        self, wanted: WantedDeployment, place: Place, there: DeploymentResponse | None = None
    ) -> UUID:
        flow_id = await self._client.create_flow_from_name(wanted.flow.name)
        active = there is None or all(one.active for one in there.schedules)
        served_before = there is not None and there.work_pool_name is None
        return await self._client.create_deployment(
            flow_id,
            wanted.name,
            schedules=wanted.schedules(active=active),
            paused=False if served_before else None,
            concurrency_options=QUEUED if wanted.one_at_a_time else None,  # type: ignore[arg-type]  # a dictionary of the same
            **wanted.body(place),
        )

    async def automation(self, wanted: AutomationCore) -> Registered:
        """An automation as wanted; one that somebody switched off stays off."""
        found = await self._client.read_automations_by_name(wanted.name)
        if not found:
            if not self._dry_run:
                await self._client.create_automation(wanted)
            return Registered("automation", wanted.name, "created")
        there, *more = found
        kept = wanted.model_copy(update={"enabled": there.enabled})
        differs = tuple(
            name
            for name in ("description", "tags", "trigger", "actions")
            if getattr(there, name) != getattr(kept, name)
        )
        if differs and not self._dry_run:
            await self._client.update_automation(there.id, kept)
        for twin in more:
            await self._remove_automation(twin)
        state: State = "changed" if differs or more else "unchanged"
        return Registered("automation", wanted.name, state, differs, there.id)

    async def limit(self, wanted: SharedLimit) -> Registered:
        """A global concurrency limit as a run would set it up."""
        state: State
        try:
            there = await self._client.read_global_concurrency_limit_by_name(wanted.name)
            found = (there.limit, there.slot_decay_per_second)
            state = "unchanged" if found == (wanted.slots, wanted.decay) else "changed"
        except ObjectNotFound:
            state = "created"
        if state != "unchanged" and not self._dry_run:
            await self._client.upsert_global_concurrency_limit_by_name(
                wanted.name, wanted.slots, wanted.decay
            )
        return Registered("limit", wanted.name, state)

    async def remove(self, tag: str, wanted: set[str]) -> list[Registered]:
        """Take away deployments and automations with this tag whose names are not wanted."""
        removed = []
        for automation in await self._automations():
            if tag in automation.tags and automation.name not in wanted:
                await self._remove_automation(automation)
                removed.append(Registered("automation", automation.name, "removed"))
        for there in await self._tagged(tag):
            flow = await self._client.read_flow(there.flow_id)
            name = f"{flow.name}/{there.name}"
            if name not in wanted:
                if not self._dry_run:
                    await self._client.delete_deployment(there.id)
                removed.append(Registered("deployment", name, "removed"))
        return removed

    async def _automations(self) -> list[Automation]:
        found: list[Automation] = []
        while True:
            part = await self._client.read_automations(
                sort=AutomationSort.NAME_ASC, limit=PAGE, offset=len(found)
            )
            found += part
            if len(part) < PAGE:
                return found

    async def _tagged(self, tag: str) -> list[DeploymentResponse]:
        tagged = DeploymentFilter(tags=DeploymentFilterTags(all_=[tag]))
        found: list[DeploymentResponse] = []
        while True:
            part = await self._client.read_deployments(
                deployment_filter=tagged,
                sort=DeploymentSort.CREATED_DESC,
                limit=PAGE,
                offset=len(found),
            )
            found += part
            if len(part) < PAGE:
                return found

    async def _remove_automation(self, automation: Automation) -> None:
        if not self._dry_run:
            await self._client.delete_automation(automation.id)


def _differences(there: DeploymentResponse, wanted: WantedDeployment, place: Place) -> list[str]:
    """The names of what is not as wanted."""
    body = wanted.body(place)
    found = _found(there)
    differs = [name for name, value in body.items() if found[name] != value]
    schedules = [one.schedule for one in there.schedules]
    if schedules != [one.schedule for one in wanted.schedules()]:
        differs.append("schedules")
    return differs


def _found(there: DeploymentResponse) -> Mapping[str, Any]:
    """A deployment of the server in the words of `WantedDeployment.body`."""
    limit = there.global_concurrency_limit
    return {
        "description": there.description,
        "entrypoint": there.entrypoint,
        "parameters": there.parameters,
        "tags": sorted(there.tags),
        "work_pool_name": there.work_pool_name,
        "pull_steps": there.pull_steps,
        "job_variables": there.job_variables,
        "concurrency_limit": limit.limit if limit else None,
        "parameter_openapi_schema": there.parameter_openapi_schema,
        "enforce_parameter_schema": there.enforce_parameter_schema,
    }
