"""Runs hearings to their end, with one pool of slots, one reply cache and one ledger for all."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from assizes.judge.case import Case
from assizes.judge.config.judging import LimitsConfig
from assizes.judge.engine.ask_records import AskKey, AskRecord, HearingResult, ask_record
from assizes.judge.engine.asking import CallControls, ModelCaller
from assizes.judge.engine.attempts import AskOutcome, Backoff
from assizes.judge.engine.call_gates import BreakerPolicy, BudgetGate, CircuitBreaker
from assizes.judge.engine.ensemble_hearing import EnsembleModels, gather_all, hear_ensemble, members
from assizes.judge.engine.hearing_gate import HearingGate
from assizes.judge.engine.ledger import CachedReply, Ledger, OpenLedger, ReplyCache, RequestLocks
from assizes.judge.engine.limits.limits import Leases, Limiter
from assizes.judge.errors import ModelError, NotAsked
from assizes.judge.hearing import Hearing
from assizes.judge.models.model import Completion, Model, UnusableReply, with_bounded_numbers
from assizes.judge.prompts.reply import PARSER_VERSION, parse_reply
from assizes.judge.protocol import (
    NO_SQL_RUNNER,
    Ask,
    FileText,
    Judge,
    NoReply,
    QueryResult,
    Question,
    SqlRunner,
)


@dataclass(frozen=True, slots=True)
class EngineDependencies:
    """Everything that an engine works with besides models; each part may be left out."""

    run_id: str = ""  # by which cached replies name the run that paid for them
    cache: ReplyCache | None = None
    request_locks: RequestLocks | None = None  # for processes that share the cache
    ledger: Ledger = field(default_factory=OpenLedger)  # by default nothing is bounded
    leases: Leases | None = None  # limits shared with other processes
    sql_runner: SqlRunner | None = None  # `None`: every query gets a `NoReply`
    # Cache key -> a reply that was paid for in a batch; it is the first attempt of its ask.
    batch_replies: Mapping[str, Completion | UnusableReply] = field(default_factory=dict)
    backoff: Backoff = field(default_factory=Backoff)
    breaker_policy: BreakerPolicy | None = None


class Engine:
    """Answers the asks of any number of hearings at once.

    Calls in flight never exceed `max_in_flight`, however many hearings run and however many models
    answer. Identical asks in flight are answered by one call. `models` holds, by the name of a
    judge, its own model or ensemble; `model` answers every other judge.
    """

    def __init__(
        self,
        model: Model,
        limits: LimitsConfig,
        dependencies: EngineDependencies | None = None,
        *,
        models: Mapping[str, Model | EnsembleModels] | None = None,
    ) -> None:
        self._dependencies = dependencies = dependencies or EngineDependencies()
        self.limiter = Limiter(limits, dependencies.leases)
        # One hiccup may fail every call in flight: fewer failures must not open the breaker.
        policy = dependencies.breaker_policy or BreakerPolicy(
            failures=max(BreakerPolicy().failures, limits.max_in_flight)
        )
        self._budget_gate = BudgetGate(dependencies.ledger)
        controls = CallControls(limits, self.limiter, self._budget_gate, dependencies.backoff)
        self._model = model
        self._own_models = dict(models or {})
        # A model has one caller for all judges: they share the breaker and the statistics.
        self._callers = {
            id(each): ModelCaller(each, CircuitBreaker(policy), controls)
            for each in (model, *members(self._own_models.values()))
        }
        self._gate = HearingGate(self.limiter)
        self.limiter.on_start = self._gate.look
        self._in_flight: dict[str, asyncio.Future[AskOutcome]] = {}  # cache key -> ask in flight
        # asyncio holds tasks weakly: without this set an unfinished write could be collected.
        self._cache_writes: set[asyncio.Task[None]] = set()

    @property
    def calls(self) -> int:
        """The number of model calls made so far, retries included."""
        return sum(caller.calls for caller in self._callers.values())

    @property
    def cost_usd(self) -> float:
        """Dollars that the calls cost so far; calls of unknown price are left out."""
        return math.fsum(caller.cost_usd for caller in self._callers.values())

    @property
    def silent_models(self) -> frozenset[str]:
        """Names of the models that were called and never answered, not even with a refusal."""
        callers = [caller for caller in self._callers.values() if caller.calls]
        answered = {caller.model.name for caller in callers if caller.breaker.has_answered}
        return frozenset(caller.model.name for caller in callers) - answered

    async def hear(
        self, judge: Judge, case: Case, answered: list[AskRecord] | None = None
    ) -> HearingResult:
        """Hear one case before one judge, to the end; the asks of a round are answered together.

        An exception other than a `ModelError`, raised by a judge or a model, passes through. The
        records of asks are put into `answered` as well, once the asks of a round have been answered:
        what was paid for before an exception is known there.
        """
        own = self._own_models.get(judge.name, self._model)
        hear = partial(self._hear_with_model, judge, case, [] if answered is None else answered)
        await self._gate.enter()
        try:
            if not isinstance(own, EnsembleModels):
                return await hear(own, 0)
            return await hear_ensemble(own, judge, case, hear)
        finally:
            self._gate.leave()

    async def _hear_with_model(
        self, judge: Judge, case: Case, answered: list[AskRecord], model: Model, sample: int
    ) -> HearingResult:
        """Hear a case with one model; each `sample`, a repeat of the same asks, is answered anew."""
        caller = self._callers[id(model)]
        hearing = Hearing(judge, case)
        records: list[AskRecord] = []
        round_ = 0
        while hearing.asks:  # a round each
            hashes = [ask.prompt_hash if isinstance(ask, Ask) else "" for ask in hearing.asks]
            ask_keys = [
                AskKey(judge.name, round_, index, sample, digest, reply_key(model, digest, sample))
                for index, digest in enumerate(hashes)
            ]
            answers = await gather_all(
                self._reply(caller, ask.about(case) if isinstance(ask, Ask) else ask, key)
                for ask, key in zip(hearing.asks, ask_keys, strict=True)
            )
            for ask_key, answer in zip(ask_keys, answers, strict=True):
                if not isinstance(answer, AskOutcome):
                    continue  # a query costs nothing and has no row
                charged, key = answer, ask_key.cache_key
                if key is not None and not isinstance(answer.reply, NoReply):
                    # A new answer is charged to its ask, and a cached one that this run paid for
                    # to the first ask that claims it. New answers are claimed as well, so that
                    # asks that read them from the cache pay nothing.
                    ask_id = ask_key.ask_id(case)
                    if answer.attempts > 0 and await self._budget_gate.claim(key, ask_id):
                        charged = replace(answer, cached=False)
                    elif answer.cached:
                        charged = _free_answer(answer)
                records.append(ask_record(model, charged, ask_key))
                answered.append(records[-1])
            hearing.answer(
                [answer.reply if isinstance(answer, AskOutcome) else answer for answer in answers]
            )
            round_ += 1
        return HearingResult(judge=judge, scores=hearing.scores, asks=records)

    def resize(self, max_in_flight: int) -> None:
        """Make at most so many calls at once from now on; calls in flight go on."""
        self.limiter.resize(max_in_flight)
        self._gate.look()

    def stop(self, code: str, why: str) -> None:
        """Ask no model any more.

        Asks that wait for a call end at once with a `NoReply` of this code; calls in flight are
        waited for, and their replies are used.
        """
        for caller in list(self._callers.values()):
            caller.stop(NotAsked(code, why))

    async def aclose(self) -> None:
        """Stop asking, wait until paid replies are cached, and close the models' connections.

        This must run in the event loop that used the models. An ask that still waits ends with a
        `NoReply`.
        """
        self.stop("closing", "the run is ending, no model is asked any more")
        if self._cache_writes:  # asyncio.wait refuses an empty set
            await asyncio.wait(self._cache_writes)
        for caller in list(self._callers.values()):
            await caller.model.aclose()

    async def _reply(
        self, caller: ModelCaller, question: Question, ask_key: AskKey
    ) -> AskOutcome | QueryResult | FileText | NoReply:
        """The answer to an ask from the same ask in flight, else from the cache or the model."""
        if not isinstance(question, Ask):
            runner = self._dependencies.sql_runner
            return NO_SQL_RUNNER if runner is None else await runner.look_up(question)
        ask, key = question, ask_key.cache_key
        if key is None:
            return await caller.answer(ask, ask_key.prompt_hash)
        while (flight := self._in_flight.get(key)) is not None:
            # wait() neither raises the other ask's exception nor cancels that ask with this one.
            await asyncio.wait([flight])
            if not flight.cancelled():
                answer = flight.result()
                if not isinstance(answer.reply, NoReply):
                    return _free_answer(answer)
                # A failure used no tokens of this ask, which made no call of its own.
                none = replace(answer.completion, cost_usd=0.0, input_tokens=0, output_tokens=0)
                none = replace(none, cached_tokens=None, cache_write_tokens=None)
                return AskOutcome(answer.reply, none)
        # No await since the look at `_in_flight`: one ask alone can come here.
        future = self._in_flight[key] = asyncio.get_running_loop().create_future()
        try:
            answer = await self._cached_answer(ask, key) or await self._locked_answer(
                caller, ask, key
            )
            future.set_result(answer)
        finally:  # without a result the future is cancelled, and an ask that waits takes over
            del self._in_flight[key]
            future.cancel()
        return answer

    async def _cached_answer(self, ask: Ask[Any], key: str) -> AskOutcome | None:
        cache = self._dependencies.cache
        cached_reply = await cache.get(key) if cache is not None else None
        if cached_reply is None:
            return None
        completion = with_bounded_numbers(cached_reply.completion)
        try:
            parsed_reply = parse_reply(completion.text, ask.reply, completion.reply_id)
        except ModelError:  # a damaged entry: ask anew
            return None
        run_id = self._dependencies.run_id
        # Paid by this run before it was interrupted: the calls are charged here, see `Ledger.claim`.
        paid_here = cached_reply.attempts if run_id and cached_reply.paid_by == run_id else 0
        flags = tuple(sorted({*completion.flags, *parsed_reply.flags}))
        return AskOutcome(
            parsed_reply.reply, replace(completion, flags=flags), paid_here, cached=True
        )

    async def _locked_answer(self, caller: ModelCaller, ask: Ask[Any], key: str) -> AskOutcome:
        """The answer from the model, unless another process has cached one in the meantime."""
        if self._dependencies.request_locks is None:
            return await self._new_answer(caller, ask, key)
        async with self._dependencies.request_locks.lock(key):
            # Looked for again: the process that held the lock may have stored the reply.
            return await self._cached_answer(ask, key) or await self._new_answer(caller, ask, key)

    async def _new_answer(self, caller: ModelCaller, ask: Ask[Any], key: str) -> AskOutcome:
        answer = await caller.answer(ask, key, self._dependencies.batch_replies.get(key))
        cache = self._dependencies.cache
        if answer.is_cacheable and cache is not None:
            paid_reply = CachedReply(answer.completion, answer.attempts, self._dependencies.run_id)
            cache_write = asyncio.create_task(cache.store(key, paid_reply))
            self._cache_writes.add(cache_write)
            cache_write.add_done_callback(self._cache_writes.discard)
            # The answer is paid for: the cancellation of the ask must not stop the write.
            await asyncio.shield(cache_write)
        return answer


def reply_key(model: Model, prompt_hash: str, sample: int) -> str | None:
    """The cache key of a reply, 64 hex digits; `None` where it is not cached, and for a query."""
    if model.cache_key is None or not prompt_hash:  # a query has no prompt
        return None
    # Everything that decides the reply: the model with its parameters, prompt, parser and sample.
    parts = [model.cache_key, prompt_hash, str(PARSER_VERSION)]
    if sample:  # sample 0 has the key of an ask that is not repeated, and shares its reply
        parts.append(str(sample))
    # Joined by a character that no part holds: no two lists of parts give one text.
    return hashlib.sha256("\x00".join(parts).encode()).hexdigest()


def _free_answer(answer: AskOutcome) -> AskOutcome:
    """The same answer without cost, as cached: it was paid for elsewhere."""
    return AskOutcome(answer.reply, replace(answer.completion, cost_usd=0.0), cached=True)
