"""A circuit breaker for one model: a provider that is down is called rarely, then not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self

from assizes.judge.engine.faults import action_for
from assizes.judge.errors import ModelError, NotAsked

UNANSWERED_CODES: Final = frozenset({"unavailable", "timeout"})
"""Codes of calls that the provider did not answer: a sign that it is down."""


@dataclass(frozen=True, slots=True)
class BreakerPolicy:
    """When a circuit breaker opens, and for how long.

    Args:
        refusals: the number of calls in a row with an error that all other calls will have too
            (a wrong API key, for example), after which the breaker opens for good.
        failures: the number of calls in a row without an answer of the provider, after which the
            breaker opens for a cool-down.
        cool_down_s: seconds of the first cool-down; each probe that fails doubles them.
        longest_s: the most seconds of a cool-down.
        probes: the number of failed probes in a row after which the breaker opens for good.
        refused_s: seconds with nothing but rate limit refusals (HTTP 429) after which the breaker
            opens for good. A refusal that asks to wait longer than that is an error that all other
            calls will have too.
    """

    refusals: int = 3
    failures: int = 8
    cool_down_s: float = 1.0
    longest_s: float = 30.0
    probes: int = 5
    refused_s: float = 300.0


class CircuitBreaker:
    """The circuit breaker of one model, shared by all asks of the model.

    While closed, the breaker lets every call through. While open, it lets one probe through after
    each cool-down, and any call that is answered closes it. Open for good, it lets no call through.
    Rate limit refusals open the breaker only where no call at all is let through.

    Args:
        policy: when the breaker opens.
        clock: gives the time in seconds, monotonic; by default the clock of the event loop.

    Attributes:
        has_answered: whether the provider has ever answered, be it with a refusal of the content.
    """

    def __init__(self, policy: BreakerPolicy, clock: Callable[[], float] | None = None) -> None:
        self.has_answered = False
        self._policy = policy
        self._clock = clock or _loop_s
        self._refusals = self._failures = self._failed_probes = 0
        self._open_until: float | None = None
        self._probing = False
        self._refused_since: float | None = None
        self._refused_at = 0.0
        self._for_good: str | None = None
        self._change = asyncio.Event()

    @property
    def given_up_reason(self) -> str | None:
        """The reason why the breaker is open for good; `None` while it is not."""
        return self._for_good

    @property
    def is_closed(self) -> bool:
        """Whether the breaker lets every call through."""
        return self._open_until is None and self._for_good is None

    async def wait_for_pass(self) -> BreakerPass:
        """Wait until a call may be made.

        Raises:
            NotAsked: `circuit_open`, with the error of the last call, when the breaker is open for
                good.
        """
        while True:
            if self._for_good is not None:
                raise NotAsked("circuit_open", self._for_good)
            if self._open_until is None:
                return BreakerPass(self, probe=False)
            rest_s = self._open_until - self._clock()
            if rest_s <= 0 and not self._probing:
                self._probing = True
                return BreakerPass(self, probe=True)
            with suppress(TimeoutError):
                async with asyncio.timeout(rest_s if rest_s > 0 else None):
                    await self._change.wait()

    def note(self, failure: ModelError | None, *, probe: bool) -> None:
        """Note how a call ended.

        Args:
            failure: the error of the call; `None` when the call was answered.
            probe: whether the call was a probe.
        """
        code = failure.code if failure else None
        if failure and code in UNANSWERED_CODES:
            self._note_failure(failure, probe=probe)
            return
        if failure and self._fails_all_calls(failure):
            self._refusals += 1
            if self._refusals >= self._policy.refusals:
                self._open_for_good(f"{self._refusals} calls in a row failed", failure)
                return
        elif failure and code == "rate_limited":
            if self._note_refusal(self._clock()):
                self._open_for_good(
                    f"no call was let through for {self._policy.refused_s:g} s", failure
                )
                return
        else:
            self._refusals, self._refused_since = 0, None
            self.has_answered = True
        self._close()

    def release(self) -> None:
        """Give back a probe that was not made, so that another call can be the probe."""
        self._probing = False
        self._wake_waiters()

    def _fails_all_calls(self, failure: ModelError) -> bool:
        """Whether all other calls will fail with the same error."""
        if failure.code == "rate_limited":
            return (failure.retry_after_s or 0.0) > self._policy.refused_s
        return action_for(failure.code) == "abort"

    def _note_refusal(self, now: float) -> bool:
        """Note a rate limit refusal; return whether no call was let through for too long."""
        # Refusals that are far apart, because few calls are made, say nothing of the time between.
        if self._refused_since is None or now - self._refused_at > self._policy.refused_s / 2:
            self._refused_since = now
        self._refused_at = now
        return now - self._refused_since >= self._policy.refused_s

    def _note_failure(self, failure: ModelError, *, probe: bool) -> None:
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
        self._probing = False
        self._wake_waiters()

    def _close(self) -> None:
        self._failures = self._failed_probes = 0
        if self._open_until is not None:
            self._open_until, self._probing = None, False
            self._wake_waiters()

    def _open_for_good(self, what: str, failure: ModelError) -> None:
        if self._for_good is None:
            last = f"{failure.code}: {failure.detail}"
            self._for_good = f"{what}, the last with {last}"
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        self._change.set()
        self._change = asyncio.Event()


def _loop_s() -> float:
    return asyncio.get_running_loop().time()


class BreakerPass:
    """The permission to make one call, used as a context manager.

    A probe whose result was not noted inside the context is given back to the breaker.

    Attributes:
        probe: whether the call is a probe.
    """

    def __init__(self, breaker: CircuitBreaker, *, probe: bool) -> None:
        self.probe = probe
        self._breaker = breaker
        self._noted = False

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
        if self.probe and not self._noted:
            self._breaker.release()
