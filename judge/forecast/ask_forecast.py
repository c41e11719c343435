"""Hears cases without asking any model: which asks a run would put, and what they would take.

Plain text rules answer in the place of the models, so that later rounds can be foreseen; kept
replies answer for themselves. What comes of the hearings is thrown away, only the asks are counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from pydantic import BaseModel

from assizes.judge.case import Case
from assizes.judge.engine.ask_records import Heard
from assizes.judge.engine.ensemble_hearing import Panel, voted
from assizes.judge.engine.hearings import reply_key
from assizes.judge.engine.reply_cache import Kept, ReplyCache
from assizes.judge.errors import ModelError
from assizes.judge.forecast.reply_estimates import reply_tokens
from assizes.judge.hearing import Hearing
from assizes.judge.heuristic.answers import plain_reply
from assizes.judge.model_assignment import Seats
from assizes.judge.models.model import Model
from assizes.judge.prompts.reply import parse_reply
from assizes.judge.prompts.reply_request import most_sent
from assizes.judge.protocol import NO_CLERK, Ask, Clerk, Judge, NoReply, QueryResult, Question


class Bench(NamedTuple):
    """Whose asks are counted together: those of one judge to one model in one round."""

    judge: str
    model: str
    round: int


@dataclass
class Tally:
    """The asks of a bench.

    Of `asks`, `kept` are answered by kept replies, `same` by another ask of the run, `put` to the
    model. `blind` ones have no plain rule: what their judge would ask next is not known.

    Attributes:
        sent: prompt tokens of those put, as the model estimates them.
        most_sent: the most that these prompts can be.
        came: reply tokens of those put, by their schemas.
        most: reply tokens of those put, at their cap.
        metered: calls behind kept replies whose tokens and latency are known.
        metered_sent: their prompt tokens.
        metered_guess: what the model estimates for the same prompts.
        metered_came: their reply tokens.
        metered_ms: how long they took.
    """

    asks: int = 0
    kept: int = 0
    same: int = 0
    put: int = 0
    blind: int = 0
    sent: int = 0
    most_sent: int = 0
    came: int = 0
    most: int = 0
    metered: int = 0
    metered_sent: int = 0
    metered_guess: int = 0
    metered_came: int = 0
    metered_ms: float = 0.0

    def note_kept(self, kept: Kept, guess: int) -> None:
        """An ask that a kept reply answers."""
        self.kept += 1
        completion = kept.completion
        sent, came = completion.input_tokens, completion.output_tokens
        if sent is not None and came is not None and kept.attempts == 1:
            self.metered += 1
            self.metered_sent += sent
            self.metered_guess += guess
            self.metered_came += came
            self.metered_ms += completion.latency_ms


class Forecaster:
    """Counts asks by bench; hears as an engine does.

    Args:
        seats: the models of the run.
        cache: replies that are kept; null where none are to be taken.
        clerk: looks things up for judges.
    """

    def __init__(self, seats: Seats, cache: ReplyCache | None, clerk: Clerk | None = None) -> None:
        self.tallies: dict[Bench, Tally] = {}
        self._seats = seats
        self._cache = cache
        self._clerk = clerk
        self._put: set[str] = set()

    async def hear(self, judge: Judge, case: Case) -> Heard:
        """One judge on one case, before its model or its panel."""
        own = self._seats.own.get(judge.name, self._seats.shared)
        if isinstance(own, Panel):
            return await voted(own, judge, case, partial(self._heard, judge, case))
        return await self._heard(judge, case, own, 0)

    async def _heard(self, judge: Judge, case: Case, model: Model, sample: int) -> Heard:
        hearing = Hearing(judge, case)
        round_ = 0
        while hearing.asks:
            tally = self.tallies.setdefault(Bench(judge.name, model.name, round_), Tally())
            seen = _Seen(model, sample, tally)
            hearing.answer([await self._reply(one, seen) for one in hearing.asks])
            round_ += 1
        return Heard(judge, hearing.scores, [])

    async def _reply(self, question: Question, seen: _Seen) -> BaseModel | QueryResult | NoReply:
        if isinstance(question, Ask):
            return await self._foreseen(question, seen)
        if self._clerk is None:
            return NO_CLERK
        return await self._clerk.look_up(question)

    async def _foreseen(self, ask: Ask[Any], seen: _Seen) -> BaseModel | NoReply:
        tally, (sent, most) = seen.tally, seen.model.tokens(ask)
        tally.asks += 1
        key = reply_key(seen.model, ask.prompt_hash, seen.sample)
        kept = await self._cache.get(key) if key and self._cache is not None else None
        if kept is not None and (known := _read(ask, kept)) is not None:
            tally.note_kept(kept, sent)
            return known
        value, reply = plain_reply(ask)
        tally.blind += value is None
        if key in self._put:
            tally.same += 1
            return reply
        if key is not None:
            self._put.add(key)
        tally.put += 1
        tally.sent += sent
        tally.most_sent += most_sent(ask, sent)
        tally.most += most
        tally.came += min(most, reply_tokens(ask.reply, value, ask.prompt.user)) if most else 0
        return reply


class _Seen(NamedTuple):
    model: Model
    sample: int
    tally: Tally


def _read(ask: Ask[Any], kept: Kept) -> BaseModel | None:
    try:
        found: BaseModel = parse_reply(
            kept.completion.text, ask.reply, kept.completion.reply_id
        ).reply
    except ModelError:
        return None
    return found
