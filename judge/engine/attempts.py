"""The state of one ask until it is answered: its calls, what follows each call, and its outcome.

This is the only module that decides to ask again.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Final

from pydantic import BaseModel

from assizes.judge.engine import faults
from assizes.judge.errors import ModelError
from assizes.judge.models.model import Completion, ProviderUnreachable, UnusableReply
from assizes.judge.prompts.reply import read_reply
from assizes.judge.prompts.reply_object import MAX_REPLY_CHARS, without_surrogates
from assizes.judge.protocol import Ask, NoReply
from assizes.judge.rows import as_json

_SUMS: Final[Mapping[str, Callable[[list[Any]], Any]]] = {
    "input_tokens": sum,
    "output_tokens": sum,
    "cost_usd": math.fsum,
}
"""The figures of a completion that may be unknown, each with the function that adds them up."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One model call that has ended, with its text and usage; the text is empty where nothing came.

    The reply is there where the text fits; else the failure says why not, with its HTTP status and
    the seconds that the provider asks to wait. `code` is that of the failure, or `doubts` for a
    reply with doubts; `None` for a good reply. The complaint is what to tell the model when the
    question is asked again, `None` where asking again is of no use. `waited_ms` counts the waiting
    before this call, for limits and pauses; the flags name everything that was done to read the
    reply.
    """

    completion: Completion
    code: str | None = None
    reply: BaseModel | None = None
    failure: NoReply | None = None
    complaint: str | None = None
    status: int | None = None
    retry_after_s: float | None = None
    waited_ms: float = 0.0
    flags: tuple[str, ...] = ()


def read_completion(ask: Ask[Any], raw_reply: Completion | UnusableReply) -> Attempt:
    """Read a completion as the reply of an ask; the attempt holds the reply or the failure."""
    completion = raw_reply.completion if isinstance(raw_reply, UnusableReply) else raw_reply
    # The cut leaves one character more than a reply may have, so that parsing still refuses it.
    text = without_surrogates(completion.text)[: MAX_REPLY_CHARS + 1]
    completion = replace(completion, text=text)
    if isinstance(raw_reply, UnusableReply):
        failure = NoReply(raw_reply.code, raw_reply.detail, text)
        return Attempt(completion, failure.code, failure=failure, status=raw_reply.status)
    try:
        parsed = read_reply(ask, text, completion.reply_id)
    except ModelError as error:
        failure = NoReply(error.code, error.detail, text)
        return Attempt(completion, error.code, failure=failure, complaint=error.detail)
    code = None if parsed.doubt is None else "doubts"
    return Attempt(completion, code, parsed.reply, complaint=parsed.doubt, flags=parsed.flags)


def failed_attempt(error: ModelError, started: float) -> Attempt:
    """The attempt of a call that got no answer; `started` is its start by `perf_counter`."""
    nothing = Completion("", "", latency_ms=(perf_counter() - started) * 1000)
    if error.code in faults.UNCHARGED or isinstance(error, ProviderUnreachable):
        nothing = replace(nothing, input_tokens=0, output_tokens=0, cost_usd=0.0)
    # Else the cost of the call is not known.
    return Attempt(
        nothing,
        error.code,
        failure=NoReply(error.code, error.detail),
        status=error.status,
        retry_after_s=error.retry_after_s,
    )


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses between calls: random seconds up to a bound that doubles from `base_s` to `cap_s`."""

    base_s: float = 0.5
    cap_s: float = 30.0


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
        """Note a call that has ended, and decide what follows.

        A question is put again with a complaint at most once, however often that call is repeated
        because of faults of the provider.
        """
        call, code = self.next_call, attempt.code
        if call.cap > 1:
            attempt = replace(attempt, flags=(*attempt.flags, "longer"))
        self.attempts.append(attempt)
        self._since = perf_counter()
        self.is_open = False
        action = "repair" if attempt.failure is None else faults.action_for(attempt.failure.code)
        times = sum(each.code == code for each in self.attempts)
        if action == "repair" and attempt.complaint is not None and call.complaint is None:
            self.is_open = True
            self.next_call = replace(call, complaint=attempt.complaint, pauses=False, floor_s=0.0)
        elif action == "retry" and (times == 1 or code not in faults.RETRIED_ONCE):
            self.is_open = True
            self.next_call = replace(
                call,
                cap=faults.LONGER_CAP if code == "truncated_output" else call.cap,
                pauses=code not in faults.AT_ONCE,
                floor_s=attempt.retry_after_s or 0.0,
            )

    def deadline_error(self) -> ModelError:
        """The error of an ask whose deadline cut a call or a wait short."""
        return ModelError("deadline", f"no reply within {self.deadline_s:g} s of the first call")

    def outcome(self) -> AskOutcome:
        """The outcome of the ask: the last reply that fits, whatever failed after it.

        Without any, it is the failure, with the last text that a call returned.
        """
        calls = self.attempts
        counted = next((call for call in reversed(calls) if call.reply is not None), None)
        if counted is not None and counted.reply is not None:
            reply: BaseModel | NoReply = counted.reply
            completion = _total_completion(counted, calls)
            # After a fault of the model the doubts are still open; a later run may clear them up.
            is_fault = calls[-1].failure is not None and calls[-1].complaint is None
        else:
            texts = [call.failure.raw for call in calls if call.failure and call.failure.raw]
            reply = replace(self._failure(), raw=texts[-1] if texts else "")
            nothing = Completion("", "", 0, 0, 0.0)
            completion = _total_completion(calls[-1], calls) if calls else nothing
            completion, is_fault = replace(completion, text=reply.raw), True
        trail = [
            {
                "code": call.code,
                "status": call.status,
                "latency_ms": round(call.completion.latency_ms, 3),
                "input_tokens": call.completion.input_tokens,
                "output_tokens": call.completion.output_tokens,
                "cost_usd": call.completion.cost_usd,
                "waited_ms": round(call.waited_ms, 3),
            }
            for call in calls
        ]
        return AskOutcome(
            reply,
            completion,
            len(calls),
            is_cacheable=self.end_error is None and not is_fault,
            waited_ms=sum(call.waited_ms for call in calls),
            trail=as_json(trail) if len(calls) > 1 or any(call.code for call in calls) else None,
        )

    def _failure(self) -> NoReply:
        last = self.attempts[-1].failure if self.attempts else None
        ended = self.end_error
        if last and (ended is None or (ended.code, last.code) == ("deadline", "rate_limited")):
            return replace(last, code=faults.EXHAUSTED.get(last.code, last.code))
        assert ended is not None, "an ask without a call has a reason"
        return NoReply(ended.code, ended.detail)


def _total_completion(counted: Attempt, attempts: Sequence[Attempt]) -> Completion:
    """The completion that counts for an ask, with tokens, cost, latency and flags of all calls.

    Tokens and cost are `None` where those of any call are not known.
    """
    completions = [attempt.completion for attempt in attempts]
    totals: dict[str, Any] = {}
    for name, add in _SUMS.items():
        numbers = [getattr(completion, name) for completion in completions]
        totals[name] = None if None in numbers else add(numbers)
    names = (completion.answered_by for completion in (counted.completion, *completions))
    marks = {flag for completion in completions for flag in completion.flags}
    return replace(
        counted.completion,
        **totals,
        answered_by=next(filter(None, names), ""),
        latency_ms=math.fsum(completion.latency_ms for completion in completions),
        flags=tuple(sorted(marks.union(counted.flags))),
    )
