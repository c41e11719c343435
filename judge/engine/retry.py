"""What follows a model call that was not good enough: the one place that decides to ask again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tenacity import RetryCallState, wait_random_exponential

from assizes.judge.engine.attempts import Attempt
from assizes.judge.engine.faults import AT_ONCE, LONGER_CAP, RETRIED_ONCE, action_for


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses between calls: random up to a bound that doubles from `base_s` to `cap_s`."""

    base_s: float = 0.5
    cap_s: float = 30.0

    def pause_s(self, state: RetryCallState) -> float:
        """How long to wait after the call that `state` counts to."""
        return wait_random_exponential(multiplier=self.base_s, max=self.cap_s)(state)


@dataclass(frozen=True, slots=True)
class NextCall:
    """How the next call of an ask is made.

    Args:
        complaint: what was wrong with the reply before; once there is one, it is put each time.
        cap: times the usual number of tokens that the answer may take.
        pauses: whether the provider is given time first.
        floor_s: it asks for so much.
    """

    complaint: str | None = None
    cap: int = 1
    pauses: bool = False
    floor_s: float = 0.0


def next_call(call: NextCall, attempts: Sequence[Attempt]) -> NextCall | None:
    """What follows the last attempt, which was made by `step`; null: nothing does.

    A question is put again with a complaint at most once, however often that call is repeated for
    the provider's faults.
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
