"""What a model call has to pass beside its rate limits: the circuit breaker, and the budget."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Self, TypeVar

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_random

from assizes.judge.engine.faults import action_for
from assizes.judge.engine.ledger import CallSpending, Ledger, PlannedCall
from assizes.judge.errors import LedgerBusy, ModelError, NotAsked

T = TypeVar("T")

MAX_BUSY_S: Final = 30.0
"""Seconds that a process waits for another's transaction, which takes well under a millisecond."""

UNANSWERED_CODES: Final = frozenset({"unavailable", "timeout"})
"""Codes of calls that the provider did not answer: a sign that it is down."""


@dataclass(frozen=True, slots=True)
class BreakerPolicy:
    """When a circuit breaker opens, and for how long; its counts are of calls in a row."""

    refusals: int = 3  # errors that all other calls will have too, e.g. a wrong key: open for good
    failures: int = 8  # calls without an answer of the provider: open for a cool-down
    cool_down_s: float = 1.0  # doubled by each probe that fails
    longest_s: float = 30.0  # the longest cool-down
    probes: int = 5  # failed probes: open for good
    refused_s: float = 300.0  # of nothing but HTTP 429: open for good


@dataclass(slots=True, eq=False)
class CircuitBreaker:
    """The circuit breaker of one model, shared by all asks of the model.

    While closed, the breaker lets every call through. While open, it lets one probe through after
    each cool-down, and any call that is answered closes it. Open for good, it lets no call through.
    """

    _policy: BreakerPolicy
    # Seconds, monotonic: a clock that is set would end or stretch a cool-down.
    _clock: Callable[[], float] = field(default=lambda: asyncio.get_running_loop().time())
    has_answered: bool = False  # the provider ever answered, be it by refusing the content
    given_up_reason: str | None = None  # `None`: not open for good
    _refusals: int = 0  # in a row, as the next two
    _failures: int = 0
    _failed_probes: int = 0
    _open_until: float | None = None  # end of the cool-down; `None`: closed
    _probing: bool = False  # a probe is in flight
    _refused_since: float | None = None  # the first of the present row of HTTP 429
    _refused_at: float = 0.0  # the latest of them
    _change: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_closed(self) -> bool:
        """Whether the breaker lets every call through."""
        return self._open_until is None and self.given_up_reason is None

    async def wait_for_pass(self) -> BreakerPass:
        """Wait until a call may be made.

        Raises:
            NotAsked: `circuit_open`, with the error of the last call, when the breaker is open for
                good.
        """
        while True:
            if self.given_up_reason is not None:
                raise NotAsked("circuit_open", self.given_up_reason)
            if self._open_until is None:
                return BreakerPass(self, probe=False)
            rest_s = self._open_until - self._clock()
            if rest_s <= 0 and not self._probing:
                self._probing = True  # before any await: of many waiting calls one is the probe
                return BreakerPass(self, probe=True)
            with suppress(TimeoutError):
                # Where another call is the probe, its end wakes this one.
                async with asyncio.timeout(rest_s if rest_s > 0 else None):
                    await self._change.wait()

    def note(self, failure: ModelError | None, *, probe: bool) -> None:
        """Note how a call, or a probe, ended; the failure is `None` when the call was answered."""
        if failure and failure.code in UNANSWERED_CODES:
            self._note_failure(failure, probe=probe)
            return
        refused_s = self._policy.refused_s
        if failure and self._fails_all_calls(failure):
            self._refusals += 1
            if self._refusals >= self._policy.refusals:
                self._open_for_good(f"{self._refusals} calls in a row failed", failure)
                return
        elif failure and failure.code == "rate_limited":
            now = self._clock()
            # Refusals far apart, because few calls are made, say nothing of the time between.
            if self._refused_since is None or now - self._refused_at > refused_s / 2:
                self._refused_since = now
            self._refused_at = now
            if now - self._refused_since >= refused_s:
                self._open_for_good(f"no call was let through for {refused_s:g} s", failure)
                return
        else:  # an answer, or a failure that is this ask's own
            self._refusals, self._refused_since = 0, None
            self.has_answered = True
        # Whatever else came, came from the provider: it is not down.
        self._failures = self._failed_probes = 0
        if self._open_until is not None:
            self._open_until = None
            self.release()

    def release(self) -> None:
        """Give back a probe that was not made, and let the calls that wait look again."""
        self._probing = False
        self._change.set()
        self._change = asyncio.Event()  # whoever waits from now on waits for the next change

    def _fails_all_calls(self, failure: ModelError) -> bool:
        if failure.code == "rate_limited":  # a wait that the breaker would not sit out
            return (failure.retry_after_s or 0.0) > self._policy.refused_s
        return action_for(failure.code) == "abort"

    def _note_failure(self, failure: ModelError, *, probe: bool) -> None:
        # Calls that were in flight when the breaker opened count for nothing.
        if self.is_closed:
            self._failures += 1
            if self._failures >= self._policy.failures:
                self._open(self._policy.cool_down_s)
        elif probe:
            self._failed_probes += 1
            if self._failed_probes >= self._policy.probes:
                failures = self._failures + self._failed_probes
                self._open_for_good(f"{failures} calls in a row failed", failure)
                return
            self._open(self._policy.cool_down_s * 2**self._failed_probes)

    def _open(self, cool_down_s: float) -> None:
        self._open_until = self._clock() + min(cool_down_s, self._policy.longest_s)
        self.release()

    def _open_for_good(self, what: str, failure: ModelError) -> None:
        if self.given_up_reason is None:
            self.given_up_reason = f"{what}, the last with {failure.code}: {failure.detail}"
        self.release()


@dataclass(slots=True, eq=False)
class BreakerPass:
    """The permission to make one call or, as a `probe`, to try one; used as a context manager."""

    _breaker: CircuitBreaker
    probe: bool
    _noted: bool = field(default=False, init=False)

    @property
    def is_valid(self) -> bool:
        """Whether the call may still be made: the breaker may have opened in the meantime."""
        return self.probe or self._breaker.is_closed

    def note(self, failure: ModelError | None) -> None:
        """Note the error of the call; `None` when the call was answered."""
        self._noted = True
        self._breaker.note(failure, probe=self.probe)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.probe and not self._noted:  # cancelled: the next call may probe
            self._breaker.release()


@dataclass(slots=True, eq=False)
class BudgetGate:
    """Reserves calls in a ledger; near the limit of the budget, calls wait for one another.

    A call in flight counts with its worst cost, which is several times its actual cost. Without
    waiting, a run would stop with much of its budget unspent, and the more calls it makes at once,
    the sooner it would stop.
    """

    _ledger: Ledger
    _open: int = field(default=0, init=False)  # calls in flight
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _settled: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    async def reserve(self, call: PlannedCall) -> int:
        """Reserve the worst cost of a call, waiting for calls in flight where need be.

        The answer is the ticket with which to settle the call.

        Raises:
            NotAsked: when the call does not fit even after all calls in flight have been settled.
            LedgerBusy: when other processes keep the ledger busy for `MAX_BUSY_S`.
        """
        async with self._lock:  # first come, first served: cheap calls do not starve a costly one
            while True:
                self._settled.clear()  # before the attempt: no settlement is missed in between
                reserve = partial(self._ledger.reserve, call, wait=False)
                try:
                    ticket = await _retry_while_busy(reserve)
                except NotAsked as refused:
                    if refused.code != "budget" or not self._open:
                        raise  # halted, or nothing in flight will give money back
                    await self._settled.wait()
                else:
                    self._open += 1
                    return ticket

    async def claim(self, reply_key: str, ask_id: str) -> bool:
        """Claim a paid reply for an ask; see `Ledger.claim`."""
        try:
            claim = partial(self._ledger.claim, reply_key, ask_id, wait=False)
            return await _retry_while_busy(claim)
        except LedgerBusy:
            return True  # charged twice at worst, never not at all

    def settle(self, ticket: int, spent: CallSpending) -> None:
        """Replace the worst cost of a call by what it spent, and let a waiting call try again."""
        try:
            self._ledger.settle(ticket, spent)
        finally:  # a waiting call must not wait for ever
            self._open -= 1
            self._settled.set()


async def _retry_while_busy(action: Callable[[], T]) -> T:
    """Run the action, retrying while the ledger is busy; the event loop goes on meanwhile."""
    with suppress(LedgerBusy):  # hardly ever busy: no retrier is made for the usual case
        return action()

    async def attempt() -> T:
        return action()

    retrying = AsyncRetrying(
        retry=retry_if_exception_type(LedgerBusy),
        wait=wait_random(0.005, 0.05),  # seconds; random, so that processes do not go in step
        stop=stop_after_delay(MAX_BUSY_S),
        reraise=True,
    )
    return await retrying(attempt)
