"""Drives hearings: one slot pool, one reply cache and one ledger for all of them."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from judge.asking import Answer, Questioner
from judge.case import Case
from judge.config import LimitsConfig
from judge.errors import ModelError, NotAsked
from judge.hearing import Hearing
from judge.kept import Kept, ReplyCache
from judge.ledger import Ledger, OpenLedger
from judge.limits import Leases, Limiter
from judge.llm import Completion, Model
from judge.prices import Price
from judge.protocol import Ask, Clerk, Judge, NoReply, Query, QueryResult
from judge.reply import PARSER_VERSION, parse_reply
from judge.rows import as_json
from judge.score import Score


@dataclass(frozen=True, slots=True)
class Means:
    """What an engine works with besides models; each may be left out.

    Args:
        run_id: whose asks these are; kept replies say which run paid for them.
        cache: where paid replies are kept.
        ledger: what may be spent; by default anything.
        leases: limits shared with other processes.
        clerk: looks things up for judges.
    """

    run_id: str = ""
    cache: ReplyCache | None = None
    ledger: Ledger = field(default_factory=OpenLedger)
    leases: Leases | None = None
    clerk: Clerk | None = None


@dataclass(frozen=True, slots=True)
class AskRecord:
    """What one ask took; the fields are columns of the `asks` table.

    A `cached` answer was paid for elsewhere: no attempts, no cost, tokens and latency as they were
    then. What an interrupted sitting of the same run paid for is not cached: it is charged here.
    A failure that was shared with the same ask in flight is not cached; it has no attempts,
    no tokens and no cost of its own. Tokens and cost are null where any attempt's are not known;
    a call that the provider turned away or that never reached it took none. `reply` is the raw text.

    `sample` numbers the repeats of a panel's model; `cost_source` is `priced`, `estimated` (tokens
    were not metered), `unknown` (no price) or `free`; `waited_ms` is what limits took; `flags` says
    what was done to get or read the reply; `trail` is JSON, one object a call, where there was more
    than one or the last failed.
    """

    judge: str
    round: int
    index: int
    model: str
    provider: str
    answered_by: str | None
    prompt_hash: str
    cached: bool
    attempts: int
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    latency_ms: float
    error: str | None
    reply: str | None
    sample: int = 0
    fingerprint: str | None = None
    cost_source: str = "free"
    waited_ms: float = 0.0
    flags: tuple[str, ...] = ()
    trail: str | None = None


@dataclass(frozen=True, slots=True)
class Heard:
    """A closed hearing: what the judge found and what its asks took."""

    judge: Judge
    scores: list[Score]
    asks: list[AskRecord]


class _Door:
    """A model until it is shut: whoever still waits for a slot, or asks anew, is turned away."""

    def __init__(self, model: Model) -> None:
        self.name, self.provider, self.cache_key = model.name, model.provider, model.cache_key
        self.shut = False
        self._model = model

    @property
    def price(self) -> Price | None:
        """The model's."""
        return self._model.price

    def tokens(self, ask: Ask[Any], cap: int = 1) -> tuple[int, int]:
        """The model's estimate."""
        return self._model.tokens(ask, cap)

    async def complete(
        self, ask: Ask[Any], *, complaint: str | None = None, cap: int = 1
    ) -> Completion:
        """The model's answer.

        Raises:
            ModelError: `NotAsked` when the door is shut.
        """
        if self.shut:
            raise NotAsked("closing", "the run is ending, no model is asked any more")
        return await self._model.complete(ask, complaint=complaint, cap=cap)

    async def aclose(self) -> None:
        """Give back the model's connections."""
        await self._model.aclose()


class _Seat:
    """A model and who puts questions to it."""

    def __init__(
        self, model: Model, limiter: Limiter, ledger: Ledger, limits: LimitsConfig
    ) -> None:
        self.model = _Door(model)
        self.questioner = Questioner(self.model, limiter, ledger, limits)


class Engine:
    """Answers the asks of any number of hearings at once.

    Calls in flight never exceed `max_in_flight`, however many hearings run and however many models
    answer; identical asks in flight are answered once; a reply that does not fit is asked for once
    more. `models` names the judges that have a model of their own; `model` answers all others.
    """

    def __init__(
        self,
        model: Model,
        limits: LimitsConfig,
        means: Means | None = None,
        *,
        models: Mapping[str, Model] | None = None,
    ) -> None:
        self._means = means = means or Means()
        self.limiter = limiter = Limiter(limits, means.leases)
        self._seat = _Seat(model, limiter, means.ledger, limits)
        self._seats = {
            judge: _Seat(own, limiter, means.ledger, limits)
            for judge, own in (models or {}).items()
        }
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

    async def hear(self, judge: Judge, case: Case) -> Heard:
        """One judge on one case, to the end. The asks of a round are answered together.

        An exception that a judge or a model did not mean to raise passes through.
        """
        seat = self._seats.get(judge.name, self._seat)
        hearing = Hearing(judge, case)
        records: list[AskRecord] = []
        round_ = 0
        while hearing.asks:
            questions = list(hearing.asks)
            replies: list[Any] = await asyncio.gather(
                *(self._reply(seat, one) for one in questions)
            )
            for index, (question, reply) in enumerate(zip(questions, replies, strict=True)):
                if isinstance(question, Ask):
                    place = (judge.name, round_, index)
                    charged = self._charged(seat.model, question, reply, (case, *place))
                    records.append(_record(seat.model, charged, question.prompt_hash(), place))
            hearing.answer([one.reply if isinstance(one, Answer) else one for one in replies])
            round_ += 1
        return Heard(judge=judge, scores=hearing.scores, asks=records)

    async def aclose(self) -> None:
        """Ask nothing more, keep what was paid for, and give back the models' connections.

        In the event loop that used them. An ask still waiting ends with a `NoReply`.
        """
        for seat in self._all_seats():
            seat.model.shut = True
        if self._keeping:
            await asyncio.wait(self._keeping)
        for seat in self._all_seats():
            await seat.model.aclose()

    def _all_seats(self) -> list[_Seat]:
        return [self._seat, *self._seats.values()]

    async def _reply(
        self, seat: _Seat, question: Ask[Any] | Query
    ) -> Answer | QueryResult | NoReply:
        if isinstance(question, Ask):
            return await self._answer(seat, question)
        if self._means.clerk is None:
            return NoReply("no_clerk", "there is nobody here to run statements on a database")
        return await self._means.clerk.look_up(question)

    async def _answer(self, seat: _Seat, ask: Ask[Any]) -> Answer:
        """From the same ask in flight, else from the cache, else from the model."""
        key = _key(seat.model, ask)
        if key is None:
            return await seat.questioner.answer(ask, ask.prompt_hash())
        while (flight := self._flights.get(key)) is not None:
            # wait() neither raises what befell the other ask nor cancels it with this one.
            await asyncio.wait([flight])
            if not flight.cancelled():
                return _shared(flight.result())
        landing = self._flights[key] = asyncio.get_running_loop().create_future()
        try:
            answer = await self._kept(ask, key) or await self._fresh(seat, ask, key)
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
        try:
            reply = parse_reply(kept.completion.text, ask.reply)
        except ModelError:
            return None
        run_id = self._means.run_id
        paid_here = kept.attempts if run_id and kept.paid_by == run_id else 0
        return Answer(reply, kept.completion, paid_here, cached=True)

    async def _fresh(self, seat: _Seat, ask: Ask[Any], key: str) -> Answer:
        answer = await seat.questioner.answer(ask, key)
        cache = self._means.cache
        if answer.settled and cache is not None:
            kept = Kept(answer.completion, answer.attempts, self._means.run_id)
            keeping = asyncio.create_task(cache.put(key, kept))
            self._keeping.add(keeping)
            keeping.add_done_callback(self._keeping.discard)
            # Whoever cancels the ask does not undo that its answer came and was paid for.
            await asyncio.shield(keeping)
        return answer

    def _charged(
        self, model: Model, ask: Ask[Any], answer: Answer, place: tuple[Case, str, int, int]
    ) -> Answer:
        """A reply that this run paid for is charged to the first ask that claims it, once."""
        key = _key(model, ask)
        if key is None or isinstance(answer.reply, NoReply):
            return answer
        case, *rest = place
        mine = answer.attempts > 0 and self._means.ledger.claims(
            key, as_json([case.case_id, case.repetition, *rest])
        )
        return replace(answer, cached=False) if mine else _free(answer)


def _key(model: Model, ask: Ask[Any]) -> str | None:
    if model.cache_key is None:
        return None
    text = "\x00".join((model.cache_key, ask.prompt_hash(), str(PARSER_VERSION)))
    return hashlib.sha256(text.encode()).hexdigest()


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


def _record(
    model: Model, answer: Answer, prompt_hash: str, place: tuple[str, int, int]
) -> AskRecord:
    judge, round_, index = place
    completion = answer.completion
    return AskRecord(
        judge=judge,
        round=round_,
        index=index,
        model=model.name,
        provider=model.provider,
        answered_by=completion.answered_by or None,
        prompt_hash=prompt_hash,
        cached=answer.cached,
        attempts=answer.attempts,
        input_tokens=completion.input_tokens,
        output_tokens=completion.output_tokens,
        cost_usd=completion.cost_usd,
        latency_ms=completion.latency_ms,
        error=answer.error,
        reply=completion.text or None,
    )
