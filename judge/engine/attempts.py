"""The state of one ask until it is answered: what one call's result means for the next call.

The caps of calls and time are in `asking`; second looks and escalation put asks of their own.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Final

from pydantic import BaseModel

from assizes.judge.engine import faults
from assizes.judge.engine.awake_clock import AwakeClock
from assizes.judge.errors import ModelError
from assizes.judge.injection.families import flags
from assizes.judge.models.model import (
    Completion,
    ProviderUnreachable,
    UnusableReply,
    with_bounded_numbers,
)
from assizes.judge.prompts.reply import ParsedReply, read_reply
from assizes.judge.prompts.reply_object import MAX_REPLY_CHARS, REPLY_ID
from assizes.judge.protocol import Ask, NoReply
from assizes.judge.quick_test import without_surrogates
from assizes.judge.rows import as_json

WITHOUT_ID: Final = "without_id"
"""Flag of a reply that counts although it does not repeat its id."""

_BETWEEN_WORDS: Final = re.compile(r"\W+")

_SUMS: Final[Mapping[str, Callable[[list[Any]], Any]]] = {
    "input_tokens": sum,
    "output_tokens": sum,
    "cached_tokens": sum,
    "cache_write_tokens": sum,
    "cost_usd": math.fsum,
}
"""The figures of a completion that may be unknown, each with the function that adds them up."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One model call that has ended, with a reply that fits or the failure that says why not."""

    completion: Completion  # its text is empty where nothing came
    code: str | None = None  # of the failure; `doubts` for a reply with doubts; `None`: good
    reply: BaseModel | None = None
    failure: NoReply | None = None  # `None` where there is a reply
    complaint: str | None = None  # for the model when it is asked again; `None`: of no use
    status: int | None = None  # HTTP status of a failure
    retry_after_s: float | None = None  # the provider asks for so long a pause
    waited_ms: float = 0.0  # before this call, for limits and pauses
    flags: tuple[str, ...] = ()  # what was done to read the reply
    is_interrupted: bool = False  # the process stood still meanwhile, so its failure says nothing


def read_completion(ask: Ask[Any], raw_reply: Completion | UnusableReply) -> Attempt:
    """Read a completion as the reply of an ask; the attempt holds the reply or the failure."""
    completion = raw_reply.completion if isinstance(raw_reply, UnusableReply) else raw_reply
    # The cut leaves one character more than a reply may have, so that parsing still refuses it.
    text = without_surrogates(completion.text)[: MAX_REPLY_CHARS + 1]
    if text is not completion.text:
        completion = replace(completion, text=text)
    completion = with_bounded_numbers(completion)
    if isinstance(raw_reply, UnusableReply):  # no complaint: nothing is wrong with its form
        failure = NoReply(raw_reply.code, raw_reply.detail, text)
        return Attempt(completion, failure.code, failure=failure, status=raw_reply.status)
    try:
        completion, parsed = _parse_completion(ask, completion)
    except ModelError as error:
        failure = NoReply(error.code, error.detail, text)
        return Attempt(completion, error.code, failure=failure, complaint=error.detail)
    code = None if parsed.doubt is None else "doubts"
    return Attempt(completion, code, parsed.reply, complaint=parsed.doubt, flags=parsed.flags)


def _parse_completion(ask: Ask[Any], completion: Completion) -> tuple[Completion, ParsedReply[Any]]:
    """The reply of a completion, which repeats its id unless nobody else can have written it.

    Raises:
        ModelError: when no reply can be read.
    """
    try:
        return completion, read_reply(ask, completion.text, completion.reply_id)
    except ModelError as error:
        if error.code != "ambiguous_output" or not completion.by_schema:
            raise
        if _may_be_quoted(ask, completion.text):
            raise
    lone = read_reply(ask, completion.text)
    marks = (*completion.flags, WITHOUT_ID)
    return replace(completion, reply_id=None, flags=marks), lone


def _may_be_quoted(ask: Ask[Any], text: str) -> bool:
    """Whether a reply without its id can be quoted: only a whole object of a clean case cannot."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return True
    if not isinstance(value, dict) or ask.case is None or flags(ask.case):
        return True
    value.pop(REPLY_ID, None)  # the schema makes a model write some id
    # Without what is between the words: the prompt may indent or escape the object.
    own, prompt = json.dumps(value, ensure_ascii=False), ask.prompt.user
    return _BETWEEN_WORDS.sub("", own) in _BETWEEN_WORDS.sub("", prompt)


def failed_attempt(error: ModelError, started: float, *, is_interrupted: bool) -> Attempt:
    """The attempt of a call that got no answer; `started` is its start by `perf_counter`."""
    nothing = Completion("", "", latency_ms=(perf_counter() - started) * 1000)
    # A call that timed out or broke off may be charged: its figures stay unknown, never 0.
    if error.code in faults.UNCHARGED or isinstance(error, ProviderUnreachable):
        nothing = replace(nothing, input_tokens=0, output_tokens=0, cost_usd=0.0)
    return Attempt(
        nothing,
        error.code,
        failure=NoReply(error.code, error.detail),
        status=error.status,
        retry_after_s=error.retry_after_s,
        is_interrupted=is_interrupted,
    )


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses between calls: random seconds up to a bound that doubles from `base_s` to `cap_s`."""

    base_s: float = 0.5
    cap_s: float = 30.0


@dataclass(frozen=True, slots=True)
class NextCall:
    """How the next call of an ask is made."""

    complaint: str | None = None  # what was wrong with an earlier reply; kept in all later calls
    cap: int = 1  # factor on the usual cap of tokens for the answer
    pauses: bool = False  # whether a random pause comes first
    floor_s: float = 0.0  # the shortest pause, as the provider asked for it


@dataclass(frozen=True, slots=True)
class AskOutcome:
    """The outcome of an ask: the reply that fits, or the reason why there is none."""

    reply: BaseModel | NoReply
    completion: Completion  # the text that counted, with the sums over all attempts
    attempts: int = 0  # model calls that this run paid for
    is_cacheable: bool = False  # another call would not improve the reply
    cached: bool = False  # paid for elsewhere
    waited_ms: float = 0.0  # for limits and pauses
    trail: str | None = None  # the calls as JSON; `None` where the first call was good


@dataclass(slots=True, eq=False)
class AskState:
    """An ask that is in progress."""

    ask: Ask[Any]
    key: str  # in the ledger
    deadline_s: float  # counted from the first call, so that a long queue costs no ask its time
    clock: AwakeClock = field(default_factory=AwakeClock)
    deadline_at: float | None = None  # on the clock; `None` before the first call
    place: int | None = None  # in the queue, kept for retries; `None` before the first permit
    attempts: list[Attempt] = field(default_factory=list)
    next_call: NextCall = NextCall()
    is_open: bool = True  # whether there is to be another call
    end_error: ModelError | None = None  # what prevented another call; `None`: the last failure
    _since: float = field(default_factory=perf_counter)  # when the waiting for a call began

    @property
    def remaining_s(self) -> float:
        """Seconds until the deadline; the first call starts the clock."""
        if self.deadline_at is None:  # still waiting for the first call
            return self.deadline_s
        return self.deadline_at - self.clock.time()

    @property
    def counted_attempts(self) -> int:
        """The calls that count as attempts: all but those that a pause of the process cut."""
        return sum(not each.is_interrupted for each in self.attempts)

    def begin_call(self) -> float:
        """Note that a call begins; return the milliseconds that the call had to wait."""
        if self.deadline_at is None:
            self.deadline_at = self.clock.time() + self.deadline_s
        return (perf_counter() - self._since) * 1000

    def add_attempt(self, attempt: Attempt) -> None:
        """Note a call that has ended, and decide what follows."""
        call, code = self.next_call, attempt.code
        if call.cap > 1:
            attempt = replace(attempt, flags=(*attempt.flags, "longer"))
        self.attempts.append(attempt)
        self._since = perf_counter()
        self.is_open = False
        if attempt.is_interrupted:  # the next call has all the time that this one was to have
            self.deadline_at = None
        action = "repair" if attempt.failure is None else faults.action_for(attempt.failure.code)
        times = sum(each.code == code for each in self.attempts)
        # At most one complaint per ask, however often faults of the provider repeat that call.
        if action == "repair" and attempt.complaint is not None and call.complaint is None:
            self.is_open = True
            self.next_call = replace(call, complaint=attempt.complaint, pauses=False, floor_s=0.0)
        elif action == "retry" and (times == 1 or code not in faults.RETRIED_ONCE):
            self.is_open = True
            self.next_call = replace(
                call,
                cap=faults.LONGER_CAP if code == "truncated_output" else call.cap,
                pauses=code not in faults.AT_ONCE and not attempt.is_interrupted,
                floor_s=attempt.retry_after_s or 0.0,
            )

    def deadline_error(self) -> ModelError:
        """The error of an ask whose deadline cut a call or a wait short."""
        return ModelError("deadline", f"no reply within {self.deadline_s:g} s of the first call")

    def outcome(self) -> AskOutcome:
        """The outcome of the ask: the last reply that fits, whatever failed after it."""
        calls = self.attempts
        counted = next((call for call in reversed(calls) if call.reply is not None), None)
        if counted is not None and counted.reply is not None:
            reply: BaseModel | NoReply = counted.reply
            completion = _total_completion(counted, calls)
            # After a fault of the model the doubts are still open; a later run may clear them up.
            is_fault = calls[-1].failure is not None and calls[-1].complaint is None
        else:
            # The last text that came: a later call may have failed without any.
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
        # Where the deadline passes in the pause after HTTP 429, that refusal is the cause.
        if last and (ended is None or (ended.code, last.code) == ("deadline", "rate_limited")):
            return replace(last, code=faults.EXHAUSTED.get(last.code, last.code))
        assert ended is not None, "an ask without a call has a reason"
        return NoReply(ended.code, ended.detail)


def _total_completion(counted: Attempt, attempts: Sequence[Attempt]) -> Completion:
    """The completion that counts for an ask, with tokens, cost, latency and flags of all calls."""
    completions = [attempt.completion for attempt in attempts]
    totals: dict[str, Any] = {}
    for name, add in _SUMS.items():
        numbers = [getattr(completion, name) for completion in completions]
        # One unknown figure makes the sum unknown: a lower bound would read as the cost.
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
