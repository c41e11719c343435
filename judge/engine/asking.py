"""Puts asks to one model; a call waits for limits, is reserved in the budget, and may be repeated."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from time import perf_counter
from typing import Any, Final

from tenacity import AsyncRetrying, RetryCallState, retry_if_result, wait_random_exponential

from assizes.judge.config.judging import LimitsConfig, estimated_tokens
from assizes.judge.engine import faults
from assizes.judge.engine.attempts import (
    AskOutcome,
    AskState,
    Attempt,
    Backoff,
    failed_attempt,
    read_completion,
)
from assizes.judge.engine.awake_clock import AwakeClock
from assizes.judge.engine.call_gates import BreakerPass, BudgetGate, CircuitBreaker
from assizes.judge.engine.ledger import CallSpending, PlannedCall
from assizes.judge.engine.limits.limits import Limiter, Permit
from assizes.judge.errors import AssizesError, ModelError, NotAsked
from assizes.judge.models.model import Completion, Model, UnusableReply, is_offline_model
from assizes.judge.prompts.prompt_texts import worst_usd
from assizes.judge.protocol import Ask

FIRST_SHARE: Final = 0.25
"""Share of the cap on tokens that is expected of a model's first answer."""


@dataclass(frozen=True, slots=True)
class CallControls:
    """The settings and services that are the same for every ask."""

    limits: LimitsConfig
    limiter: Limiter
    budget_gate: BudgetGate
    backoff: Backoff  # pauses between the calls of an ask
    clock: AwakeClock = field(default_factory=AwakeClock)


@dataclass(slots=True, eq=False)
class ModelCaller:
    """Puts asks to one model, which has one circuit breaker for all of them."""

    model: Model
    breaker: CircuitBreaker
    _controls: CallControls
    calls: int = 0  # calls made, retries included
    cost_usd: float = 0.0  # of these calls; calls of unknown price are left out
    _mean_length: float = 0.0  # of answers, in tokens
    _lengths_seen: int = 0  # answers in the mean, 0..100
    _stop_reason: NotAsked | None = None  # `None` as long as the model may be called
    _waits: set[asyncio.Timeout] = field(default_factory=set)  # waiting asks, which `stop` ends

    async def answer(
        self, ask: Ask[Any], key: str, batch_reply: Completion | UnusableReply | None = None
    ) -> AskOutcome:
        """Get the model's reply, or the reason why there is none, within the deadline.

        `key` is that of the ask in the ledger. The reply of a call that was made in a batch counts
        as the first call.
        """
        limits = self._controls.limits
        ask_state = AskState(ask, key, limits.deadline_s, self._controls.clock)
        if batch_reply is not None:
            ask_state.add_attempt(read_completion(ask, batch_reply))
        if ask_state.is_open and len(ask_state.attempts) < limits.max_attempts:
            try:
                if await self._make_call(ask_state):  # most asks need no second call
                    await self._repeat_calls(ask_state)
            except ModelError as error:
                ask_state.end_error = error
        return ask_state.outcome()

    def stop(self, why: NotAsked) -> None:
        """Make no more calls; asks that wait for a call end at once, calls in flight go on."""
        self._stop_reason = why
        for wait in self._waits:
            if not wait.expired():  # an expired timeout raises when it is set anew
                wait.reschedule(0)  # a time in the past of the loop's clock: expires at once

    async def _repeat_calls(self, ask_state: AskState) -> None:
        """Make further calls after a first one that asked for more."""
        made = [True]  # what the first call said: it counts as the first of the retrier

        async def call() -> bool:
            return made.pop() if made else await self._make_call(ask_state)

        await self._retrying(ask_state)(call)

    def _retrying(self, ask_state: AskState) -> AsyncRetrying:
        """A retrier of `_make_call`, as long as attempts and time are left."""
        backoff = self._controls.backoff
        random_pause_s = wait_random_exponential(multiplier=backoff.base_s, max=backoff.cap_s)

        def wait_s(state: RetryCallState) -> float:
            if not ask_state.next_call.pauses:
                return 0.0
            # At most half of the time that is left, so that there is time for the call itself.
            pause_s = min(random_pause_s(state), ask_state.remaining_s / 2)
            return max(ask_state.next_call.floor_s, pause_s)

        def is_enough(_state: RetryCallState) -> bool:
            if ask_state.remaining_s <= 0:
                ask_state.end_error = ask_state.deadline_error()
            # The provider asks for a longer pause than there is time: a call would be too late.
            is_late = ask_state.next_call.floor_s >= ask_state.remaining_s
            return is_late or ask_state.counted_attempts >= self._controls.limits.max_attempts

        async def pause(seconds: float) -> None:
            async with self._until_deadline(ask_state):
                await asyncio.sleep(seconds)

        return AsyncRetrying(
            retry=retry_if_result(lambda more: more),  # exceptions pass through
            wait=wait_s,
            stop=is_enough,
            sleep=pause,
            retry_error_callback=lambda _state: None,  # else tenacity raises `RetryError`
        )

    async def _make_call(self, ask_state: AskState) -> bool:
        """Wait until a call may be made, make it, and return whether another call should follow.

        Raises:
            ModelError: `NotAsked`, or `deadline` when no time was left to wait for a call.
        """
        model, ask, step = self.model, ask_state.ask, ask_state.next_call
        if is_offline_model(model):  # nothing to limit, to count or to wait for
            self._check_open()
            completion = await model.complete(ask, complaint=step.complaint, cap=step.cap)
            ask_state.add_attempt(read_completion(ask.read_offline(), completion))
            return ask_state.is_open
        sent, most = model.tokens(ask, step.cap)  # tokens of the prompt, cap of the answer
        if step.complaint is not None:
            sent += estimated_tokens(step.complaint)
        worst = worst_usd(model.price, ask, (sent, most), complaint=step.complaint)
        call = PlannedCall(ask_state.key, model.name, worst)
        # Charged with their cap, calls would leave most of a limit of tokens unused.
        expected = self._mean_length if self._lengths_seen else most * FIRST_SHARE
        tokens = sent + min(most, math.ceil(expected))
        while True:
            async with self._hold_slot(ask_state, tokens) as (breaker_pass, permit):
                if breaker_pass.is_valid:
                    ask_state.add_attempt(
                        await self._make_reserved_call(ask_state, call, breaker_pass, permit)
                    )
                    return ask_state.is_open
                permit.cancel()  # the breaker opened while this call waited for its slot

    @asynccontextmanager
    async def _hold_slot(
        self, ask_state: AskState, tokens: int
    ) -> AsyncIterator[tuple[BreakerPass, Permit]]:
        """Wait for the breaker and for the limits, then hold a slot for the length of the block."""
        # Equal system messages are one group: the provider has them in its prompt cache.
        limiter, group = self._controls.limiter, _short_hash(ask_state.ask.prompt.system)
        async with AsyncExitStack() as stack:
            async with self._until_deadline(ask_state):
                breaker_pass = stack.enter_context(await self.breaker.wait_for_pass())
                permit = await stack.enter_async_context(
                    limiter.admit(self.model.name, tokens, group, ask_state.place)
                )
                ask_state.place = permit.place
            yield breaker_pass, permit  # outside of the deadline: the call has its own timeout

    @asynccontextmanager
    async def _until_deadline(self, ask_state: AskState) -> AsyncIterator[None]:
        """Bound the waiting inside the block: by the deadline of the ask, and by `stop`.

        Raises:
            NotAsked: when the run asks no more, or a shared limit is not available (`no_permit`).
            ModelError: `deadline` when the deadline has passed.
        """
        self._check_open()
        try:
            async with self._controls.clock.timeout_at(ask_state.deadline_at) as wait:
                self._waits.add(wait)
                try:
                    yield
                finally:
                    self._waits.discard(wait)
        except TimeoutError:
            self._check_open()  # `stop` ends the wait in the same way as the deadline
            raise ask_state.deadline_error() from None
        except ModelError:
            raise
        except AssizesError as error:  # a shared limit or the ledger is not available
            raise NotAsked("no_permit", str(error)) from error
        self._check_open()

    def _check_open(self) -> None:
        if self._stop_reason is not None:
            raise NotAsked(self._stop_reason.code, self._stop_reason.detail)

    async def _make_reserved_call(
        self, ask_state: AskState, call: PlannedCall, breaker_pass: BreakerPass, permit: Permit
    ) -> Attempt:
        """Reserve the worst cost of a call, make the call, and settle its actual cost."""
        ticket = await self._reserve_budget(ask_state, call, permit)
        self.calls += 1
        waited_ms = ask_state.begin_call()
        spent = CallSpending("cancelled", None)  # may be charged: the worst cost is counted
        try:
            attempt, failure = await self._call_model(ask_state)
            completion = attempt.completion
            spent = CallSpending(
                code=attempt.failure.code if attempt.failure else None,
                cost_usd=completion.cost_usd,
                input_tokens=completion.input_tokens,
                output_tokens=completion.output_tokens,
                latency_ms=completion.latency_ms,
                cached_tokens=completion.cached_tokens,
                cache_write_tokens=completion.cache_write_tokens,
            )
        finally:
            self._controls.budget_gate.settle(ticket, spent)
        # Where the tokens are not known, the limit keeps its estimate.
        known = spent.input_tokens is not None and spent.output_tokens is not None
        permit.settle((spent.input_tokens or 0) + (spent.output_tokens or 0) if known else None)
        if failure is not None and failure.code == "rate_limited":
            permit.report_refusal(failure.retry_after_s)
        if not attempt.is_interrupted:
            breaker_pass.note(failure)
        # Asks that wait for limits end at once: their turn would come only to be refused.
        if self.breaker.given_up_reason is not None and self._stop_reason is None:
            self.stop(NotAsked("circuit_open", self.breaker.given_up_reason))
        if spent.output_tokens:  # the last hundred answers or so decide the mean
            self._lengths_seen = min(self._lengths_seen + 1, 100)
            self._mean_length += (spent.output_tokens - self._mean_length) / self._lengths_seen
        self.cost_usd += spent.cost_usd or 0.0
        return replace(attempt, waited_ms=waited_ms)

    async def _reserve_budget(self, ask_state: AskState, call: PlannedCall, permit: Permit) -> int:
        """Reserve the worst cost of a call, as soon as the budget allows it; return the ticket."""
        budget_gate = self._controls.budget_gate
        ticket: int | None = None
        try:
            async with self._until_deadline(ask_state):
                ticket = await budget_gate.reserve(call)
        except ModelError as error:
            if ticket is not None:  # reserved, but the deadline or `stop` came first: no call
                budget_gate.settle(ticket, CallSpending(error.code, 0.0))
            permit.cancel()
            raise
        except asyncio.CancelledError:  # while the call waited: nothing is reserved
            permit.cancel()
            raise
        return ticket

    async def _call_model(self, ask_state: AskState) -> tuple[Attempt, ModelError | None]:
        """Make one model call, cut at the timeout or the deadline; return it and its failure."""
        ask, step = ask_state.ask, ask_state.next_call
        # Wall clock: an HTTP client's read timeout begins anew with each chunk of a slow answer.
        limit_s = min(self._controls.limits.timeout_s, ask_state.remaining_s)
        clock, started = self._controls.clock, perf_counter()
        pauses = clock.pauses
        try:
            async with clock.timeout_at(clock.time() + limit_s):
                completion = await self.model.complete(ask, complaint=step.complaint, cap=step.cap)
        except TimeoutError:
            late = ModelError("timeout", f"no answer within {limit_s:.3g} s")
            return failed_attempt(late, started, is_interrupted=clock.pauses > pauses), late
        except UnusableReply as error:
            return read_completion(ask, error), error
        except ModelError as error:
            # The client's own timeouts are over on waking, and so are its connections.
            cut = clock.pauses > pauses and error.code in faults.CUT_BY_PAUSES
            return failed_attempt(error, started, is_interrupted=cut), error
        return read_completion(ask, completion), None


@lru_cache(maxsize=1024)
def _short_hash(system: str) -> str:
    # Lone surrogates from a transcript's JSON must not raise here; plain UTF-8 refuses them.
    return hashlib.sha256(system.encode("utf-8", "surrogatepass")).hexdigest()[:16]
