"""`assizes deploy` and `worker`: register a configuration on a Prefect server."""

from __future__ import annotations

import asyncio
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from importlib.machinery import all_suffixes
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import UUID

from assizes.deployments.commands.output import print_json, print_line, print_table
from assizes.deployments.server import find_api_url
from assizes.deployments.settings import prepare_environment
from assizes.deployments.terminal import tell_user
from assizes.judge.catalog import resolve_judges
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import AssizesError, ConfigurationError
from assizes.judge.model_assignment import assign_models

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient
    from prefect.deployments.runner import RunnerDeployment

    from assizes.deployments.registration.apply import (
        Registrar,
        RegistrationResult,
        WantedDeployment,
    )
    from assizes.deployments.registration.automations import DeploymentIds, Notifier


WOULD: Final = {
    "created": "would create",
    "changed": "would change",
    "removed": "would remove",
}
"""What a dry run says in place of the state of an object."""


LOAD_TIMEOUT_S: Final = 120.0
"""Seconds that Python has to import the flows in the folder of the workers."""


@dataclass(frozen=True, slots=True)
class DeployOptions:
    """What `assizes deploy` registers or removes."""

    config: RunConfig
    folder: str | None = None  # on the workers, for relative paths; None: the current folder
    dry_run: bool = False  # nothing is changed
    remove: bool = False  # take away what was registered for the configuration


def deploy(options: DeployOptions, given: Sequence[str], *, as_json: bool) -> None:
    """Register or remove the objects of a configuration and print the state of each.

    `given` are the options by which the command found its configuration, for a command to print.
    """
    api_url = use_server()
    results = asyncio.run(register_or_remove(options))
    if as_json:
        objects = [asdict(result) for result in results]
        print_json({"server": api_url, "dry_run": options.dry_run, "objects": objects})
        return
    words = WOULD if options.dry_run else {}
    rows = [
        (each.name, each.kind, words.get(each.state, each.state), ", ".join(each.differs))
        for each in results
    ]
    print_table("", ("name", "kind", "state", "differs"), rows)
    print_line(f"server: {api_url}{' (dry run: nothing was changed)' if options.dry_run else ''}")
    if not options.remove:
        print_line(f"start a worker for its runs: {shlex.join(('assizes', 'worker', *given))}")
        pool = shlex.quote(options.config.runner.work_pool)
        print_line(
            f"or, by Prefect itself: PREFECT_API_URL={api_url} prefect worker start --pool {pool}"
        )


def use_server(*, verbose: bool = False) -> str:
    """Make Prefect use the configured server, else that of `assizes up`; returns its API's address.

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
    """Register or remove the objects of a configuration; returns a result for each, also unchanged.

    Raises:
        ConfigurationError: the cron expression is invalid, or the notification block is missing.
        AssizesError: the server refuses an object.
    """
    from prefect.client.orchestration import get_client

    from assizes.deployments.registration.apply import Registrar, tag_of

    async with get_client() as client, translate_refusals():
        registrar = Registrar(client, dry_run=options.dry_run)
        if options.remove:
            return await registrar.remove(tag_of(options.config), set())
        return await _register(client, registrar, options)


async def _register(
    client: PrefectClient, registrar: Registrar, options: DeployOptions
) -> list[RegistrationResult]:
    from assizes.deployments.registration.apply import DeploymentTarget, tag_of, wanted_deployments
    from assizes.deployments.registration.automations import DeploymentIds
    from assizes.tasks.distribute.shared_limits import shared_limits

    config = options.config
    pool = config.runner.work_pool
    target = DeploymentTarget(pool, options.folder or str(Path.cwd()))
    # Faults of schedule, folder and block come up before anything on the server is changed.
    wanted = wanted_deployments(config)
    await asyncio.to_thread(check_folder, target.folder, [each.entrypoint for each in wanted])
    notifier = await configured_notifier(client, config)
    results = [await registrar.work_pool(pool)]
    # The rate limits that all runs share; there are none without `[limits] shared`.
    for model in assign_models(config, resolve_judges(config.judge)).models:
        limits = shared_limits(config.limits, model.name)
        results += [await registrar.limit(limit) for limit in limits if limit is not None]
    deployments = [await registrar.deployment(deployment, target) for deployment in wanted]
    # In a dry run a deployment that is not registered has no id. The id 0 stands for it, so that an
    # automation over it is reported as changed.
    ids = {result.name.partition("/")[0]: result.id or UUID(int=0) for result in deployments}
    automations = await register_automations(registrar, config, DeploymentIds(ids), notifier)
    kept_names = {result.name for result in (*deployments, *automations)}
    # Last: a failure on the way leaves more registered than is wanted, never less.
    removed = await registrar.remove(tag_of(config), kept_names)
    return [*results, *deployments, *automations, *removed]


def check_folder(folder: str, entrypoints: Sequence[str]) -> None:
    """Check that a process that begins in a folder can load the flows, as those of workers do.

    Python looks into that folder first: a file of the user's with the name of a package hides it.
    A folder that is only on other machines is not checked, nor is one without a file of Python:
    importing the flows takes seconds.

    Raises:
        ConfigurationError: a flow cannot be loaded there.
    """
    if not Path(folder).is_dir() or not _holds_modules(Path(folder)):
        return
    modules = sorted({entrypoint.rpartition(".")[0] for entrypoint in entrypoints})
    command = [sys.executable, "-c", f"import {', '.join(modules)}"]
    try:
        loaded = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=LOAD_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        reason = f"it does not end within {LOAD_TIMEOUT_S:.0f} s"
    else:
        if loaded.returncode == 0:
            return
        reason = (loaded.stderr.strip().splitlines() or ["no reason is given"])[-1][:300]
    raise ConfigurationError(
        f"a worker cannot load the flows in the folder {folder!r}: {reason}; rename the file or "
        "folder there that has the name of an installed package, or give another --folder"
    )


def _holds_modules(folder: Path) -> bool:
    """Whether a folder holds modules or packages, which could hide installed ones.

    A folder in it without `__init__` hides no installed package. One that cannot be listed may hold
    anything.
    """
    suffixes = tuple(all_suffixes())
    try:
        for path in folder.iterdir():
            if path.name.endswith(suffixes):
                return True
            if any((path / f"__init__{suffix}").exists() for suffix in suffixes):
                return True
    except OSError:
        return True
    return False


@asynccontextmanager
async def translate_refusals() -> AsyncIterator[None]:
    """Raise `AssizesError` in place of Prefect's error when the server refuses a request."""
    from prefect.exceptions import PrefectHTTPStatusError

    try:
        yield
    except PrefectHTTPStatusError as error:
        reason = " ".join(error.response.text.split())[:300]  # it can hold a whole schema
        raise AssizesError(f"the Prefect server refuses: {reason}") from error


async def register_automations(
    registrar: Registrar,
    config: RunConfig,
    deployment_ids: DeploymentIds,
    notifier: Notifier | None,
) -> list[RegistrationResult]:
    """Register the automations of a configuration, over deployments that are registered."""
    from prefect.events.clients import get_events_client

    from assizes.deployments.registration.automations import (
        missed_automation,
        registered_event,
        wanted_automations,
    )

    wanted = wanted_automations(config, deployment_ids, notifier)
    results = [await registrar.automation(automation) for automation in wanted]
    new = {result.name for result in results if result.state != "unchanged"}
    if missed_automation(config) in new and not registrar.dry_run:
        async with get_events_client() as events:
            await events.emit(registered_event(config, deployment_ids))
    return results


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


def serve_flows(config: RunConfig, limit: int) -> None:
    """Execute flow runs until interrupted, `limit` at once.

    They are those of the work pool on which `assizes deploy` registered the configuration. If it
    is on none, this process registers the deployments.

    Raises:
        ConfigurationError: as `use_server` does, or the pool does not run processes.
    """
    api_url = use_server(verbose=True)
    if pool := asyncio.run(pool_of(config)):
        tell_user(f"a worker of the work pool {pool!r} on {api_url}; Ctrl-C ends it")
        asyncio.run(_work_on(pool, limit))
        return
    tell_user(f"serving the flows of {config.name!r} for {api_url}; Ctrl-C ends it")
    asyncio.run(register_and_run(config, limit))


async def pool_of(config: RunConfig) -> str | None:
    """The work pool on which the configuration is registered.

    Raises:
        ConfigurationError: its flow runs are not processes of a machine, as in Kubernetes.
    """
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound
    from prefect.settings import PREFECT_API_URL

    async with get_client() as client, translate_refusals():
        try:
            nightly = await client.read_deployment_by_name(f"nightly/assizes-{config.name}")
        except ObjectNotFound:
            return None
        if (name := nightly.work_pool_name) is None:
            return None
        pool = await client.read_work_pool(name)
    if pool.type != "process":
        raise ConfigurationError(
            f"the work pool {name!r} is of type {pool.type!r}; start its worker with "
            f"`PREFECT_API_URL={PREFECT_API_URL.value()} prefect worker start --pool {name}`"
        )
    return name


async def _work_on(pool: str, limit: int) -> None:
    from prefect.workers.process import ProcessWorker

    worker = ProcessWorker(work_pool_name=pool, limit=limit, create_pool_if_not_found=False)
    await worker.start(printer=tell_user)  # at once, also where the output is a pipe


async def register_and_run(config: RunConfig, limit: int) -> None:
    """Register deployments, remove those that are not wanted, then run flow runs until cancelled.

    Raises:
        ConfigurationError: a work pool has one of these deployments, or there is no such block.
        AssizesError: the server refuses an object.
    """
    from prefect.client.orchestration import get_client
    from prefect.runner import Runner

    from assizes.deployments.registration.apply import Registrar, tag_of, wanted_deployments
    from assizes.deployments.registration.automations import DeploymentIds
    from assizes.tasks.distribute.work_pool import DEPLOYMENT

    # Paused at the end: without a server flow runs would pile up and begin late, all at once.
    runner = Runner(name=f"assizes-{config.name}", limit=limit, pause_on_shutdown=True)
    ids: dict[str, UUID] = {}
    async with get_client() as client, translate_refusals():
        notifier = await configured_notifier(client, config)
        kept_names: set[str] = set()
        for wanted in wanted_deployments(config):
            if wanted.full_name == DEPLOYMENT:
                continue  # a run that is spread over workers needs workers
            await _refuse_pooled(client, wanted.full_name)
            ids[wanted.flow.name] = await runner.aadd_deployment(await _runner_deployment(wanted))
            kept_names.add(wanted.full_name)
        registrar = Registrar(client)
        results = await register_automations(registrar, config, DeploymentIds(ids), notifier)
        await registrar.remove(tag_of(config), kept_names | {result.name for result in results})
    await runner.start()


async def _refuse_pooled(client: PrefectClient, name: str) -> None:
    """Refuse a deployment of a work pool, whose workers would take the same flow runs."""
    from prefect.exceptions import ObjectNotFound

    try:
        existing = await client.read_deployment_by_name(name)
    except ObjectNotFound:
        return
    if existing.work_pool_name is not None:
        raise ConfigurationError(
            f"the deployment {name!r} belongs to the work pool {existing.work_pool_name!r}; start a "
            "worker for it, or delete it with `assizes deploy --remove`"
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
        paused=False,  # an earlier `assizes worker` paused it when it ended
    )
    deployment.entrypoint = wanted.entrypoint  # as on a work pool
    return deployment
