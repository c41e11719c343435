"""How hard a model may be pressed: the slots that calls in flight share."""

from __future__ import annotations

import asyncio
from types import TracebackType


class Slots:
    """A pool of `size` slots; `async with slots:` holds one for the length of a model call.

    One pool serves every hearing of a run, whatever shard it belongs to: pools of their own would
    leave slots idle at the end of each shard.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.in_flight = 0
        self.peak = 0
        self._free = asyncio.Semaphore(size)

    async def __aenter__(self) -> None:
        await self._free.acquire()
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.in_flight -= 1
        self._free.release()
