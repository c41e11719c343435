"""The state of one ask until it is answered: its calls, what follows each call, and its outcome.

This is the only module that decides to ask again.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, TypeVar

from pydantic import BaseModel
from tenacity import RetryCallState, wait_random_exponential

from assizes.judge.engine.faults import (
    AT_ONCE,
    EXHAUSTED,
    LONGER_CAP,
    RETRIED_ONCE,
    UNCHARGED,
    action_for,
)
from assizes.judge.errors import ModelError
from assizes.judge.models.model import Completion, ProviderUnreachable, UnusableReply
from assizes.judge.prompts.reply import read_reply
from assizes.judge.prompts.reply_object import MAX_REPLY_CHARS, without_surrogates
from assizes.judge.protocol import Ask, NoReply
from assizes.judge.rows import as_json

N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One model call that has ended, with its text and usage; the text is empty where nothing came.

    The reply is there where the text fits; else the failure says why not, with its HTTP status and
    the seconds that the provider asks to wait. The complaint is what to tell the model when the
    question is asked again, `None` where asking again is of no use. `waited_ms` counts the waiting
    before this call, for limits and pauses; the flags name everything that was done to read the
    reply.
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


def read_completion(ask: Ask[Any], raw_reply: Completion | UnusableReply) -> Attempt:
    """Read a completion as the reply of an ask; the attempt holds the reply or the failure."""
    completion = raw_reply.completion if isinstance(raw_reply, UnusableReply) else raw_reply
    # The cut leaves one character more than a reply may have, so that parsing still refuses it.
    text = without_surrogates(completion.text)[: MAX_REPLY_CHARS + 1]
    completion = replace(completion, text=text)
    if isinstance(raw_reply, UnusableReply):
        failure = NoReply(raw_reply.code, raw_reply.detail, text)
        return Attempt(completion, failure=failure, status=raw_reply.status)
    try:
        parsed = read_reply(ask, text, completion.reply_id)
    except ModelError as error:
        failure = NoReply(error.code, error.detail, text)
        return Attempt(completion, failure=failure, complaint=error.detail)
    return Attempt(completion, parsed.reply, complaint=parsed.doubt, flags=parsed.flags)


def failed_attempt(error: ModelError, started: float) -> Attempt:
    """The attempt of a call that got no answer; `started` is its start by `perf_counter`."""
    nothing = Completion("", "", latency_ms=(perf_counter() - started) * 1000)
    if error.code in UNCHARGED or isinstance(error, ProviderUnreachable):
        nothing = replace(nothing, input_tokens=0, output_tokens=0, cost_usd=0.0)
    # Else the cost of the call is not known.
    failure = NoReply(error.code, error.detail)
    return Attempt(nothing, failure=failure, status=error.status, retry_after_s=error.retry_after_s)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses between calls: random seconds up to a bound that doubles from `base_s` to `cap_s`."""

    base_s: float = 0.5
    cap_s: float = 30.0

    def pause_s(self, state: RetryCallState) -> float:
        """Seconds to wait after the call that `state` describes."""
        return wait_random_exponential(multiplier=self.base_s, max=self.cap_s)(state)


@dataclass(frozen=True, slots=True)
class NextCall:
    """How the next call of an ask is made.

    The complaint says what was wrong with an earlier reply; it is repeated in every later call.
    `cap` is a factor on the usual cap of tokens for the answer. Where the call `pauses` before, the
    pause lasts at least `floor_s` seconds, because the provider asked for them.
    """

    complaint: str | None = None
    cap: int = 1
    pauses: bool = False
    floor_s: float = 0.0


@dataclass(frozen=True, slots=True)
class AskOutcome:
    """The outcome of an ask: the reply that fits, or the reason why there is none.

    The completion is the text that counted, with the sums over all attempts. A reply is cacheable
    where another call would not improve it, and `cached` where it was paid for elsewhere.
    `waited_ms` counts the waiting for limits and pauses. The trail is the calls as JSON, `None`
    where the first call was good.
    """

    reply: BaseModel | NoReply
    completion: Completion
    attempts: int = 0
    is_cacheable: bool = False
    cached: bool = False
    waited_ms: float = 0.0
    trail: str | None = None

    @property
    def error(self) -> str | None:
        """Code and reason of the failure; `None` where a reply came."""
        reply = self.reply
        return f"{reply.code}: {reply.reason}" if isinstance(reply, NoReply) else None


@dataclass(slots=True, eq=False)
class AskState:
    """An ask that is in progress, with its key in the ledger.

    Its deadline is `deadline_s` seconds after the first call, on the event loop's clock. `place`,
    the place of the ask's first permit, is kept; both are `None` before. `is_open` says whether
    there is to be another call; `end_error` is the error that prevented one, `None` where the
    failure of the last call ends the ask.
    """

    ask: Ask[Any]
    key: str
    deadline_s: float
    deadline_at: float | None = None
    place: int | None = None
    attempts: list[Attempt] = field(default_factory=list)
    next_call: NextCall = NextCall()
    is_open: bool = True
    end_error: ModelError | None = None
    _since: float = field(default_factory=perf_counter)

    @property
    def remaining_s(self) -> float:
        """Seconds until the deadline; the first call starts the clock."""
        if self.deadline_at is None:
            return self.deadline_s
        return self.deadline_at - asyncio.get_running_loop().time()

    def begin_call(self) -> float:
        """Note that a call begins; return the milliseconds that the call had to wait."""
        if self.deadline_at is None:
            self.deadline_at = asyncio.get_running_loop().time() + self.deadline_s
        return (perf_counter() - self._since) * 1000

    def add_attempt(self, attempt: Attempt) -> None:
        """Note a call that has ended, and decide what follows."""
        if self.next_call.cap > 1:
            attempt = replace(attempt, flags=(*attempt.flags, "longer"))
        self.attempts.append(attempt)
        following = _call_after(self.next_call, self.attempts)
        self.next_call, self.is_open = following or self.next_call, following is not None
        self._since = perf_counter()

    def deadline_error(self) -> ModelError:
        """The error of an ask whose deadline cut a call or a wait short."""
        return ModelError("deadline", f"no reply within {self.deadline_s:g} s of the first call")

    def outcome(self) -> AskOutcome:
        """The outcome of the ask: the last reply that fits, whatever failed after it.

        Without any, it is the failure, with the last text that a call returned.
        """
        calls = self.attempts
        waited_ms = sum(call.waited_ms for call in calls)
        counted = next((call for call in reversed(calls) if call.reply is not None), None)
        if counted is not None and counted.reply is not None:
            last = calls[-1]
            # After a fault of the model the doubts are still open; a later run may clear them up.
            is_fault = last.failure is not None and last.complaint is None
            return AskOutcome(
                counted.reply,
                _total_completion(counted, calls),
                len(calls),
                is_cacheable=self.end_error is None and not is_fault,
                waited_ms=waited_ms,
                trail=_trail(calls),
            )
        texts = [call.failure.raw for call in calls if call.failure and call.failure.raw]
        no_reply = replace(self._failure(), raw=texts[-1] if texts else "")
        completion = _total_completion(calls[-1], calls) if calls else Completion("", "", 0, 0, 0.0)
        return AskOutcome(
            no_reply,
            replace(completion, text=no_reply.raw),
            len(calls),
            waited_ms=waited_ms,
            trail=_trail(calls),
        )

    def _failure(self) -> NoReply:
        last = self.attempts[-1].failure if self.attempts else None
        ended = self.end_error
        if last and (ended is None or (ended.code, last.code) == ("deadline", "rate_limited")):
            return replace(last, code=EXHAUSTED.get(last.code, last.code))
        assert ended is not None, "an ask without a call has a reason"
        return NoReply(ended.code, ended.detail)


def _call_after(call: NextCall, attempts: Sequence[Attempt]) -> NextCall | None:
    """The call that follows the last attempt, which was made as `call` says; `None` for none.

    A question is put again with a complaint at most once, however often that call is repeated
    because of faults of the provider.
    """
    last = attempts[-1]
    if last.failure is None or action_for(last.failure.code) == "repair":
        if last.complaint is None or call.complaint is not None:
            return None
        return replace(call, complaint=last.complaint, pauses=False, floor_s=0.0)
    code = last.failure.code
    if action_for(code) != "retry":
        return None
    if code in RETRIED_ONCE and sum(attempt.code == code for attempt in attempts) > 1:
        return None
    return replace(
        call,
        cap=LONGER_CAP if code == "truncated_output" else call.cap,
        pauses=code not in AT_ONCE,
        floor_s=last.retry_after_s or 0.0,
    )


def _total_completion(counted: Attempt, attempts: Sequence[Attempt]) -> Completion:
    """The completion that counts for an ask, with tokens, cost, latency and flags of all calls.

    Tokens and cost are `None` where those of any call are not known.
    """
    completions = [attempt.completion for attempt in attempts]
    names = (completion.answered_by for completion in (counted.completion, *completions))
    marks = {flag for completion in completions for flag in completion.flags}
    return replace(
        counted.completion,
        answered_by=next(filter(None, names), ""),
        input_tokens=_total(sum, [completion.input_tokens for completion in completions]),
        output_tokens=_total(sum, [completion.output_tokens for completion in completions]),
        cost_usd=_total(math.fsum, [completion.cost_usd for completion in completions]),
        latency_ms=math.fsum(completion.latency_ms for completion in completions),
        flags=tuple(sorted(marks.union(counted.flags))),
    )


def _total(add: Callable[[list[N]], N], numbers: Sequence[N | None]) -> N | None:
    known = [number for number in numbers if number is not None]
    return add(known) if len(known) == len(numbers) else None


def _trail(attempts: Sequence[Attempt]) -> str | None:
    """The calls as JSON; `None` where there was no call, or where the first one was good."""
    if not attempts or (len(attempts) == 1 and attempts[0].code is None):
        return None
    return as_json(
        [
            {
                "code": attempt.code,
                "status": attempt.status,
                "latency_ms": round(attempt.completion.latency_ms, 3),
                "input_tokens": attempt.completion.input_tokens,
                "output_tokens": attempt.completion.output_tokens,
                "cost_usd": attempt.completion.cost_usd,
                "waited_ms": round(attempt.waited_ms, 3),
            }
            for attempt in attempts
        ]
    )
