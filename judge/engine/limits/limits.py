"""How hard models may be pressed: slots for calls in flight, requests and tokens a minute."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, Protocol

from assizes.judge.config.run import LimitsConfig
from assizes.judge.engine.limits.fair_queue import Waiter
from assizes.judge.engine.limits.model_limiter import Lane, Start
from assizes.judge.engine.limits.rate_limiter import NEVER, Pace
from assizes.judge.engine.limits.start_smoother import Spread
from assizes.judge.errors import AssizesError

_TINY_S: Final = 1e-6
"""A timer of the event loop may ring this much early."""


class Leases(Protocol):
    """Limits that processes share."""

    def paces(self, model: str, wake: Callable[[], None]) -> tuple[Pace | None, Pace | None]:
        """The shared paces of a model's requests and of its tokens; null where not limited.

        Args:
            model: the model's name.
            wake: to be called when a pace is ready earlier than it last said, or never will be.
        """


class Permit:
    """Leave to make one model call.

    `waited_ms` is how long leave was waited for, `place` numbers who asked for leave as they came.
    """

    def __init__(self, lane: Lane, start: Start) -> None:
        self.place = start.waiter.place
        self.waited_ms = (start.at - start.waiter.since) * 1000
        self._lane = lane
        self._start = start

    def settle(self, tokens: int | None) -> None:
        """Put what the call really took in the place of the estimate; null: that is not known."""
        if tokens is not None:
            self._lane.settle(self._start, tokens)

    def refused(self, retry_after_s: float | None) -> None:
        """The provider turned the call away for its rate: press it less."""
        now = asyncio.get_running_loop().time()
        self._lane.pressure.refused(self._start.spell, self._start.at, now, retry_after_s)

    def unused(self) -> None:
        """No call was made."""
        self._lane.undo(self._start)


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
        self._lanes: dict[str, Lane] = {}
        self._places = itertools.count()
        self._spread = Spread(self.size)
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def admitted(
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
            self._spread.ended(clock() - began)
            self._give_back()

    async def _permit(self, model: str, tokens: int, group: str, place: int | None) -> Permit:
        loop = asyncio.get_running_loop()
        again = place is not None
        place = next(self._places) if place is None else place
        waiter = Waiter(place, group, tokens, loop.time(), loop.create_future(), again)
        lane = self._lane(model)
        lane.join(waiter)
        self._admit()
        try:
            permit: Permit = await waiter.turn
        except asyncio.CancelledError:
            self._withdraw(lane, waiter)
            raise
        return permit

    def _lane(self, model: str) -> Lane:
        if (lane := self._lanes.get(model)) is None:
            shared = self._leases.paces(model, self._admit) if self._leases else (None, None)
            lane = self._lanes[model] = Lane(self._limits, shared)
        return lane

    def _admit(self) -> None:
        """Let start who may; have the clock ring for who may later."""
        loop = asyncio.get_running_loop()
        while self.in_flight < self.size:
            now = loop.time()
            waiting = [(self._ready_at(lane, now), lane) for lane in self._lanes.values()]
            first = min((at for at, _ in waiting), default=NEVER)
            if max(first, self._spread.due) > now + _TINY_S:
                self._ring_at(max(first, self._spread.due))
                return
            ready = [lane for at, lane in waiting if at <= now + _TINY_S]
            lane = min(ready, key=lambda one: one.line.eldest().place)
            start = lane.start(now)
            self._spread.started(now)
            self.in_flight += 1
            self.peak = max(self.peak, self.in_flight)
            start.waiter.turn.set_result(Permit(lane, start))

    def _ready_at(self, lane: Lane, now: float) -> float:
        if not lane.line:
            return NEVER
        try:
            return lane.ready_at(now)
        except AssizesError as error:
            for waiter in lane.line.everyone():
                lane.line.leave(waiter)
                if not waiter.turn.cancelled():  # who was may still stand in line
                    waiter.turn.set_exception(error)
            return NEVER

    def _ring_at(self, at: float) -> None:
        """Ring at that time, unless the clock rings earlier anyway."""
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
            self._timer = None
        if at < NEVER:
            self._timer = asyncio.get_running_loop().call_at(at, self._rung)

    def _rung(self) -> None:
        self._timer = None
        self._admit()

    def _give_back(self) -> None:
        self.in_flight -= 1
        self._admit()

    def _withdraw(self, lane: Lane, waiter: Waiter) -> None:
        """Who waited was cancelled, perhaps when its turn had just come."""
        turn = waiter.turn
        if not turn.cancelled() and turn.exception() is None:
            turn.result().unused()
            self._give_back()
        elif turn.cancelled():
            lane.line.leave(waiter)
            self._admit()
