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

from assizes.deployments.registration.desired import (
    QUEUE_OPTIONS,
    DeploymentTarget,
    WantedDeployment,
)
from assizes.tasks.distribute.shared_limits import SharedLimit

State = Literal["created", "changed", "unchanged", "removed"]

PAGE: Final = 200
"""Prefect gives no more objects at once."""


@dataclass(frozen=True, slots=True)
class RegistrationResult:
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

    async def work_pool(self, name: str) -> RegistrationResult:
        """A process work pool of that name; one that is there is left as it is, whatever its type."""
        try:
            await self._client.read_work_pool(name)
        except ObjectNotFound:
            if not self._dry_run:
                template = ProcessWorker.get_default_base_job_template()
                pool = WorkPoolCreate(name=name, type="process", base_job_template=template)
                await self._client.create_work_pool(pool)
            return RegistrationResult("work pool", name, "created")
        return RegistrationResult("work pool", name, "unchanged")

    async def deployment(
        self, wanted: WantedDeployment, target: DeploymentTarget
    ) -> RegistrationResult:
        """A deployment as wanted; a schedule that somebody switched off stays off."""
        name = wanted.full_name
        try:
            existing = await self._client.read_deployment_by_name(name)
        except ObjectNotFound:
            new_id = None if self._dry_run else await self._put_deployment(wanted, target)
            return RegistrationResult("deployment", name, "created", id=new_id)
        differs = () if wanted.keep_existing else tuple(_differences(existing, wanted, target))
        if differs and not self._dry_run:
            await self._put_deployment(wanted, target, existing)
        return RegistrationResult(
            "deployment", name, "changed" if differs else "unchanged", differs, existing.id
        )

    async def _put_deployment(
        self,
        wanted: WantedDeployment,
        target: DeploymentTarget,
        existing: DeploymentResponse | None = None,
    ) -> UUID:
        flow_id = await self._client.create_flow_from_name(wanted.flow.name)
        active = existing is None or all(schedule.active for schedule in existing.schedules)
        served_before = existing is not None and existing.work_pool_name is None
        return await self._client.create_deployment(
            flow_id,
            wanted.name,
            schedules=wanted.schedules(active=active),
            paused=False if served_before else None,
            concurrency_options=QUEUE_OPTIONS if wanted.one_at_a_time else None,  # type: ignore[arg-type]  # a dictionary of the same
            **wanted.body(target),
        )

    async def automation(self, wanted: AutomationCore) -> RegistrationResult:
        """An automation as wanted; one that somebody switched off stays off."""
        matches = await self._client.read_automations_by_name(wanted.name)
        if not matches:
            if not self._dry_run:
                await self._client.create_automation(wanted)
            return RegistrationResult("automation", wanted.name, "created")
        existing, *duplicates = matches
        update = wanted.model_copy(update={"enabled": existing.enabled})
        differs = tuple(
            name
            for name in ("description", "tags", "trigger", "actions")
            if getattr(existing, name) != getattr(update, name)
        )
        if differs and not self._dry_run:
            await self._client.update_automation(existing.id, update)
        for duplicate in duplicates:
            await self._remove_automation(duplicate)
        state: State = "changed" if differs or duplicates else "unchanged"
        return RegistrationResult("automation", wanted.name, state, differs, existing.id)

    async def limit(self, wanted: SharedLimit) -> RegistrationResult:
        """A global concurrency limit as a run would set it up."""
        state: State
        try:
            existing = await self._client.read_global_concurrency_limit_by_name(wanted.name)
            current = (existing.limit, existing.slot_decay_per_second)
            state = "unchanged" if current == (wanted.slots, wanted.decay) else "changed"
        except ObjectNotFound:
            state = "created"
        if state != "unchanged" and not self._dry_run:
            await self._client.upsert_global_concurrency_limit_by_name(
                wanted.name, wanted.slots, wanted.decay
            )
        return RegistrationResult("limit", wanted.name, state)

    async def remove(self, tag: str, wanted: set[str]) -> list[RegistrationResult]:
        """Take away deployments and automations with this tag whose names are not wanted."""
        removed = []
        for automation in await self._automations():
            if tag in automation.tags and automation.name not in wanted:
                await self._remove_automation(automation)
                removed.append(RegistrationResult("automation", automation.name, "removed"))
        for deployment in await self._tagged_deployments(tag):
            flow = await self._client.read_flow(deployment.flow_id)
            name = f"{flow.name}/{deployment.name}"
            if name not in wanted:
                if not self._dry_run:
                    await self._client.delete_deployment(deployment.id)
                removed.append(RegistrationResult("deployment", name, "removed"))
        return removed

    async def _automations(self) -> list[Automation]:
        automations: list[Automation] = []
        while True:
            part = await self._client.read_automations(
                sort=AutomationSort.NAME_ASC, limit=PAGE, offset=len(automations)
            )
            automations += part
            if len(part) < PAGE:
                return automations

    async def _tagged_deployments(self, tag: str) -> list[DeploymentResponse]:
        tag_filter = DeploymentFilter(tags=DeploymentFilterTags(all_=[tag]))
        matches: list[DeploymentResponse] = []
        while True:
            part = await self._client.read_deployments(
                deployment_filter=tag_filter,
                sort=DeploymentSort.CREATED_DESC,
                limit=PAGE,
                offset=len(matches),
            )
            matches += part
            if len(part) < PAGE:
                return matches

    async def _remove_automation(self, automation: Automation) -> None:
        if not self._dry_run:
            await self._client.delete_automation(automation.id)


def _differences(
    existing: DeploymentResponse, wanted: WantedDeployment, target: DeploymentTarget
) -> list[str]:
    """The names of what is not as wanted."""
    body = wanted.body(target)
    current = _registered_fields(existing)
    differs = [name for name, value in body.items() if current[name] != value]
    schedules = [schedule.schedule for schedule in existing.schedules]
    if schedules != [schedule.schedule for schedule in wanted.schedules()]:
        differs.append("schedules")
    return differs


def _registered_fields(existing: DeploymentResponse) -> Mapping[str, Any]:
    """A deployment of the server in the words of `WantedDeployment.body`."""
    limit = existing.global_concurrency_limit
    return {
        "description": existing.description,
        "entrypoint": existing.entrypoint,
        "parameters": existing.parameters,
        "tags": sorted(existing.tags),
        "work_pool_name": existing.work_pool_name,
        "pull_steps": existing.pull_steps,
        "job_variables": existing.job_variables,
        "concurrency_limit": limit.limit if limit else None,
        "parameter_openapi_schema": existing.parameter_openapi_schema,
        "enforce_parameter_schema": existing.enforce_parameter_schema,
    }
