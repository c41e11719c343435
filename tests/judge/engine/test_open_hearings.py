"""Hearings are opened as slots become free: their prompts are not all made at once."""

from __future__ import annotations

import asyncio

from assizes.judge.engine.hearings import HEARINGS_PER_SLOT
from assizes.judge.models.model import Completion, ScriptedModel
from tests.judge.engine.levels import CASE, Asking, engine, priced

SLOTS = 3


class Opened(Asking):
    """Counts the hearings that were opened and not closed yet."""

    open, most = 0, 0

    def judge(self, case):
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            return (yield from super().judge(case))
        finally:
            self.open -= 1


class Slow(ScriptedModel):
    """Answers after a while."""

    async def complete(self, ask, *, complaint=None, cap=1) -> Completion:
        await asyncio.sleep(0.002)
        return await super().complete(ask, complaint=complaint, cap=cap)


async def test_no_more_hearings_are_open_than_slots_will_soon_need():
    judge, count = Opened(["first"], ["second"]), 40
    asking = engine(Slow([priced(2)] * 2 * count), max_in_flight=SLOTS)

    heard = await asyncio.gather(*(asking.hear(judge, CASE) for _ in range(count)))

    assert judge.most == HEARINGS_PER_SLOT * SLOTS
    assert (judge.open, len(heard)) == (0, count)
    assert all(one.scores[0].raw == 4 for one in heard)
