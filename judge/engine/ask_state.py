"""The state of one ask until it is answered: its calls, its deadline, and its outcome."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from pydantic import BaseModel

from assizes.judge.engine.attempts import Attempt, total_completion, trail
from assizes.judge.engine.faults import EXHAUSTED
from assizes.judge.engine.retry import NextCall, next_call
from assizes.judge.errors import ModelError
from assizes.judge.models.model import Completion
from assizes.judge.protocol import Ask, NoReply


@dataclass(frozen=True, slots=True)
class AskOutcome:
    """The outcome of an ask.

    Args:
        reply: the reply that fits, or the reason why there is none.
        completion: the text that counted, with the sums over all attempts.
        attempts: the number of model calls made for the ask.
        is_cacheable: whether the reply may be cached, because another call would not improve it.
        cached: whether the reply was paid for elsewhere.
        waited_ms: milliseconds that the ask waited for limits and pauses.
        trail: the calls as JSON; `None` where the first call was good.
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
        return (
            f"{self.reply.code}: {self.reply.reason}" if isinstance(self.reply, NoReply) else None
        )


class AskState:
    """An ask that is in progress.

    Attributes:
        deadline_s: seconds from the first call to the deadline.
        deadline_at: the deadline on the event loop's clock; `None` before the first call.
        place: the place of the ask's first permit, which the ask keeps; `None` before that.
        attempts: the calls made so far.
        next_call: how the next call is made.
        is_open: whether there is to be another call.
        end_error: the error that prevented another call; `None` where the failure of the last call
            ends the ask.
    """

    def __init__(self, ask: Ask[Any], key: str, deadline_s: float) -> None:
        self.ask = ask
        self.key = key
        self.deadline_s = deadline_s
        self.deadline_at: float | None = None
        self.place: int | None = None
        self.attempts: list[Attempt] = []
        self.next_call = NextCall()
        self.is_open = True
        self.end_error: ModelError | None = None
        self._since = perf_counter()

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
        following = next_call(self.next_call, self.attempts)
        self.next_call, self.is_open = following or self.next_call, following is not None
        self._since = perf_counter()

    def deadline_error(self) -> ModelError:
        """The error of an ask whose deadline cut a call or a wait short."""
        return ModelError("deadline", f"no reply within {self.deadline_s:g} s of the first call")

    def outcome(self) -> AskOutcome:
        """The outcome of the ask: the last reply that fits, whatever failed after it."""
        calls = self.attempts
        counted = next((attempt for attempt in reversed(calls) if attempt.reply is not None), None)
        if counted is None or counted.reply is None:
            return self._failed_outcome()
        return AskOutcome(
            counted.reply,
            total_completion(counted, calls),
            len(calls),
            # After a fault of the model the doubts are still open; a later run may clear them up.
            is_cacheable=self.end_error is None and not calls[-1].is_model_failure,
            waited_ms=sum(attempt.waited_ms for attempt in calls),
            trail=trail(calls),
        )

    def _failed_outcome(self) -> AskOutcome:
        """The outcome without a reply: the failure, with the last text that any call returned."""
        calls = self.attempts
        texts = [
            attempt.failure.raw for attempt in calls if attempt.failure and attempt.failure.raw
        ]
        no_reply = replace(self._failure(), raw=texts[-1] if texts else "")
        completion = total_completion(calls[-1], calls) if calls else Completion("", "", 0, 0, 0.0)
        return AskOutcome(
            no_reply,
            replace(completion, text=no_reply.raw),
            len(calls),
            waited_ms=sum(attempt.waited_ms for attempt in calls),
            trail=trail(calls),
        )

    def _failure(self) -> NoReply:
        last = self.attempts[-1].failure if self.attempts else None
        ended = self.end_error
        if last and (ended is None or (ended.code, last.code) == ("deadline", "rate_limited")):
            return replace(last, code=EXHAUSTED.get(last.code, last.code))
        assert ended is not None, "an ask without a call has a reason"
        return NoReply(ended.code, ended.detail)
