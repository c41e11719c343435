"""Finds the rate of a model that has no configured limit, from the provider's refusals (HTTP 429)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from assizes.judge.engine.limits.rate_limiter import CATCH_UP_S, NEVER

KEPT_RATE_SHARE: Final = 0.95
"""Share of the measured rate at which calls go on after a refusal."""

GROWTH: Final = 0.01
GROWTH_CALLS: Final = 400.0
"""While nothing is refused, the rate grows each second by the share `GROWTH`, or by rate /
`GROWTH_CALLS` where that is less: a slow model is tried less often, because each refusal costs a
call."""

CALM_S: Final = 10.0
CALM_CALLS: Final = 30.0
"""After so many seconds and so many calls without a refusal, the rate doubles once in each such time:
the cause of the refusals is over."""

FIRST_RATE: Final = 1.0
FIRST_CALM_S: Final = 1.0
"""Calls a second, and the seconds in which they double, while hardly any call was let through."""

SLOWEST_RATE: Final = 0.1
SLOWEST_CALM_S: Final = 30.0
"""The lowest rate in calls a second, and the seconds in which it doubles: the time of three calls
in a row that are let through. One call in ten seconds finds out soon enough whether a provider lets
calls through again, or never will (see `assizes.judge.engine.call_gates`)."""

SHORTEST_PERIOD_S: Final = 5.0
FEWEST_CALLS: Final = 10
LONGEST_PERIOD_S: Final = 60.0
"""Seconds and calls that a period needs at least to say anything about a rate, and the seconds after
which calls that were let through say nothing about the present rate."""

FIRST_HOLD_S: Final = 0.5
LONGEST_HOLD_S: Final = 8.0
LONGEST_HINT_S: Final = 60.0
"""Seconds to wait after a refusal that does not say how long, which are doubled while every call is
refused, and their maximum. The last is the maximum where the refusal says how long: usual limits
have windows of a minute."""


@dataclass(slots=True)
class _Period:
    """The number of calls that were let through since a time."""

    since: float  # seconds, on the clock of the calls
    calls: int = 0


@dataclass(slots=True, eq=False)
class AdaptiveRate:
    """Holds all calls of a model after a refusal, then goes on at a lower rate that grows with time.

    The rate after a hold is a little lower than the rate at which calls were let through. The time
    between two holds is called a spell, and spells are numbered.
    """

    _spell: int = 0  # number of the present spell
    _let_through: int = 0  # calls of the spell that were not refused, or not yet
    _refused: bool = False  # the spell has had a refusal: a hold is on
    _tries: int = 0  # spells in a row in which every call was refused
    _refused_at: float = 0.0  # first refusal of the spell
    _held_until: float = -NEVER
    _due: float = -NEVER  # when the next call may start by the rate alone
    _rate: float | None = None  # calls a second at the end of the hold; `None`: no limit
    _calm_s: float = CALM_S  # seconds without a refusal in which the rate doubles
    _resumed_at: float = 0.0
    _period: _Period | None = None  # calls since the first start after a hold
    _before: _Period | None = None  # the period before it

    def ready_at(self) -> float:
        """The time at which the next call may start."""
        return max(self._held_until, self._due)

    def rate(self, now: float) -> float | None:
        """The most calls a second; `None` before the first refusal, when there is no limit."""
        if self._rate is None:
            return None
        since_s = max(0.0, now - self._resumed_at)
        growth = 1 + min(GROWTH, self._rate / GROWTH_CALLS) * since_s
        doubled = min(max(0.0, since_s / self._calm_s - 1), 30.0)  # bounded: exp2 overflows
        return self._rate * growth * math.exp2(doubled)

    def take(self, now: float) -> int:
        """Note that a call starts now, and return the number of its spell."""
        if self._refused:
            self._resume(now)
        rate = self.rate(now)
        if rate is not None:
            # A start that is late by no more than CATCH_UP_S does not put off the next one.
            self._due = max(self._due, now - CATCH_UP_S) + 1 / rate
        if self._period is not None and now - self._period.since > LONGEST_PERIOD_S:
            self._before, self._period = self._period, None
        self._period = self._period or _Period(now)
        self._period.calls += 1
        self._let_through += 1
        return self._spell

    def take_back(self, spell: int, at: float) -> None:
        """Count a call no longer as let through; `spell` is what `take` returned at the time `at`."""
        if self._period is not None and at >= self._period.since:
            self._period.calls -= 1
        if spell == self._spell:
            self._let_through -= 1

    def note_refusal(self, spell: int, at: float, now: float, retry_after_s: float | None) -> None:
        """Note that a call that started at the time `at` was refused at the time `now`.

        `spell` is what `take` returned for it; `retry_after_s` is the pause the provider asks for.
        """
        self.take_back(spell, at)
        if spell != self._spell:  # started before the last hold, which was for such calls
            return
        if not self._refused:  # later refusals of the spell only lengthen the hold by their hints
            self._refused, self._refused_at = True, now
            if retry_after_s is None:
                retry_after_s = min(FIRST_HOLD_S * 2.0**self._tries, LONGEST_HOLD_S)
        if retry_after_s is not None:
            until = now + min(max(retry_after_s, 0.0), LONGEST_HINT_S)
            self._held_until = max(self._held_until, until)

    def _resume(self, now: float) -> None:
        """End the hold and begin a new spell, at a lower rate than the one before."""
        # Measured from the first start after a hold to the end of the next hold: the provider's
        # rate, whether it counts in windows or refills a bucket, and with or without hints.
        period = self._period or _Period(now)
        if self._refused_at - period.since >= SHORTEST_PERIOD_S and period.calls >= FEWEST_CALLS:
            self._before, self._period = period, None
            calls, since = period.calls, period.since
        else:  # too short to say anything: the period before is counted as well
            before = self._before or _Period(period.since)
            calls, since = before.calls + period.calls, before.since
        if calls <= 0 or (self._rate is None and calls < FEWEST_CALLS):  # nothing to measure
            self._rate, self._calm_s = FIRST_RATE, FIRST_CALM_S
        else:
            measured = calls / max(now - since, 1.0)  # calls a second
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
