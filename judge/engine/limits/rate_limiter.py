"""Rate limits of one model: requests or tokens, spaced evenly under a limit.

Nothing here waits or reads a clock: callers pass the time, in seconds of a monotonic clock.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from assizes.judge.errors import AssizesError

MINUTE_S: Final = 60.0
USED_SHARE: Final = 0.985
"""Share of a limit that is used: calls that were sent within a little more than a minute may all
arrive at the provider within a minute."""

FORESEEN_SHARE: Final = 0.99
"""Share of a limit of tokens that the estimates of calls may take up: some calls will take more."""

CATCH_UP_S: Final = 0.3
"""Seconds by which calls may be late (because the event loop was busy) and still start at once."""

MAX_LAG_S: Final = 3.0
CATCH_UP_FACTOR: Final = 1.2
"""Calls that are later than `CATCH_UP_S` start `CATCH_UP_FACTOR` times as fast as the limit, until
the lag is made up for; a lag of more than `MAX_LAG_S` seconds is not made up for."""

NEVER: Final = math.inf
"""The time of something that does not happen unless something else happens first."""

_TINY: Final = 1e-9  # units or seconds that are left over by the rounding of floats


@dataclass(slots=True, eq=False)
class Charge:
    """What a limit charged for one call."""

    at: float  # start of the call
    cost: float  # requests or tokens


class RateLimit(Protocol):
    """A limit that says when the next call may start; costs are numbers of requests or of tokens."""

    def begin(self, now: float) -> None:
        """Note that calls begin to wait again; what was not used before now is lost."""

    def ready_at(self, cost: float, now: float) -> float:
        """The time at which a call of this cost may start.

        A time in the past means at once; `NEVER` means not before something else happens.

        Raises:
            AssizesError: when the limit is not available any more.
        """

    def take(self, cost: float, now: float) -> Charge:
        """Charge for a call of this cost that starts now."""

    def settle(self, charge: Charge, cost: float) -> None:
        """Replace the charge of a call by the cost that it really had; 0 for one that was not made."""


@dataclass(slots=True)
class _Schedule:
    """The time at which the next call is due."""

    rate: float  # requests or tokens a second
    lag_s: float  # most seconds that `due` may lie in the past
    due: float = -NEVER


class RateLimiter:
    """A limit that this process has for itself.

    The starts of calls are spaced by their costs; the first call starts at once, and there is no
    burst. In addition, the charges within a window never exceed what is allowed, whatever calls
    really took and however late some of them started.
    """

    def __init__(self, allowed: float, window_s: float) -> None:
        """Make a limit of so many requests, or tokens, in a window of so many seconds."""
        self._allowed, self._window_s = allowed, window_s
        rate = allowed / window_s
        # GCRA, the generic cell rate algorithm (ITU-T I.371), as virtual scheduling. One schedule
        # runs at the rate of the limit; a faster one bounds how quickly a lag is made up for.
        fast = _Schedule(CATCH_UP_FACTOR * rate, CATCH_UP_S)
        self._schedules = (_Schedule(rate, MAX_LAG_S), fast)
        self._charged: deque[Charge] = deque()  # of the last window, oldest first
        self._total = 0.0  # their sum

    @classmethod
    def of_requests(cls, per_minute: int) -> RateLimiter:
        """A limit of requests a minute."""
        return cls(per_minute, MINUTE_S / USED_SHARE)

    @classmethod
    def of_tokens(cls, per_minute: int) -> RateLimiter:
        """A limit of tokens a minute."""
        return cls(FORESEEN_SHARE * per_minute, MINUTE_S * FORESEEN_SHARE / USED_SHARE)

    def begin(self, now: float) -> None:
        """Start the schedules from now where they lag behind."""
        for schedule in self._schedules:
            schedule.due = max(schedule.due, now)

    def ready_at(self, cost: float, now: float) -> float:
        """The time at which the schedules and the window allow a call of this cost."""
        while self._charged and self._charged[0].at <= now - self._window_s:
            self._total -= self._charged.popleft().cost
        # A call that costs more than the window allows waits for a window without other calls.
        excess = self._total + min(cost, self._allowed) - self._allowed
        free_at = -NEVER
        for charge in self._charged:  # the oldest that have to leave the window first
            if excess <= 0:
                break
            excess -= charge.cost
            free_at = charge.at + self._window_s
        return max(free_at, *(schedule.due for schedule in self._schedules))

    def take(self, cost: float, now: float) -> Charge:
        """Charge for a call that starts now, and move the schedules on by its cost."""
        charge = Charge(now, min(cost, self._allowed))
        for schedule in self._schedules:
            begin = max(schedule.due, now - schedule.lag_s)
            schedule.due = begin + charge.cost / schedule.rate
        self._charged.append(charge)
        self._total += charge.cost
        return charge

    def settle(self, charge: Charge, cost: float) -> None:
        """Correct the charge, and move the schedules by the difference."""
        difference = min(cost, self._allowed) - charge.cost
        # A charge that has left the window is no part of the total any more.
        if self._charged and charge.at >= self._charged[0].at:
            self._total += difference
            for schedule in self._schedules:
                schedule.due += difference / schedule.rate
            charge.cost += difference


MAX_LATE_S: Final = 0.3
LEASE_AHEAD_S: Final = 1.0
"""Seconds after its time at which a leased unit that was not used is lost, and seconds ahead for
which units are leased, so that no call waits for the server that grants them."""


@dataclass(slots=True)
class LeaseBlock:
    """Units (requests or tokens) that were leased together."""

    at: float  # when the first unit that is left may be used
    units: float  # units that are left
    rate: float  # units a second at which the others may be used


@dataclass(slots=True, eq=False)
class LeasedRate:
    """A limit that processes share: each process uses only the units that it leased.

    Each unit has a time of its own, so that all processes together keep the even spacing of a
    single process. When more units are needed, `request_units` is called: the owner then leases
    some, calls `add` and wakes the waiting calls.
    """

    most: float  # units; a call that costs more counts as one of so many
    request_units: Callable[[], None]
    _blocks: deque[LeaseBlock] = field(default_factory=deque)  # oldest first
    _held_units: float = 0.0  # left in all blocks
    _needed_units: float = 0.0  # by the next call
    _owed_units: float = 0.0  # what calls took beyond their estimates; below 0: what they saved
    _error: AssizesError | None = None  # `None` as long as units can come

    def begin(self, now: float) -> None:
        """Do nothing: leased units keep their times."""

    def add(self, block: LeaseBlock) -> None:
        """Add units that were leased."""
        self._blocks.append(block)
        self._held_units += block.units

    def counts_at_most(self, most: float) -> None:
        """Set `most` anew, because the limit has fallen or risen."""
        self.most = most

    def fail(self, error: AssizesError) -> None:
        """Note that no more units will come; from now on `ready_at` raises this error."""
        self._error = error

    def missing_units(self, now: float) -> float:
        """The number of units that the next call lacks.

        0 when the call lacks none but more units should be leased ahead; -1 when enough are leased.
        """
        self._forget(now)
        lacks = self._needed_units + self._owed_units - self._held_units
        if lacks > 0:
            return lacks
        last = self._blocks[-1] if self._blocks else None
        ends = last.at + last.units / last.rate if last else now  # time of the last unit
        return 0.0 if ends < now + LEASE_AHEAD_S else -1.0

    def ready_at(self, cost: float, now: float) -> float:
        """The time of the first unit; `NEVER` where there are too few units for the cost."""
        if self._error is not None:
            raise self._error
        self._needed_units = min(cost, self.most)
        missing = self.missing_units(now)
        if missing >= 0:
            self.request_units()
        return NEVER if missing > 0 or not self._blocks else self._blocks[0].at

    def take(self, cost: float, now: float) -> Charge:
        """Use up the oldest units for this call, and for what earlier calls took beyond estimate."""
        charge = Charge(now, min(cost, self.most))
        self._use(max(0.0, charge.cost + self._owed_units))
        self._owed_units = min(0.0, charge.cost + self._owed_units)
        return charge

    def settle(self, charge: Charge, cost: float) -> None:
        """Add the difference between cost and charge to what the next calls use up, or save."""
        cost = min(cost, self.most)
        self._owed_units += cost - charge.cost
        charge.cost = cost
        if self._blocks:  # savings are bounded as units are: they cannot add up to a burst
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
            self._held_units = 0.0  # rid of what rounding left

    def _forget(self, now: float) -> None:
        # Units that are late are lost: many processes could else save up for a burst.
        while self._blocks and (late_s := now - MAX_LATE_S - self._blocks[0].at) > _TINY:
            block = self._blocks[0]
            self._use(min(block.units, late_s * block.rate))
