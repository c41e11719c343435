"""`assizes deploy`: register a configuration on a Prefect server, and print what that changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from assizes.deployments.commands.output import print_json, print_line, print_table
from assizes.deployments.server import find_api_url
from assizes.deployments.settings import prepare_environment
from assizes.judge.catalog import resolve_judges
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import AssizesError, ConfigurationError
from assizes.judge.model_assignment import assign_models

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient

    from assizes.deployments.registration.apply import Registrar, RegistrationResult
    from assizes.deployments.registration.automations import DeploymentIds, Notifier
    from assizes.tasks.distribute.shared_limits import SharedLimit


@dataclass(frozen=True, slots=True)
class DeployOptions:
    """The options of `assizes deploy`.

    Attributes:
        config: the configuration to register.
        folder: folder on the workers for relative paths; `None`: the current folder.
        dry_run: change nothing.
        remove: remove what is registered for the name of the configuration.
    """

    config: RunConfig
    folder: str | None = None
    dry_run: bool = False
    remove: bool = False


def deploy(options: DeployOptions, *, as_json: bool) -> int:
    """Register or remove the objects of a configuration and print the state of each; returns 0."""
    api_url = use_server()
    results = asyncio.run(register_or_remove(options))
    if as_json:
        objects = [asdict(result) for result in results]
        print_json({"server": api_url, "dry_run": options.dry_run, "objects": objects})
        return 0
    rows = [
        (result.name, result.kind, result.state, ", ".join(result.differs)) for result in results
    ]
    print_table("", ("name", "kind", "state", "differs"), rows)
    print_line(f"server: {api_url}{' (dry run: nothing was changed)' if options.dry_run else ''}")
    if not options.remove:
        pool = options.config.runner.work_pool
        print_line(f"a worker takes up its runs: prefect worker start --pool {pool}")
    return 0


def use_server(*, verbose: bool = False) -> str:
    """Make Prefect use the configured server, else that of `assizes up`.

    Args:
        verbose: show Prefect's own log.

    Returns:
        The address of the server's API.

    Raises:
        ConfigurationError: there is no server, or the server does not answer.
    """
    api_url = find_api_url()
    if api_url is None:
        raise ConfigurationError(
            "there is no Prefect server to register on; set PREFECT_API_URL to one, or start one "
            "with `assizes up`"
        )
    prepare_environment(verbose=verbose, api_url=api_url)
    return api_url


async def register_or_remove(options: DeployOptions) -> list[RegistrationResult]:
    """Register or remove the objects of a configuration.

    Returns:
        One result for each object, unchanged objects included.

    Raises:
        ConfigurationError: the cron expression is invalid, or the notification block is missing.
        AssizesError: the server refuses an object.
    """
    from prefect.client.orchestration import get_client

    from assizes.deployments.registration.apply import Registrar
    from assizes.deployments.registration.desired import tag_of

    async with get_client() as client, translate_refusals():
        registrar = Registrar(client, dry_run=options.dry_run)
        if options.remove:
            return await registrar.remove(tag_of(options.config), set())
        return await _register(client, registrar, options)


@asynccontextmanager
async def translate_refusals() -> AsyncIterator[None]:
    """Raise `AssizesError` in place of Prefect's error when the server refuses a request."""
    from prefect.exceptions import PrefectHTTPStatusError

    try:
        yield
    except PrefectHTTPStatusError as error:
        reason = " ".join(error.response.text.split())[:300]
        raise AssizesError(f"the Prefect server refuses: {reason}") from error


async def _register(
    client: PrefectClient, registrar: Registrar, options: DeployOptions
) -> list[RegistrationResult]:
    from assizes.deployments.registration.desired import (
        DeploymentTarget,
        tag_of,
        wanted_deployments,
    )

    config = options.config
    pool = config.runner.work_pool
    target = DeploymentTarget(pool, options.folder or str(Path.cwd()))
    wanted = wanted_deployments(config)
    notifier = await configured_notifier(client, config)
    results = [await registrar.work_pool(pool)]
    results += [await registrar.limit(limit) for limit in limits_of(config)]
    deployment_results = [await registrar.deployment(deployment, target) for deployment in wanted]
    results += deployment_results
    automation_results = await register_automations(
        registrar, config, _deployment_ids(deployment_results), notifier
    )
    kept_names = {result.name for result in (*deployment_results, *automation_results)}
    return [*results, *automation_results, *await registrar.remove(tag_of(config), kept_names)]


async def register_automations(
    registrar: Registrar,
    config: RunConfig,
    deployment_ids: DeploymentIds,
    notifier: Notifier | None,
) -> list[RegistrationResult]:
    """Register the automations of a configuration, over deployments that are registered."""
    from assizes.deployments.registration.automations import wanted_automations

    wanted = wanted_automations(config, deployment_ids, notifier)
    return [await registrar.automation(automation) for automation in wanted]


def _deployment_ids(results: Iterable[RegistrationResult]) -> DeploymentIds:
    """The ids of registered deployments, by name of the flow.

    In a dry run a deployment that is not registered has no id. The id 0 stands for it, so that an
    automation over it is reported as changed.
    """
    from assizes.deployments.registration.automations import DeploymentIds

    return DeploymentIds(
        {result.name.partition("/")[0]: result.id or UUID(int=0) for result in results}
    )


async def configured_notifier(client: PrefectClient, config: RunConfig) -> Notifier | None:
    """The notifier over the block that `[notify] block` names; `None` where no block is named.

    Raises:
        ConfigurationError: there is no such block, or the block can send no message.
    """
    from prefect.exceptions import ObjectNotFound

    from assizes.deployments.registration.automations import notifier_of

    block_name = config.notify.block
    if block_name is None:
        return None
    kind, _, name = block_name.partition("/")
    if not (kind and name):
        raise ConfigurationError(
            f"[notify] block: {block_name!r} is no type/name; write one such as slack-webhook/oncall"
        )
    try:
        block = await client.read_block_document_by_name(name, kind, include_secrets=False)
    except ObjectNotFound:
        raise ConfigurationError(
            f"[notify] block: the Prefect server has no block {block_name!r}; make it there first "
            "(`prefect block create`, or Blocks in its UI) and give it as type/name"
        ) from None
    return notifier_of(block, block_name)


def limits_of(config: RunConfig) -> list[SharedLimit]:
    """The rate limits of the configured models that all runs share; none without `[limits] shared`."""
    from assizes.tasks.distribute.shared_limits import shared_limits

    assignment = assign_models(config, resolve_judges(config.judge))
    limit_pairs = [shared_limits(config.limits, model.name) for model in assignment.models]
    return [limit for pair in limit_pairs for limit in pair if limit is not None]
