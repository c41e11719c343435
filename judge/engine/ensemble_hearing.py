"""A jury hears a case: every model, every repeat, and a senior model where they are unsure."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assizes.judge.case import Case
from assizes.judge.engine.ask_records import AskRecord, Heard
from assizes.judge.engine.votes import EVIDENT, Vote, escalated, reduced, unsure
from assizes.judge.hearing import Hearing
from assizes.judge.heuristic.answers import plain_reply
from assizes.judge.models.model import Model
from assizes.judge.protocol import Ask, Judge, NoReply, Question
from assizes.judge.score import Score

Hear = Callable[[Model, int], Awaitable[Heard]]
"""One hearing before a model; the number tells repeats apart."""


@dataclass(frozen=True, slots=True)
class Panel:
    """A jury whose models can be asked (see `assizes.judge.engine.ensemble.Jury`)."""

    models: tuple[Model, ...]
    repeats: int = 1
    senior: Model | None = None

    @property
    def members(self) -> tuple[Model, ...]:
        """Everyone who may be asked, the senior model last."""
        return self.models if self.senior is None else (*self.models, self.senior)


def members(own: Iterable[Model | Panel]) -> list[Model]:
    """Every model among models and panels."""
    return [model for one in own for model in (one.members if isinstance(one, Panel) else (one,))]


async def voted(panel: Panel, judge: Judge, case: Case, hear: Hear) -> Heard:
    """What a jury finds. All first hearings are held at once; a senior model hears the case alone
    and only where they leave doubts, and its finding then stands for theirs.
    """
    seats = [(model, sample) for model in panel.models for sample in range(panel.repeats)]
    held = await asyncio.gather(*(hear(*seat) for seat in seats), return_exceptions=True)
    heard = []
    for one in held:
        # Raised only when all have ended: none of them is left running behind.
        if isinstance(one, BaseException):
            raise one
        heard.append(one)
    votes = [
        Vote(model.name, sample, one.scores)
        for (model, sample), one in zip(seats, heard, strict=True)
    ]
    scores = reduced(votes)
    why = panel.senior and unsure(votes, judge.metrics, plain_evidence(judge, case))
    if panel.senior is not None and why:
        heard.append(await hear(panel.senior, 0))
        scores = escalated(heard[-1].scores, votes, why)
    return Heard(judge, scores, _numbered([ask for one in heard for ask in one.asks]))


def plain_evidence(judge: Judge, case: Case) -> list[Score]:
    """What the offline rules find, where the expected tool calls are known and a metric can be read
    off them; else nothing.
    """
    if case.expected.tool_calls is None or EVIDENT.isdisjoint(one.name for one in judge.metrics):
        return []
    hearing = Hearing(judge, case)
    while hearing.asks:
        hearing.answer([_by_rule(question) for question in hearing.asks])
    return hearing.scores


def _by_rule(question: Question) -> Any:
    if not isinstance(question, Ask):
        return NoReply("no_clerk", "plain rules look nothing up")
    return plain_reply(question)[1]


def _numbered(asks: Sequence[AskRecord]) -> list[AskRecord]:
    """The asks of a round counted on over all hearings: rows are told apart by it."""
    counted: Counter[int] = Counter()
    numbered = []
    for ask in asks:
        numbered.append(replace(ask, index=counted[ask.round]))
        counted[ask.round] += 1
    return numbered
