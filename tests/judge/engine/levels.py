"""A judge that asks for levels, and readers of the records of its asks, for tests of the engine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from assizes.judge.config.judging import LimitsConfig
from assizes.judge.engine.ask_records import AskRecord
from assizes.judge.engine.attempts import Backoff
from assizes.judge.engine.hearings import Engine, EngineDependencies
from assizes.judge.models.model import Completion
from assizes.judge.protocol import Ask, NoReply, Prompt, ask_each
from assizes.judge.score import Metric, Scale, Score
from tests.builders import agent, case, user

LEVEL = Metric("level", scale=Scale.SCORED)
CASE = case(user("hello"), agent("hi"))


class Reply(BaseModel):
    model_config = ConfigDict(extra="forbid")

    score: int


class Asking:
    """A judge that asks rounds of questions, given by their texts, and scores the sum of the replies."""

    name = "asking"
    version = "1"
    metrics = (LEVEL,)

    def __init__(self, *rounds: Sequence[str], doubts: Any = None) -> None:
        self.rounds = rounds or (["q"],)
        self.doubts = doubts

    def missing(self, case):
        return None

    def judge(self, case):
        total = 0
        for texts in self.rounds:
            asks = [Ask(Prompt("s", text), Reply, doubts=self.doubts) for text in texts]
            for reply in (yield from ask_each(asks)):
                if isinstance(reply, NoReply):
                    return [Score.failed("level", reply.reason, reply.code, raw=reply.raw)]
                total += reply.score
        return [Score.of(LEVEL, total)]


def engine(model, cache=None, means=None, **limits):
    """An engine with short pauses.

    `limits` are settings of [limits], `means` further fields of `EngineDependencies`.
    """
    given = {"max_in_flight": 8, "timeout_s": 5.0} | limits
    rest = {"cache": cache, "backoff": Backoff(0.01, 0.02)} | (means or {})
    return Engine(model, LimitsConfig(**given), EngineDependencies(**rest))


def priced(score: int, cost_usd: float | None = 0.25) -> Completion:
    return Completion(json.dumps({"score": score}), "m-2025", 100, 20, cost_usd, latency_ms=50.0)


HASH = Ask(Prompt("s", "q"), Reply).prompt_hash
PAID = AskRecord(
    judge="asking",
    round=0,
    index=0,
    model="scripted/queue",
    provider="scripted",
    answered_by="m-2025",
    prompt_hash=HASH,
    cached=False,
    attempts=1,
    input_tokens=100,
    output_tokens=20,
    cost_usd=0.25,
    latency_ms=50.0,
    error=None,
    reply='{"score": 4}',
    cost_source="priced",
    waited_ms=pytest.approx(0.0, abs=500.0),
)


def but(record: AskRecord, **fields: Any) -> AskRecord:
    return AskRecord(**{name: getattr(record, name) for name in record.__slots__} | fields)


def codes(record: AskRecord) -> list[str | None]:
    """The error code of each call of an ask; `None` for a good reply."""
    return [step["code"] for step in json.loads(record.trail or "[]")]


def doubts_below_3(reply: Reply) -> str | None:
    return "score is too low" if reply.score < 3 else None
