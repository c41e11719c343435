"""Decides what follows a model call; this is the only place that decides to ask again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tenacity import RetryCallState, wait_random_exponential

from assizes.judge.engine.attempts import Attempt
from assizes.judge.engine.faults import AT_ONCE, LONGER_CAP, RETRIED_ONCE, action_for


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

    Args:
        complaint: what was wrong with an earlier reply; it is repeated in every later call. `None`
            where no reply was wrong.
        cap: factor on the usual cap of tokens for the answer.
        pauses: whether there is a pause before the call.
        floor_s: seconds that the pause lasts at least, because the provider asked for them.
    """

    complaint: str | None = None
    cap: int = 1
    pauses: bool = False
    floor_s: float = 0.0


def next_call(call: NextCall, attempts: Sequence[Attempt]) -> NextCall | None:
    """The call that follows the last attempt; `None` when no call follows.

    A question is put again with a complaint at most once, however often that call is repeated
    because of faults of the provider.

    Args:
        call: how the last attempt was made.
        attempts: all attempts of the ask so far.
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
