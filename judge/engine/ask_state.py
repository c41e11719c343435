"""One ask on its way to its answer: the calls made for it, its clock, and how it ended."""

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
    """How an ask ended.

    Args:
        reply: the reply that fits, or why there is none.
        completion: the text that counted, with the sums over all attempts.
        attempts: model calls made for it.
        settled: a reply that is worth keeping: asking once more would be of no use.
        cached: it was paid for elsewhere.
        waited_ms: what limits and pauses took.
        trail: its calls as JSON; null where the first was good.
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
        """Code and reason where no reply came."""
        return (
            f"{self.reply.code}: {self.reply.reason}" if isinstance(self.reply, NoReply) else None
        )


class AskState:
    """An ask that is being put.

    `step` is how the next call is made, `open` whether there is to be one; `ended` is what kept the
    ask from being put again where that is not the last call's failure. `place` is that of its first
    permit, which it keeps.
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
        """Seconds to its deadline; the first call starts the clock."""
        if self.deadline_at is None:
            return self.deadline_s
        return self.deadline_at - asyncio.get_running_loop().time()

    def begin_call(self) -> float:
        """A call begins; the milliseconds it had to wait."""
        if self.deadline_at is None:
            self.deadline_at = asyncio.get_running_loop().time() + self.deadline_s
        return (perf_counter() - self._since) * 1000

    def add_attempt(self, attempt: Attempt) -> None:
        """Note a call, and decide what follows it."""
        if self.next_call.cap > 1:
            attempt = replace(attempt, flags=(*attempt.flags, "longer"))
        self.attempts.append(attempt)
        following = next_call(self.next_call, self.attempts)
        self.next_call, self.is_open = following or self.next_call, following is not None
        self._since = perf_counter()

    def deadline_error(self) -> ModelError:
        """What an ask fails of whose deadline cut a call or a wait."""
        return ModelError("deadline", f"no reply within {self.deadline_s:g} s of the first call")

    def outcome(self) -> AskOutcome:
        """How it ended. A reply that fitted is never lost: the last of them counts."""
        calls = self.attempts
        counted = next((attempt for attempt in reversed(calls) if attempt.reply is not None), None)
        if counted is None or counted.reply is None:
            return self._failed_outcome()
        return AskOutcome(
            counted.reply,
            total_completion(counted, calls),
            len(calls),
            # After a fault the doubts were never cleared up; a later run may still succeed in that.
            is_cacheable=self.end_error is None and not calls[-1].is_model_failure,
            waited_ms=self._waited_ms(),
            trail=trail(calls),
        )

    def _failed_outcome(self) -> AskOutcome:
        """By its last failure, or by what kept it from being put again; with the last text."""
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
            waited_ms=self._waited_ms(),
            trail=trail(calls),
        )

    def _failure(self) -> NoReply:
        last = self.attempts[-1].failure if self.attempts else None
        ended = self.end_error
        if last and (ended is None or (ended.code, last.code) == ("deadline", "rate_limited")):
            return replace(last, code=EXHAUSTED.get(last.code, last.code))
        assert ended is not None, "an ask without a call has a reason"
        return NoReply(ended.code, ended.detail)

    def _waited_ms(self) -> float:
        return sum(attempt.waited_ms for attempt in self.attempts)
