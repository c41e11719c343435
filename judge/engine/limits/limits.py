"""Limits on model calls: slots for calls in flight, and requests and tokens a minute."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from assizes.judge.config.limits import LimitsConfig
from assizes.judge.engine.limits.adaptive_rate import AdaptiveRate
from assizes.judge.engine.limits.fair_queue import FairQueue, QueuedCall
from assizes.judge.engine.limits.rate_limiter import NEVER, Charge, RateLimit, RateLimiter
from assizes.judge.engine.limits.start_smoother import StartSmoother
from assizes.judge.errors import AssizesError

_TINY_S: Final = 1e-6
"""Seconds by which a timer of the event loop may fire too early."""


class Leases(Protocol):
    """Rate limits that several processes share."""

    def rate_limits(
        self, model: str, wake: Callable[[], None]
    ) -> tuple[RateLimit | None, RateLimit | None]:
        """The shared limits of a model's requests and of its tokens; `None` where there is no limit.

        Args:
            model: the model's name.
            wake: to be called when a limit is ready earlier than it last said, or has failed.
        """


@dataclass(slots=True, eq=False)
class AdmittedCall:
    """A call that was let start, and what the limits charged for it.

    Args:
        queued_call: the call as it waited.
        at: when the call was let start, in seconds of the event loop's clock.
        spell: the number that `AdaptiveRate.take` gave the call.
        requests: what each limit of requests charged.
        tokens: what each limit of tokens charged for the estimated tokens of the call.
    """

    queued_call: QueuedCall
    at: float
    spell: int
    requests: Sequence[tuple[RateLimit, Charge]]
    tokens: Sequence[tuple[RateLimit, Charge]]


class ModelLimiter:
    """The limits of one model and the queue of calls that wait for them; calls start one by one.

    Args:
        limits: the limits that this process has for itself.
        shared: limits of requests and of tokens shared with other processes; `None` for none.
    """

    def __init__(
        self, limits: LimitsConfig, shared: tuple[RateLimit | None, RateLimit | None] = (None, None)
    ) -> None:
        self.queue = FairQueue()
        self.adaptive_rate = AdaptiveRate()
        self._requests: list[RateLimit] = [limit for limit in shared[:1] if limit is not None]
        self._tokens: list[RateLimit] = [limit for limit in shared[1:] if limit is not None]
        if limits.requests_per_minute is not None:
            self._requests.insert(0, RateLimiter.of_requests(limits.requests_per_minute))
        if limits.tokens_per_minute is not None:
            self._tokens.insert(0, RateLimiter.of_tokens(limits.tokens_per_minute))

    def join(self, call: QueuedCall) -> None:
        """Put a call into the queue."""
        if not self.queue:
            for rate_limit in (*self._requests, *self._tokens):
                rate_limit.begin(call.since)
        self.queue.join(call)

    def ready_at(self, now: float) -> float:
        """The time at which the next call of the queue may start.

        Raises:
            AssizesError: when a shared limit is not available.
        """
        tokens = self.queue.next().tokens
        times = [self.adaptive_rate.ready_at()]
        times += [rate_limit.ready_at(1, now) for rate_limit in self._requests]
        times += [rate_limit.ready_at(tokens, now) for rate_limit in self._tokens]
        return max(times)

    def start(self, now: float) -> AdmittedCall:
        """Take the next call from the queue and charge the limits for it."""
        call = self.queue.pop()
        return AdmittedCall(
            queued_call=call,
            at=now,
            spell=self.adaptive_rate.take(now),
            requests=[(rate_limit, rate_limit.take(1, now)) for rate_limit in self._requests],
            tokens=[(rate_limit, rate_limit.take(call.tokens, now)) for rate_limit in self._tokens],
        )

    def settle(self, call: AdmittedCall, tokens: int) -> None:
        """Replace the estimated tokens of a call by the tokens that it took."""
        _settle(call.tokens, tokens)

    def undo(self, call: AdmittedCall) -> None:
        """Take back the charges for a call that was not made."""
        _settle(call.requests, 0)
        _settle(call.tokens, 0)


def _settle(charges: Iterable[tuple[RateLimit, Charge]], cost: float) -> None:
    for rate_limit, charge in charges:
        rate_limit.settle(charge, cost)


class Permit:
    """The permission to make one model call.

    Attributes:
        place: the number of the ask in the order of arrival.
        waited_ms: milliseconds between the request for permission and the permission.
    """

    def __init__(self, limiter: ModelLimiter, call: AdmittedCall) -> None:
        self.place = call.queued_call.place
        self.waited_ms = (call.at - call.queued_call.since) * 1000
        self._limiter = limiter
        self._call = call

    def settle(self, tokens: int | None) -> None:
        """Replace the estimate by the tokens that the call took; `None` when these are not known."""
        if tokens is not None:
            self._limiter.settle(self._call, tokens)

    def report_refusal(self, retry_after_s: float | None) -> None:
        """Lower the rate of the model: the provider refused the call because of its rate.

        Args:
            retry_after_s: seconds that the provider asks to wait; `None` where it does not say.
        """
        now = asyncio.get_running_loop().time()
        self._limiter.adaptive_rate.note_refusal(
            self._call.spell, self._call.at, now, retry_after_s
        )

    def cancel(self) -> None:
        """Give the permission back: no call was made."""
        self._limiter.undo(self._call)


class Limiter:
    """Admits model calls: at most `max_in_flight` at once, and each model at its own rate.

    Each model gets no more requests and tokens a minute than its limits allow. Where no limit is
    configured, the rate is found from the provider's refusals. One limiter serves every hearing of
    a run, whatever shard the hearing belongs to: one pool for each shard would leave slots idle at
    the end of each shard. Of the models that may be called now, the one whose oldest call has
    waited longest goes first.

    Attributes:
        size: the number of slots.
        in_flight: the number of slots in use.
        peak: the highest `in_flight` so far.
    """

    def __init__(self, limits: LimitsConfig, leases: Leases | None = None) -> None:
        self.size = limits.max_in_flight
        self.in_flight = 0
        self.peak = 0
        self._limits = limits
        self._leases = leases
        self._model_limiters: dict[str, ModelLimiter] = {}
        self._places = itertools.count()
        self._start_smoother = StartSmoother(self.size)
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def admit(
        self, model: str, tokens: int, group: str = "", place: int | None = None
    ) -> AsyncIterator[Permit]:
        """Wait until a model may be called, and hold a slot for the length of the block.

        Args:
            model: the model's name; each model has limits of its own.
            tokens: the estimated tokens of the call, answer included.
            group: calls of the same group follow one another where they can, so that the provider
                finds the beginning of their prompts in its cache.
            place: the place of an earlier permit for the same ask; such a call goes before all
                calls that never had a permit. `None` for the first call of an ask.

        Raises:
            AssizesError: when a limit shared with other processes is not available.
        """
        permit = await self._permit(model, tokens, group, place)
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            yield permit
        finally:
            self._start_smoother.note_end(clock() - began)
            self._release_slot()

    async def _permit(self, model: str, tokens: int, group: str, place: int | None) -> Permit:
        loop = asyncio.get_running_loop()
        is_retry = place is not None
        place = next(self._places) if place is None else place
        call = QueuedCall(place, group, tokens, loop.time(), loop.create_future(), is_retry)
        limiter = self._model_limiter(model)
        limiter.join(call)
        self._start_ready_calls()
        try:
            permit: Permit = await call.permit_future
        except asyncio.CancelledError:
            self._withdraw(limiter, call)
            raise
        return permit

    def _model_limiter(self, model: str) -> ModelLimiter:
        if (limiter := self._model_limiters.get(model)) is None:
            shared = (
                self._leases.rate_limits(model, self._start_ready_calls)
                if self._leases
                else (None, None)
            )
            limiter = self._model_limiters[model] = ModelLimiter(self._limits, shared)
        return limiter

    def _start_ready_calls(self) -> None:
        """Start every call that may start now, and set the timer for the next one."""
        loop = asyncio.get_running_loop()
        while self.in_flight < self.size:
            now = loop.time()
            waiting = [
                (self._ready_at(limiter, now), limiter) for limiter in self._model_limiters.values()
            ]
            first = min((at for at, _ in waiting), default=NEVER)
            if max(first, self._start_smoother.due) > now + _TINY_S:
                self._set_timer(max(first, self._start_smoother.due))
                return
            ready = [limiter for at, limiter in waiting if at <= now + _TINY_S]
            limiter = min(ready, key=lambda limiter: limiter.queue.oldest().place)
            admitted_call = limiter.start(now)
            self._start_smoother.note_start(now)
            self.in_flight += 1
            self.peak = max(self.peak, self.in_flight)
            admitted_call.queued_call.permit_future.set_result(Permit(limiter, admitted_call))

    def _ready_at(self, limiter: ModelLimiter, now: float) -> float:
        if not limiter.queue:
            return NEVER
        try:
            return limiter.ready_at(now)
        except AssizesError as error:
            for call in limiter.queue.waiting_calls():
                limiter.queue.leave(call)
                if not call.permit_future.cancelled():  # a cancelled call may still be queued
                    call.permit_future.set_exception(error)
            return NEVER

    def _set_timer(self, at: float) -> None:
        """Set the timer to that time, unless it fires earlier anyway."""
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
            self._timer = None
        if at < NEVER:
            self._timer = asyncio.get_running_loop().call_at(at, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._start_ready_calls()

    def _release_slot(self) -> None:
        self.in_flight -= 1
        self._start_ready_calls()

    def _withdraw(self, limiter: ModelLimiter, call: QueuedCall) -> None:
        """Take back a call that was cancelled while it waited, or just after it was admitted."""
        future = call.permit_future
        if not future.cancelled() and future.exception() is None:
            future.result().cancel()
            self._release_slot()
        elif future.cancelled():
            limiter.queue.leave(call)
            self._start_ready_calls()
