"""Has a shard judged by another process of this machine, and commits its rows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import polars as pl
from prefect import task
from prefect.cache_policies import NO_CACHE

from assizes.tasks.context.run_context import RunContext
from assizes.tasks.intake.plan import Shard
from assizes.tasks.judge_shard import SHARD_RETRIES, SHARD_RETRY_DELAYS_S, has_storage_fault
from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.runtime.process import redacts_secrets

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JudgedShard:
    """The rows of a shard that another process has judged."""

    frames: Mapping[str, pl.DataFrame]  # by table
    counts: dict[str, int]  # cases by status


@redacts_secrets
@task(
    name="judge_shard",
    task_run_name="judge-{shard.shard_id}",
    retries=SHARD_RETRIES,
    retry_delay_seconds=SHARD_RETRY_DELAYS_S,
    retry_condition_fn=has_storage_fault,
    cache_policy=NO_CACHE,
    result_serializer="json",
)
async def judge_and_commit_shard(
    context: RunContext,
    run_id: str,
    shard: Shard,
    judge: Callable[[Shard], Awaitable[JudgedShard]],
) -> dict[str, int]:
    """Commit the rows that `judge` returns for a shard, all or none; returns the counts by status.

    It has the name `judge_shard`: where a shard is judged makes no difference to who watches a run.
    Raises what `judge` raises, and `StoreError` when the store cannot be written.
    """
    judged = await judge(shard)
    shard.check(judged.counts)  # the rows must add up to the plan
    await asyncio.to_thread(
        context.store.commit_shard, run_id, shard.shard_id, judged.frames, judged.counts
    )
    failpoint("shard.committed")
    log.info("shard %s committed: %s", shard.shard_id, judged.counts)
    return judged.counts
