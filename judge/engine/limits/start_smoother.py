"""Keeps calls from moving in waves: who start together end together, and then start together again.

While a wave is handled, one call's reply waits for all others'. Starts are spaced a little closer
than slots become free on average, so a wave is drawn out the first time it comes back, and calls
whose ends are spread already hardly notice.
"""

from __future__ import annotations

from typing import Final

from assizes.judge.engine.limits.rate_limiter import NEVER

START_RATE_FACTOR: Final = 2.0
"""Starts may follow one another so many times as fast as slots become free on average."""

SHORT_CALL_WEIGHT: Final = 8
"""Calls that are shorter than before count for so much: after an outage slots fill quickly again."""


class StartSmoother:
    """When the next call may start, for the sake of those in flight.

    Args:
        size: the number of slots.
    """

    def __init__(self, size: int) -> None:
        self.due = -NEVER
        self._size = size
        self._held_s = 0.0
        self._seen = 0

    def note_start(self, now: float) -> None:
        """A call starts now."""
        gap_s = self._held_s / self._size / START_RATE_FACTOR
        self.due = max(self.due, now - gap_s) + gap_s

    def note_end(self, held_s: float) -> None:
        """A call gives back its slot, which it held so long."""
        self._seen = min(self._seen + 1, self._size)
        weight = min(self._seen, SHORT_CALL_WEIGHT) if held_s < self._held_s else self._seen
        self._held_s += (held_s - self._held_s) / weight
