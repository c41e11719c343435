"""Decides when a hearing may begin, which makes the prompts of its first round."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from assizes.judge.engine.limits.limits import Limiter

HEARINGS_PER_SLOT: Final = 2
"""The most hearings that are open for each call that may be in flight."""

SLOTS_PER_WAITING_CALL: Final = 4
"""No hearing begins while one call waits for every four slots, or more: prompts take memory."""

MIN_WAITING_CALLS: Final = 8
"""The number of calls that may wait however few slots there are, so that no slot stays empty."""


@dataclass(slots=True, eq=False)
class HearingGate:
    """Lets hearings begin in the order in which they come, as slots for their calls are near.

    At most one begins in a turn of the event loop; where slots are empty, each hearing that ends lets
    in one more. Prompts of a whole shard, made at once, would delay the first call and later replies.
    """

    _limiter: Limiter
    _open: int = field(default=0, init=False)  # hearings
    _begun: int = field(default=0, init=False)  # of them, in this turn of the event loop
    _waiting: deque[asyncio.Future[None]] = field(default_factory=deque, init=False)

    async def enter(self) -> None:
        """Wait until a hearing may begin; who was let in calls `leave` when the hearing has ended."""
        if not self._waiting and self._may_begin(1):
            self._begin()
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it was let in, but its task was cancelled in the same moment
                self.leave()
            raise

    def leave(self) -> None:
        """Note that a hearing has ended."""
        self._open -= 1
        empty_slots = self._limiter.size - self._limiter.in_flight - self._limiter.waiting
        self._let_in(self._begun + 1 if self._begun < empty_slots else 1)

    def look(self) -> None:
        """Let the next hearing begin, if it may: a call has left the queue, or there are more slots."""
        self._let_in(1)

    def _let_in(self, most: int) -> None:
        """Let hearings begin until `most` of them have begun in this turn of the event loop."""
        while self._waiting and self._may_begin(most):
            turn = self._waiting.popleft()
            if not turn.cancelled():
                turn.set_result(None)
                self._begin()

    def _may_begin(self, most: int) -> bool:
        limiter = self._limiter
        return (
            self._begun < most
            and self._open < HEARINGS_PER_SLOT * limiter.size
            and limiter.waiting < max(MIN_WAITING_CALLS, limiter.size // SLOTS_PER_WAITING_CALL)
        )

    def _begin(self) -> None:
        self._open += 1
        if not self._begun:
            asyncio.get_running_loop().call_soon(self._end_turn)  # after the hearing's first step
        self._begun += 1

    def _end_turn(self) -> None:
        self._begun = 0
        self.look()
