"""Judge a run where its configuration says: here, by workers of a pool, or on a Dask cluster."""

from __future__ import annotations

import asyncio

from flows.shards import Losses, judge_here
from tasks.plan import PlannedRun
from tasks.room import Room, watcher


async def judge_shards(room: Room, run: PlannedRun, lost: Losses) -> Losses:
    """Judge every shard not yet committed; what is `lost` already is added to.

    Raises:
        StoreError: when the store cannot be reached.
    """
    if run.finished:
        return lost
    done = await asyncio.to_thread(room.store.committed, run.run_id)
    report = watcher.get()
    report("judging", 0, run.intake.due)
    report("judging", sum(c.get("judged", 0) + c.get("errored", 0) for c in done.values()), 0)
    due = [shard for shard in run.intake.shards if shard.shard_id not in done]
    await judge_here(room, run.run_id, due, lost)
    return lost
