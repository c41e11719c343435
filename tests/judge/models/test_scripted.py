"""The scripted model: answers as queued."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from assizes.judge.errors import ModelError
from assizes.judge.models.model import Completion, ScriptedModel
from assizes.judge.protocol import Ask, Prompt


class Reply(BaseModel):
    score: int


ASK = Ask(Prompt("system", "user"), Reply)


async def test_replies_come_in_the_order_they_were_queued_and_asks_are_remembered():
    whole = Completion("{}", "m-2024", 7, 8, cost_usd=None, latency_ms=9.0)
    model = ScriptedModel(["text", {"score": 4}, lambda ask: ask.prompt.user, whole])

    answers = [await model.complete(ASK, complaint=c) for c in (None, "again", None, None)]

    assert [answer.text for answer in answers] == ["text", '{"score": 4}', "user", "{}"]
    assert answers[0] == Completion("text", "scripted/queue", 10, 5, cost_usd=0.0, latency_ms=1.0)
    assert answers[3] == whole
    assert model.asked == [(ASK, None), (ASK, "again"), (ASK, None), (ASK, None)]


async def test_a_queued_error_is_raised():
    model = ScriptedModel([ModelError("refused", "no")])
    with pytest.raises(ModelError, match="refused: no"):
        await model.complete(ASK)


async def test_an_empty_queue_is_an_error_not_a_hang():
    with pytest.raises(ModelError, match="script_empty: no reply is queued for ask 1"):
        await ScriptedModel([]).complete(ASK)
