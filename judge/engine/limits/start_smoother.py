"""Keeps calls from moving in waves: who start together end together, and then start together again.

While a wave is handled, one call's reply waits for all others'. Starts are spaced a little closer
than slots become free on average, so a wave is drawn out the first time it comes back, and calls
whose ends are spread already hardly notice.
"""

from __future__ import annotations

from typing import Final

from assizes.judge.engine.limits.rate_limiter import NEVER

HASTE: Final = 2.0
"""Starts may follow one another so many times as fast as slots become free on average."""

QUICK: Final = 8
"""Calls that are shorter than before count for so much: after an outage slots fill quickly again."""


class Spread:
    """When the next call may start, for the sake of those in flight.

    Args:
        size: the number of slots.
    """

    def __init__(self, size: int) -> None:
        self.due = -NEVER
        self._size = size
        self._held_s = 0.0
        self._seen = 0

    def started(self, now: float) -> None:
        """A call starts now."""
        gap_s = self._held_s / self._size / HASTE
        self.due = max(self.due, now - gap_s) + gap_s

    def ended(self, held_s: float) -> None:
        """A call gives back its slot, which it held so long."""
        self._seen = min(self._seen + 1, self._size)
        weight = min(self._seen, QUICK) if held_s < self._held_s else self._seen
        self._held_s += (held_s - self._held_s) / weight
