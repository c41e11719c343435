"""`assizes deploy`: register a configuration on a Prefect server, and say what that changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from assizes.deployments.commands.output import print_json, print_line, print_table
from assizes.deployments.server import known_server
from assizes.deployments.settings import prepare_environment
from assizes.judge.catalog import court
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import AssizesError, ConfigurationError
from assizes.judge.model_assignment import seats

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient

    from assizes.deployments.registration.apply import Registered, Registrar
    from assizes.deployments.registration.automations import Deployed, Teller
    from assizes.tasks.distribute.shared_limits import SharedLimit


@dataclass(frozen=True, slots=True)
class Order:
    """A registration as asked for on the command line; `folder` null is the current one."""

    config: RunConfig
    folder: str | None = None
    dry_run: bool = False
    remove: bool = False


def deploy(order: Order, *, as_json: bool) -> int:
    """Register everything, or take it away again, and print what became of each object."""
    api_url = use_server()
    done = asyncio.run(registered(order))
    if as_json:
        print_json(
            {"server": api_url, "dry_run": order.dry_run, "objects": list(map(_plain, done))}
        )
        return 0
    rows = [(one.name, one.kind, one.state, ", ".join(one.differs)) for one in done]
    print_table("", ("name", "kind", "state", "differs"), rows)
    print_line(f"server: {api_url}{' (dry run: nothing was changed)' if order.dry_run else ''}")
    if not order.remove:
        pool = order.config.runner.work_pool
        print_line(f"a worker takes up its runs: prefect worker start --pool {pool}")
    return 0


def use_server(*, verbose: bool = False) -> str:
    """Have Prefect speak to the configured server, else to that of `assizes up`.

    Args:
        verbose: show Prefect's own log.

    Returns:
        The address of its API.

    Raises:
        ConfigurationError: when there is none, or it does not answer.
    """
    api_url = known_server()
    if api_url is None:
        raise ConfigurationError(
            "there is no Prefect server to register on; set PREFECT_API_URL to one, or start one "
            "with `assizes up`"
        )
    prepare_environment(verbose=verbose, api_url=api_url)
    return api_url


async def registered(order: Order) -> list[Registered]:
    """Every object that was looked at, and what became of it.

    Raises:
        ConfigurationError: the schedule or the block is none.
        AssizesError: the server does not take it.
    """
    from prefect.client.orchestration import get_client

    from assizes.deployments.registration.apply import Registrar
    from assizes.deployments.registration.desired import tag_of

    async with get_client() as client, refusals_told():
        registrar = Registrar(client, dry_run=order.dry_run)
        if order.remove:
            return await registrar.remove(tag_of(order.config), set())
        return await _register(client, registrar, order)


@asynccontextmanager
async def refusals_told() -> AsyncIterator[None]:
    """What the server does not take as one of our errors.

    Raises:
        AssizesError: the server refuses.
    """
    from prefect.exceptions import PrefectHTTPStatusError

    try:
        yield
    except PrefectHTTPStatusError as error:
        said = " ".join(error.response.text.split())[:300]
        raise AssizesError(f"the Prefect server refuses: {said}") from error


async def _register(client: PrefectClient, registrar: Registrar, order: Order) -> list[Registered]:
    from assizes.deployments.registration.desired import Place, tag_of, wanted_deployments

    config = order.config
    pool = config.runner.work_pool
    place = Place(pool, order.folder or str(Path.cwd()))
    wanted = wanted_deployments(config)
    teller = await notified(client, config)
    done = [await registrar.work_pool(pool)]
    done += [await registrar.limit(one) for one in limits_of(config)]
    there = [await registrar.deployment(one, place) for one in wanted]
    done += there
    told = await register_automations(registrar, config, _deployed(there), teller)
    kept = {one.name for one in (*there, *told)}
    return [*done, *told, *await registrar.remove(tag_of(config), kept)]


async def register_automations(
    registrar: Registrar, config: RunConfig, deployed: Deployed, teller: Teller | None
) -> list[Registered]:
    """Triggers and notifications over deployments that are registered."""
    from assizes.deployments.registration.automations import wanted_automations

    wanted = wanted_automations(config, deployed, teller)
    return [await registrar.automation(one) for one in wanted]


def _deployed(there: Iterable[Registered]) -> Deployed:
    """A dry run has no ids of deployments that are not there; no automation can be alike then."""
    from assizes.deployments.registration.automations import Deployed

    return Deployed({one.name.partition("/")[0]: one.id or UUID(int=0) for one in there})


async def notified(client: PrefectClient, config: RunConfig) -> Teller | None:
    """Whom to tell; null where the configuration names nobody.

    Raises:
        ConfigurationError: when there is no such block, or it cannot tell anything.
    """
    from prefect.exceptions import ObjectNotFound

    from assizes.deployments.registration.automations import checked_teller

    named = config.notify.block
    if named is None:
        return None
    kind, _, name = named.partition("/")
    if not (kind and name):
        raise ConfigurationError(
            f"[notify] block: {named!r} is no type/name; write one such as slack-webhook/oncall"
        )
    try:
        block = await client.read_block_document_by_name(name, kind, include_secrets=False)
    except ObjectNotFound:
        raise ConfigurationError(
            f"[notify] block: the Prefect server has no block {named!r}; make it there first "
            "(`prefect block create`, or Blocks in its UI) and give it as type/name"
        ) from None
    return checked_teller(block, named)


def limits_of(config: RunConfig) -> list[SharedLimit]:
    """The limits that all runs share; none without `[limits] shared`."""
    from assizes.tasks.distribute.shared_limits import shared_limits

    found = seats(config, court(config.judge))
    both = [shared_limits(config.limits, model.name) for model in found.models]
    return [one for pair in both for one in pair if one is not None]


def _plain(one: Registered) -> dict[str, object]:
    return {
        "kind": one.kind,
        "name": one.name,
        "state": one.state,
        "differs": list(one.differs),
        "id": str(one.id) if one.id else None,
    }
