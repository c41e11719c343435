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
from assizes.tasks.context.run_context import Room, forget_frames
from assizes.tasks.intake.shard import Shard
from assizes.tasks.judge_shard import judge_shard

log = logging.getLogger(__name__)

LOOK_S: Final = 1.0
"""How often a run looks whether it was stopped; each model call looks as well."""

ENDINGS: Final = (OverBudget, Halted, Inconclusive)
"""What befalls a run, not a shard: the next shard would end the same way."""


@dataclass
class Losses:
    """Why shards could not be judged, and how many for each reason; `stop` is why none was begun
    any more, where that was so.
    """

    reasons: Counter[str] = field(default_factory=Counter)
    stop: AssizesError | None = None

    def note(self, error: Exception | str) -> None:
        """One more shard is lost. The log gets the error itself: it may not be told by its text."""
        kind = f"{type(error).__name__}: "
        named = isinstance(error, Exception) and not isinstance(error, AssizesError)
        reason = " ".join(f"{kind if named else ''}{error}".split())
        self.reasons[reason] += 1
        if isinstance(error, ENDINGS) and self.stop is None:
            self.stop = error
            log.warning("no further shard is begun: %s", error)
        elif self.reasons[reason] == 1 and not isinstance(error, ENDINGS):
            log.error("a shard could not be judged: %s%s", kind if named else "", error)

    def __bool__(self) -> bool:
        """Whether any shard is lost."""
        return bool(self.reasons) or self.stop is not None


async def judge_here(room: Room, run_id: str, due: Sequence[Shard], lost: Losses) -> None:
    """Judge shards in this process, a few at a time over one slot pool.

    A sliding window of awaited tasks: never more task runs alive than `shards_in_flight`, one
    event loop, one API client. Whoever cancels the run cancels them, and they have ended when
    this returns. Once the budget is spent, the judge is down or the run was stopped, no further
    shard is begun; what is `lost` already is added to.
    """
    await _Sitting(room, run_id, lost).judge(due)


class _Sitting:
    """The shards being judged now."""

    def __init__(self, room: Room, run_id: str, lost: Losses) -> None:
        self._room = room
        self._run_id = run_id
        self._lost = lost
        self._pending: set[asyncio.Task[Exception | str | None]] = set()

    async def judge(self, due: Sequence[Shard]) -> None:
        """Judge them all, or as many as can be."""
        waiting = list(reversed(due))
        try:
            while self._pending or (waiting and self._lost.stop is None):
                while waiting and self._lost.stop is None and not self._full:
                    work = _fault(self._room, self._run_id, waiting.pop())
                    self._pending.add(asyncio.create_task(work))
                await self._look()
        finally:
            await self._cancel()

    @property
    def _full(self) -> bool:
        return len(self._pending) >= self._room.config.runner.shards_in_flight

    async def _look(self) -> None:
        """Wait a while for shards to end, and see whether someone stopped the run."""
        finished, self._pending = await asyncio.wait(
            self._pending, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED
        )
        for one in finished:
            if (fault := one.result()) is not None:
                self._lost.note(fault)
        self._room.heed_stop()

    async def _cancel(self) -> None:
        """End what is left when someone cancels the run."""
        for left in self._pending:
            left.cancel()
        await asyncio.gather(*self._pending, return_exceptions=True)
        self._pending = set()


async def _fault(room: Room, run_id: str, shard: Shard) -> Exception | str | None:
    """Why a shard could not be judged; null when it was."""
    # Prefect types an async task called with return_state as if it had been awaited already.
    work: Any = judge_shard(room, run_id, shard, return_state=True)
    state: State[Any] = await work
    if state.is_completed():
        return None
    error: Any = await state.aresult(raise_on_failure=False)
    forget_frames(error)
    return error if isinstance(error, Exception) else state.name
