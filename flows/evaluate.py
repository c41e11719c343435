"""One evaluation: plan the run, judge the shards, sum up, compare, report, conclude."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from datetime import date
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows.outcome import RunOutcome, conclude
from judge.config import RunConfig, Trigger
from judge.errors import AssizesError
from tasks.intake import Shard
from tasks.judging import judge_shard
from tasks.plan import PlannedRun, Request, plan_run
from tasks.publishing import publish_report
from tasks.room import Room, forget_frames, sitting, watcher
from tasks.summaries import compare_with_baseline, summarise_run

log = logging.getLogger(__name__)


@flow(name="evaluate", flow_run_name="evaluate-{config.name}", result_serializer="json")
async def evaluate(
    config: RunConfig,
    trigger: Trigger = "adhoc",
    run_id: str | None = None,
    on: date | None = None,
) -> State[RunOutcome]:
    """Judge the transcripts a configuration names and say whether they got worse.

    Args:
        config: everything about the run; snapshotted into its row.
        trigger: what started it.
        run_id: resume or name a run; by default derived from configuration and input.
        on: the day that fills date placeholders of the transcripts' URI.

    Returns:
        A state named for the outcome; its data is the `RunOutcome`.
    """
    async with sitting(config) as room:
        run = await plan_run(room, Request(trigger, run_id, on))
        lost = await judge_shards(room, run)
        summary = await summarise_run(room, run, lost=bool(lost))
        against = await compare_with_baseline(room, run)
        links = await publish_report(room, run, summary, against.comparison)
    return conclude(run.record, summary, against, lost, links, fail=config.runner.fail_flow)


async def judge_shards(room: Room, run: PlannedRun) -> Counter[str]:
    """Judge every shard not yet committed, a few at a time over one slot pool.

    A sliding window of awaited tasks: never more task runs alive than `shards_in_flight`, one
    event loop, one API client. Whoever cancels the run cancels them, and they have ended when
    this returns.

    Returns:
        Why shards could not be judged, and how many for each reason.
    """
    lost: Counter[str] = Counter()
    if run.finished:
        return lost
    done = room.store.committed(run.run_id)
    due = [shard for shard in run.intake.shards if shard.shard_id not in done]
    report = watcher.get()
    report("judging", 0, run.intake.due)
    report("judging", sum(c.get("judged", 0) + c.get("errored", 0) for c in done.values()), 0)
    pending: set[asyncio.Task[str | None]] = set()
    try:
        for shard in due:
            if len(pending) >= room.config.runner.shards_in_flight:
                finished, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                _note(lost, finished)
            pending.add(asyncio.create_task(_fault(room, run.run_id, shard)))
        if pending:
            finished, pending = await asyncio.wait(pending)
            _note(lost, finished)
    finally:
        for left in pending:
            left.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
    return lost


async def _fault(room: Room, run_id: str, shard: Shard) -> str | None:
    """Why a shard could not be judged; null when it was."""
    # Prefect types an async task called with return_state as if it had been awaited already.
    work: Any = judge_shard(room, run_id, shard, return_state=True)
    state: State[Any] = await work
    if state.is_completed():
        return None
    error: Any = await state.aresult(raise_on_failure=False)
    forget_frames(error)
    if isinstance(error, AssizesError):
        return " ".join(str(error).split())
    return f"{type(error).__name__}: {error}" if isinstance(error, Exception) else state.name


def _note(lost: Counter[str], finished: set[asyncio.Task[str | None]]) -> None:
    for reason in filter(None, (one.result() for one in finished)):
        lost[reason] += 1
        if lost[reason] == 1:
            log.error("a shard could not be judged: %s", reason)
