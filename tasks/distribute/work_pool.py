"""Partitions as flow runs of a deployment, taken up by the workers of a Prefect work pool."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import ObjectNotFound, PrefectException
from prefect.settings import PREFECT_API_URL
from prefect.states import Crashed
from tenacity import retry, retry_if_exception, stop_after_delay, wait_random_exponential

from assizes.judge.config.runner import RunnerConfig
from assizes.judge.errors import AssizesError, ConfigurationError, Inconclusive
from assizes.tasks.distribute.flow_runs import ended, halt, open_runs, runs_of, tags_of
from assizes.tasks.distribute.heartbeat import BEAT
from assizes.tasks.distribute.partitions import Ended, Order, Partition

log = logging.getLogger(__name__)

DEPLOYMENT: Final = "judge-partition/assizes"

_KIND: Final = '[runner] kind = "workers"'

LOOK_S: Final = 2.0
"""One request looks at all partitions that are out."""

AWAY_S: Final = 600.0
"""A Prefect server that does not answer for so long is given up."""

PENDING_S: Final = 600.0
"""So long may a worker take to start the process it has promised."""

UNTAKEN_S: Final = 60.0
NOBODY_S: Final = 1800.0
"""Partitions that no worker takes up: when that is said, and when they are given up."""


def _passes(error: BaseException) -> bool:
    """Whether the server may take it the next time."""
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code == 429 or error.response.status_code >= 500
    return isinstance(error, httpx.TransportError)


@asynccontextmanager
async def work_pool(config: RunnerConfig, run_id: str) -> AsyncIterator[WorkPool]:
    """Find the deployment, and watch over the partitions of a run that are out.

    Raises:
        ConfigurationError: when there is no such deployment or work pool, or no server for it.
    """
    _check_server()
    async with get_client() as client:
        pool = WorkPool(client, config, run_id, await _deployment(client, config))
        watch = asyncio.create_task(pool.watch())
        try:
            yield pool
        finally:
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch


async def check_work_pool(config: RunnerConfig) -> None:
    """See that there is a deployment whose flow runs the workers of the pool take up.

    Raises:
        ConfigurationError: when there is none.
    """
    _check_server()
    async with get_client() as client:
        await _deployment(client, config)


@dataclass
class _Watched:
    """A flow run that is out: what it showed last, and since when."""

    ends: asyncio.Future[Ended]
    shown: tuple[object, ...] = ()
    since: float = 0.0


class WorkPool:
    """Gives partitions out, and says how each ended; one that shows no life is closed."""

    def __init__(
        self, client: PrefectClient, config: RunnerConfig, run_id: str, deployment_id: UUID
    ) -> None:
        self._client = client
        self._config = config
        self._run_id = run_id
        self._deployment_id = deployment_id
        self._out: dict[UUID, _Watched] = {}
        self._found: dict[Partition, UUID] = {}
        self._answered = self._taken = time.monotonic()
        self._complained = False
        self._unwatched: str | None = None

    async def found(self) -> list[Partition]:
        """Partitions that an earlier sitting, or another process, gave out and that are out still."""
        for one in await open_runs(self._client, tags_of(self._run_id), self._deployment_id):
            given = one.parameters
            piece = Partition(int(given["partition"]), tuple(given["shard_ids"]))
            self._found[piece] = one.id
        return list(self._found)

    async def judge(self, order: Order, attempt: int) -> Ended:
        """Let workers judge a partition; the same attempt again is the same flow run.

        One that was found out is waited for, and how it ends is another sitting's business.
        """
        own = self._found.pop(order.partition, None)
        if own is not None:
            return replace(await self._end(own), stale=True)
        try:
            run = await self._given_out(order, attempt)
        except (httpx.HTTPError, PrefectException) as error:  # such as: the deployment was deleted
            why = " ".join(str(error).split()) or type(error).__name__
            return Ended("AssizesError", f"the Prefect server takes no partition: {why}")
        if run.state is not None and run.state.is_final():
            return ended(run.state, stale=True)
        return await self._end(run.id)

    async def _end(self, own: UUID) -> Ended:
        """Wait until a flow run has ended, or is given up."""
        if self._unwatched is not None:
            return Ended(AssizesError.__name__, self._unwatched)
        now = time.monotonic()
        watched = _Watched(asyncio.get_running_loop().create_future(), since=now)
        if not self._out:
            self._taken = self._answered = now
        self._out[own] = watched
        try:
            return await watched.ends
        finally:
            self._out.pop(own, None)

    async def halt(self, why: str) -> None:
        """Call back what nobody took up; let the others begin no further call."""
        await halt(self._client, tags_of(self._run_id), why)

    async def watch(self) -> None:
        """Look at what is out, until cancelled."""
        try:
            while True:
                await asyncio.sleep(LOOK_S)
                if self._out:
                    try:
                        await self._look()
                    except AssizesError as error:
                        self._fail(error)
                    except (httpx.HTTPError, PrefectException) as error:
                        self._away(error)
        finally:
            self._unwatched = "the partitions are not watched any more"
            self._fail(AssizesError(self._unwatched))

    @retry(
        retry=retry_if_exception(_passes),
        wait=wait_random_exponential(1.0, 30.0),
        stop=stop_after_delay(AWAY_S),
        reraise=True,
    )
    async def _given_out(self, order: Order, attempt: int) -> FlowRun:
        return await self._client.create_flow_run_from_deployment(
            self._deployment_id,
            parameters=order.parameters(),
            name=f"judge-{self._run_id}-{order.partition.number}",
            tags=tags_of(self._run_id),
            idempotency_key=order.partition.key(self._run_id, attempt),
        )

    async def _look(self) -> None:
        wanted = list(self._out)
        runs = await runs_of(self._client, wanted)
        now = self._answered = time.monotonic()
        for own in wanted:
            if (watched := self._out.get(own)) is None:
                continue
            if (run := runs.get(own)) is None:
                _tell(watched, Ended("Deleted", "its flow run is gone", lost=True))
            elif run.state is not None and run.state.is_final():
                _tell(watched, ended(run.state))
            else:
                await self._see_life(watched, run, now)
        self._see_takers(runs.values(), now)

    async def _see_life(self, watched: _Watched, run: FlowRun, now: float) -> None:
        """Close a flow run that shows none: the machine its process ran on may be gone."""
        shown = (run.state and run.state.id, run.labels.get(BEAT))
        if shown != watched.shown:
            watched.shown, watched.since = shown, now
        silent_s = now - watched.since
        if run.state is None or silent_s <= self._patience_s(run.state):
            return
        message = f"no sign of life for {silent_s:.0f} s"
        await self._client.set_flow_run_state(run.id, Crashed(message=message), force=True)
        _tell(watched, Ended("Crashed", message, lost=True))

    def _patience_s(self, state: Any) -> float:
        if state.is_scheduled() or state.is_paused():
            return float("inf")
        return PENDING_S if state.is_pending() else self._config.lost_after_s

    def _see_takers(self, runs: Iterable[FlowRun], now: float) -> None:
        """Say it when no worker takes up anything, and in the end wait no longer.

        Raises:
            Inconclusive: when none has for half an hour.
        """
        if not all(run.state is not None and run.state.is_scheduled() for run in runs):
            self._taken, self._complained = now, False
        waited_s = now - self._taken
        if waited_s > UNTAKEN_S and not self._complained:
            self._complained = True
            log.warning(
                "no worker has taken up a partition for %d s; `prefect worker start --pool %s` starts "
                "one, and the flow run of the whole takes up a place of its own",
                waited_s,
                self._config.work_pool,
            )
        if waited_s > NOBODY_S:
            raise Inconclusive(
                f"no worker of the work pool {self._config.work_pool!r} took up a partition for "
                f"{NOBODY_S:.0f} s"
            )

    def _away(self, error: Exception) -> None:
        """What was silent while nobody could be asked is not dead."""
        now = time.monotonic()
        for watched in self._out.values():
            watched.since = now
        if now - self._answered > AWAY_S:
            why = str(error) or type(error).__name__
            self._fail(
                AssizesError(f"the Prefect server does not answer for {AWAY_S:.0f} s: {why}")
            )

    def _fail(self, error: AssizesError) -> None:
        for watched in self._out.values():
            _tell(watched, Ended(type(error).__name__, str(error)))


def _tell(watched: _Watched, how: Ended) -> None:
    if not watched.ends.done():
        watched.ends.set_result(how)


def _check_server() -> None:
    """Prefect itself would start a server that ends with this process."""
    if not PREFECT_API_URL.value():
        raise ConfigurationError(
            f"{_KIND}: needs a Prefect server that the workers reach; set PREFECT_API_URL, or start "
            "one with `assizes up`"
        )


async def _deployment(client: PrefectClient, config: RunnerConfig) -> UUID:
    try:
        found = await client.read_deployment_by_name(DEPLOYMENT)
    except ObjectNotFound:
        raise ConfigurationError(
            f"{_KIND}: there is no deployment {DEPLOYMENT!r} on {PREFECT_API_URL.value()}; `assizes "
            "deploy` registers it"
        ) from None
    if found.work_pool_name != config.work_pool:
        raise ConfigurationError(
            f"{_KIND}: deployment {DEPLOYMENT!r} is for the work pool {found.work_pool_name!r}, "
            f"[runner] work_pool is {config.work_pool!r}; `assizes deploy` registers it anew"
        )
    return found.id
