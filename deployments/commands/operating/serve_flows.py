"""`assizes serve-flows`: one process that registers flows and runs them, for a single machine."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from uuid import UUID

from assizes.deployments.commands.operating.deploy import (
    configured_notifier,
    register_automations,
    translate_refusals,
    use_server,
)
from assizes.deployments.json_log import tell_user
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient
    from prefect.deployments.runner import RunnerDeployment

    from assizes.deployments.registration.desired import WantedDeployment


def serve_flows(config: RunConfig, limit: int) -> int:
    """Serve the deployments of a configuration until interrupted; their schedules pause afterwards.

    Args:
        config: the configuration.
        limit: most flow runs at the same time.

    Returns:
        0.

    Raises:
        ConfigurationError: as `register_and_run`, or there is no Prefect server.
    """
    api_url = use_server(verbose=True)
    tell_user(f"serving the flows of {config.name!r} for {api_url}; Ctrl-C ends it")
    asyncio.run(register_and_run(config, limit))
    return 0


async def register_and_run(config: RunConfig, limit: int) -> None:
    """Register deployments, remove those that are not wanted, then run flow runs until cancelled.

    Raises:
        ConfigurationError: a work pool has one of these deployments, or the notification block is
            missing.
        AssizesError: the server refuses an object.
    """
    from prefect.client.orchestration import get_client
    from prefect.runner import Runner

    from assizes.deployments.registration.apply import Registrar
    from assizes.deployments.registration.automations import DeploymentIds
    from assizes.deployments.registration.desired import tag_of, wanted_deployments
    from assizes.tasks.distribute.work_pool import DEPLOYMENT

    runner = Runner(name=f"assizes-{config.name}", limit=limit, pause_on_shutdown=True)
    ids: dict[str, UUID] = {}
    async with get_client() as client, translate_refusals():
        notifier = await configured_notifier(client, config)
        kept_names: set[str] = set()
        for wanted in wanted_deployments(config):
            if wanted.full_name == DEPLOYMENT:
                continue  # a run that is spread over workers needs workers
            await _refuse_pooled(client, wanted.full_name)
            runner_deployment = await _runner_deployment(wanted)
            ids[wanted.flow.name] = await runner.aadd_deployment(runner_deployment)
            kept_names.add(wanted.full_name)
        registrar = Registrar(client)
        automation_results = await register_automations(
            registrar, config, DeploymentIds(ids), notifier
        )
        await registrar.remove(
            tag_of(config), kept_names | {result.name for result in automation_results}
        )
    await runner.start()


async def _refuse_pooled(client: PrefectClient, name: str) -> None:
    """Refuse a deployment of a work pool, whose workers would take the same flow runs.

    Raises:
        ConfigurationError: the deployment belongs to a work pool.
    """
    from prefect.exceptions import ObjectNotFound

    try:
        existing = await client.read_deployment_by_name(name)
    except ObjectNotFound:
        return
    if existing.work_pool_name is not None:
        raise ConfigurationError(
            f"the deployment {name!r} belongs to the work pool {existing.work_pool_name!r}; start a "
            "worker for it, or take it away with `assizes deploy --remove`"
        )


async def _runner_deployment(wanted: WantedDeployment) -> RunnerDeployment:
    from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
    from prefect.types.entrypoint import EntrypointType

    alone = ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.ENQUEUE)
    deployment: RunnerDeployment = await wanted.flow.ato_deployment(
        wanted.name,
        description=wanted.description,
        parameters=dict(wanted.parameters),
        tags=list(wanted.tags),
        schedules=[wanted.schedule] if wanted.schedule else None,
        concurrency_limit=alone if wanted.one_at_a_time else None,
        entrypoint_type=EntrypointType.MODULE_PATH,
        paused=False,
    )
    deployment.entrypoint = wanted.entrypoint
    return deployment
