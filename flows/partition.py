"""The flow `judge-partition`: judges one partition of a run in a process of its own."""

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
    del partition
    try:
        async with (
            send_heartbeats(config.runner.lost_after_s) as heartbeat,
            open_run_context(config) as context,
        ):
            await asyncio.to_thread(verify_shared_state, context, run_id, seal)
            run = await plan_run(context, RunRequest(run_id=run_id, manner="resume"))
            wanted = frozenset(shard_ids) - context.store.shard_counts(run_id).keys()
            due = [shard for shard in run.intake.shards if shard.shard_id in wanted]
            heartbeat.on_halt(partial(context.halt, run_id))
            async with lock_unfinished_run(context, run):
                failures = await judge_locally(context, run_id, due)
    except AssizesError as error:
        return Failed(name=type(error).__name__, message=" ".join(str(error).split()))
    return _final_state(failures)


def _final_state(failures: ShardFailures) -> State[Any]:
    """The final state of this flow run, by which the process that waits for it learns the failures.

    That process sees in the store which shards are committed.
    """
    if not failures:
        return Completed(name=JUDGED_STATE)
    if failures.stop is not None:
        return Failed(
            name=type(failures.stop).__name__, message=" ".join(str(failures.stop).split())
        )
    return Failed(name=LEFT_STATE, message="; ".join(list(failures.reasons)[:3]))
