"""Register the objects of a configuration on a Prefect server, changing only what differs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar
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

T = TypeVar("T")

State = Literal["created", "changed", "unchanged", "removed"]

PAGE: Final = 200
"""Most objects that Prefect's API returns in one response."""


@dataclass(frozen=True, slots=True)
class RegistrationResult:
    """What was done to one object on the server.

    Attributes:
        kind: the kind of object.
        name: its name on the server.
        state: what was done, or would be done without a dry run.
        differs: names of the fields that were not as wanted.
        id: of the object on the server; `None` where it has none or none is needed.
    """

    kind: Literal["work pool", "deployment", "automation", "limit"]
    name: str
    state: State
    differs: tuple[str, ...] = ()
    id: UUID | None = None


class Registrar:
    """Creates, changes and removes objects on one server; with `dry_run` it only compares.

    Each method returns the state of an object, and with `dry_run` the state that it would have.
    """

    def __init__(self, client: PrefectClient, *, dry_run: bool = False) -> None:
        self._client = client
        self._dry_run = dry_run

    async def work_pool(self, name: str) -> RegistrationResult:
        """Create a process work pool; an existing pool of that name stays, whatever its type."""
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
        """Register a deployment; a schedule that somebody switched off stays off."""
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
        # `serve-flows` pauses its deployments when it ends; workers must find them active again.
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
        """Register an automation; an automation that somebody switched off stays off.

        Further automations of the same name are removed.
        """
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
        """Register a global concurrency limit, with the values that a run would give it."""
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
        """Remove deployments and automations with this tag whose names are not wanted.

        Args:
            tag: the tag.
            wanted: names of automations, and flow/deployment names.

        Returns:
            A result for each object that was removed.
        """
        client = self._client
        removed = []
        automations = await _all_pages(
            lambda offset: client.read_automations(
                sort=AutomationSort.NAME_ASC, limit=PAGE, offset=offset
            )
        )
        for automation in automations:
            if tag in automation.tags and automation.name not in wanted:
                await self._remove_automation(automation)
                removed.append(RegistrationResult("automation", automation.name, "removed"))
        tag_filter = DeploymentFilter(tags=DeploymentFilterTags(all_=[tag]))
        deployments = await _all_pages(
            lambda offset: client.read_deployments(
                deployment_filter=tag_filter,
                sort=DeploymentSort.CREATED_DESC,
                limit=PAGE,
                offset=offset,
            )
        )
        for deployment in deployments:
            flow = await self._client.read_flow(deployment.flow_id)
            name = f"{flow.name}/{deployment.name}"
            if name not in wanted:
                if not self._dry_run:
                    await self._client.delete_deployment(deployment.id)
                removed.append(RegistrationResult("deployment", name, "removed"))
        return removed

    async def _remove_automation(self, automation: Automation) -> None:
        if not self._dry_run:
            await self._client.delete_automation(automation.id)


async def _all_pages(read_page: Callable[[int], Awaitable[list[T]]]) -> list[T]:
    """The objects of all pages; `read_page` takes the number of objects read so far."""
    objects: list[T] = []
    while True:
        page = await read_page(len(objects))
        objects += page
        if len(page) < PAGE:
            return objects


def _differences(
    existing: DeploymentResponse, wanted: WantedDeployment, target: DeploymentTarget
) -> list[str]:
    """Names of the fields in which a registered deployment is not as wanted."""
    body = wanted.body(target)
    current = _registered_fields(existing)
    differs = [name for name, value in body.items() if current[name] != value]
    schedules = [schedule.schedule for schedule in existing.schedules]
    if schedules != [schedule.schedule for schedule in wanted.schedules()]:
        differs.append("schedules")
    return differs


def _registered_fields(existing: DeploymentResponse) -> Mapping[str, Any]:
    """The fields of a registered deployment, under the names that `WantedDeployment.body` uses."""
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
