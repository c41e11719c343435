"""How fast a model may be pressed when nobody said: found out from its refusals (HTTP 429)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from assizes.judge.engine.limits.rate_limiter import CATCH_UP_S, NEVER

KEPT_RATE_SHARE: Final = 0.95
"""Of the rate that was let through, after a refusal."""

GROWTH: Final = 0.01
GROWTH_CALLS: Final = 400.0
"""While nothing is refused, a share of that rate more each second, or of one in so many calls: each
refusal is to be worth the calls that it takes to find out more."""

CALM_S: Final = 10.0
CALM_CALLS: Final = 30.0
"""Without a refusal for so long, and so many calls, the pace doubles in the same time again: what
had set it is over."""

FIRST_RATE: Final = 1.0
FIRST_CALM_S: Final = 1.0
"""Calls a second, and how soon they double, where hardly one was let through yet."""

SLOWEST_RATE: Final = 0.1
"""Calls a second, however few were let through: one in ten seconds finds out soon enough that a
provider lets calls through again, or that it never will (see `assizes.judge.engine.circuit_breaker`)."""

SLOWEST_CALM_S: Final = 30.0
"""At that pace, which was not measured: three calls in a row that were let through."""

SHORTEST_PERIOD_S: Final = 5.0
FEWEST_CALLS: Final = 10
"""Less time and fewer calls say little about a rate."""

LONGEST_PERIOD_S: Final = 60.0
"""What was let through longer ago says nothing about the rate of today."""

FIRST_HOLD_S: Final = 0.5
"""Where a refusal does not say when to come again; doubled while all that is tried is refused."""

LONGEST_HOLD_S: Final = 8.0
"""For such a refusal."""

LONGEST_HINT_S: Final = 60.0
"""Limits that are worth waiting for have windows of a minute."""


@dataclass(slots=True)
class _Period:
    """What was let through since a time."""

    since: float
    calls: int = 0


class AdaptiveRate:
    """Holds all starts of a model when one is refused, then goes on a little slower than calls were
    let through, and faster again with time.

    The rate that was let through is measured over the time from the first start after a hold to the
    end of the next hold: that is the provider's rate whether it counts in windows or refills a
    bucket, and whether or not it says when to come again.
    """

    def __init__(self) -> None:
        self._spell = 0
        self._let_through = 0
        self._refused = False
        self._tries = 0
        self._refused_at = 0.0
        self._held_until = -NEVER
        self._due = -NEVER
        self._rate: float | None = None
        self._calm_s = CALM_S
        self._resumed_at = 0.0
        self._period: _Period | None = None
        self._before: _Period | None = None

    def ready_at(self) -> float:
        """When the next call may start."""
        return max(self._held_until, self._due)

    def rate(self, now: float) -> float | None:
        """Calls a second, at most; null before the first refusal."""
        if self._rate is None:
            return None
        since_s = max(0.0, now - self._resumed_at)
        growth = 1 + min(GROWTH, self._rate / GROWTH_CALLS) * since_s
        doubled = min(max(0.0, since_s / self._calm_s - 1), 30.0)
        return self._rate * growth * math.exp2(doubled)

    def take(self, now: float) -> int:
        """A call starts now; returns the spell between two holds that it belongs to."""
        if self._refused:
            self._resume(now)
        rate = self.rate(now)
        if rate is not None:
            self._due = max(self._due, now - CATCH_UP_S) + 1 / rate
        if self._period is not None and now - self._period.since > LONGEST_PERIOD_S:
            self._before, self._period = self._period, None
        if self._period is None:
            self._period = _Period(now)
        self._period.calls += 1
        self._let_through += 1
        return self._spell

    def note_refusal(self, spell: int, at: float, now: float, retry_after_s: float | None) -> None:
        """A call of this spell that had started then was refused."""
        if self._period is not None and at >= self._period.since:
            self._period.calls -= 1
        if spell != self._spell:
            return
        self._let_through -= 1
        wait_s = retry_after_s
        if not self._refused and wait_s is None:
            wait_s = min(FIRST_HOLD_S * 2.0**self._tries, LONGEST_HOLD_S)
        if wait_s is not None:
            until = now + min(max(wait_s, 0.0), LONGEST_HINT_S)
            self._held_until = max(self._held_until, until)
        if not self._refused:
            self._refused, self._refused_at = True, now

    def _resume(self, now: float) -> None:
        """The hold is over: a new spell, slower than the one before."""
        calls, length_s = self._measured_calls(now)
        if calls <= 0 or (self._rate is None and calls < FEWEST_CALLS):
            self._rate, self._calm_s = FIRST_RATE, FIRST_CALM_S
        else:
            measured = calls / max(length_s, 1.0)
            paced = self.rate(self._refused_at) or measured
            rate_share = KEPT_RATE_SHARE if self._let_through > 0 else 1.0
            rate = min(KEPT_RATE_SHARE * measured, rate_share * paced)
            self._rate = max(SLOWEST_RATE, rate)
            self._calm_s = max(CALM_S, CALM_CALLS / rate) if rate > SLOWEST_RATE else SLOWEST_CALM_S
        self._tries = 0 if self._let_through > 0 else self._tries + 1
        self._spell += 1
        self._let_through = 0
        self._refused = False
        self._resumed_at = self._due = now

    def _measured_calls(self, now: float) -> tuple[int, float]:
        """Calls that were let through, and in which time; with the period before, where this one is
        too short to say anything.
        """
        period = self._period or _Period(now)
        if self._refused_at - period.since >= SHORTEST_PERIOD_S and period.calls >= FEWEST_CALLS:
            self._before, self._period = period, None
            return period.calls, now - period.since
        before = self._before or _Period(period.since)
        return before.calls + period.calls, now - before.since
