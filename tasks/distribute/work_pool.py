"""Has partitions judged by the workers of a Prefect work pool, as flow runs of a deployment."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final
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
from assizes.tasks.distribute.flow_runs import (
    HEARTBEAT_LABEL,
    flow_runs_by_id,
    halt_flow_runs,
    open_flow_runs,
    partition_end,
    tags_of,
)
from assizes.tasks.distribute.partitions import Partition, PartitionEnd, PartitionJob

log = logging.getLogger(__name__)

DEPLOYMENT: Final = "judge-partition/assizes"
"""The deployment whose flow runs judge partitions, as `flow/deployment`."""

_KIND: Final = '[runner] kind = "workers"'

POLL_INTERVAL_S: Final = 2.0
"""Seconds between two looks at the open flow runs; one request reads up to 200 of them."""

SERVER_GIVE_UP_S: Final = 600.0
"""Seconds without an answer of the Prefect server after which partitions are given up."""

START_MIN_S: Final = 60.0
"""Seconds that the process of a flow run has to start, where `runner.lost_after_s` is less."""

PENDING_LIMIT_S: Final = 600.0
"""Seconds that a living worker may take to start what is no process of its own, such as a pod."""

WORKER_LABEL: Final = "prefect.worker.name"
"""The label in which Prefect keeps the name of the worker that has taken a flow run."""

NO_WORKER_WARNING_S: Final = 60.0
"""Seconds without any worker taking a partition after which a warning is logged."""

NO_WORKER_GIVE_UP_S: Final = 1800.0
"""Seconds without any worker taking a partition after which the partitions are given up."""


def _is_transient(error: BaseException) -> bool:
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code == 429 or error.response.status_code >= 500
    return isinstance(error, httpx.TransportError)


@asynccontextmanager
async def work_pool(config: RunnerConfig, run_id: str) -> AsyncIterator[WorkPool]:
    """A work pool for the partitions of a run, whose flow runs are watched during the block.

    Raises:
        ConfigurationError: when no Prefect server is configured, or the server has no deployment
            for the configured work pool.
    """
    async with _open_deployment(config) as (client, deployment_id):
        starts_processes = (await client.read_work_pool(config.work_pool)).type == "process"
        pool = WorkPool(client, config, run_id, deployment_id, starts_processes=starts_processes)
        watch = asyncio.create_task(pool.watch())
        try:
            yield pool
        finally:
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch


async def check_work_pool(config: RunnerConfig) -> None:
    """Raise the `ConfigurationError` that `work_pool` would raise, if any."""
    async with _open_deployment(config):
        pass


@dataclass
class _WatchedRun:
    """A flow run that is waited for: its ending is set once it has ended or is given up."""

    ending: asyncio.Future[PartitionEnd]
    last_seen: tuple[object, ...] = ()  # the id of its state, and the value of its heartbeat
    unchanged_since: float = 0.0  # seconds of time.monotonic
    is_silence_told: bool = False  # whether a line said that its signs of life do not come


class WorkPool:
    """The `assizes.flows.distribute.Executor` of flow runs, which are watched until they end."""

    def __init__(
        self,
        client: PrefectClient,
        config: RunnerConfig,
        run_id: str,
        deployment_id: UUID,
        *,
        starts_processes: bool,
    ) -> None:
        self._client = client
        self._config = config
        self._run_id = run_id
        self._deployment_id = deployment_id
        self._starts_processes = starts_processes  # the workers of the pool do, on their machines
        self._watched_runs: dict[UUID, _WatchedRun] = {}  # by the id of the flow run
        self._open_runs: dict[Partition, UUID] = {}  # ids of flow runs that others gave out
        self._last_answer_at = self._last_taken_at = time.monotonic()
        self._has_warned = False
        self._unwatched_reason: str | None = None  # set once `watch` has ended

    async def open_partitions(self) -> list[Partition]:
        """Partitions whose flow runs have not ended, given out by an earlier or another process."""
        for run in await open_flow_runs(self._client, tags_of(self._run_id), self._deployment_id):
            parameters = run.parameters
            partition = Partition(int(parameters["partition"]), tuple(parameters["shard_ids"]))
            self._open_runs[partition] = run.id
        return list(self._open_runs)

    async def judge(self, job: PartitionJob, attempt: int) -> PartitionEnd:
        """Have a worker judge a partition, and wait for the end of its flow run.

        The same attempt again finds the same flow run by its idempotency key. The end of an open
        flow run, of `open_partitions`, is stale.
        """
        flow_run_id = self._open_runs.pop(job.partition, None)
        if flow_run_id is not None:
            return replace(await self._wait_for_end(flow_run_id), stale=True)
        try:
            run = await self._submit_partition(job, attempt)
        except (httpx.HTTPError, PrefectException) as error:  # such as: the deployment was deleted
            why = " ".join(str(error).split()) or type(error).__name__
            return PartitionEnd("AssizesError", f"the Prefect server takes no partition: {why}")
        if run.state is not None and run.state.is_final():
            return partition_end(run.state, stale=True)
        return await self._wait_for_end(run.id)

    async def _wait_for_end(self, flow_run_id: UUID) -> PartitionEnd:
        if self._unwatched_reason is not None:
            return PartitionEnd(AssizesError.__name__, self._unwatched_reason)
        now = time.monotonic()
        watched = _WatchedRun(asyncio.get_running_loop().create_future(), unchanged_since=now)
        if not self._watched_runs:  # nothing was polled: the silence until now says nothing
            self._last_taken_at = self._last_answer_at = now
        self._watched_runs[flow_run_id] = watched
        try:
            return await watched.ending
        finally:
            self._watched_runs.pop(flow_run_id, None)

    async def halt(self, why: str) -> None:
        """Cancel the flow runs that no worker has taken; have the others make no further call."""
        await halt_flow_runs(self._client, tags_of(self._run_id), why)

    async def watch(self) -> None:
        """Poll the open flow runs until this task is cancelled."""
        try:
            while True:
                await asyncio.sleep(POLL_INTERVAL_S)
                if self._watched_runs:
                    try:
                        await self._poll_runs()
                    except AssizesError as error:
                        self._fail_all(error)
                    except (httpx.HTTPError, PrefectException) as error:
                        self._note_unreachable(error)
        finally:
            # A call of `judge` from now on must not wait for an end that nobody looks for.
            self._unwatched_reason = "the partitions are not watched any more"
            self._fail_all(AssizesError(self._unwatched_reason))

    @retry(
        retry=retry_if_exception(_is_transient),
        wait=wait_random_exponential(1.0, 30.0),
        stop=stop_after_delay(SERVER_GIVE_UP_S),
        reraise=True,
    )
    async def _submit_partition(self, job: PartitionJob, attempt: int) -> FlowRun:
        return await self._client.create_flow_run_from_deployment(
            self._deployment_id,
            parameters=job.parameters(),
            name=f"judge-{self._run_id}-{job.partition.number}",
            tags=tags_of(self._run_id),
            idempotency_key=job.partition.key(self._run_id, attempt),
        )

    async def _poll_runs(self) -> None:
        run_ids = list(self._watched_runs)
        runs = await flow_runs_by_id(self._client, run_ids)
        now = self._last_answer_at = time.monotonic()
        for run_id in run_ids:
            if (watched := self._watched_runs.get(run_id)) is None:
                continue
            if (run := runs.get(run_id)) is None:
                _set_ending(watched, PartitionEnd("Deleted", "its flow run is gone", lost=True))
            elif run.state is not None and run.state.is_final():
                _set_ending(watched, partition_end(run.state))
            else:
                await self._check_liveness(watched, run, now)
        self._check_workers(runs.values(), now)

    async def _check_liveness(self, watched: _WatchedRun, run: FlowRun, now: float) -> None:
        """Close a flow run without a new state or heartbeat: its machine may be gone."""
        life_signs = (run.state and run.state.id, run.labels.get(HEARTBEAT_LABEL))
        if life_signs != watched.last_seen:
            watched.last_seen, watched.unchanged_since = life_signs, now
            watched.is_silence_told = False
        if run.state is None or run.state.is_scheduled() or run.state.is_paused():  # no process yet
            return
        silent_s, limit_s = now - watched.unchanged_since, self._config.lost_after_s
        if run.state.is_pending():
            limit_s = max(limit_s, START_MIN_S)
            if silent_s > limit_s and await self._may_still_start(run):
                limit_s = PENDING_LIMIT_S
        if silent_s <= limit_s:
            self._tell_silence(watched, run, silent_s, limit_s)
            return
        message = f"no sign of life for {silent_s:.0f} s, its flow run was {run.state.name}"
        await self._client.set_flow_run_state(run.id, Crashed(message=message), force=True)
        _set_ending(watched, PartitionEnd("Crashed", message, lost=True))

    async def _may_still_start(self, run: FlowRun) -> bool:
        """Whether a pending flow run without news may begin yet: its worker lives.

        A process starts within seconds. A pod may have to wait for its image, and nothing but the
        heartbeat of the worker that asked for the pod shows life meanwhile. A work pool without
        workers (a push pool) gives no name of a worker, and shows nothing.
        """
        if self._starts_processes:
            return False
        if (name := run.labels.get(WORKER_LABEL)) is None:
            return True
        workers = await self._client.read_workers_for_work_pool(self._config.work_pool)
        return any(worker.name == name and worker.status == "ONLINE" for worker in workers)

    def _tell_silence(
        self, watched: _WatchedRun, run: FlowRun, silent_s: float, limit_s: float
    ) -> None:
        """Say once, before a partition is given out again, that it shows no life."""
        if watched.is_silence_told or silent_s <= limit_s / 2:
            return
        watched.is_silence_told = True
        log.warning(
            "partition %s: no sign of life for %.0f s (its flow run is %s); without one within "
            "%.0f s it is given out again",
            run.parameters.get("partition"),
            silent_s,
            run.state_name,
            limit_s - silent_s,
        )

    def _check_workers(self, runs: Iterable[FlowRun], now: float) -> None:
        """Warn when no worker takes a partition; `Inconclusive` after `NO_WORKER_GIVE_UP_S`."""
        if not all(run.state is not None and run.state.is_scheduled() for run in runs):
            self._last_taken_at, self._has_warned = now, False
        waited_s = now - self._last_taken_at
        if waited_s > NO_WORKER_WARNING_S and not self._has_warned:
            self._has_warned = True
            log.warning(
                "no worker has begun a partition for %d s; `assizes worker`, or `PREFECT_API_URL=%s "
                "prefect worker start --pool %s`, starts one, and the run itself needs one more place "
                "in its pool",
                waited_s,
                PREFECT_API_URL.value(),
                self._config.work_pool,
            )
        if waited_s > NO_WORKER_GIVE_UP_S:
            raise Inconclusive(
                f"no worker of the work pool {self._config.work_pool!r} took up a partition for "
                f"{NO_WORKER_GIVE_UP_S:.0f} s"
            )

    def _note_unreachable(self, error: Exception) -> None:
        """Give up all partitions once the server has not answered for `SERVER_GIVE_UP_S`."""
        now = time.monotonic()
        for watched in self._watched_runs.values():
            watched.unchanged_since = now  # not silent: its heartbeat cannot be read
        if now - self._last_answer_at > SERVER_GIVE_UP_S:
            silence = f"the Prefect server does not answer for {SERVER_GIVE_UP_S:.0f} s"
            self._fail_all(AssizesError(f"{silence}: {str(error) or type(error).__name__}"))

    def _fail_all(self, error: AssizesError) -> None:
        for watched in self._watched_runs.values():
            _set_ending(watched, PartitionEnd(type(error).__name__, str(error)))


def _set_ending(watched: _WatchedRun, ending: PartitionEnd) -> None:
    if not watched.ending.done():
        watched.ending.set_result(ending)


@asynccontextmanager
async def _open_deployment(config: RunnerConfig) -> AsyncIterator[tuple[PrefectClient, UUID]]:
    """A client of the Prefect server, and the id of the deployment."""
    # Prefect itself would start a server that no worker reaches and that ends with this process.
    if not PREFECT_API_URL.value():
        raise ConfigurationError(
            f"{_KIND}: needs a Prefect server that the workers reach; set PREFECT_API_URL, or start "
            "one with `assizes up`"
        )
    async with get_client() as client:
        try:
            deployment = await client.read_deployment_by_name(DEPLOYMENT)
        except ObjectNotFound:
            raise ConfigurationError(
                f"{_KIND}: there is no deployment {DEPLOYMENT!r} on {PREFECT_API_URL.value()}; "
                "`assizes deploy` registers it"
            ) from None
        if deployment.work_pool_name != config.work_pool:
            raise ConfigurationError(
                f"{_KIND}: deployment {DEPLOYMENT!r} is for the work pool "
                f"{deployment.work_pool_name!r}, [runner] work_pool is {config.work_pool!r}; "
                "`assizes deploy` registers it anew"
            )
        yield client, deployment.id
