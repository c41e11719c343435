"""Who waits for leave to call a model, and who is next."""

from __future__ import annotations

import asyncio
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
        place: numbers those who wait, of all models, as they come.
        group: see `Limiter.admitted`.
        tokens: what the call is estimated to take.
        since: when the wait began.
        turn: done when the call may start, with the permit for it.
    """

    place: int
    group: str
    tokens: int
    since: float
    turn: asyncio.Future[Any]


class Line:
    """First come, first served, save that the group of the last call goes on while it can.

    Joining, leaving and being served cost the same however many wait.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, Waiter] = {}
        self._groups: dict[str, deque[Waiter]] = {}
        self._order: deque[Waiter] = deque()
        self._last = ""

    def __bool__(self) -> bool:
        return self._trim(self._order)

    def join(self, waiter: Waiter) -> None:
        """Stand at the end."""
        self._waiting[waiter.place] = waiter
        self._order.append(waiter)
        self._groups.setdefault(waiter.group, deque()).append(waiter)

    def leave(self, waiter: Waiter) -> None:
        """Stand there no more, served or not."""
        self._waiting.pop(waiter.place, None)
        group = self._groups.get(waiter.group)
        if group is not None and not self._trim(group):
            del self._groups[waiter.group]

    def eldest(self) -> Waiter:
        """Who has waited longest, in a line that is not empty."""
        self._trim(self._order)
        return self._order[0]

    def next(self) -> Waiter:
        """Who is next: the eldest of the last group, where that overtakes nobody by too much."""
        eldest = self.eldest()
        group = self._groups.get(self._last, _NOBODY)
        if self._trim(group) and group[0].place - eldest.place <= REACH:
            return group[0]
        return eldest

    def serve(self) -> Waiter:
        """Take the next one out."""
        waiter = self.next()
        self._last = waiter.group
        self.leave(waiter)
        return waiter

    def _trim(self, queue: deque[Waiter]) -> bool:
        """Drop from the front who has left or was cancelled; false when that was everybody."""
        while queue:
            waiter = queue[0]
            if waiter.place in self._waiting and not waiter.turn.cancelled():
                return True
            self._waiting.pop(waiter.place, None)
            queue.popleft()
        return False

    def everyone(self) -> list[Waiter]:
        """All who wait, the eldest first."""
        return list(self._waiting.values())
