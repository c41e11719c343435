"""Time without the pauses of a process: a suspended machine, a stopped process, a debugger."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any, Final

TICK_S: Final = 1.0
"""How often the clock looks whether the process runs, in seconds."""

PAUSE_S: Final = 5.0
"""From so many seconds between two looks on, the process stood still; it was not only busy."""


@dataclass(slots=True, eq=False)
class AwakeClock:
    """The event loop's clock without the seconds in which the process stood still.

    The clock of the loop goes on while a process is stopped, so on waking every timeout of it is
    over at once, and no provider is to blame. Timeouts of this clock are put off by the pause
    instead. On Linux the loop's clock stands still while the machine is suspended; such a pause
    puts nothing off, but it counts as one, because connections do not survive it. The clock looks
    once per second, as long as any of its timeouts is open.
    """

    pauses: int = 0  # so far
    paused_s: float = 0.0  # of all pauses, by the clock of the loop
    _timeouts: set[asyncio.Timeout] = field(default_factory=set, init=False)
    _looked_at: float = field(default=0.0, init=False)  # on the clock of the loop
    _looked_at_since_boot: float = field(default=0.0, init=False)
    _next_look: asyncio.TimerHandle | None = field(default=None, init=False)

    def time(self) -> float:
        """Seconds in which the process ran, from some start; it needs a running event loop."""
        return asyncio.get_running_loop().time() - self.paused_s

    def timeout_at(self, when: float | None) -> _AwakeTimeout:
        """Bound an `async with` block as `asyncio.timeout_at` does, by the time of this clock.

        The block gets the `asyncio.Timeout`, and ends in a `TimeoutError` when it is not left in time.
        """
        return _AwakeTimeout(self, None if when is None else when + self.paused_s)

    def open_timeout(self, timeout: asyncio.Timeout) -> None:
        """Put a timeout off by later pauses, until it is closed."""
        self._timeouts.add(timeout)
        if self._next_look is None:
            self._plan_look()

    def close_timeout(self, timeout: asyncio.Timeout) -> None:
        """Leave a timeout alone from now on."""
        self._timeouts.discard(timeout)

    def _plan_look(self) -> None:
        loop = asyncio.get_running_loop()
        self._looked_at, self._looked_at_since_boot = loop.time(), since_boot()
        self._next_look = loop.call_later(TICK_S, self._look)

    def _look(self) -> None:
        """Put off all timeouts by a pause; of timers that are due, this one is called first."""
        self._next_look, before = None, self._looked_at
        passed_s = asyncio.get_running_loop().time() - before
        if max(passed_s, since_boot() - self._looked_at_since_boot) >= PAUSE_S:
            pause_s = max(0.0, passed_s - TICK_S)
            self.pauses += 1
            self.paused_s += pause_s
            for timeout in self._timeouts:
                end = timeout.when()
                # A timeout that was over before the pause stays so.
                if end is not None and end > before and not timeout.expired():
                    timeout.reschedule(end + pause_s)
        if self._timeouts:
            self._plan_look()


class _AwakeTimeout:
    """The block of a timeout, as a class: each call of a model has three, and a generator costs more."""

    __slots__ = ("_clock", "_timeout")

    def __init__(self, clock: AwakeClock, end: float | None) -> None:
        self._clock = clock
        self._timeout = asyncio.timeout_at(end)

    async def __aenter__(self) -> asyncio.Timeout:
        timeout = await self._timeout.__aenter__()
        self._clock.open_timeout(timeout)
        return timeout

    async def __aexit__(self, *error: Any) -> None:
        self._clock.close_timeout(self._timeout)
        await self._timeout.__aexit__(*error)


def since_boot() -> float:
    """Seconds since the machine started, suspensions included where the system counts them."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)  # Linux alone has it
    return time.monotonic() if clock is None else time.clock_gettime(clock)
