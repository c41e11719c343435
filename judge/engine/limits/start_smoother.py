"""Keeps calls from moving in waves: calls that start together end together, then start together again.

While a wave of replies is handled, each reply waits for all others. Starts are therefore spaced, a
little closer than slots become free on average: a wave is drawn out the first time it comes back,
and calls whose ends are spread already are hardly delayed.
"""

from __future__ import annotations

from typing import Final

from assizes.judge.engine.limits.rate_limiter import NEVER

START_RATE_FACTOR: Final = 2.0
"""How many times as fast as slots become free on average calls may start."""

SHORT_CALL_WEIGHT: Final = 8
"""The most calls over which a shorter call is averaged: after an outage slots fill quickly again."""


class StartSmoother:
    """Spaces the starts of calls by the average time that calls hold a slot.

    Args:
        size: the number of slots.

    Attributes:
        due: the time at which the next call may start.
    """

    def __init__(self, size: int) -> None:
        self.due = -NEVER
        self._size = size
        self._held_s = 0.0
        self._seen = 0

    def note_start(self, now: float) -> None:
        """Note that a call starts now."""
        gap_s = self._held_s / self._size / START_RATE_FACTOR
        self.due = max(self.due, now - gap_s) + gap_s

    def note_end(self, held_s: float) -> None:
        """Note that a call gives back its slot, and the seconds that it held the slot."""
        self._seen = min(self._seen + 1, self._size)
        weight = min(self._seen, SHORT_CALL_WEIGHT) if held_s < self._held_s else self._seen
        self._held_s += (held_s - self._held_s) / weight
