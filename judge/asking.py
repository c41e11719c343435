"""One ask put to a model: a slot, a deadline, at most one re-ask, and what all of it took."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from pydantic import BaseModel

from judge.config import LimitsConfig
from judge.errors import ModelError
from judge.faults import UNCHARGED
from judge.ledger import Ledger
from judge.limits import Limiter
from judge.llm import Completion, Model, Unreached, UnusableReply
from judge.protocol import Ask, NoReply
from judge.reply import MAX_REPLY_CHARS, parse_reply, without_surrogates


@dataclass(frozen=True, slots=True)
class Answer:
    """How an ask ended.

    Args:
        reply: the reply that fits, or why there is none.
        completion: the text that counted, with the sums over all attempts.
        attempts: model calls made for it.
        settled: a reply that is worth keeping: asking once more would be of no use.
        cached: it was paid for elsewhere.
    """

    reply: BaseModel | NoReply
    completion: Completion
    attempts: int = 0
    settled: bool = False
    cached: bool = False

    @property
    def error(self) -> str | None:
        """Code and reason where no reply came."""
        return (
            f"{self.reply.code}: {self.reply.reason}" if isinstance(self.reply, NoReply) else None
        )


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One model call: a `reply` or a `failure`; `complaint` is set where a re-ask may help."""

    completion: Completion
    reply: BaseModel | None = None
    failure: NoReply | None = None
    complaint: str | None = None

    @property
    def faulted(self) -> bool:
        """The model failed, not its reply."""
        return self.failure is not None and self.complaint is None


class Questioner:
    """Puts asks to one model. `calls` and `cost_usd` (known prices only) count what was spent."""

    def __init__(
        self, model: Model, limiter: Limiter, ledger: Ledger, limits: LimitsConfig
    ) -> None:
        self.calls = 0
        self.cost_usd = 0.0
        self._model = model
        self._limiter = limiter
        self._ledger = ledger
        self._timeout_s = limits.timeout_s

    async def answer(self, ask: Ask[Any], key: str) -> Answer:
        """The model's reply. One that does not fit, or leaves doubts, is asked for once more; the
        second fitting reply counts whatever the doubts, else the first fitting one.
        """
        first = last = await self._attempt(ask, None)
        attempts = [first]
        if first.complaint is not None:
            last = await self._attempt(ask, first.complaint)
            attempts.append(last)
        counted = first if last.reply is None and first.reply is not None else last
        completion = _total(counted.completion, [attempt.completion for attempt in attempts])
        if counted.reply is None:
            no_reply = _no_reply(attempts)
            return Answer(no_reply, replace(completion, text=no_reply.raw), len(attempts))
        # After a fault the doubts were never cleared up; a later run may still succeed in that.
        return Answer(counted.reply, completion, len(attempts), settled=not last.faulted)

    async def _attempt(self, ask: Ask[Any], complaint: str | None) -> _Attempt:
        async with self._limiter.admitted(self._model.name, 0):
            self.calls += 1
            started = perf_counter()
            try:
                completion = await asyncio.wait_for(
                    self._model.complete(ask, complaint=complaint), self._timeout_s
                )
            except TimeoutError:
                late = NoReply("timeout", f"no answer within {self._timeout_s:g} s")
                return _Attempt(_no_completion(started), failure=late)
            except UnusableReply as error:
                completion = _readable(error.completion)
                self.cost_usd += completion.cost_usd or 0.0
                unusable = NoReply(error.code, error.detail, completion.text)
                return _Attempt(completion, failure=unusable)
            except ModelError as error:
                failure = NoReply(error.code, error.detail)
                free = error.code in UNCHARGED or isinstance(error, Unreached)
                return _Attempt(_no_completion(started, free=free), failure=failure)
        self.cost_usd += completion.cost_usd or 0.0
        return _read(ask, _readable(completion))


def _read(ask: Ask[Any], completion: Completion) -> _Attempt:
    try:
        reply = parse_reply(completion.text, ask.reply)
    except ModelError as error:
        failure = NoReply(error.code, error.detail, completion.text)
        return _Attempt(completion, failure=failure, complaint=error.detail)
    return _Attempt(completion, reply, complaint=ask.doubts(reply) if ask.doubts else None)


def _readable(completion: Completion) -> Completion:
    """With a text that can be stored; one character over the cap still fails to parse."""
    return replace(completion, text=without_surrogates(completion.text)[: MAX_REPLY_CHARS + 1])


def _no_completion(started: float, *, free: bool = False) -> Completion:
    """No text came; what it cost is not known unless the call was free."""
    latency_ms = (perf_counter() - started) * 1000
    if free:
        return Completion("", "", 0, 0, 0.0, latency_ms)
    return Completion(text="", answered_by="", latency_ms=latency_ms)


def _no_reply(attempts: Sequence[_Attempt]) -> NoReply:
    """The last failure, with the last text that came at all."""
    failures = [attempt.failure for attempt in attempts if attempt.failure is not None]
    raw = next((failure.raw for failure in reversed(failures) if failure.raw), "")
    return replace(failures[-1], raw=raw)


def _total(counted: Completion, completions: Sequence[Completion]) -> Completion:
    names = (one.answered_by for one in (counted, *completions) if one.answered_by)
    return replace(
        counted,
        answered_by=next(names, ""),
        input_tokens=_token_sum([one.input_tokens for one in completions]),
        output_tokens=_token_sum([one.output_tokens for one in completions]),
        cost_usd=_cost_sum([one.cost_usd for one in completions]),
        latency_ms=math.fsum(one.latency_ms for one in completions),
    )


def _token_sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _cost_sum(costs: Sequence[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return math.fsum(known) if len(known) == len(costs) else None
