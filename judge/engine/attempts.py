"""The model calls of one ask: what each came to, and what all of them took."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from pydantic import BaseModel

from assizes.judge.engine.faults import UNCHARGED
from assizes.judge.errors import ModelError
from assizes.judge.models.model import Completion, ProviderUnreachable, UnusableReply
from assizes.judge.prompts.reply import read_reply
from assizes.judge.prompts.reply_object import MAX_REPLY_CHARS
from assizes.judge.prompts.reply_text import without_surrogates
from assizes.judge.protocol import Ask, NoReply
from assizes.judge.rows import as_json


@dataclass(frozen=True, slots=True)
class Attempt:
    """One model call.

    Args:
        completion: what came; without text where nothing did.
        reply: what was read in it, where that fits.
        failure: why there is no reply.
        complaint: what to say when the question is put again; null where that is of no use.
        status: the HTTP status of a failure, where there was one.
        retry_after_s: how long the provider asks to be left alone.
        waited_ms: from the call before, or from the ask, to this call: limits and backoff.
        flags: what was done to read the reply.
    """

    completion: Completion
    reply: BaseModel | None = None
    failure: NoReply | None = None
    complaint: str | None = None
    status: int | None = None
    retry_after_s: float | None = None
    waited_ms: float = 0.0
    flags: tuple[str, ...] = ()

    @property
    def code(self) -> str | None:
        """Why it was not the last: a failure's code, or `doubts`; null for a good reply."""
        if self.failure is not None:
            return self.failure.code
        return "doubts" if self.complaint is not None else None

    @property
    def is_model_failure(self) -> bool:
        """The model failed, not its reply."""
        return self.failure is not None and self.complaint is None


def read_completion(ask: Ask[Any], raw_reply: Completion | UnusableReply) -> Attempt:
    """What an answer is worth to the ask."""
    if isinstance(raw_reply, UnusableReply):
        completion = _readable(raw_reply.completion)
        failure = NoReply(raw_reply.code, raw_reply.detail, completion.text)
        return Attempt(completion, failure=failure, status=raw_reply.status)
    completion = _readable(raw_reply)
    try:
        parsed_reply = read_reply(ask, completion.text, completion.reply_id)
    except ModelError as error:
        failure = NoReply(error.code, error.detail, completion.text)
        return Attempt(completion, failure=failure, complaint=error.detail)
    return Attempt(
        completion, parsed_reply.reply, complaint=parsed_reply.doubt, flags=parsed_reply.flags
    )


def failed_attempt(error: ModelError, started: float) -> Attempt:
    """No answer came to a call that was `started` then (`perf_counter`)."""
    latency_ms = (perf_counter() - started) * 1000
    if error.code in UNCHARGED or isinstance(error, ProviderUnreachable):
        nothing = Completion("", "", 0, 0, 0.0, latency_ms)
    else:  # what it cost is not known
        nothing = Completion(text="", answered_by="", latency_ms=latency_ms)
    failure = NoReply(error.code, error.detail)
    return Attempt(nothing, failure=failure, status=error.status, retry_after_s=error.retry_after_s)


def total_completion(counted_attempt: Attempt, attempts: Sequence[Attempt]) -> Completion:
    """The text that counted and how it was read and got, with the sums over all calls."""
    completions = [attempt.completion for attempt in attempts]
    names = (
        completion.answered_by
        for completion in (counted_attempt.completion, *completions)
        if completion.answered_by
    )
    marks = {flag for completion in completions for flag in completion.flags}
    return replace(
        counted_attempt.completion,
        answered_by=next(names, ""),
        input_tokens=_token_sum([completion.input_tokens for completion in completions]),
        output_tokens=_token_sum([completion.output_tokens for completion in completions]),
        cost_usd=_cost_sum([completion.cost_usd for completion in completions]),
        latency_ms=math.fsum(completion.latency_ms for completion in completions),
        flags=tuple(sorted(marks.union(counted_attempt.flags))),
    )


def trail(attempts: Sequence[Attempt]) -> str | None:
    """The calls as JSON; null where the first was good."""
    if len(attempts) == 1 and attempts[0].code is None:
        return None
    return as_json([_step(attempt) for attempt in attempts]) if attempts else None


def _step(attempt: Attempt) -> dict[str, Any]:
    completion = attempt.completion
    return {
        "code": attempt.code,
        "status": attempt.status,
        "latency_ms": round(completion.latency_ms, 3),
        "input_tokens": completion.input_tokens,
        "output_tokens": completion.output_tokens,
        "cost_usd": completion.cost_usd,
        "waited_ms": round(attempt.waited_ms, 3),
    }


def _readable(completion: Completion) -> Completion:
    """With a text that can be stored; one character over the cap still fails to parse."""
    return replace(completion, text=without_surrogates(completion.text)[: MAX_REPLY_CHARS + 1])


def _token_sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _cost_sum(costs: Sequence[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return math.fsum(known) if len(known) == len(costs) else None
