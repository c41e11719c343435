"""The engine: rounds, slots, shared asks, deadlines."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from assizes.judge.engine.hearings import Engine
from assizes.judge.errors import ModelError
from assizes.judge.models.model import ScriptedModel, UnusableReply
from assizes.judge.protocol import Ask
from assizes.judge.score import Score
from tests.judge.engine.engine_models import Gated, settled
from tests.judge.engine.levels import CASE, LEVEL, PAID, Asking, but, engine, priced


@pytest.mark.row("000-62")
async def test_every_ask_leaves_a_record_of_who_answered_what_at_which_price():
    scripted = engine(ScriptedModel([priced(4)]))
    judge = Asking()

    heard = await scripted.hear(judge, CASE)

    assert heard.judge is judge
    assert heard.scores == [Score.of(LEVEL, 4)]
    assert heard.asks == [PAID]
    assert (scripted.calls, scripted.cost_usd) == (1, 0.25)


async def test_rounds_and_places_are_counted_from_0_and_answers_keep_their_places():
    def answer(one: Ask[Any]) -> dict[str, int]:
        return {"score": int(one.prompt.user)}

    scripted = engine(ScriptedModel([answer] * 3))

    heard = await scripted.hear(Asking(["1", "2"], ["0"]), CASE)

    assert heard.scores == [Score.of(LEVEL, 3)]
    assert [(a.round, a.index, a.reply) for a in heard.asks] == [
        (0, 0, '{"score": 1}'),
        (0, 1, '{"score": 2}'),
        (1, 0, '{"score": 0}'),
    ]


async def test_an_exception_nobody_meant_to_raise_passes_through():
    def bug(one: Ask[Any]) -> str:
        return {}["missing"]

    with pytest.raises(KeyError, match="missing"):
        await engine(ScriptedModel([bug])).hear(Asking(), CASE)


def hears(asking: Engine, count: int) -> list[Any]:
    return [asking.hear(Asking(), CASE) for _ in range(count)]


async def test_one_slot_pool_holds_for_all_hearings_together():
    model = Gated([{"score": 1}] * 12)
    asking = engine(model, max_in_flight=5)
    hearings = [
        asyncio.create_task(asking.hear(Asking([f"{i}-{j}" for j in range(3)]), CASE))
        for i in range(4)
    ]
    await settled()

    assert model.waiting == 5
    model.gate.set()
    heard = await asyncio.gather(*hearings)

    assert [one.scores for one in heard] == [[Score.of(LEVEL, 3)]] * 4
    assert (asking.limiter.peak, asking.limiter.in_flight, asking.calls) == (5, 0, 12)


async def test_identical_asks_in_flight_are_answered_once():
    model = Gated([priced(4)])
    asking = engine(model)
    hearings = asyncio.gather(*hears(asking, 3))
    await settled()
    model.gate.set()

    heard = await hearings

    shared = but(PAID, cached=True, attempts=0, cost_usd=0.0, cost_source="free")
    assert [one.asks for one in heard] == [[PAID], [shared], [shared]]
    assert [one.scores for one in heard] == [[Score.of(LEVEL, 4)]] * 3
    assert asking.calls == 1


async def test_a_failure_in_flight_is_shared_but_not_called_cached():
    model = Gated([ModelError("refused", "no")])
    hearings = asyncio.gather(*hears(engine(model), 2))
    await settled()
    model.gate.set()

    first, second = await hearings

    assert [first.asks[0].error, second.asks[0].error] == ["refused: no"] * 2
    assert [first.asks[0].attempts, second.asks[0].attempts] == [1, 0]
    assert not second.asks[0].cached


async def test_a_paid_failure_in_flight_is_paid_and_metered_once():
    model = Gated([UnusableReply("truncated_output", "cut off", priced(4))])
    hearings = asyncio.gather(*hears(engine(model, max_attempts=1), 2))
    await settled()
    model.gate.set()

    first, second = await hearings

    paid = but(PAID, error="truncated_output: cut off", trail=first.asks[0].trail)
    assert first.asks == [paid]
    none = {"attempts": 0, "input_tokens": 0, "output_tokens": 0, "cost_usd": 0.0, "trail": None}
    assert second.asks == [but(paid, cost_source="free", **none)]


async def test_when_the_asking_hearing_is_cancelled_another_asks_in_its_place():
    model = Gated([priced(4)])
    first, second = map(asyncio.create_task, hears(engine(model), 2))
    await settled()

    first.cancel()
    await settled()
    model.gate.set()

    assert (await second).asks == [PAID]
    assert first.cancelled()


async def test_a_cancelled_follower_leaves_the_asking_hearing_alone():
    model = Gated([priced(4)])
    first, second = map(asyncio.create_task, hears(engine(model), 2))
    await settled()

    second.cancel()
    await settled()
    model.gate.set()

    assert (await first).asks == [PAID]


async def test_a_call_is_cut_at_its_deadline():
    asking = engine(Gated([]), timeout_s=0.05, max_attempts=1)

    heard = await asyncio.wait_for(asking.hear(Asking(), CASE), 20)

    assert heard.scores == [Score.failed("level", "no answer within 0.05 s", "deadline", raw="")]
    assert heard.asks[0].error == "deadline: no answer within 0.05 s"
    assert heard.asks[0].latency_ms >= 50
    assert asking.limiter.in_flight == 0


async def test_waiting_for_a_slot_does_not_count_against_the_deadline():
    async def slowly(asking, text):
        return await asking.hear(Asking([text]), CASE)

    class Slow(ScriptedModel):
        async def complete(self, ask, *, complaint=None, cap=1):
            await asyncio.sleep(0.2)
            return await super().complete(ask, complaint=complaint, cap=cap)

    asking = engine(Slow([{"score": 1}] * 4), max_in_flight=1, timeout_s=0.5)

    heard = await asyncio.gather(*(slowly(asking, str(i)) for i in range(4)))

    assert [one.asks[0].error for one in heard] == [None] * 4
