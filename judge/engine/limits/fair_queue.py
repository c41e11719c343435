"""Who waits for leave to call a model, and who is next."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

REACH: Final = 64
"""Nobody is overtaken by who came more than so many places later."""

_NOBODY: Final[deque[Waiter]] = deque()


@dataclass(slots=True, eq=False)
class Waiter:
    """One who waits.

    Args:
        place: numbers those who wait, of all models, as they come; who comes again keeps the first.
        group: see `Limiter.admitted`.
        tokens: what the call is estimated to take.
        since: when the wait began.
        turn: done when the call may start, with the permit for it.
        again: it had its turn before, for the same ask.
    """

    place: int
    group: str
    tokens: int
    since: float
    turn: asyncio.Future[Any]
    again: bool = False

    def __lt__(self, other: Waiter) -> bool:
        return self.place < other.place


class Line:
    """Who comes again first, as the time of their asks is running; then first come, first served,
    save that the group of the last call goes on while it can.

    Joining, leaving and being served cost the same however many wait for their first turn.
    """

    def __init__(self) -> None:
        self._waiting: dict[Waiter, None] = {}
        self._again: list[Waiter] = []
        self._groups: dict[str, deque[Waiter]] = {}
        self._order: deque[Waiter] = deque()
        self._last = ""

    def __bool__(self) -> bool:
        return self._trim_again() or self._trim(self._order)

    def join(self, waiter: Waiter) -> None:
        """Stand at the end, or before all who never had a turn."""
        self._waiting[waiter] = None
        if waiter.again:
            heapq.heappush(self._again, waiter)
            return
        self._order.append(waiter)
        self._groups.setdefault(waiter.group, deque()).append(waiter)

    def leave(self, waiter: Waiter) -> None:
        """Stand there no more, served or not."""
        self._waiting.pop(waiter, None)
        group = self._groups.get(waiter.group)
        if group is not None and not self._trim(group):
            del self._groups[waiter.group]

    def eldest(self) -> Waiter:
        """Who came first of those who come again, else of all, in a line that is not empty."""
        if self._trim_again():
            return self._again[0]
        self._trim(self._order)
        return self._order[0]

    def next(self) -> Waiter:
        """Who is next: the eldest of the last group, where that overtakes nobody by too much, nor
        anyone who comes again.
        """
        eldest = self.eldest()
        if eldest.again:
            return eldest
        group = self._groups.get(self._last, _NOBODY)
        if self._trim(group) and group[0].place - eldest.place <= REACH:
            return group[0]
        return eldest

    def serve(self) -> Waiter:
        """Take the next one out."""
        waiter = self.next()
        if not waiter.again:
            self._last = waiter.group
        self.leave(waiter)
        return waiter

    def everyone(self) -> list[Waiter]:
        """All who wait, as they joined."""
        return list(self._waiting)

    def _trim(self, queue: deque[Waiter]) -> bool:
        """Drop from the front who has left or was cancelled; false when that was everybody."""
        while queue:
            waiter = queue[0]
            if self._stands(waiter):
                return True
            queue.popleft()
        return False

    def _trim_again(self) -> bool:
        """The same for those who come again."""
        while self._again:
            if self._stands(self._again[0]):
                return True
            heapq.heappop(self._again)
        return False

    def _stands(self, waiter: Waiter) -> bool:
        if waiter.turn.cancelled():
            self._waiting.pop(waiter, None)
        return waiter in self._waiting
