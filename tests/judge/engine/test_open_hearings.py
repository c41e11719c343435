"""Hearings begin as slots for their calls are near: their prompts are not all made at once."""

from __future__ import annotations

import asyncio

import pytest

from assizes.judge.config.judging import LimitsConfig
from assizes.judge.engine.hearing_gate import (
    HEARINGS_PER_SLOT,
    SLOTS_PER_WAITING_CALL,
    HearingGate,
)
from assizes.judge.engine.limits.limits import Limiter
from assizes.judge.models.model import Completion, ScriptedModel
from assizes.judge.protocol import NO_SQL_RUNNER, Query, look_up
from tests.judge.engine.levels import CASE, Asking, engine, priced

SLOTS = 3


class Opened(Asking):
    """Counts the hearings that were begun, and those that have not ended yet."""

    open, most, begun = 0, 0, 0

    def judge(self, case):
        self.begun += 1
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            return (yield from super().judge(case))
        finally:
            self.open -= 1


class Slow(ScriptedModel):
    """Answers after a while; keeps how many hearings had begun at each call, and at each answer."""

    def __init__(self, replies, judge: Opened, seconds: float = 0.002) -> None:
        super().__init__(replies, cache_key=None)  # each ask is a call
        self.judge, self.seconds = judge, seconds
        self.begun, self.begun_at_answers = [], []

    async def complete(self, ask, *, complaint=None, cap=1) -> Completion:
        self.begun.append(self.judge.begun)
        await asyncio.sleep(self.seconds)
        self.begun_at_answers.append(self.judge.begun)
        return await super().complete(ask, complaint=complaint, cap=cap)


async def test_no_more_hearings_are_open_than_slots_will_soon_need():
    judge, count = Opened(["first"], ["second"]), 40
    asking = engine(Slow([priced(2)] * 2 * count, judge), max_in_flight=SLOTS)

    heard = await asyncio.gather(*(asking.hear(judge, CASE) for _ in range(count)))

    assert judge.most == HEARINGS_PER_SLOT * SLOTS
    assert (judge.open, len(heard)) == (0, count)
    assert all(one.scores[0].raw == 4 for one in heard)


async def test_a_call_does_not_wait_for_the_prompts_of_the_hearings_behind_it():
    judge, count, slots = Opened(["q"]), 200, 50
    model = Slow([priced(2)] * count, judge, seconds=0.2)
    asking = engine(model, max_in_flight=slots)

    await asyncio.gather(*(asking.hear(judge, CASE) for _ in range(count)))

    assert all(begun - number <= 4 for number, begun in enumerate(model.begun[:slots], start=1))
    assert model.begun_at_answers[0] <= slots + slots // SLOTS_PER_WAITING_CALL + 2
    assert asking.limiter.peak == slots


class Queries:
    """A runner whose queries end when they are let go."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def look_up(self, _question):
        await self.go.wait()
        return NO_SQL_RUNNER


class Looking(Opened):
    """Looks something up before it asks."""

    def judge(self, case):
        yield from look_up(Query("none.db", ("select 1",)))
        return (yield from super().judge(case))


async def test_hearings_that_wait_for_something_else_keep_no_slot_empty():
    queries, plain = Queries(), Opened(["q"])
    model = Slow([priced(2)] * 20, plain)
    asking = engine(model, max_in_flight=SLOTS, means={"sql_runner": queries})

    looking = [asyncio.create_task(asking.hear(Looking(["q"]), CASE)) for _ in range(SLOTS)]
    others = asyncio.gather(*(asking.hear(plain, CASE) for _ in range(10)))
    await asyncio.wait_for(others, 20)
    assert not any(task.done() for task in looking)

    queries.go.set()
    await asyncio.gather(*looking)


async def test_a_hearing_that_is_cancelled_while_it_waits_leaves_its_place_to_the_next():
    judge = Opened(["q"])
    asking = engine(Slow([priced(2)] * 40, judge), max_in_flight=1)

    hearings = [asyncio.create_task(asking.hear(judge, CASE)) for _ in range(30)]
    for turn in range(12):  # at any moment between two turns of the event loop
        await asyncio.sleep(0)
        hearings[2 * turn].cancel()
    heard = await asyncio.wait_for(asyncio.gather(*hearings, return_exceptions=True), 20)

    ended = [one for one in heard if not isinstance(one, asyncio.CancelledError)]
    assert 18 <= len(ended) < 30
    assert all(one.scores[0].raw == 2 for one in ended)
    last = await asyncio.wait_for(asking.hear(judge, CASE), 20)
    assert last.scores[0].raw == 2


async def test_where_slots_are_empty_as_many_hearings_begin_in_a_turn_as_have_ended_in_it():
    slots, ended = 4, 3
    gate = HearingGate(Limiter(LimitsConfig(max_in_flight=slots)))
    for _ in range(HEARINGS_PER_SLOT * slots):
        await gate.enter()
        await asyncio.sleep(0)
    waiting = [asyncio.create_task(gate.enter()) for _ in range(slots)]
    await asyncio.sleep(0)
    for _ in range(ended):
        gate.leave()
    await asyncio.sleep(0)

    assert sum(task.done() for task in waiting) == ended
    waiting.pop().cancel()


async def test_a_hearing_that_is_cancelled_just_as_it_is_let_in_takes_no_place():
    gate = HearingGate(Limiter(LimitsConfig(max_in_flight=1)))
    for _ in range(HEARINGS_PER_SLOT):
        await gate.enter()
        await asyncio.sleep(0)
    waiting = asyncio.create_task(gate.enter())
    await asyncio.sleep(0)
    gate.leave()  # lets it in
    waiting.cancel()  # before it could go on
    with pytest.raises(asyncio.CancelledError):
        await waiting

    await asyncio.wait_for(gate.enter(), 5)
    waiting = asyncio.create_task(gate.enter())
    await asyncio.sleep(0)
    waiting.cancel()  # while it waited: no place becomes free by that
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(gate.enter(), 0.05)


async def test_more_hearings_begin_when_more_calls_may_be_made():
    judge, count = Opened(["q"]), 60
    asking = engine(Slow([priced(2)] * count, judge, seconds=0.05), max_in_flight=1)

    hearings = [asyncio.create_task(asking.hear(judge, CASE)) for _ in range(count)]
    await asyncio.sleep(0.01)
    assert judge.most <= HEARINGS_PER_SLOT
    asking.resize(20)
    await asyncio.gather(*hearings)

    assert asking.limiter.peak == 20
