"""Judges the shards of a run in this process, once a provider batch has answered their asks."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from prefect.client.schemas.objects import State

from assizes.judge.errors import AssizesError, Halted, Inconclusive, OverBudget
from assizes.tasks.context.run_context import PlannedRun, RunContext, clear_error_frames
from assizes.tasks.intake.plan import Shard
from assizes.tasks.judge_by_batch import has_begun_batches, judge_by_batch
from assizes.tasks.judge_shard import judge_shard

log = logging.getLogger(__name__)

POLL_INTERVAL_S: Final = 1.0
"""Seconds between two looks whether the run was stopped; each model call looks as well."""

RUN_ENDING_ERRORS: Final = (OverBudget, Halted, Inconclusive)
"""Errors that end a run, not only a shard: the next shard would fail in the same way."""

ShardJudge = Callable[[RunContext, str, Shard], Coroutine[Any, Any, Exception | str | None]]
"""Judges one shard of the run of an id; returns `None`, or why the shard could not be judged."""


@dataclass
class ShardFailures:
    """Why shards could not be judged."""

    reasons: Counter[str] = field(default_factory=Counter)  # reason -> number of shards
    stop: AssizesError | None = None  # after it no further shard was begun; `None`: they may be
    had_ended: bool = False  # an earlier command had ended the run, so that nothing was judged

    def add_failure(self, error: Exception | str) -> None:
        """Count a shard that could not be judged, and log its error the first time it occurs."""
        is_unexpected = isinstance(error, Exception) and not isinstance(error, AssizesError)
        kind = f"{type(error).__name__}: " if is_unexpected else ""
        reason = " ".join(f"{kind}{error}".split())  # on one line
        self.reasons[reason] += 1
        if isinstance(error, RUN_ENDING_ERRORS) and self.stop is None:
            self.stop = error
            log.warning("judging stops here: %s", error)
        elif self.reasons[reason] == 1 and not isinstance(error, RUN_ENDING_ERRORS):
            log.error("a shard could not be judged: %s%s", kind, error)


async def uncommitted_shards(context: RunContext, run: PlannedRun) -> list[Shard]:
    """The shards of a run that are still to be judged; reports how many cases are judged."""
    done = await asyncio.to_thread(context.store.shard_counts, run.run_id)  # shard id -> counts
    context.progress("judging", 0, run.intake.due)
    judged = sum(counts.get("judged", 0) + counts.get("errored", 0) for counts in done.values())
    context.progress("judging", judged, 0)
    return [shard for shard in run.intake.shards if shard.shard_id not in done]


async def judge_locally(
    context: RunContext,
    run_id: str,
    due: Sequence[Shard],
    judge: ShardJudge | None = None,
    at_once: int | None = None,
) -> ShardFailures:
    """Judge shards in this process, `at_once` at a time; returns the failures.

    The default of `at_once` is that of the configuration.
    Without a `judge`, each shard is judged by a Prefect task run. Cancelling this call cancels the tasks and waits for them.
    """
    judge = judge or _try_shard
    failures = ShardFailures()
    waiting = list(reversed(due))  # `pop` takes from the end
    most = at_once or context.config.shards_at_once
    pending: set[asyncio.Task[Exception | str | None]] = set()
    try:
        while pending or (waiting and failures.stop is None):
            while waiting and failures.stop is None and len(pending) < most:
                pending.add(asyncio.create_task(judge(context, run_id, waiting.pop())))
            finished, pending = await asyncio.wait(
                pending, timeout=POLL_INTERVAL_S, return_when=asyncio.FIRST_COMPLETED
            )
            for task in finished:
                if (fault := task.result()) is not None:
                    failures.add_failure(fault)
            context.check_stop()
    finally:
        for task in pending:  # there are some only when this call was cancelled or failed
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
    return failures


async def _try_shard(context: RunContext, run_id: str, shard: Shard) -> Exception | str | None:
    """Judge a shard as a Prefect task run; `None`, or the error for which it could not be judged."""
    # Prefect types an async task called with return_state as if it had been awaited already.
    work: Any = judge_shard(context, run_id, shard, return_state=True)
    return await shard_fault(await work)


async def shard_fault(state: State[Any]) -> Exception | str | None:
    """Why a task run could not judge its shard; `None` where it did."""
    if state.is_completed():
        return None
    error: Any = await state.aresult(raise_on_failure=False)
    clear_error_frames(error)
    return error if isinstance(error, Exception) else state.name


async def ask_by_batch(context: RunContext, run: PlannedRun) -> ShardFailures:
    """With `[runner] batch`, have the hearings of a run answered by a provider batch per round.

    Without that setting, batches that an earlier process of the run sent are still collected.
    Returns no failures, or with `stop` why no shard may be judged now.

    Raises:
        AssizesError: when the log of the batches cannot be read or written.
    """
    failures = ShardFailures()
    submits = context.config.runner.batch
    if run.is_finished or not (
        submits or await asyncio.to_thread(has_begun_batches, context, run.run_id)
    ):
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
