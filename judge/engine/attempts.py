"""The model calls of one ask: the result of each, and the sums over all of them."""

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
    """One model call that has ended.

    Args:
        completion: the text and the usage of the call; the text is empty where nothing came.
        reply: the reply that was read from the text, where it fits.
        failure: the reason why there is no reply.
        complaint: what to tell the model when the question is asked again; `None` where asking
            again is of no use.
        status: the HTTP status of a failure, where there was one.
        retry_after_s: seconds that the provider asks to wait before the next call.
        waited_ms: milliseconds of waiting before this call, for limits and pauses.
        flags: names of everything that was done to read the reply.
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
        """The code of the failure, or `doubts` for a reply with doubts; `None` for a good reply."""
        if self.failure is not None:
            return self.failure.code
        return "doubts" if self.complaint is not None else None

    @property
    def is_model_failure(self) -> bool:
        """Whether the call itself failed, as opposed to a reply that does not fit."""
        return self.failure is not None and self.complaint is None


def read_completion(ask: Ask[Any], raw_reply: Completion | UnusableReply) -> Attempt:
    """Read a completion as the reply of an ask; the attempt holds the reply or the failure."""
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
    """The attempt of a call that got no answer; `started` is its start by `perf_counter`."""
    latency_ms = (perf_counter() - started) * 1000
    if error.code in UNCHARGED or isinstance(error, ProviderUnreachable):
        nothing = Completion("", "", 0, 0, 0.0, latency_ms)
    else:  # the cost of the call is not known
        nothing = Completion(text="", answered_by="", latency_ms=latency_ms)
    failure = NoReply(error.code, error.detail)
    return Attempt(nothing, failure=failure, status=error.status, retry_after_s=error.retry_after_s)


def total_completion(counted_attempt: Attempt, attempts: Sequence[Attempt]) -> Completion:
    """The completion that counts for an ask, with tokens, cost, latency and flags of all calls.

    Tokens and cost are `None` where those of any call are not known.
    """
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
    """The calls as JSON; `None` where there was no call, or where the first one was good."""
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
    """The completion with a text that can be stored: without surrogates, and cut.

    The cut leaves one character more than a reply may have, so that parsing still refuses it.
    """
    return replace(completion, text=without_surrogates(completion.text)[: MAX_REPLY_CHARS + 1])


def _token_sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _cost_sum(costs: Sequence[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return math.fsum(known) if len(known) == len(costs) else None
