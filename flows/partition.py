"""One partition of a run, judged by whatever process took it up."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from assizes.flows.shards import Losses, judge_here
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import AssizesError
from assizes.tasks.context.run_context import sitting
from assizes.tasks.context.shared_state import see_seal
from assizes.tasks.distribute.heartbeat import beating
from assizes.tasks.distribute.partitions import DONE, LEFT
from assizes.tasks.plan import Request, at_work, plan_run
from assizes.tasks.runtime.log_redaction import discreet


@discreet
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
    lost = Losses()
    try:
        async with beating(config.runner.lost_after_s) as pulse, sitting(config) as room:
            await asyncio.to_thread(see_seal, room, run_id, seal)
            run = await plan_run(room, Request(run_id=run_id, manner="resume"))
            wanted = frozenset(shard_ids) - room.store.committed(run_id).keys()
            due = [shard for shard in run.intake.shards if shard.shard_id in wanted]
            pulse.on_halt(partial(room.halt, run_id))
            async with at_work(room, run):
                await judge_here(room, run_id, due, lost)
    except AssizesError as error:
        return Failed(name=type(error).__name__, message=" ".join(str(error).split()))
    return _ending(lost)


def _ending(lost: Losses) -> State[Any]:
    """What the process that gave the partition out is told; it sees in the store what is committed."""
    if not lost:
        return Completed(name=DONE)
    if lost.stop is not None:
        return Failed(name=type(lost.stop).__name__, message=" ".join(str(lost.stop).split()))
    return Failed(name=LEFT, message="; ".join(list(lost.reasons)[:3]))
