"""What a model call has to pass beside its rate limits: the circuit breaker, and the budget."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from assizes.judge.engine.faults import action_for
from assizes.judge.engine.ledger import CallSpending, Ledger, PlannedCall
from assizes.judge.errors import LedgerBusy, ModelError, NotAsked

MAX_BUSY_S: Final = 30.0
"""Seconds that a process waits for another's transaction, which takes well under a millisecond."""

BUSY_PAUSE_S: Final = (0.001, 0.02)
"""Seconds between two attempts at a ledger that is busy: a random pause between these bounds."""

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


class _PlannedWrite(NamedTuple):
    loop: asyncio.AbstractEventLoop
    at: float  # seconds of the loop's clock
    handle: asyncio.Handle


@dataclass(slots=True, eq=False)
class BudgetGate:
    """Reserves calls in a ledger; near the limit of the budget, calls wait for one another.

    A call in flight counts with its worst cost, which is several times its actual cost. Without
    waiting, a run would stop with much of its budget unspent, and the more calls it makes at once,
    the sooner it would stop.

    What waits at the same moment is written together, and goes on once it is written.
    """

    _ledger: Ledger
    _open: int = field(default=0, init=False)  # calls in flight
    # First come, first served: cheap calls do not starve a costly one.
    _calls: deque[tuple[PlannedCall, asyncio.Future[int]]] = field(
        default_factory=deque, init=False
    )
    _claims: list[tuple[str, str, asyncio.Future[bool]]] = field(default_factory=list, init=False)
    _next: _PlannedWrite | None = field(default=None, init=False)
    _busy_since: float | None = field(default=None, init=False)  # seconds of the loop's clock

    async def reserve(self, call: PlannedCall) -> int:
        """Reserve the worst cost of a call, waiting for calls in flight where need be.

        The answer is the ticket with which to settle the call.

        Raises:
            NotAsked: when the call does not fit even after all calls in flight have been settled.
            LedgerBusy: when other processes keep the ledger busy for `MAX_BUSY_S`.
        """
        ticket: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._calls.append((call, ticket))
        self._write_within(0.0)  # with all that comes before the event loop turns
        try:
            return await ticket
        except asyncio.CancelledError:
            if ticket.done() and not ticket.cancelled() and ticket.exception() is None:
                self.settle(ticket.result(), CallSpending("cancelled", 0.0))  # no call was made
            self._write_within(0.0)  # who came next may fit
            raise

    async def claim(self, reply_key: str, ask_id: str) -> bool:
        """Claim a paid reply for an ask; see `Ledger.claim`."""
        has_claim: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._claims.append((reply_key, ask_id, has_claim))
        self._write_within(self._ledger.gather_s if self._open else 0.0)
        return await has_claim

    def settle(self, ticket: int, spent: CallSpending) -> None:
        """Replace the worst cost of a call by what it spent, and let a waiting call try again."""
        try:
            self._ledger.settle_later(ticket, spent)
        finally:  # a waiting call must not wait for ever
            self._open -= 1
            # The next reservation, which mostly follows at once, is written together with it.
            self._write_within(0.0 if self._calls else self._ledger.gather_s)

    def _write_within(self, seconds: float) -> None:
        """Have all that waits written within a time; while the ledger is busy, at the next attempt."""
        loop = asyncio.get_running_loop()
        planned = self._next
        if planned is not None and planned.loop is loop:
            if self._busy_since is not None or planned.at <= loop.time() + seconds:
                return
            planned.handle.cancel()
        if self._ledger.gather_s:
            self._plan_write(loop, seconds)
        else:  # nothing is gained by waiting for others
            self._write()

    def _plan_write(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        handle = loop.call_later(seconds, self._write) if seconds else loop.call_soon(self._write)
        self._next = _PlannedWrite(loop, loop.time() + seconds, handle)

    def _write(self) -> None:
        """Write all that waits in one group, and let those go on for whom it is written."""
        self._next = None
        with ExitStack() as stack:
            stack.push(self._end_write)
            with self._ledger.group():
                claims = [
                    (has_claim, self._ledger.claim(reply_key, ask_id, wait=False))
                    for reply_key, ask_id, has_claim in self._claims
                ]
                looked_at, outcomes = self._reserve_calls()
            self._claims.clear()
            for _ in range(looked_at):
                self._calls.popleft()
            for has_claim, answer in claims:
                if not has_claim.done():  # not cancelled
                    has_claim.set_result(answer)
            for ticket, outcome in outcomes:
                if isinstance(outcome, NotAsked):
                    ticket.set_exception(outcome)
                else:
                    self._open += 1
                    ticket.set_result(outcome)

    def _reserve_calls(self) -> tuple[int, list[tuple[asyncio.Future[int], int | NotAsked]]]:
        """Reserve the calls that wait, up to the first that has to wait for calls in flight.

        Returns how many were looked at, and the tickets or refusals of those that still wait.
        """
        looked_at, in_flight = 0, self._open
        outcomes: list[tuple[asyncio.Future[int], int | NotAsked]] = []
        for call, ticket in self._calls:
            if not ticket.done():  # not cancelled
                try:
                    outcomes.append((ticket, self._ledger.reserve(call, wait=False)))
                    in_flight += 1
                except NotAsked as refused:
                    # Halted, or nothing in flight will give money back: there is nothing to wait for.
                    if refused.code == "budget" and in_flight:
                        break
                    outcomes.append((ticket, refused))
            looked_at += 1
        return looked_at, outcomes

    def _end_write(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        """The `__exit__` of a write: its error goes to all who wait, unless it is tried again."""
        loop = asyncio.get_running_loop()
        if isinstance(error, LedgerBusy):
            now = loop.time()
            self._busy_since = now if self._busy_since is None else self._busy_since
            if now - self._busy_since < MAX_BUSY_S:
                # Random, so that processes do not go in step.
                self._plan_write(loop, random.uniform(*BUSY_PAUSE_S))
                return True
        self._busy_since = None
        if isinstance(error, Exception):
            self._give_up(error)
        return isinstance(error, Exception)

    def _give_up(self, error: Exception) -> None:
        """Let all who wait go on with an error, or with a claim that nobody could check."""
        for _, ticket in self._calls:
            if not ticket.done():
                ticket.set_exception(error)
        for _, _, has_claim in self._claims:
            if has_claim.done():
                continue
            if isinstance(error, NotAsked | LedgerBusy):
                has_claim.set_result(True)  # charged twice at worst, never not at all
            else:
                has_claim.set_exception(error)
        self._calls.clear()
        self._claims.clear()
