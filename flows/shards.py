"""Judge the shards of a run, a few at a time, until they are done or the run asks no more."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from prefect.client.schemas.objects import State

from assizes.judge.errors import AssizesError, Halted, Inconclusive, OverBudget
from assizes.tasks.context.run_context import RunContext, clear_error_frames
from assizes.tasks.intake.plan import Shard
from assizes.tasks.judge_shard import judge_shard

log = logging.getLogger(__name__)

POLL_INTERVAL_S: Final = 1.0
"""How often a run looks whether it was stopped; each model call looks as well."""

RUN_ENDING_ERRORS: Final = (OverBudget, Halted, Inconclusive)
"""What befalls a run, not a shard: the next shard would end the same way."""


@dataclass
class ShardFailures:
    """Why shards could not be judged, and how many for each reason; `stop` is why none was begun
    any more, where that was so.
    """

    reasons: Counter[str] = field(default_factory=Counter)
    stop: AssizesError | None = None

    def add_failure(self, error: Exception | str) -> None:
        """One more shard is lost. The log gets the error itself: it may not be told by its text."""
        kind = f"{type(error).__name__}: "
        is_unexpected = isinstance(error, Exception) and not isinstance(error, AssizesError)
        reason = " ".join(f"{kind if is_unexpected else ''}{error}".split())
        self.reasons[reason] += 1
        if isinstance(error, RUN_ENDING_ERRORS) and self.stop is None:
            self.stop = error
            log.warning("no further shard is begun: %s", error)
        elif self.reasons[reason] == 1 and not isinstance(error, RUN_ENDING_ERRORS):
            log.error("a shard could not be judged: %s%s", kind if is_unexpected else "", error)

    def __bool__(self) -> bool:
        """Whether any shard is lost."""
        return bool(self.reasons) or self.stop is not None


async def judge_locally(
    context: RunContext, run_id: str, due: Sequence[Shard], failures: ShardFailures
) -> None:
    """Judge shards in this process, a few at a time over one slot pool.

    A sliding window of awaited tasks: never more task runs alive than `shards_in_flight`, one
    event loop, one API client. Whoever cancels the run cancels them, and they have ended when
    this returns. Once the budget is spent, the judge is down or the run was stopped, no further
    shard is begun; what is `lost` already is added to.
    """
    await _ShardRunner(context, run_id, failures).judge(due)


class _ShardRunner:
    """The shards being judged now."""

    def __init__(self, context: RunContext, run_id: str, failures: ShardFailures) -> None:
        self._context = context
        self._run_id = run_id
        self._failures = failures
        self._pending: set[asyncio.Task[Exception | str | None]] = set()

    async def judge(self, due: Sequence[Shard]) -> None:
        """Judge them all, or as many as can be."""
        waiting = list(reversed(due))
        try:
            while self._pending or (waiting and self._failures.stop is None):
                while waiting and self._failures.stop is None and not self._is_full:
                    work = _shard_failure(self._context, self._run_id, waiting.pop())
                    self._pending.add(asyncio.create_task(work))
                await self._wait_for_shards()
        finally:
            await self._cancel()

    @property
    def _is_full(self) -> bool:
        return len(self._pending) >= self._context.config.runner.shards_in_flight

    async def _wait_for_shards(self) -> None:
        """Wait a while for shards to end, and see whether someone stopped the run."""
        finished, self._pending = await asyncio.wait(
            self._pending, timeout=POLL_INTERVAL_S, return_when=asyncio.FIRST_COMPLETED
        )
        for task in finished:
            if (fault := task.result()) is not None:
                self._failures.add_failure(fault)
        self._context.check_stop()

    async def _cancel(self) -> None:
        """End what is left when someone cancels the run."""
        for left in self._pending:
            left.cancel()
        await asyncio.gather(*self._pending, return_exceptions=True)
        self._pending = set()


async def _shard_failure(context: RunContext, run_id: str, shard: Shard) -> Exception | str | None:
    """Why a shard could not be judged; null when it was."""
    # Prefect types an async task called with return_state as if it had been awaited already.
    work: Any = judge_shard(context, run_id, shard, return_state=True)
    state: State[Any] = await work
    if state.is_completed():
        return None
    error: Any = await state.aresult(raise_on_failure=False)
    clear_error_frames(error)
    return error if isinstance(error, Exception) else state.name
