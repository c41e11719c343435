"""Limits on model calls: slots for calls in flight, requests and tokens a minute, and the queue."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from assizes.judge.config.judging import LimitsConfig
from assizes.judge.engine.limits.adaptive_rate import AdaptiveRate
from assizes.judge.engine.limits.rate_limiter import NEVER, Charge, RateLimit, RateLimiter
from assizes.judge.errors import AssizesError

MAX_PLACES_OVERTAKEN: Final = 64
"""The most places by which a call of the last group may overtake an older call."""


@dataclass(slots=True, eq=False)
class QueuedCall:
    """One call that waits for its permit."""

    place: int  # of its ask in the order of arrival, over all models; later calls keep it
    group: str  # see `Limiter.admit`
    tokens: int  # estimate, answer included
    permit_future: asyncio.Future[Permit]  # gets the permit when the call may start
    is_retry: bool = False  # of an ask that had a permit before

    def __lt__(self, other: QueuedCall) -> bool:  # for the heap of retries
        return self.place < other.place


class FairQueue:
    """Orders waiting calls: retries first, then calls in the order of arrival, group by group.

    Retries go first because the deadline of their asks is running. Calls of the group that was
    served last go before older calls, up to `MAX_PLACES_OVERTAKEN` places.
    """

    def __init__(self) -> None:
        self._waiting: dict[QueuedCall, None] = {}  # an ordered set
        # A call that leaves stays in the other queues until it comes to their front: taking it out
        # of the middle would take longer the more calls wait.
        self._retries: list[QueuedCall] = []  # a heap, by place
        self._groups: dict[str, deque[QueuedCall]] = {}
        self._order: deque[QueuedCall] = deque()  # all calls but retries, in order of arrival
        self._last = ""  # the group that was served last

    def __len__(self) -> int:
        return len(self._waiting)

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
        if group is not None and not self._trim(group):  # a run may have many system messages
            del self._groups[call.group]

    def oldest(self) -> QueuedCall:
        """The oldest retry, or the oldest call where there is no retry; the queue must not be empty."""
        if self._trim_retries():
            return self._retries[0]
        self._trim(self._order)
        return self._order[0]

    def next(self) -> QueuedCall:
        """The next call: the oldest retry, else the oldest call of the last group, else the oldest."""
        oldest = self.oldest()
        group = self._groups.get(self._last)
        if oldest.is_retry or group is None or not self._trim(group):
            return oldest
        # Bounded: a large group would else keep all other calls waiting until it is done.
        return group[0] if group[0].place - oldest.place <= MAX_PLACES_OVERTAKEN else oldest

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
        if call.permit_future.cancelled():  # its task may not have run yet to leave the queue
            self._waiting.pop(call, None)
        return call in self._waiting


START_RATE_FACTOR: Final = 2.0
SHORT_CALL_WEIGHT: Final = 8
"""How many times as fast as slots become free on average calls may start, and the most calls over
which a shorter call is averaged: after an outage slots fill quickly again."""

_TINY_S: Final = 1e-6
"""Seconds by which a timer of the event loop may fire too early."""


@dataclass(eq=False)
class StartSmoother:
    """Spaces the starts of calls by the average time that calls hold one of `size` slots.

    Calls that start together end together, then start together again: while such a wave of replies
    is handled, each reply waits for all others. Starts are therefore spaced, a little closer than
    slots become free on average: a wave is drawn out the first time it comes back, and calls whose
    ends are spread already are hardly delayed.
    """

    size: int
    due: float = -NEVER  # when the next call may start
    _held_s: float = 0.0  # mean of about the last `size` calls
    _seen: int = 0  # calls in the mean, 0..size

    def note_start(self, now: float) -> None:
        """Note that a call starts now."""
        # A slot becomes free every held_s / size seconds (Little's law).
        gap_s = self._held_s / self.size / START_RATE_FACTOR
        self.due = max(self.due, now - gap_s) + gap_s

    def note_end(self, held_s: float) -> None:
        """Note that a call gives back its slot, and the seconds that it held the slot."""
        self._seen = min(self._seen + 1, self.size)
        weight = min(self._seen, SHORT_CALL_WEIGHT) if held_s < self._held_s else self._seen
        self._held_s += (held_s - self._held_s) / weight


class Leases(Protocol):
    """Rate limits that several processes share."""

    def rate_limits(
        self, model: str, wake: Callable[[], None]
    ) -> tuple[RateLimit | None, RateLimit | None]:
        """The shared limits of a model's requests and of its tokens; `None` where there is no limit.

        `wake` is to be called when a limit is ready earlier than it last said, or has failed.
        """


@dataclass(slots=True, eq=False)
class Permit:
    """The permission to make one model call, with what each limit charged for the call."""

    place: int  # of the ask in the order of arrival
    _adaptive_rate: AdaptiveRate
    _at: float  # start of the call, on the event loop's clock
    _spell: int  # see `AdaptiveRate`
    _requests: Sequence[tuple[RateLimit, Charge]]
    _tokens: Sequence[tuple[RateLimit, Charge]]

    def settle(self, tokens: int | None) -> None:
        """Replace the estimate by the tokens that the call took; `None` when these are not known."""
        if tokens is not None:
            for rate_limit, charge in self._tokens:
                rate_limit.settle(charge, tokens)

    def report_refusal(self, retry_after_s: float | None) -> None:
        """Lower the rate of the model: the provider refused the call because of its rate."""
        now = asyncio.get_running_loop().time()
        self._adaptive_rate.note_refusal(self._spell, self._at, now, retry_after_s)

    def cancel(self) -> None:
        """Give the permission back: no call was made."""
        self._adaptive_rate.take_back(self._spell, self._at)
        for rate_limit, charge in (*self._requests, *self._tokens):
            rate_limit.settle(charge, 0)


class _ModelLimiter:
    """The limits of one model and the queue of calls that wait for them; calls start one by one."""

    def __init__(
        self, limits: LimitsConfig, shared: tuple[RateLimit | None, RateLimit | None]
    ) -> None:
        self.queue = FairQueue()
        self._adaptive_rate = AdaptiveRate()
        # Each list holds up to two limits: one of this process, one shared with other processes.
        self._requests: list[RateLimit] = [limit for limit in shared[:1] if limit is not None]
        self._tokens: list[RateLimit] = [limit for limit in shared[1:] if limit is not None]
        if limits.requests_per_minute is not None:
            self._requests.insert(0, RateLimiter.of_requests(limits.requests_per_minute))
        if limits.tokens_per_minute is not None:
            self._tokens.insert(0, RateLimiter.of_tokens(limits.tokens_per_minute))

    def join(self, call: QueuedCall, now: float) -> None:
        if not self.queue:  # what was not used while nobody waited is no credit
            for rate_limit in (*self._requests, *self._tokens):
                rate_limit.begin(now)
        self.queue.join(call)

    def ready_at(self, now: float) -> float:
        """The time of the next start; where a shared limit fails, the waiting calls get its error."""
        if not self.queue:
            return NEVER
        tokens = self.queue.next().tokens
        times = [self._adaptive_rate.ready_at()]
        # Only the next call is asked for: a cheap call does not overtake one that lacks tokens.
        try:
            times += [rate_limit.ready_at(1, now) for rate_limit in self._requests]
            times += [rate_limit.ready_at(tokens, now) for rate_limit in self._tokens]
        except AssizesError as error:
            for call in self.queue.waiting_calls():
                self.queue.leave(call)
                if not call.permit_future.cancelled():  # a cancelled call may still be queued
                    call.permit_future.set_exception(error)
            return NEVER
        return max(times)

    def start(self, now: float) -> tuple[QueuedCall, Permit]:
        """Take the next call from the queue and charge the limits for it."""
        call = self.queue.pop()
        permit = Permit(
            call.place,
            self._adaptive_rate,
            now,
            self._adaptive_rate.take(now),
            [(rate_limit, rate_limit.take(1, now)) for rate_limit in self._requests],
            [(rate_limit, rate_limit.take(call.tokens, now)) for rate_limit in self._tokens],
        )
        return call, permit


class Limiter:
    """Admits model calls: at most `max_in_flight` at once, and each model at its own rate.

    Each model gets no more requests and tokens a minute than its limits allow. Where no limit is
    configured, the rate is found from the provider's refusals. One limiter serves every hearing of
    a run: one pool for each shard would leave slots idle at the end of each shard.
    """

    def __init__(self, limits: LimitsConfig, leases: Leases | None = None) -> None:
        self.size = limits.max_in_flight  # slots
        self.in_flight = 0  # slots in use
        self.peak = 0  # the highest `in_flight` so far
        self.on_start: Callable[[], None] = lambda: None  # called when a call has left the queue
        self._limits = limits
        self._leases = leases
        self._model_limiters: dict[str, _ModelLimiter] = {}  # by name of the model
        self._places = itertools.count()
        self._start_smoother = StartSmoother(self.size)
        self._timer: asyncio.Handle | None = None
        self._timer_at = NEVER  # kept here: the handle of another event loop need not tell

    @asynccontextmanager
    async def admit(
        self, model: str, tokens: int, group: str = "", place: int | None = None
    ) -> AsyncIterator[Permit]:
        """Wait until a model may be called, and hold a slot for the length of the block.

        Each model has limits of its own; `tokens` is the estimate for the call, answer included.
        Calls of the same group follow one another where they can, so that the provider finds the
        beginning of their prompts in its cache. A later call of an ask has the place of an earlier
        permit, and goes before all calls that never had a permit.

        Raises:
            AssizesError: when a limit shared with other processes is not available.
        """
        loop = asyncio.get_running_loop()
        is_retry = place is not None
        place = next(self._places) if place is None else place
        call = QueuedCall(place, group, tokens, loop.create_future(), is_retry)
        if (limiter := self._model_limiters.get(model)) is None:
            shared: tuple[RateLimit | None, RateLimit | None] = (None, None)
            if self._leases:
                shared = self._leases.rate_limits(model, self._start_ready_calls)
            limiter = self._model_limiters[model] = _ModelLimiter(self._limits, shared)
        limiter.join(call, loop.time())
        self._start_ready_calls()
        try:
            permit = await call.permit_future
        except asyncio.CancelledError:  # while the call waited, or just after it was admitted
            future = call.permit_future
            if future.cancelled():
                limiter.queue.leave(call)
                self._start_ready_calls()  # the call behind it may take fewer tokens
            elif future.exception() is None:  # the permit came first: nobody else gives it back
                future.result().cancel()
                self._release_slot()
            raise
        began = loop.time()
        try:
            yield permit
        finally:
            self._start_smoother.note_end(loop.time() - began)
            self._release_slot()

    @property
    def waiting(self) -> int:
        """The number of calls that wait for their permits."""
        return sum(len(limiter.queue) for limiter in self._model_limiters.values())

    def resize(self, size: int) -> None:
        """Change the number of slots; calls in flight above a smaller number go on."""
        self.size = self._start_smoother.size = size
        if self._model_limiters:
            self._start_ready_calls()

    def _start_ready_calls(self) -> None:
        """Start every call that may start now, and set the timer for the next one."""
        loop = asyncio.get_running_loop()
        while self.in_flight < self.size:
            now = loop.time()
            waiting = [
                (limiter.ready_at(now), limiter) for limiter in self._model_limiters.values()
            ]
            first = min((at for at, _ in waiting), default=NEVER)
            if max(first, self._start_smoother.due) > now + _TINY_S:
                self._set_timer(max(first, self._start_smoother.due))
                return
            # Of the models that may be called, that whose oldest call has waited longest.
            ready = [limiter for at, limiter in waiting if at <= now + _TINY_S]
            limiter = min(ready, key=lambda limiter: limiter.queue.oldest().place)
            call, permit = limiter.start(now)
            self._start_smoother.note_start(now)
            self.in_flight += 1
            self.peak = max(self.peak, self.in_flight)
            call.permit_future.set_result(permit)
            self.on_start()

    def _set_timer(self, at: float) -> None:
        """Set the timer to that time, unless it fires earlier anyway."""
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
            self._timer = None
        if at < NEVER:
            self._timer_at = at
            self._timer = asyncio.get_running_loop().call_at(at, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._start_ready_calls()

    def _release_slot(self) -> None:
        self.in_flight -= 1
        self._start_ready_calls()
