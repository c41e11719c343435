"""Counts the asks of a run and estimates their tokens, without calling any model.

Every case has its hearings, but text rules answer in the place of the models, so that the asks of
later rounds can be foreseen; an ask whose reply is cached gets that reply. The scores are thrown
away, only the asks are counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from pydantic import BaseModel

from assizes.judge.case import Case
from assizes.judge.engine.ask_records import HearingResult
from assizes.judge.engine.ensemble_hearing import EnsembleModels, hear_ensemble
from assizes.judge.engine.hearings import reply_key
from assizes.judge.engine.reply_cache import CachedReply, ReplyCache
from assizes.judge.errors import ModelError
from assizes.judge.forecast.reply_estimates import reply_tokens
from assizes.judge.hearing import Hearing
from assizes.judge.heuristic.answers import plain_reply
from assizes.judge.model_assignment import ModelAssignment
from assizes.judge.models.model import Model
from assizes.judge.prompts.reply import parse_reply
from assizes.judge.prompts.reply_request import most_sent
from assizes.judge.protocol import (
    NO_SQL_RUNNER,
    Ask,
    Judge,
    NoReply,
    QueryResult,
    Question,
    SqlRunner,
)


class AskGroup(NamedTuple):
    """The asks of one judge to one model in one round; they are counted together."""

    judge: str
    model: str
    round: int


@dataclass
class AskTally:
    """Counts and estimates of the asks of one `AskGroup`.

    Attributes:
        asks: all asks; `cached`, `same` and `to_put` add up to this.
        cached: asks that a cached reply answers.
        same: asks that are answered together with an equal ask of the run.
        to_put: asks that the model would have to answer.
        without_rule: asks that no text rule can answer; what their judge would ask after them is
            unknown.
        input_tokens: prompt tokens of the asks to put, as the model estimates them.
        max_input_tokens: the most prompt tokens that the asks to put can have.
        output_tokens: reply tokens of the asks to put, estimated from their schemas.
        max_output_tokens: reply tokens of the asks to put, each reply at its cap.
        metered: cached replies whose tokens and latency are known, from a single call each.
        metered_input_tokens: prompt tokens of the metered replies, as the provider counted them.
        estimated_input_tokens: prompt tokens that the model estimates for the same prompts.
        metered_output_tokens: reply tokens of the metered replies.
        metered_ms: latency of the metered replies, all together, in milliseconds.
    """

    asks: int = 0
    cached: int = 0
    same: int = 0
    to_put: int = 0
    without_rule: int = 0
    input_tokens: int = 0
    max_input_tokens: int = 0
    output_tokens: int = 0
    max_output_tokens: int = 0
    metered: int = 0
    metered_input_tokens: int = 0
    estimated_input_tokens: int = 0
    metered_output_tokens: int = 0
    metered_ms: float = 0.0

    def note_cached(self, reply: CachedReply, estimate: int) -> None:
        """Count an ask that a cached reply answers.

        Args:
            reply: the cached reply.
            estimate: prompt tokens of the ask, as the model estimates them.
        """
        self.cached += 1
        completion = reply.completion
        input_tokens, output_tokens = completion.input_tokens, completion.output_tokens
        if input_tokens is not None and output_tokens is not None and reply.attempts == 1:
            self.metered += 1
            self.metered_input_tokens += input_tokens
            self.estimated_input_tokens += estimate
            self.metered_output_tokens += output_tokens
            self.metered_ms += completion.latency_ms


class Forecaster:
    """Stands in for the engine: runs hearings as the engine does, but only counts their asks.

    The counts are in `tallies`.

    Args:
        assignment: the models of the run, by judge.
        cache: the cached replies; `None` where the run would use none.
        sql_runner: answers the SQL queries of judges; `None` where the run has no database.
    """

    def __init__(
        self,
        assignment: ModelAssignment,
        cache: ReplyCache | None,
        sql_runner: SqlRunner | None = None,
    ) -> None:
        self.tallies: dict[AskGroup, AskTally] = {}
        self._assignment = assignment
        self._cache = cache
        self._sql_runner = sql_runner
        self._put_keys: set[str] = set()

    async def hear(self, judge: Judge, case: Case) -> HearingResult:
        """Run the hearing of a case before a judge, with its model or its ensemble of models."""
        own = self._assignment.own.get(judge.name, self._assignment.shared)
        if isinstance(own, EnsembleModels):
            return await hear_ensemble(own, judge, case, partial(self._hear_once, judge, case))
        return await self._hear_once(judge, case, own, 0)

    async def _hear_once(
        self, judge: Judge, case: Case, model: Model, sample: int
    ) -> HearingResult:
        hearing = Hearing(judge, case)
        round_ = 0
        while hearing.asks:
            tally = self.tallies.setdefault(AskGroup(judge.name, model.name, round_), AskTally())
            context = _AskContext(model, sample, tally)
            hearing.answer([await self._reply(question, context) for question in hearing.asks])
            round_ += 1
        return HearingResult(judge, hearing.scores, [])

    async def _reply(
        self, question: Question, context: _AskContext
    ) -> BaseModel | QueryResult | NoReply:
        if isinstance(question, Ask):
            return await self._foresee_reply(question, context)
        if self._sql_runner is None:
            return NO_SQL_RUNNER
        return await self._sql_runner.look_up(question)

    async def _foresee_reply(self, ask: Ask[Any], context: _AskContext) -> BaseModel | NoReply:
        tally, (sent, most) = context.tally, context.model.tokens(ask)
        tally.asks += 1
        key = reply_key(context.model, ask.prompt_hash, context.sample)
        cached = await self._cache.get(key) if key and self._cache is not None else None
        if cached is not None and (known := _read_cached(ask, cached)) is not None:
            tally.note_cached(cached, sent)
            return known
        value, reply = plain_reply(ask)
        tally.without_rule += value is None
        if key in self._put_keys:
            tally.same += 1
            return reply
        if key is not None:
            self._put_keys.add(key)
        tally.to_put += 1
        tally.input_tokens += sent
        tally.max_input_tokens += most_sent(ask, sent)
        tally.max_output_tokens += most
        tally.output_tokens += (
            min(most, reply_tokens(ask.reply, value, ask.prompt.user)) if most else 0
        )
        return reply


class _AskContext(NamedTuple):
    model: Model
    sample: int
    tally: AskTally


def _read_cached(ask: Ask[Any], cached: CachedReply) -> BaseModel | None:
    try:
        reply: BaseModel = parse_reply(
            cached.completion.text, ask.reply, cached.completion.reply_id
        ).reply
    except ModelError:
        return None
    return reply
