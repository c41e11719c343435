"""Drives hearings: one slot pool, one reply cache and one ledger for all of them."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from assizes.judge.case import Case
from assizes.judge.config.run import LimitsConfig
from assizes.judge.engine.ask_records import AskRecord, Heard, Place, record
from assizes.judge.engine.ask_state import Answer
from assizes.judge.engine.asking import Bounds, Questioner
from assizes.judge.engine.budget_gate import Purse
from assizes.judge.engine.circuit_breaker import Trip
from assizes.judge.engine.ensemble_hearing import Panel, members, voted
from assizes.judge.engine.ledger import Ledger, OpenLedger
from assizes.judge.engine.limits.limits import Leases, Limiter
from assizes.judge.engine.reply_cache import Kept, ReplyCache, Turns
from assizes.judge.engine.retry import Backoff
from assizes.judge.errors import ModelError, NotAsked
from assizes.judge.hearing import Hearing
from assizes.judge.models.model import Completion, Model, UnusableReply
from assizes.judge.prompts.reply import PARSER_VERSION, parse_reply
from assizes.judge.protocol import NO_CLERK, Ask, Clerk, Judge, NoReply, Query, QueryResult

HEARINGS_PER_SLOT: Final = 2
"""Hearings that are open for each call that may be in flight.

A hearing waits unopened until then: its prompts take memory, and making those of a whole shard at
once would hold up the replies that come meanwhile.
"""


@dataclass(frozen=True, slots=True)
class Means:
    """What an engine works with besides models; each may be left out.

    Args:
        run_id: whose asks these are; kept replies say which run paid for them.
        cache: where paid replies are kept.
        turns: whose turn it is to ask for a reply; null: everybody's.
        ledger: what may be spent; by default anything.
        leases: limits shared with other processes.
        clerk: looks things up for judges.
        given: by cache key, what a call that was made elsewhere, and paid for there, came to: it
            is the first attempt of its ask.
        backoff: pauses between the calls of an ask.
        trip: when a provider is taken to be down; null: as usual, but after no fewer calls than
            can be in flight.
    """

    run_id: str = ""
    cache: ReplyCache | None = None
    turns: Turns | None = None
    ledger: Ledger = field(default_factory=OpenLedger)
    leases: Leases | None = None
    clerk: Clerk | None = None
    given: Mapping[str, Completion | UnusableReply] = field(default_factory=dict)
    backoff: Backoff = field(default_factory=Backoff)
    trip: Trip | None = None

    def bounds(self, limits: LimitsConfig, limiter: Limiter) -> Bounds:
        """What holds for every ask of an engine."""
        trip = self.trip or Trip(failures=max(Trip().failures, limits.max_in_flight))
        return Bounds(limits, limiter, Purse(self.ledger), self.backoff, trip)


class _Seat:
    """A model and who puts questions to it."""

    def __init__(self, model: Model, bounds: Bounds) -> None:
        self.model = model
        self.questioner = Questioner(model, bounds)


class Engine:
    """Answers the asks of any number of hearings at once.

    Calls in flight never exceed `max_in_flight`, however many hearings run and however many models
    answer; identical asks in flight are answered once; a reply that does not fit is asked for once
    more. `models` names the judges that have a model or a panel of their own; `model` answers all
    others.
    """

    def __init__(
        self,
        model: Model,
        limits: LimitsConfig,
        means: Means | None = None,
        *,
        models: Mapping[str, Model | Panel] | None = None,
    ) -> None:
        self._means = means = means or Means()
        self.limiter = Limiter(limits, means.leases)
        self._bounds = means.bounds(limits, self.limiter)
        self._model = model
        self._own = dict(models or {})
        self._seats: dict[int, _Seat] = {}
        for one in (model, *members(self._own.values())):
            self._seat_of(one)
        self._hearings = asyncio.Semaphore(HEARINGS_PER_SLOT * limits.max_in_flight)
        self._flights: dict[str, asyncio.Future[Answer]] = {}
        self._keeping: set[asyncio.Task[None]] = set()

    @property
    def calls(self) -> int:
        """Model calls made so far, re-asks included."""
        return sum(seat.questioner.calls for seat in self._all_seats())

    @property
    def cost_usd(self) -> float:
        """What they cost, where the price is known."""
        return math.fsum(seat.questioner.cost_usd for seat in self._all_seats())

    @property
    def silent(self) -> frozenset[str]:
        """Names of the models that were called and never answered, not even with a refusal."""
        seats = [seat for seat in self._all_seats() if seat.questioner.calls]
        answered = {seat.model.name for seat in seats if seat.questioner.breaker.answered}
        return frozenset(seat.model.name for seat in seats) - answered

    async def hear(self, judge: Judge, case: Case) -> Heard:
        """One judge on one case, to the end. The asks of a round are answered together.

        An exception that a judge or a model did not mean to raise passes through.
        """
        own = self._own.get(judge.name, self._model)
        async with self._hearings:
            if not isinstance(own, Panel):
                return await self._heard(judge, case, own, 0)
            return await voted(own, judge, case, partial(self._heard, judge, case))

    async def _heard(self, judge: Judge, case: Case, model: Model, sample: int) -> Heard:
        """Before one model; repeats of a model are told apart by `sample`, each is answered anew."""
        seat = self._seat_of(model)
        hearing = Hearing(judge, case)
        records: list[AskRecord] = []
        round_ = 0
        while hearing.asks:
            questions = [
                _Put(one, seat.model, Place(judge.name, round_, index, sample))
                for index, one in enumerate(hearing.asks)
            ]
            replies = await self._replies(seat, questions)
            for question, reply in zip(questions, replies, strict=True):
                if isinstance(reply, Answer):
                    charged = await self._charged(question, reply, case)
                    records.append(record(seat.model, charged, question.hash, question.place))
            hearing.answer([one.reply if isinstance(one, Answer) else one for one in replies])
            round_ += 1
        return Heard(judge=judge, scores=hearing.scores, asks=records)

    async def _replies(self, seat: _Seat, questions: list[_Put]) -> list[Any]:
        """What all questions of a round came to."""
        replies = await asyncio.gather(
            *(self._reply(seat, one) for one in questions), return_exceptions=True
        )
        for reply in replies:
            # Raised only when all have ended: no call is left running behind.
            if isinstance(reply, BaseException):
                raise reply
        return replies

    def stop(self, code: str, why: str) -> None:
        """Ask no model any more. Asks that wait for a call end at once, with a `NoReply` of this
        code; calls in flight are waited for and kept.
        """
        for seat in self._all_seats():
            seat.questioner.stop(NotAsked(code, why))

    async def aclose(self) -> None:
        """Ask nothing more, keep what was paid for, and give back the models' connections.

        In the event loop that used them. An ask still waiting ends with a `NoReply`.
        """
        self.stop("closing", "the run is ending, no model is asked any more")
        if self._keeping:
            await asyncio.wait(self._keeping)
        for seat in self._all_seats():
            await seat.model.aclose()

    def _all_seats(self) -> list[_Seat]:
        return list(self._seats.values())

    def _seat_of(self, model: Model) -> _Seat:
        """The one seat of a model, whoever asks it: calls of a model share what is known of it."""
        if id(model) not in self._seats:
            self._seats[id(model)] = _Seat(model, self._bounds)
        return self._seats[id(model)]

    async def _reply(self, seat: _Seat, put: _Put) -> Answer | QueryResult | NoReply:
        if isinstance(put.question, Ask):
            return await self._answer(seat, put.question, put)
        if self._means.clerk is None:
            return NO_CLERK
        return await self._means.clerk.look_up(put.question)

    async def _answer(self, seat: _Seat, ask: Ask[Any], put: _Put) -> Answer:
        """From the same ask in flight, else from the cache, else from the model."""
        key = put.key
        if key is None:
            return await seat.questioner.answer(ask, put.hash)
        while (flight := self._flights.get(key)) is not None:
            # wait() neither raises what befell the other ask nor cancels it with this one.
            await asyncio.wait([flight])
            if not flight.cancelled():
                return _shared(flight.result())
        landing = self._flights[key] = asyncio.get_running_loop().create_future()
        try:
            answer = await self._kept(ask, key) or await self._in_turn(seat, ask, key)
            landing.set_result(answer)
        finally:
            del self._flights[key]
            landing.cancel()
        return answer

    async def _kept(self, ask: Ask[Any], key: str) -> Answer | None:
        cache = self._means.cache
        kept = await cache.get(key) if cache is not None else None
        if kept is None:
            return None
        completion = kept.completion
        try:
            read = parse_reply(completion.text, ask.reply, completion.reply_id)
        except ModelError:
            return None
        run_id = self._means.run_id
        paid_here = kept.attempts if run_id and kept.paid_by == run_id else 0
        flags = tuple(sorted({*completion.flags, *read.flags}))
        return Answer(read.reply, replace(completion, flags=flags), paid_here, cached=True)

    async def _in_turn(self, seat: _Seat, ask: Ask[Any], key: str) -> Answer:
        """From the model, unless another process has asked in the meantime."""
        if self._means.turns is None:
            return await self._fresh(seat, ask, key)
        async with self._means.turns.turn(key):
            return await self._kept(ask, key) or await self._fresh(seat, ask, key)

    async def _fresh(self, seat: _Seat, ask: Ask[Any], key: str) -> Answer:
        answer = await seat.questioner.answer(ask, key, self._means.given.get(key))
        cache = self._means.cache
        if answer.settled and cache is not None:
            kept = Kept(answer.completion, answer.attempts, self._means.run_id)
            keeping = asyncio.create_task(cache.put(key, kept))
            self._keeping.add(keeping)
            keeping.add_done_callback(self._keeping.discard)
            # Whoever cancels the ask does not undo that its answer came and was paid for.
            await asyncio.shield(keeping)
        return answer

    async def _charged(self, put: _Put, answer: Answer, case: Case) -> Answer:
        """An answer that was just called for is charged; one that was kept, and that this run paid
        for, to the first ask that claims it, once.
        """
        if put.key is None or isinstance(answer.reply, NoReply):
            return answer
        # Claimed also where it was just called for: whoever reads it from the cache pays nothing.
        place = put.place.of(case)
        mine = answer.attempts > 0 and await self._bounds.purse.claims(put.key, place)
        return replace(answer, cached=False) if mine or not answer.cached else _free(answer)


class _Put:
    """A question where it is put: `hash` is its prompt's, `key` the cache's (null: not kept)."""

    def __init__(self, question: Ask[Any] | Query, model: Model, place: Place) -> None:
        self.question = question
        self.place = place
        self.hash, self.key = "", None
        if isinstance(question, Ask):
            self.hash = question.prompt_hash
            self.key = reply_key(model, self.hash, place.sample)


def reply_key(model: Model, prompt_hash: str, sample: int) -> str | None:
    """What decides an answer, as 64 hex digits; null where the model's answers are not kept."""
    if model.cache_key is None:
        return None
    parts = [model.cache_key, prompt_hash, str(PARSER_VERSION)]
    if sample:
        parts.append(str(sample))
    return hashlib.sha256("\x00".join(parts).encode()).hexdigest()


def _shared(answer: Answer) -> Answer:
    """The same answer for an ask that did not have to be put.

    A reply keeps the tokens of the ask that was, and is called cached; a failure used none itself.
    """
    if answer.error is None:
        return _free(answer)
    none = replace(answer.completion, cost_usd=0.0, input_tokens=0, output_tokens=0)
    return Answer(answer.reply, none)


def _free(answer: Answer) -> Answer:
    """Paid for elsewhere."""
    return Answer(answer.reply, replace(answer.completion, cost_usd=0.0), cached=True)
