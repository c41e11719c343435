"""How hard models may be pressed: slots for calls in flight, requests and tokens a minute."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, Protocol

from assizes.judge.config.run import LimitsConfig
from assizes.judge.engine.limits.fair_queue import QueuedCall
from assizes.judge.engine.limits.model_limiter import AdmittedCall, ModelLimiter
from assizes.judge.engine.limits.rate_limiter import NEVER, RateLimit
from assizes.judge.engine.limits.start_smoother import StartSmoother
from assizes.judge.errors import AssizesError

_TINY_S: Final = 1e-6
"""A timer of the event loop may ring this much early."""


class Leases(Protocol):
    """Limits that processes share."""

    def rate_limits(
        self, model: str, wake: Callable[[], None]
    ) -> tuple[RateLimit | None, RateLimit | None]:
        """The shared paces of a model's requests and of its tokens; null where not limited.

        Args:
            model: the model's name.
            wake: to be called when a pace is ready earlier than it last said, or never will be.
        """


class Permit:
    """Leave to make one model call.

    `waited_ms` is how long leave was waited for, `place` numbers who asked for leave as they came.
    """

    def __init__(self, limiter: ModelLimiter, call: AdmittedCall) -> None:
        self.place = call.queued_call.place
        self.waited_ms = (call.at - call.queued_call.since) * 1000
        self._limiter = limiter
        self._call = call

    def settle(self, tokens: int | None) -> None:
        """Put what the call really took in the place of the estimate; null: that is not known."""
        if tokens is not None:
            self._limiter.settle(self._call, tokens)

    def report_refusal(self, retry_after_s: float | None) -> None:
        """The provider turned the call away for its rate: press it less."""
        now = asyncio.get_running_loop().time()
        self._limiter.adaptive_rate.note_refusal(
            self._call.spell, self._call.at, now, retry_after_s
        )

    def cancel(self) -> None:
        """No call was made."""
        self._limiter.undo(self._call)


class Limiter:
    """Admits model calls: never more than `max_in_flight` at once over all models, and for each
    model no more requests and tokens a minute than it may be sent.

    Where no limit is given, the provider's refusals say what it is. One limiter serves every
    hearing of a run, whatever shard it belongs to: pools of their own would leave slots idle at the
    end of each shard. Of the models that may be called, the one with the eldest in its line goes
    first.
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
        """Wait for leave to call a model, and hold its slot for the length of the block.

        Args:
            model: the model's name; each has limits of its own.
            tokens: what the call is estimated to take, answer included.
            group: calls of the same group follow one another where they can, so that the provider
                finds the beginning of their prompts in its cache.
            place: of the permit that the same ask had before; those go before all who had none.

        Raises:
            AssizesError: when a limit shared with other processes cannot be had.
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
        """Let start who may; have the clock ring for who may later."""
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
                if not call.permit_future.cancelled():  # who was may still stand in line
                    call.permit_future.set_exception(error)
            return NEVER

    def _set_timer(self, at: float) -> None:
        """Ring at that time, unless the clock rings earlier anyway."""
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
        """Who waited was cancelled, perhaps when its turn had just come."""
        future = call.permit_future
        if not future.cancelled() and future.exception() is None:
            future.result().cancel()
            self._release_slot()
        elif future.cancelled():
            limiter.queue.leave(call)
            self._start_ready_calls()
