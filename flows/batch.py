"""Put the asks of a run to the provider's batch endpoint before they are put by themselves."""

from __future__ import annotations

import asyncio
from typing import Any

from prefect.client.schemas.objects import State

from assizes.flows.shards import ENDINGS, Losses
from assizes.judge.errors import Inconclusive
from assizes.tasks.context.run_context import Room, forget_frames
from assizes.tasks.judge_by_batch import batches_begun, judge_by_batch
from assizes.tasks.plan import PlannedRun


async def ask_by_batch(room: Room, run: PlannedRun) -> Losses:
    """With `[runner] batch`, let the hearings advance by batches, round by round.

    Without it, batches that an earlier sitting of the run handed in are collected all the same:
    they are paid for.

    Returns:
        Nothing lost, or why no shard is to be begun.

    Raises:
        AssizesError: when the record of the batches cannot be read or written.
    """
    lost = Losses()
    if run.finished:
        return lost
    submits = room.config.runner.batch
    if not submits and not await asyncio.to_thread(batches_begun, room, run.run_id):
        return lost
    # Prefect types an async task called with return_state as if it had been awaited already.
    work: Any = judge_by_batch(room, run, submits=submits, return_state=True)
    state: State[Any] = await work
    if not state.is_completed():
        error: Any = await state.aresult(raise_on_failure=False)
        if isinstance(error, OSError):  # a shard that cannot be read just now
            error = Inconclusive(f"the batches broke off: {error}; the same command goes on")
        if not isinstance(error, ENDINGS):
            raise error
        forget_frames(error)
        lost.note(error)
    return lost
