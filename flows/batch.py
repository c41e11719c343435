"""Sends the asks of a run to the provider's batch endpoint, before its shards are judged."""

from __future__ import annotations

import asyncio
from typing import Any

from prefect.client.schemas.objects import State

from assizes.flows.shards import RUN_ENDING_ERRORS, ShardFailures
from assizes.judge.errors import Inconclusive
from assizes.tasks.context.planned_run import PlannedRun
from assizes.tasks.context.run_context import RunContext, clear_error_frames
from assizes.tasks.judge_by_batch import has_begun_batches, judge_by_batch


async def ask_by_batch(context: RunContext, run: PlannedRun) -> ShardFailures:
    """With `[runner] batch`, have the hearings of a run answered by provider batches.

    Each round of the hearings is a batch. Without that setting, the results of batches that an
    earlier process of the run sent are collected all the same, since they are paid for.

    Returns:
        No failures, or with `stop` the reason why no shard may be judged now.

    Raises:
        AssizesError: when the log of the batches cannot be read or written.
    """
    failures = ShardFailures()
    if run.is_finished:
        return failures
    submits = context.config.runner.batch
    if not submits and not await asyncio.to_thread(has_begun_batches, context, run.run_id):
        return failures
    # Prefect types an async task called with return_state as if it had been awaited already.
    work: Any = judge_by_batch(context, run, submits=submits, return_state=True)
    state: State[Any] = await work
    if not state.is_completed():
        error: Any = await state.aresult(raise_on_failure=False)
        if isinstance(error, OSError):  # a shard that cannot be read just now
            error = Inconclusive(f"the batches broke off: {error}; the same command goes on")
        if not isinstance(error, RUN_ENDING_ERRORS):
            raise error
        clear_error_frames(error)
        failures.add_failure(error)
    return failures
