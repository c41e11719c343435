"""The deployments that a configuration wants, and the registration of all objects with Prefect."""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar
from uuid import UUID

from prefect import Flow
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate, WorkPoolCreate
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterTags
from prefect.client.schemas.objects import ConcurrencyLimitStrategy
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule
from prefect.client.schemas.sorting import AutomationSort, DeploymentSort
from prefect.events.schemas.automations import Automation, AutomationCore
from prefect.exceptions import ObjectNotFound
from prefect.utilities.callables import parameter_schema
from prefect.workers.process import ProcessWorker

from assizes.deployments.registration.schedule import nightly_schedule
from assizes.deployments.settings import WORKER_ENVIRONMENT
from assizes.judge.config.run import RunConfig
from assizes.tasks.distribute.shared_limits import SharedLimit
from assizes.tasks.distribute.work_pool import DEPLOYMENT
from assizes.tasks.publish_report import TAG

SET_DIRECTORY: Final = "prefect.deployments.steps.set_working_directory"  # a pull step


@dataclass(frozen=True, slots=True)
class DeploymentTarget:
    """Where the flow runs of a deployment execute."""

    pool: str | None  # work pool whose workers execute them; None: the process that serves them
    folder: str  # on the worker; relative paths of the configuration resolve against it


@dataclass(frozen=True)
class WantedDeployment:
    """A flow, with the parameters, tags and schedule that its deployment should have."""

    entrypoint: str  # dotted name of module and function
    name: str  # without that of the flow
    description: str
    parameters: Mapping[str, Any] = field(default_factory=dict)  # defaults of every flow run
    tags: tuple[str, ...] = (TAG,)  # of every flow run
    schedule: CronSchedule | None = None  # None: flow runs begin on request
    one_at_a_time: bool = False  # a flow run waits for the end of the one before
    keep_existing: bool = False  # stays as it is: other configurations use it too

    @property
    def flow(self) -> Flow[..., Any]:
        """The flow, imported from its entrypoint."""
        module, _, function = self.entrypoint.rpartition(".")
        flow: Flow[..., Any] = getattr(importlib.import_module(module), function)
        return flow

    @property
    def full_name(self) -> str:
        """The name `flow/deployment`, by which Prefect finds a deployment."""
        return f"{self.flow.name}/{self.name}"

    def body(self, target: DeploymentTarget) -> dict[str, Any]:
        """Everything that is registered except the schedules, in the form the server returns."""
        # A served flow run begins in the folder and environment of the process that serves it.
        steps = [{SET_DIRECTORY: {"directory": target.folder}}] if target.pool else None
        schema = parameter_schema(self.flow).model_dump(exclude_unset=True)
        return {
            "description": self.description,
            "entrypoint": self.entrypoint,
            "parameters": dict(self.parameters),
            "tags": sorted(self.tags),  # compared regardless of order
            "work_pool_name": target.pool,
            "pull_steps": steps,
            "job_variables": {"env": dict(WORKER_ENVIRONMENT)} if target.pool else {},
            "concurrency_limit": 1 if self.one_at_a_time else None,
            "parameter_openapi_schema": schema,
            "enforce_parameter_schema": True,  # the server refuses wrong parameters
        }

    def schedules(self, *, active: bool = True) -> list[DeploymentScheduleCreate]:
        """The schedule in a list, or an empty list; `active`: whether it begins flow runs."""
        if self.schedule is None:
            return []
        slug = self.flow.name
        return [DeploymentScheduleCreate(schedule=self.schedule, active=active, slug=slug)]


QUEUE_OPTIONS: Final = {"collision_strategy": ConcurrencyLimitStrategy.ENQUEUE}
"""A flow run beyond the concurrency limit waits."""


def tag_of(config: RunConfig) -> str:
    """The tag of everything that is registered for a configuration, by which it is found again."""
    return f"{TAG}:{config.name}"


def wanted_deployments(config: RunConfig) -> list[WantedDeployment]:
    """The deployments that `assizes deploy` registers; raises as `nightly_schedule`."""
    name, tags = f"assizes-{config.name}", (TAG, tag_of(config))
    # Whole (decision 80): workers read no file, and an edit has no effect before the next deploy.
    run_parameters = {"config": config.model_dump(mode="json")}
    compare_parameters = {
        "store": config.store.model_dump(mode="json"),
        "thresholds": config.comparison.model_dump(mode="json"),
    }

    def of_flow(flow: str, description: str, **more: Any) -> WantedDeployment:
        settings = {"parameters": run_parameters, "tags": tags, **more}
        return WantedDeployment(f"assizes.flows.{flow}", name, description, **settings)

    nightly = {"schedule": nightly_schedule(config), "one_at_a_time": True}
    return [
        of_flow("nightly.nightly", "Judge yesterday's transcripts.", **nightly),
        of_flow("after_deployment.after_deployment", "Judge a new version beside the last."),
        of_flow("backfill.backfill", "Judge a range of days.", one_at_a_time=True),
        of_flow("evaluate.evaluate", "One evaluation."),
        of_flow("compare.compare_runs", "Two runs side by side.", parameters=compare_parameters),
        of_flow("calibrate.calibrate_judge", "Compare the judge with human labels."),
        of_flow("align.align_judge", "Propose a better judge from labels."),
        WantedDeployment(
            "assizes.flows.partition.judge_partition",
            DEPLOYMENT.partition("/")[2],  # one for all configurations
            "Part of a run.",
            keep_existing=config.runner.kind != "workers",  # else only others need it
        ),
    ]


T = TypeVar("T")

State = Literal["created", "changed", "unchanged", "removed"]

PAGE: Final = 200
"""Most objects that Prefect's API returns in one response."""


@dataclass(frozen=True, slots=True)
class RegistrationResult:
    """What was done to one object on the server, or with a dry run would be done."""

    kind: Literal["work pool", "deployment", "automation", "limit"]
    name: str  # of a deployment: flow/deployment
    state: State
    differs: tuple[str, ...] = ()  # names of the fields that were not as wanted
    id: UUID | None = None  # None: not registered (a dry run), or not needed


class Registrar:
    """Creates, changes and removes objects on one server; with `dry_run` it only compares."""

    def __init__(self, client: PrefectClient, *, dry_run: bool = False) -> None:
        self._client = client
        self.dry_run = dry_run

    async def work_pool(self, name: str) -> RegistrationResult:
        """Create a process work pool; an existing pool of that name stays, whatever its type."""
        try:
            await self._client.read_work_pool(name)
        except ObjectNotFound:
            if not self.dry_run:
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
            new_id = None if self.dry_run else await self._put_deployment(wanted, target)
            return RegistrationResult("deployment", name, "created", id=new_id)
        # Compared before it is written (decision 79): a schedule put again loses its coming runs.
        differs = () if wanted.keep_existing else tuple(_differences(existing, wanted, target))
        if differs and not self.dry_run:
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
        # `assizes worker` pauses its deployments when it ends; workers must find them active again.
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
        """Register an automation, remove duplicates; one that somebody switched off stays off."""
        matches = await self._client.read_automations_by_name(wanted.name)
        if not matches:
            if not self.dry_run:
                await self._client.create_automation(wanted)
            return RegistrationResult("automation", wanted.name, "created")
        existing, *duplicates = matches  # names are not unique on the server
        update = wanted.model_copy(update={"enabled": existing.enabled})
        fields = ("description", "tags", "trigger", "actions")
        differs = tuple(n for n in fields if getattr(existing, n) != getattr(update, n))
        if differs and not self.dry_run:
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
            current = (existing.limit, existing.slot_decay_per_second)  # slots, slots a second
            state = "unchanged" if current == (wanted.slots, wanted.decay) else "changed"
        except ObjectNotFound:
            state = "created"
        if state != "unchanged" and not self.dry_run:
            await self._client.upsert_global_concurrency_limit_by_name(
                wanted.name, wanted.slots, wanted.decay
            )
        return RegistrationResult("limit", wanted.name, state)

    async def remove(self, tag: str, wanted: set[str]) -> list[RegistrationResult]:
        """Remove what has this tag, except wanted automations and deployments (flow/name)."""
        client = self._client
        removed = []
        # All pages are read before anything is removed: a removal would shift the later pages.
        for automation in await _all_pages(client.read_automations, sort=AutomationSort.NAME_ASC):
            if tag in automation.tags and automation.name not in wanted:
                await self._remove_automation(automation)
                removed.append(RegistrationResult("automation", automation.name, "removed"))
        query = {
            "deployment_filter": DeploymentFilter(tags=DeploymentFilterTags(all_=[tag])),
            "sort": DeploymentSort.CREATED_DESC,
        }
        for deployment in await _all_pages(client.read_deployments, **query):
            flow = await client.read_flow(deployment.flow_id)
            name = f"{flow.name}/{deployment.name}"
            if name not in wanted:
                if not self.dry_run:
                    await client.delete_deployment(deployment.id)
                removed.append(RegistrationResult("deployment", name, "removed"))
        return removed

    async def _remove_automation(self, automation: Automation) -> None:
        if not self.dry_run:
            await self._client.delete_automation(automation.id)


async def _all_pages(read_page: Callable[..., Awaitable[list[T]]], **query: Any) -> list[T]:
    """The objects of all pages that a method of Prefect's client reads."""
    objects: list[T] = []
    while True:
        page = await read_page(**query, limit=PAGE, offset=len(objects))
        objects += page
        if len(page) < PAGE:
            return objects


def _differences(
    existing: DeploymentResponse, wanted: WantedDeployment, target: DeploymentTarget
) -> list[str]:
    """Names of the fields in which a registered deployment is not as wanted."""
    limit = existing.global_concurrency_limit
    current = {
        **vars(existing),
        "tags": sorted(existing.tags),
        "concurrency_limit": limit.limit if limit else None,  # an object on the server
    }
    differs = [name for name, value in wanted.body(target).items() if current[name] != value]
    schedules = [schedule.schedule for schedule in existing.schedules]  # whether active or not
    if schedules != [schedule.schedule for schedule in wanted.schedules()]:
        differs.append("schedules")
    return differs
