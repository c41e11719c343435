"""How fast one model may be pressed: requests or tokens, spaced evenly under a limit.

Nothing here waits or reads a clock: callers hand in the time, in seconds of a monotonic clock.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from assizes.judge.errors import AssizesError

MINUTE_S: Final = 60.0
USED_SHARE: Final = 0.985
"""Share of a limit that is used: calls that were sent within a minute and a little may all arrive
within a minute."""

FORESEEN_SHARE: Final = 0.99
"""Share of a limit of tokens that calls may be estimated to take: some will take more."""

CATCH_UP_S: Final = 0.3
"""What is late because the event loop was busy starts at once up to this much."""

MAX_LAG_S: Final = 3.0
CATCH_UP_FACTOR: Final = 1.2
"""What is later than that starts so many times as fast, up to this much; the rest is lost."""

NEVER: Final = math.inf
_TINY: Final = 1e-9


@dataclass(slots=True, eq=False)
class Charge:
    """What one call was charged, and when it started."""

    at: float
    cost: float


class RateLimit(Protocol):
    """Says when the next call may start. A cost is a number of requests, or of tokens."""

    def begin(self, now: float) -> None:
        """Somebody waits again after nobody did: what was not used until now is gone."""

    def ready_at(self, cost: float, now: float) -> float:
        """When a call of this cost may start: a time in the past for at once, `NEVER` for not
        before something else happens.

        Raises:
            AssizesError: when that can never be said.
        """

    def take(self, cost: float, now: float) -> Charge:
        """A call of this cost starts now."""

    def settle(self, charge: Charge, cost: float) -> None:
        """The call really took so much; 0 for a call that was not made."""


@dataclass(slots=True)
class _Schedule:
    """When the next call is due, at a rate, and no longer ago than it may be late."""

    rate: float
    lag_s: float
    due: float = -NEVER

    def take(self, cost: float, now: float) -> None:
        self.due = max(self.due, now - self.lag_s) + cost / self.rate


class RateLimiter:
    """The pace of a limit that this process has for itself.

    Starts are spaced by what they cost (GCRA, virtual schedules), the first at once and without a
    burst: one schedule goes at the rate of the limit, and a faster one says how quickly what was
    late may be made up for. Beside them, what was charged within the window never exceeds what is
    allowed in it, whatever calls really took and however late some of them started.

    Args:
        allowed: requests, or tokens, in a window.
        window_s: its length.
    """

    def __init__(self, allowed: float, window_s: float) -> None:
        self._allowed = allowed
        self._window_s = window_s
        rate = allowed / window_s
        self._schedules = (
            _Schedule(rate, MAX_LAG_S),
            _Schedule(CATCH_UP_FACTOR * rate, CATCH_UP_S),
        )
        self._charged: deque[Charge] = deque()
        self._total = 0.0

    @classmethod
    def of_requests(cls, per_minute: int) -> RateLimiter:
        """Keeps a limit of requests."""
        return cls(per_minute, MINUTE_S / USED_SHARE)

    @classmethod
    def of_tokens(cls, per_minute: int) -> RateLimiter:
        """Keeps a limit of tokens."""
        return cls(FORESEEN_SHARE * per_minute, MINUTE_S * FORESEEN_SHARE / USED_SHARE)

    def begin(self, now: float) -> None:
        """Start the schedules anew where they lag behind."""
        for schedule in self._schedules:
            schedule.due = max(schedule.due, now)

    def ready_at(self, cost: float, now: float) -> float:
        """When the schedules and the window allow it. A call of more than is allowed counts as one
        of just that: it starts when no other was charged for a window's length.
        """
        self._forget(now)
        excess = self._total + min(cost, self._allowed) - self._allowed
        free_at = -NEVER
        for charge in self._charged:
            if excess <= 0:
                break
            excess -= charge.cost
            free_at = charge.at + self._window_s
        return max(free_at, *(schedule.due for schedule in self._schedules))

    def take(self, cost: float, now: float) -> Charge:
        """Move the schedules on by the cost."""
        charge = Charge(now, min(cost, self._allowed))
        for schedule in self._schedules:
            schedule.take(charge.cost, now)
        self._charged.append(charge)
        self._total += charge.cost
        return charge

    def settle(self, charge: Charge, cost: float) -> None:
        """Move the schedules by the difference; one that has left the window is settled."""
        difference = min(cost, self._allowed) - charge.cost
        if self._charged and charge.at >= self._charged[0].at:
            self._total += difference
            for schedule in self._schedules:
                schedule.due += difference / schedule.rate
            charge.cost += difference

    def _forget(self, now: float) -> None:
        while self._charged and self._charged[0].at <= now - self._window_s:
            self._total -= self._charged.popleft().cost


MAX_LATE_S: Final = 0.3
"""A leased unit is lost when it was not used this long after its time."""

LEASE_AHEAD_S: Final = 1.0
"""So far ahead units are leased, so that nobody waits for the server that grants them."""


@dataclass(slots=True)
class LeaseBlock:
    """Units leased together: the first may be used from `at`, the others at `rate` a second."""

    at: float
    units: float
    rate: float


class LeasedRate:
    """The pace of a limit that processes share: what was leased is used by this process alone.

    Each unit has its time, so the processes together keep the even spacing of one; a unit that is
    late is lost, so that many processes cannot save up for a burst.

    Args:
        most: a call of more units counts as one of so many.
        want: told when more units are needed; who it is leases them, calls `add` and wakes up who
            waits.
    """

    def __init__(self, most: float, request_units: Callable[[], None]) -> None:
        self._most = most
        self._request_units = request_units
        self._blocks: deque[LeaseBlock] = deque()
        self._held_units = 0.0
        self._needed_units = 0.0
        self._owed_units = 0.0
        self._error: AssizesError | None = None

    def begin(self, now: float) -> None:
        """Units keep their times."""

    def add(self, block: LeaseBlock) -> None:
        """More units."""
        self._blocks.append(block)
        self._held_units += block.units

    def counts_at_most(self, most: float) -> None:
        """As `most` is from now on: the limit may be lower than it was, or rise again."""
        self._most = most

    def fail(self, error: AssizesError) -> None:
        """No units will come any more, for this reason."""
        self._error = error

    def missing_units(self, now: float) -> float:
        """How many units the next call lacks; 0 when it lacks none but more should be leased ahead;
        -1 when enough are.
        """
        self._forget(now)
        lacks = self._needed_units + self._owed_units - self._held_units
        if lacks > 0:
            return lacks
        last = self._blocks[-1] if self._blocks else None
        ends = last.at + last.units / last.rate if last else now
        return 0.0 if ends < now + LEASE_AHEAD_S else -1.0

    def ready_at(self, cost: float, now: float) -> float:
        """The time of the first unit, where enough are there."""
        if self._error is not None:
            raise self._error
        self._needed_units = min(cost, self._most)
        missing = self.missing_units(now)
        if missing >= 0:
            self._request_units()
        return NEVER if missing > 0 or not self._blocks else self._blocks[0].at

    def take(self, cost: float, now: float) -> Charge:
        """Use the oldest units, for what calls before this one took beyond their estimate too."""
        charge = Charge(now, min(cost, self._most))
        self._use(max(0.0, charge.cost + self._owed_units))
        self._owed_units = min(0.0, charge.cost + self._owed_units)
        return charge

    def settle(self, charge: Charge, cost: float) -> None:
        """The difference is owed, or saved, by the next calls."""
        cost = min(cost, self._most)
        self._owed_units += cost - charge.cost
        charge.cost = cost
        if self._blocks:
            self._owed_units = max(self._owed_units, -MAX_LATE_S * self._blocks[-1].rate)

    def _use(self, units: float) -> None:
        while units > 0 and self._blocks:
            block = self._blocks[0]
            used = min(units, block.units)
            block.at += used / block.rate
            block.units -= used
            self._held_units -= used
            units -= used
            if block.units <= _TINY:
                self._blocks.popleft()
        if not self._blocks:
            self._held_units = 0.0

    def _forget(self, now: float) -> None:
        while self._blocks and (late_s := now - MAX_LATE_S - self._blocks[0].at) > _TINY:
            block = self._blocks[0]
            self._use(min(block.units, late_s * block.rate))
