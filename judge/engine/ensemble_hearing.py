"""A jury hears a case: every model, every repeat, and a senior model where they are unsure."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assizes.judge.case import Case
from assizes.judge.engine.ask_records import AskRecord, HearingResult
from assizes.judge.engine.votes import (
    EVIDENT,
    Vote,
    escalate_scores,
    escalation_reason,
    reduce_votes,
)
from assizes.judge.hearing import Hearing
from assizes.judge.heuristic.answers import plain_reply
from assizes.judge.models.model import Model
from assizes.judge.protocol import Ask, Judge, NoReply, Question
from assizes.judge.score import Score

HearOnce = Callable[[Model, int], Awaitable[HearingResult]]
"""One hearing before a model; the number tells repeats apart."""


@dataclass(frozen=True, slots=True)
class EnsembleModels:
    """A jury whose models can be asked (see `assizes.judge.engine.ensemble.Jury`)."""

    models: tuple[Model, ...]
    repeats: int = 1
    senior: Model | None = None

    @property
    def members(self) -> tuple[Model, ...]:
        """Everyone who may be asked, the senior model last."""
        return self.models if self.senior is None else (*self.models, self.senior)


def members(own: Iterable[Model | EnsembleModels]) -> list[Model]:
    """Every model among models and panels."""
    return [
        model
        for entry in own
        for model in (entry.members if isinstance(entry, EnsembleModels) else (entry,))
    ]


async def hear_ensemble(
    ensemble: EnsembleModels, judge: Judge, case: Case, hear: HearOnce
) -> HearingResult:
    """What a jury finds. All first hearings are held at once; a senior model hears the case alone
    and only where they leave doubts, and its finding then stands for theirs.
    """
    slots = [(model, sample) for model in ensemble.models for sample in range(ensemble.repeats)]
    outcomes = await asyncio.gather(*(hear(*slot) for slot in slots), return_exceptions=True)
    hearing_results = []
    for outcome in outcomes:
        # Raised only when all have ended: none of them is left running behind.
        if isinstance(outcome, BaseException):
            raise outcome
        hearing_results.append(outcome)
    votes = [
        Vote(model.name, sample, result.scores)
        for (model, sample), result in zip(slots, hearing_results, strict=True)
    ]
    scores = reduce_votes(votes)
    why = ensemble.senior and escalation_reason(votes, judge.metrics, plain_evidence(judge, case))
    if ensemble.senior is not None and why:
        hearing_results.append(await hear(ensemble.senior, 0))
        scores = escalate_scores(hearing_results[-1].scores, votes, why)
    return HearingResult(
        judge, scores, _number_asks([ask for result in hearing_results for ask in result.asks])
    )


def plain_evidence(judge: Judge, case: Case) -> list[Score]:
    """What the offline rules find, where the expected tool calls are known and a metric can be read
    off them; else nothing.
    """
    if case.expected.tool_calls is None or EVIDENT.isdisjoint(
        metric.name for metric in judge.metrics
    ):
        return []
    hearing = Hearing(judge, case)
    while hearing.asks:
        hearing.answer([_rule_reply(question) for question in hearing.asks])
    return hearing.scores


def _rule_reply(question: Question) -> Any:
    if not isinstance(question, Ask):
        return NoReply("no_clerk", "plain rules look nothing up")
    return plain_reply(question)[1]


def _number_asks(asks: Sequence[AskRecord]) -> list[AskRecord]:
    """The asks of a round counted on over all hearings: rows are told apart by it."""
    counted: Counter[int] = Counter()
    numbered = []
    for ask in asks:
        numbered.append(replace(ask, index=counted[ask.round]))
        counted[ask.round] += 1
    return numbered
