"""Who waits for leave to call a model, and who is next."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

MAX_PLACES_OVERTAKEN: Final = 64
"""Nobody is overtaken by who came more than so many places later."""

_EMPTY_QUEUE: Final[deque[QueuedCall]] = deque()


@dataclass(slots=True, eq=False)
class QueuedCall:
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
    permit_future: asyncio.Future[Any]
    is_retry: bool = False

    def __lt__(self, other: QueuedCall) -> bool:
        return self.place < other.place


class FairQueue:
    """Who comes again first, as the time of their asks is running; then first come, first served,
    save that the group of the last call goes on while it can.

    Joining, leaving and being served cost the same however many wait for their first turn.
    """

    def __init__(self) -> None:
        self._waiting: dict[QueuedCall, None] = {}
        self._retries: list[QueuedCall] = []
        self._groups: dict[str, deque[QueuedCall]] = {}
        self._order: deque[QueuedCall] = deque()
        self._last = ""

    def __bool__(self) -> bool:
        return self._trim_retries() or self._trim(self._order)

    def join(self, call: QueuedCall) -> None:
        """Stand at the end, or before all who never had a turn."""
        self._waiting[call] = None
        if call.is_retry:
            heapq.heappush(self._retries, call)
            return
        self._order.append(call)
        self._groups.setdefault(call.group, deque()).append(call)

    def leave(self, call: QueuedCall) -> None:
        """Stand there no more, served or not."""
        self._waiting.pop(call, None)
        group = self._groups.get(call.group)
        if group is not None and not self._trim(group):
            del self._groups[call.group]

    def oldest(self) -> QueuedCall:
        """Who came first of those who come again, else of all, in a line that is not empty."""
        if self._trim_retries():
            return self._retries[0]
        self._trim(self._order)
        return self._order[0]

    def next(self) -> QueuedCall:
        """Who is next: the eldest of the last group, where that overtakes nobody by too much, nor
        anyone who comes again.
        """
        oldest = self.oldest()
        if oldest.is_retry:
            return oldest
        group = self._groups.get(self._last, _EMPTY_QUEUE)
        if self._trim(group) and group[0].place - oldest.place <= MAX_PLACES_OVERTAKEN:
            return group[0]
        return oldest

    def pop(self) -> QueuedCall:
        """Take the next one out."""
        call = self.next()
        if not call.is_retry:
            self._last = call.group
        self.leave(call)
        return call

    def waiting_calls(self) -> list[QueuedCall]:
        """All who wait, as they joined."""
        return list(self._waiting)

    def _trim(self, queue: deque[QueuedCall]) -> bool:
        """Drop from the front who has left or was cancelled; false when that was everybody."""
        while queue:
            call = queue[0]
            if self._is_waiting(call):
                return True
            queue.popleft()
        return False

    def _trim_retries(self) -> bool:
        """The same for those who come again."""
        while self._retries:
            if self._is_waiting(self._retries[0]):
                return True
            heapq.heappop(self._retries)
        return False

    def _is_waiting(self, call: QueuedCall) -> bool:
        if call.permit_future.cancelled():
            self._waiting.pop(call, None)
        return call in self._waiting
