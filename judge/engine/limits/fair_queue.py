"""The queue of calls that wait for permission to call a model."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

MAX_PLACES_OVERTAKEN: Final = 64
"""The most places by which a call of the last group may overtake an older call."""

_EMPTY_QUEUE: Final[deque[QueuedCall]] = deque()


@dataclass(slots=True, eq=False)
class QueuedCall:
    """One call that waits.

    Args:
        place: the number of the ask in the order of arrival, over all models; the later calls of an
            ask keep the place of its first call.
        group: the group of the call, see `Limiter.admit`.
        tokens: the estimated tokens of the call.
        since: when the wait began, in seconds of the event loop's clock.
        permit_future: gets the permit as its result when the call may start.
        is_retry: whether the same ask had a permit before.
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
    """Orders waiting calls: retries first, then calls in the order of arrival, group by group.

    Retries go first because the deadline of their asks is running. Calls of the group that was
    served last go before older calls, up to `MAX_PLACES_OVERTAKEN` places. Joining, leaving and
    being served take the same time however many calls wait.
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
        """Add a call: a retry before all calls that are no retry, any other call at the end."""
        self._waiting[call] = None
        if call.is_retry:
            heapq.heappush(self._retries, call)
            return
        self._order.append(call)
        self._groups.setdefault(call.group, deque()).append(call)

    def leave(self, call: QueuedCall) -> None:
        """Remove a call, whether it was served or not."""
        self._waiting.pop(call, None)
        group = self._groups.get(call.group)
        if group is not None and not self._trim(group):
            del self._groups[call.group]

    def oldest(self) -> QueuedCall:
        """The oldest retry, or the oldest call where there is no retry; the queue must not be empty."""
        if self._trim_retries():
            return self._retries[0]
        self._trim(self._order)
        return self._order[0]

    def next(self) -> QueuedCall:
        """The next call: the oldest retry, else the oldest call of the last group, else the oldest.

        A call of the last group is passed over where it came more than `MAX_PLACES_OVERTAKEN`
        places after the oldest call.
        """
        oldest = self.oldest()
        if oldest.is_retry:
            return oldest
        group = self._groups.get(self._last, _EMPTY_QUEUE)
        if self._trim(group) and group[0].place - oldest.place <= MAX_PLACES_OVERTAKEN:
            return group[0]
        return oldest

    def pop(self) -> QueuedCall:
        """Remove the next call and return it."""
        call = self.next()
        if not call.is_retry:
            self._last = call.group
        self.leave(call)
        return call

    def waiting_calls(self) -> list[QueuedCall]:
        """All waiting calls, in the order in which they joined."""
        return list(self._waiting)

    def _trim(self, queue: deque[QueuedCall]) -> bool:
        """Drop calls that left or were cancelled from the front; return whether any call remains."""
        while queue and not self._is_waiting(queue[0]):
            queue.popleft()
        return bool(queue)

    def _trim_retries(self) -> bool:
        """Do the same as `_trim` for the retries, which are a heap."""
        while self._retries and not self._is_waiting(self._retries[0]):
            heapq.heappop(self._retries)
        return bool(self._retries)

    def _is_waiting(self, call: QueuedCall) -> bool:
        if call.permit_future.cancelled():
            self._waiting.pop(call, None)
        return call in self._waiting
