"""One partition of a run, judged by whatever process took it up."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from assizes.flows.shards import ShardFailures, judge_locally
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import AssizesError
from assizes.tasks.context.run_context import open_run_context
from assizes.tasks.context.shared_state import verify_shared_state
from assizes.tasks.distribute.heartbeat import send_heartbeats
from assizes.tasks.distribute.partitions import JUDGED_STATE, LEFT_STATE
from assizes.tasks.plan import RunRequest, lock_unfinished_run, plan_run
from assizes.tasks.runtime.redacted_runs import redacts_secrets


@redacts_secrets
@flow(
    name="judge-partition",
    flow_run_name="judge-{run_id}-{partition}",
    result_serializer="json",
)
async def judge_partition(
    config: RunConfig,
    run_id: str,
    partition: int,
    shard_ids: list[str],
    seal: str | None = None,
) -> State[Any]:
    """Judge some shards of a run that was begun elsewhere, and commit their rows to its store.

    Args:
        config: the run's, as this process can use it.
        run_id: the run; its plan is read from the store, and its judges must be those there are here.
        partition: its number in the plan; only a name.
        shard_ids: what to judge; shards that are committed already are left alone.
        seal: what must be found where replies are kept (`assizes.tasks.context.shared_state`).

    Returns:
        `Judged`, or a failed state: `Left`, or the name of the error that ends the run.
    """
    del partition
    failures = ShardFailures()
    try:
        async with (
            send_heartbeats(config.runner.lost_after_s) as own_heartbeat,
            open_run_context(config) as context,
        ):
            await asyncio.to_thread(verify_shared_state, context, run_id, seal)
            run = await plan_run(context, RunRequest(run_id=run_id, manner="resume"))
            wanted = frozenset(shard_ids) - context.store.shard_counts(run_id).keys()
            due = [shard for shard in run.intake.shards if shard.shard_id in wanted]
            own_heartbeat.on_halt(partial(context.halt, run_id))
            async with lock_unfinished_run(context, run):
                await judge_locally(context, run_id, due, failures)
    except AssizesError as error:
        return Failed(name=type(error).__name__, message=" ".join(str(error).split()))
    return _final_state(failures)


def _final_state(failures: ShardFailures) -> State[Any]:
    """What the process that gave the partition out is told; it sees in the store what is committed."""
    if not failures:
        return Completed(name=JUDGED_STATE)
    if failures.stop is not None:
        return Failed(
            name=type(failures.stop).__name__, message=" ".join(str(failures.stop).split())
        )
    return Failed(name=LEFT_STATE, message="; ".join(list(failures.reasons)[:3]))
