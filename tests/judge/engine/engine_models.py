"""Models that answer only when the test lets them."""

from __future__ import annotations

import asyncio

from assizes.judge.models.model import ScriptedModel


class Gated(ScriptedModel):
    """A model that answers only when the gate is opened, and counts the waiting calls."""

    def __init__(self, replies, cache_key="gated"):
        super().__init__(replies, cache_key)
        self.gate = asyncio.Event()
        self.waiting = 0

    async def complete(self, ask, *, complaint=None, cap=1):
        self.waiting += 1
        await self.gate.wait()
        self.waiting -= 1
        return await super().complete(ask, complaint=complaint, cap=cap)


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)
