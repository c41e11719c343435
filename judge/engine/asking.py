"""Puts asks to one model: every call admitted, reserved, cut in time, and repeated if of use."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from time import perf_counter
from typing import Any, Final

from tenacity import AsyncRetrying, RetryCallState, retry_if_result

from assizes.judge.config.prices import estimated_tokens
from assizes.judge.config.run import LimitsConfig
from assizes.judge.engine.ask_state import Answer, Inquiry
from assizes.judge.engine.attempts import Attempt, failed, read
from assizes.judge.engine.budget_gate import Purse
from assizes.judge.engine.circuit_breaker import Breaker, Trip, Turn
from assizes.judge.engine.ledger import Call, Spent
from assizes.judge.engine.limits.limits import Limiter, Permit
from assizes.judge.engine.retry import Backoff
from assizes.judge.errors import AssizesError, ModelError, NotAsked
from assizes.judge.models.model import Completion, Model, UnusableReply
from assizes.judge.models.replayed import calls_nobody
from assizes.judge.prompts.reply_request import worst_usd
from assizes.judge.protocol import Ask

FIRST_SHARE: Final = 0.25
"""Share of its cap that a model's first answer is expected to take."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What holds for every ask.

    Args:
        limits: attempts, timeout, deadline.
        limiter: admits calls.
        purse: who may still spend.
        backoff: pauses between calls.
        trip: when a provider is taken to be down.
    """

    limits: LimitsConfig
    limiter: Limiter
    purse: Purse
    backoff: Backoff
    trip: Trip


class Questioner:
    """Puts asks to one model. `calls` and `cost_usd` (known prices only) count what was spent."""

    def __init__(self, model: Model, bounds: Bounds) -> None:
        self.calls = 0
        self.cost_usd = 0.0
        self.breaker = Breaker(bounds.trip)
        self._model = model
        self._bounds = bounds
        self._answers = _Answers()
        self._stopped: NotAsked | None = None
        self._waits: set[asyncio.Timeout] = set()

    async def answer(
        self, ask: Ask[Any], key: str, given: Completion | UnusableReply | None = None
    ) -> Answer:
        """The model's reply, or why there is none; in any case within the deadline.

        A call that failed for the provider's sake is made again; a reply that does not fit, or
        leaves doubts, is asked for once more.

        Args:
            ask: the question.
            key: what the ledger knows the ask by.
            given: what a call made elsewhere came to; it takes the place of the first one.
        """
        inquiry = Inquiry(ask, key, self._bounds.limits.deadline_s)
        if given is not None:
            inquiry.take(read(ask, given))
        if inquiry.open and len(inquiry.attempts) < self._bounds.limits.max_attempts:
            try:
                await self._retrying(inquiry)(self._put, inquiry)
            except ModelError as error:
                inquiry.ended = error
        return inquiry.answer()

    def stop(self, why: NotAsked) -> None:
        """Make no more calls; asks that wait for one end at once, calls in flight are kept."""
        self._stopped = why
        for wait in self._waits:
            if not wait.expired():
                wait.reschedule(0)

    def _retrying(self, inquiry: Inquiry) -> AsyncRetrying:
        """Repeats a call while the inquiry is open and both attempts and time are left."""
        most, backoff = self._bounds.limits.max_attempts, self._bounds.backoff

        def pause_s(state: RetryCallState) -> float:
            if not inquiry.step.pauses:
                return 0.0
            # Half of what is left, so that there is time for the call itself.
            return max(inquiry.step.floor_s, min(backoff.pause_s(state), inquiry.rest_s / 2))

        def is_enough(_state: RetryCallState) -> bool:
            if inquiry.rest_s <= 0:
                inquiry.ended = inquiry.late()
            return len(inquiry.attempts) >= most or inquiry.step.floor_s >= inquiry.rest_s

        async def pause(seconds: float) -> None:
            async with self._waiting(inquiry):
                await asyncio.sleep(seconds)

        return AsyncRetrying(
            retry=retry_if_result(lambda more: more),
            wait=pause_s,
            stop=is_enough,
            sleep=pause,
            retry_error_callback=lambda _state: None,
        )

    async def _put(self, inquiry: Inquiry) -> bool:
        """Make one call when it may be made; whether another one should follow.

        Raises:
            ModelError: `NotAsked`, or `deadline` when no time was left to wait for a call.
        """
        if calls_nobody(self._model):
            return await self._looked_up(inquiry)
        call, tokens = self._foreseen(inquiry)
        while True:
            async with self._admitted(inquiry, tokens) as (turn, permit):
                if turn.holds:
                    inquiry.take(await self._reserved(inquiry, call, turn, permit))
                    return inquiry.open
                permit.unused()  # the breaker opened while this one waited for its slot

    async def _looked_up(self, inquiry: Inquiry) -> bool:
        """Ask a model that calls nobody: there is nothing to limit, to count or to wait for."""
        self._check_open()
        ask, step = inquiry.ask, inquiry.step
        completion = await self._model.complete(ask, complaint=step.complaint, cap=step.cap)
        inquiry.take(read(ask, completion))
        return inquiry.open

    def _foreseen(self, inquiry: Inquiry) -> tuple[Call, int]:
        """What the ledger and the limits are told of the next call before it is made."""
        model, step = self._model, inquiry.step
        sent, most = model.tokens(inquiry.ask, step.cap)
        if step.complaint is not None:
            sent += estimated_tokens(step.complaint)
        worst = worst_usd(model.price, inquiry.ask, (sent, most), complaint=step.complaint)
        return Call(inquiry.key, model.name, worst), sent + self._answers.expected(most)

    @asynccontextmanager
    async def _admitted(self, inquiry: Inquiry, tokens: int) -> AsyncIterator[tuple[Turn, Permit]]:
        """Hold a slot, once the breaker and the limits let the call through."""
        limiter, group = self._bounds.limiter, _short_hash(inquiry.ask.prompt.system)
        async with AsyncExitStack() as held:
            async with self._waiting(inquiry):
                turn = held.enter_context(await self.breaker.turn())
                permit = await held.enter_async_context(
                    limiter.admitted(self._model.name, tokens, group, inquiry.place)
                )
                inquiry.place = permit.place
            yield turn, permit

    @asynccontextmanager
    async def _waiting(self, inquiry: Inquiry) -> AsyncIterator[None]:
        """Wait no longer than to the ask's deadline, nor than until `stop`."""
        self._check_open()
        try:
            async with asyncio.timeout_at(inquiry.deadline_at) as wait:
                self._waits.add(wait)
                try:
                    yield
                finally:
                    self._waits.discard(wait)
        except TimeoutError:
            self._check_open()
            raise inquiry.late() from None
        except ModelError:
            raise
        except AssizesError as error:
            raise NotAsked("no_permit", str(error)) from error
        self._check_open()

    def _check_open(self) -> None:
        if self._stopped is not None:
            raise NotAsked(self._stopped.code, self._stopped.detail)

    async def _reserved(self, inquiry: Inquiry, call: Call, turn: Turn, permit: Permit) -> Attempt:
        """Make a call whose worst case is set aside, and settle what it came to."""
        ticket = await self._ticket(inquiry, call, permit)
        self.calls += 1
        waited_ms = inquiry.begin()
        spent = Spent("cancelled", None)
        try:
            attempt, failure = await self._called(inquiry)
            spent = _spent(attempt)
        finally:
            self._bounds.purse.settle(ticket, spent)
        permit.settle(_sum(spent.input_tokens, spent.output_tokens))
        if failure is not None and failure.code == "rate_limited":
            permit.refused(failure.retry_after_s)
        self._note(turn, failure)
        self._answers.note(spent.output_tokens)
        self.cost_usd += spent.cost_usd or 0.0
        return replace(attempt, waited_ms=waited_ms)

    def _note(self, turn: Turn, failure: ModelError | None) -> None:
        """Tell the breaker; once it opened for good nobody waits for limits any more."""
        turn.note(failure)
        if self.breaker.given_up is not None and self._stopped is None:
            self.stop(NotAsked("circuit_open", self.breaker.given_up))

    async def _ticket(self, inquiry: Inquiry, call: Call, permit: Permit) -> int:
        """Set the worst case of a call aside, once there is enough left for it."""
        purse = self._bounds.purse
        ticket: int | None = None
        try:
            async with self._waiting(inquiry):
                ticket = await purse.reserve(call)
        except ModelError as error:
            if ticket is not None:
                purse.settle(ticket, Spent(error.code, 0.0))
            permit.unused()
            raise
        return ticket

    async def _called(self, inquiry: Inquiry) -> tuple[Attempt, ModelError | None]:
        """One model call, cut at the timeout or the deadline, and what it failed of."""
        ask, step = inquiry.ask, inquiry.step
        limit_s = min(self._bounds.limits.timeout_s, inquiry.rest_s)
        started = perf_counter()
        try:
            async with asyncio.timeout(limit_s):
                completion = await self._model.complete(ask, complaint=step.complaint, cap=step.cap)
        except TimeoutError:
            late = ModelError("timeout", f"no answer within {limit_s:.3g} s")
            return failed(late, started), late
        except UnusableReply as error:
            return read(ask, error), error
        except ModelError as error:
            return failed(error, started), error
        return read(ask, completion), None


class _Answers:
    """How long a model's answers are: the mean of what it gave so far, in tokens."""

    def __init__(self) -> None:
        self._mean = 0.0
        self._seen = 0

    def expected(self, most: int) -> int:
        """Of the next answer, which has so many tokens at most."""
        return min(most, math.ceil(self._mean if self._seen else most * FIRST_SHARE))

    def note(self, tokens: int | None) -> None:
        """An answer came; the last hundred or so decide."""
        if tokens:
            self._seen = min(self._seen + 1, 100)
            self._mean += (tokens - self._mean) / self._seen


def _spent(attempt: Attempt) -> Spent:
    completion = attempt.completion
    return Spent(
        code=attempt.failure.code if attempt.failure else None,
        cost_usd=completion.cost_usd,
        input_tokens=completion.input_tokens,
        output_tokens=completion.output_tokens,
        latency_ms=completion.latency_ms,
    )


def _sum(sent: int | None, came: int | None) -> int | None:
    return None if sent is None or came is None else sent + came


@lru_cache(maxsize=1024)
def _short_hash(system: str) -> str:
    return hashlib.sha256(system.encode("utf-8", "surrogatepass")).hexdigest()[:16]
