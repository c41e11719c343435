"""The deployments that a configuration wants: flows with their parameters, schedules and targets."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from prefect import Flow
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.objects import ConcurrencyLimitStrategy
from prefect.client.schemas.schedules import CronSchedule
from prefect.utilities.callables import parameter_schema
from pydantic import ValidationError

from assizes.deployments.settings import WORKER_ENVIRONMENT
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from assizes.tasks.distribute.work_pool import DEPLOYMENT
from assizes.tasks.intake.days import check_dated
from assizes.tasks.publish_report import TAG

SET_DIRECTORY: Final = "prefect.deployments.steps.set_working_directory"


@dataclass(frozen=True, slots=True)
class DeploymentTarget:
    """Where the flow runs of a deployment execute.

    Attributes:
        pool: work pool whose workers execute them; `None`: the process that serves the flows does.
        folder: folder on the worker against which relative paths of the configuration resolve.
    """

    pool: str | None
    folder: str


@dataclass(frozen=True)
class WantedDeployment:
    """A flow with its parameters and its schedule.

    Attributes:
        entrypoint: dotted name of module and function.
        name: of the deployment.
        description: one sentence.
        parameters: defaults for the parameters of every flow run.
        tags: of every flow run.
        schedule: when flow runs begin; `None`: only on request.
        one_at_a_time: whether a flow run waits for the end of the flow run before it.
        keep_existing: whether a registered deployment stays as it is, because other configurations
            use it too.
    """

    entrypoint: str
    name: str
    description: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = (TAG,)
    schedule: CronSchedule | None = None
    one_at_a_time: bool = False
    keep_existing: bool = False

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
        steps = [{SET_DIRECTORY: {"directory": target.folder}}] if target.pool else None
        schema = parameter_schema(self.flow).model_dump(exclude_unset=True)
        return {
            "description": self.description,
            "entrypoint": self.entrypoint,
            "parameters": dict(self.parameters),
            "tags": sorted(self.tags),
            "work_pool_name": target.pool,
            "pull_steps": steps,
            "job_variables": {"env": dict(WORKER_ENVIRONMENT)} if target.pool else {},
            "concurrency_limit": 1 if self.one_at_a_time else None,
            "parameter_openapi_schema": schema,
            "enforce_parameter_schema": True,
        }

    def schedules(self, *, active: bool = True) -> list[DeploymentScheduleCreate]:
        """The schedule in a list, or an empty list.

        Args:
            active: whether the schedule begins flow runs.
        """
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
    """The deployments that `assizes deploy` registers for a configuration.

    The whole configuration is a parameter of them: a change of its file has no effect until the
    next `assizes deploy`.

    Raises:
        ConfigurationError: as `nightly_schedule`.
    """
    name, tags = f"assizes-{config.name}", (TAG, tag_of(config))
    run_parameters = {"config": config.model_dump(mode="json")}
    compare_parameters = {
        "store": config.store.model_dump(mode="json"),
        "thresholds": config.comparison.model_dump(mode="json"),
    }

    def build_deployment(entrypoint: str, description: str, **more: Any) -> WantedDeployment:
        settings = {"parameters": run_parameters, "tags": tags, **more}
        return WantedDeployment(entrypoint, name, description, **settings)

    return [
        build_deployment(
            "assizes.flows.nightly.nightly",
            "Judge yesterday's transcripts.",
            schedule=nightly_schedule(config),
            one_at_a_time=True,
        ),
        build_deployment(
            "assizes.flows.after_deployment.after_deployment",
            "Judge a new version beside the last.",
        ),
        build_deployment(
            "assizes.flows.backfill.backfill", "Judge a range of days.", one_at_a_time=True
        ),
        build_deployment("assizes.flows.evaluate.evaluate", "One evaluation."),
        build_deployment(
            "assizes.flows.compare.compare_runs",
            "Two runs side by side.",
            parameters=compare_parameters,
        ),
        build_deployment(
            "assizes.flows.calibrate.calibrate_judge", "Hold the judge against human labels."
        ),
        WantedDeployment(
            "assizes.flows.partition.judge_partition",
            DEPLOYMENT.partition("/")[2],
            "Part of a run.",
            keep_existing=config.runner.kind != "workers",
        ),
    ]


def nightly_schedule(config: RunConfig) -> CronSchedule | None:
    """The schedule of nightly runs; `None` where `[nightly] cron` is empty.

    Raises:
        ConfigurationError: the cron expression is invalid, or the transcripts' URI has no date
            placeholder.
    """
    nightly = config.nightly
    if not nightly.cron.strip():
        return None
    try:
        check_dated(config.transcripts.uri)
    except ConfigurationError as error:
        raise ConfigurationError(f'{error}; or no schedule: [nightly] cron = ""') from None
    try:
        return CronSchedule(cron=nightly.cron, timezone=nightly.time_zone)
    except ValidationError:
        raise ConfigurationError(
            f"[nightly] cron: {nightly.cron!r} is no cron expression; write five fields such as "
            '"0 4 * * *", or "" for no schedule'
        ) from None
