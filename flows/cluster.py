"""Has partitions judged as tasks of a Dask cluster (extra `dask`)."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import Any, Final
from uuid import uuid4

from prefect import tags
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.context import hydrated_context, serialize_context
from prefect.states import Crashed

from assizes.flows.partition import judge_partition
from assizes.judge.config.runner import RunnerConfig
from assizes.judge.errors import ConfigurationError
from assizes.tasks.distribute.flow_runs import (
    halt_flow_runs,
    open_flow_runs,
    partition_end,
    tags_of,
)
from assizes.tasks.distribute.partitions import Partition, PartitionEnd, PartitionJob

CONNECT_S: Final = "20s"
"""How long a Dask scheduler may take to answer."""

GRACE_S: Final = 120.0
"""Seconds that halted partitions get to finish their calls in flight."""


@asynccontextmanager
async def open_cluster(config: RunnerConfig, run_id: str) -> AsyncIterator[Cluster]:
    """The cluster at `dask_address`; without an address, one process per processor of this machine.

    Raises:
        ConfigurationError: when no Dask scheduler answers at the address.
    """
    # Dask is an extra, and has no type hints.
    dask: Any = import_module("distributed")

    async with AsyncExitStack() as stack:
        where: Any = config.dask_address
        if where is None:
            where = await stack.enter_async_context(
                dask.LocalCluster(
                    n_workers=os.cpu_count() or 1,
                    threads_per_worker=1,
                    processes=True,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",
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
        dask_cluster = Cluster(client, run_id)
        stack.push_async_callback(dask_cluster.aclose)
        yield dask_cluster


class Cluster:
    """Gives out partitions as Dask tasks; Dask itself retries a task whose worker is gone.

    Implements `assizes.flows.distribute.Executor`.
    """

    def __init__(self, client: Any, run_id: str) -> None:
        self._client = client
        self._run_id = run_id
        self._tags = [*tags_of(run_id), f"dask:{uuid4().hex}"]
        self._halted = False
        self._settings = serialize_context()["settings_context"]

    async def open_partitions(self) -> list[Partition]:
        """Always empty: Dask cancels the tasks of a client that is gone."""
        return []

    async def judge(self, job: PartitionJob, attempt: int) -> PartitionEnd:
        """Have a Dask worker judge a partition, and wait for the end of its flow run."""
        killed: Any = import_module("distributed").KilledWorker
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
        """Wait up to `GRACE_S` for halted partitions, then close the flow runs that are still open.

        The cluster may end with this process, and calls in flight would be lost.
        """
        async with get_client() as client:
            left = await open_flow_runs(client, self._tags)
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
    """Judge a partition in the process of a Dask worker.

    Args:
        parameters: of the flow `judge_partition`.
        tag_names: tags for its flow run.
        settings: the Prefect settings of the process that gave out the partition.

    Returns:
        How the flow run ended.
    """
    with hydrated_context({"settings_context": settings}), tags(*tag_names):
        return asyncio.run(_run_partition(parameters))


async def _run_partition(parameters: dict[str, Any]) -> PartitionEnd:
    # Prefect types an async flow called with return_state as if it had been awaited already.
    work: Any = judge_partition(**parameters, return_state=True)
    return partition_end(await work)
