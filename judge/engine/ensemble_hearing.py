"""Hears a case with an ensemble: every model, every repeat, and a senior model where they are unsure."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from assizes.judge.case import Case
from assizes.judge.engine import cascade as cascading
from assizes.judge.engine import ensemble as voting
from assizes.judge.engine.ask_records import AskRecord, HearingResult
from assizes.judge.hearing import Hearing
from assizes.judge.heuristic.answers import plain_reply
from assizes.judge.models.model import Model
from assizes.judge.protocol import Ask, Judge, NoReply
from assizes.judge.score import Score

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EnsembleModels:
    """The models of an ensemble, ready to be called; see `assizes.judge.engine.ensemble.Ensemble`."""

    models: tuple[Model, ...]
    repeats: int = 1  # of each model
    senior: Model | None = None  # asked where the votes leave doubts
    cascade: voting.CascadeRule | None = None  # what a doubt is; `None`: plain signs of one

    @property
    def members(self) -> tuple[Model, ...]:
        """All models that may be asked, the senior model last."""
        return self.models if self.senior is None else (*self.models, self.senior)


def members(own: Iterable[Model | EnsembleModels]) -> list[Model]:
    """All models among single models and ensembles."""
    own_models = (each.members if isinstance(each, EnsembleModels) else (each,) for each in own)
    return list(itertools.chain.from_iterable(own_models))


async def gather_all(awaitables: Iterable[Awaitable[T]]) -> list[T]:
    """The results of all, in their order; an exception is raised only when all have ended."""
    each = list(awaitables)
    if len(each) == 1:  # as mostly: it needs no task of its own
        return [await each[0]]
    results: list[T] = []
    # Without `return_exceptions` the first exception would leave the others running unattended.
    for outcome in await asyncio.gather(*each, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
        results.append(outcome)
    return results


async def hear_ensemble(
    ensemble: EnsembleModels,
    judge: Judge,
    case: Case,
    hear: Callable[[Model, int], Awaitable[HearingResult]],
) -> HearingResult:
    """Hear a case with every model and every repeat at once, and reduce the votes to one result.

    `hear` hears the case with one model; its number is that of the repeat, from 0 on.
    """
    slots = [(model, sample) for model in ensemble.models for sample in range(ensemble.repeats)]
    hearing_results = await gather_all(hear(*slot) for slot in slots)
    votes = [
        voting.Vote(model.name, sample, result.scores)
        for (model, sample), result in zip(slots, hearing_results, strict=True)
    ]
    scores = voting.reduce_votes(votes)
    if ensemble.senior is not None and ensemble.cascade is not None:
        known = cascading.confidences(scores, votes, judge.metrics)
        first, decided_by = scores, ", ".join(model.name for model in ensemble.models)
        why = cascading.cascade_reason(ensemble.cascade, scores, known)
        if why is not None:
            hearing_results.append(await hear(ensemble.senior, 0))
            scores = voting.escalate_scores(hearing_results[-1].scores, votes, why)
            decided_by = ensemble.senior.name
        scores = cascading.with_confidence(scores, known, decided_by, first if why else ())
    elif ensemble.senior is not None:
        evidence = plain_evidence(judge, case)
        # The senior model hears alone: it sees no votes, and its scores replace theirs.
        if why := voting.escalation_reason(votes, judge.metrics, evidence):
            hearing_results.append(await hear(ensemble.senior, 0))
            scores = voting.escalate_scores(hearing_results[-1].scores, votes, why)
    asks = itertools.chain.from_iterable(result.asks for result in hearing_results)
    return HearingResult(judge, scores, with_own_places(asks))


def with_own_places(asks: Iterable[AskRecord]) -> list[AskRecord]:
    """The asks of several hearings of one case and judge, each with a place of its own in its round."""
    places: defaultdict[int, Iterator[int]] = defaultdict(itertools.count)
    return [replace(ask, index=next(places[ask.round])) for ask in asks]


def plain_evidence(judge: Judge, case: Case) -> list[Score]:
    """The scores of the offline rules, as evidence beside the votes; empty where they know nothing."""
    names = {metric.name for metric in judge.metrics}
    # Without expected calls the rules would guess by words, which is no evidence.
    if case.expected.tool_calls is None or voting.EVIDENT.isdisjoint(names):
        return []
    hearing = Hearing(judge, case)
    no_queries = NoReply("no_sql_runner", "plain rules look nothing up")
    while hearing.asks:
        hearing.answer(
            [plain_reply(ask)[1] if isinstance(ask, Ask) else no_queries for ask in hearing.asks]
        )
    return hearing.scores
