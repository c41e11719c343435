"""The flow `judge-partition`: part of a run in a process of its own, also on a Dask cluster."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from importlib import import_module
from typing import Any, Final
from uuid import uuid4

from prefect import flow, tags
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.context import hydrated_context, serialize_context
from prefect.states import Completed, Crashed, Failed

from assizes.flows.server import finds_server
from assizes.flows.shards import judge_locally
from assizes.judge.config.run import RunConfig
from assizes.judge.config.runner import RunnerConfig
from assizes.judge.errors import AssizesError, ConfigurationError
from assizes.tasks.context.run_context import open_run_context
from assizes.tasks.context.shared_state import verify_shared_state
from assizes.tasks.distribute.flow_runs import (
    halt_flow_runs,
    open_flow_runs,
    partition_end,
    send_heartbeats,
    tags_of,
)
from assizes.tasks.distribute.partitions import (
    JUDGED_STATE,
    LEFT_STATE,
    Partition,
    PartitionEnd,
    PartitionJob,
)
from assizes.tasks.plan import RunRequest, lock_unfinished_run, plan_run
from assizes.tasks.runtime.process import redacts_secrets


@redacts_secrets
@finds_server
@flow(name="judge-partition", flow_run_name="judge-{run_id}-{partition}", result_serializer="json")
async def judge_partition(
    config: RunConfig, run_id: str, partition: int, shard_ids: list[str], seal: str | None = None
) -> State[Any]:
    """Judge some shards of a run that another process began, and commit their rows to its store.

    Args:
        config: the configuration of the run, as this process can use it.
        run_id: the run; its plan is read from the store, and this process must have the same judges.
        partition: the number of the partition in the plan, which names the flow run.
        shard_ids: the shards to judge; shards that are committed already are skipped.
        seal: the text that must be found in the reply cache, which shows that this process uses the
            same cache (`assizes.tasks.context.shared_state`); None for no check.

    Returns:
        The state `Judged`, or a failed state: `Left`, or the name of the error that ends the run.
    """
    del partition  # it only names the flow run
    try:
        async with (
            send_heartbeats(config.runner.lost_after_s) as heartbeat,
            open_run_context(config) as context,
        ):
            await asyncio.to_thread(verify_shared_state, context, run_id, seal)
            run = await plan_run(context, RunRequest(run_id=run_id, manner="resume"))
            wanted = frozenset(shard_ids) - context.store.shard_counts(run_id).keys()
            due = [shard for shard in run.intake.shards if shard.shard_id in wanted]
            heartbeat.on_halt(partial(context.halt, run_id))  # no further call, those in flight end
            async with lock_unfinished_run(context, run):
                failures = await judge_locally(context, run_id, due)
    except AssizesError as error:
        return _failed_by(error)
    # Whoever waits for this flow run learns the failures by its state; which shards are committed,
    # the store says.
    if failures.stop is not None:
        return _failed_by(failures.stop)
    if failures.reasons:
        return Failed(name=LEFT_STATE, message="; ".join(list(failures.reasons)[:3]))
    return Completed(name=JUDGED_STATE)


def _failed_by(error: AssizesError) -> State[Any]:
    return Failed(name=type(error).__name__, message=" ".join(str(error).split()))


CONNECT_S: Final = "20s"  # how long a Dask scheduler may take to answer
GRACE_S: Final = 120.0  # seconds that halted partitions get to finish their calls in flight


@asynccontextmanager
async def open_cluster(config: RunnerConfig, run_id: str) -> AsyncIterator[Cluster]:
    """The cluster at `dask_address`; without one, a process for each processor of this machine.

    Raises:
        ConfigurationError: when no Dask scheduler answers at the address.
    """
    # Not prefect-dask: it sends the calling flow by value (docs/decisions.md, decision 75).
    dask: Any = import_module("distributed")  # an extra, without type hints
    async with AsyncExitStack() as stack:
        where: Any = config.dask_address
        if where is None:
            where = await stack.enter_async_context(
                dask.LocalCluster(
                    n_workers=os.cpu_count() or 1,
                    threads_per_worker=1,  # a flow run has an event loop of its own
                    processes=True,
                    host="127.0.0.1",  # anybody who reaches a scheduler can run code
                    dashboard_address="127.0.0.1:0",  # any free port
                    asynchronous=True,
                )
            )
        try:
            client = await stack.enter_async_context(
                dask.Client(where, asynchronous=True, timeout=CONNECT_S)
            )
        except OSError as error:
            raise ConfigurationError(
                f"[runner] dask_address {where!r}: no Dask scheduler answers there: {error}"
            ) from None
        cluster = Cluster(client, run_id)
        stack.push_async_callback(cluster.aclose)
        yield cluster


class Cluster:
    """An `Executor` of `assizes.flows.distribute`: partitions as Dask tasks, each a flow run."""

    def __init__(self, client: Any, run_id: str) -> None:
        self._client = client
        self._run_id = run_id
        self._tags = [*tags_of(run_id), f"dask:{uuid4().hex}"]  # its own flow runs only
        self._halted = False
        self._settings = serialize_context()["settings_context"]

    async def open_partitions(self) -> list[Partition]:
        """Always empty: Dask cancels the tasks of a client that is gone."""
        return []

    async def judge(self, job: PartitionJob, attempt: int) -> PartitionEnd:
        """Have a Dask worker judge a partition, and wait for the end of its flow run."""
        # Dask itself retries a task whose worker died, before it gives up with this error.
        killed: Any = import_module("distributed").KilledWorker
        # Unique, because Dask answers a key that it knows with the earlier result.
        key = f"{job.partition.key(self._run_id, attempt)}-{uuid4().hex[:8]}"
        future = self._client.submit(
            judge_by_dask, job.parameters(), self._tags, self._settings, key=key, pure=False
        )
        try:
            result: PartitionEnd = await future
        except killed as error:
            return PartitionEnd("Crashed", " ".join(str(error).split()), lost=True)
        except asyncio.CancelledError:
            await self._client.cancel([future])
            raise
        return result

    async def halt(self, why: str) -> None:
        """Have the partitions that are being judged make no further call."""
        self._halted = True
        async with get_client() as client:
            await halt_flow_runs(client, self._tags, why)

    async def aclose(self) -> None:
        """Wait up to `GRACE_S` for halted partitions, then close the flow runs still open."""
        async with get_client() as client:
            left = await open_flow_runs(client, self._tags)
            # A local cluster ends with this process, and calls in flight would be paid for nothing.
            deadline = time.monotonic() + GRACE_S
            while left and self._halted and time.monotonic() < deadline:
                await asyncio.sleep(1.0)
                left = await open_flow_runs(client, self._tags)
            for run in left:
                state: State[Any] = Crashed(message="its Dask worker is gone")
                await client.set_flow_run_state(run.id, state, force=True)


def judge_by_dask(
    parameters: dict[str, Any], tag_names: list[str], settings: dict[str, Any]
) -> PartitionEnd:
    """Judge a partition in the process of a Dask worker; returns how its flow run ended."""

    async def run_partition() -> PartitionEnd:
        # Prefect types an async flow called with return_state as if it had been awaited already.
        work: Any = judge_partition(**parameters, return_state=True)
        return partition_end(await work)

    # The settings of the process that gave out the partition: the same Prefect server.
    with hydrated_context({"settings_context": settings}), tags(*tag_names):
        return asyncio.run(run_partition())
