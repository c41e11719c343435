"""How hard models may be pressed: slots for calls in flight, requests and tokens a minute."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from judge.config import LimitsConfig


class Leases(Protocol):
    """Limits that processes share: what was leased may be used, by this process alone."""

    async def lease(self, model: str, requests: int, tokens: int) -> None:
        """Wait until so many requests and tokens of a model's shared limits are ours."""


class Permit:
    """Leave to make one model call."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.waited_ms = 0.0

    def settle(self, tokens: int | None) -> None:
        """Put what the call really took in the place of the estimate."""

    def refused(self, retry_after_s: float | None) -> None:
        """The provider turned the call away for its rate: press it less."""


class Limiter:
    """Admits model calls: never more than `max_in_flight` at once over all models, and for each
    model no more requests and tokens a minute than it may be sent.

    One limiter serves every hearing of a run, whatever shard it belongs to: pools of their own would
    leave slots idle at the end of each shard.
    """

    def __init__(self, limits: LimitsConfig, leases: Leases | None = None) -> None:
        self.size = limits.max_in_flight
        self.in_flight = 0
        self.peak = 0
        self._free = asyncio.Semaphore(self.size)
        self._leases = leases

    @asynccontextmanager
    async def admitted(self, model: str, tokens: int, group: str = "") -> AsyncIterator[Permit]:
        """Wait for leave to call a model, and hold its slot for the length of the block.

        Args:
            model: the model's name; each has limits of its own.
            tokens: what the call is estimated to take, answer included.
            group: calls of the same group follow one another where they can, so that the provider
                finds the beginning of their prompts in its cache.
        """
        async with self._free:
            self.in_flight += 1
            self.peak = max(self.peak, self.in_flight)
            try:
                yield Permit(tokens)
            finally:
                self.in_flight -= 1
