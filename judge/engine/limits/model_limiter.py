"""One model's limits, and who waits for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from assizes.judge.config.run import LimitsConfig
from assizes.judge.engine.limits.adaptive_rate import AdaptiveRate
from assizes.judge.engine.limits.fair_queue import FairQueue, QueuedCall
from assizes.judge.engine.limits.rate_limiter import Charge, RateLimit, RateLimiter


@dataclass(slots=True, eq=False)
class AdmittedCall:
    """A call that may be made, and what it was charged.

    Args:
        waiter: who asked for it.
        at: when it was let start.
        spell: see `Pressure`.
        requests: its charges as a request.
        tokens: its charges for the tokens it is estimated to take.
    """

    queued_call: QueuedCall
    at: float
    spell: int
    requests: Sequence[tuple[RateLimit, Charge]]
    tokens: Sequence[tuple[RateLimit, Charge]]


class ModelLimiter:
    """Every start of a model's calls goes through its lane, one after the other.

    Args:
        limits: those that this process keeps for itself.
        shared: paces of requests and of tokens that it shares; null for none.
    """

    def __init__(
        self, limits: LimitsConfig, shared: tuple[RateLimit | None, RateLimit | None] = (None, None)
    ) -> None:
        self.queue = FairQueue()
        self.adaptive_rate = AdaptiveRate()
        self._requests = _rate_limits(
            limits.requests_per_minute, RateLimiter.of_requests, shared[0]
        )
        self._tokens = _rate_limits(limits.tokens_per_minute, RateLimiter.of_tokens, shared[1])

    def join(self, call: QueuedCall) -> None:
        """Stand in line."""
        if not self.queue:
            for rate_limit in (*self._requests, *self._tokens):
                rate_limit.begin(call.since)
        self.queue.join(call)

    def ready_at(self, now: float) -> float:
        """When the next in line may start.

        Raises:
            AssizesError: when a shared limit cannot be had.
        """
        tokens = self.queue.next().tokens
        times = [self.adaptive_rate.ready_at()]
        times += [rate_limit.ready_at(1, now) for rate_limit in self._requests]
        times += [rate_limit.ready_at(tokens, now) for rate_limit in self._tokens]
        return max(times)

    def start(self, now: float) -> AdmittedCall:
        """Let the next in line start."""
        call = self.queue.pop()
        return AdmittedCall(
            queued_call=call,
            at=now,
            spell=self.adaptive_rate.take(now),
            requests=[(rate_limit, rate_limit.take(1, now)) for rate_limit in self._requests],
            tokens=[(rate_limit, rate_limit.take(call.tokens, now)) for rate_limit in self._tokens],
        )

    def settle(self, call: AdmittedCall, tokens: int) -> None:
        """The call took so many tokens."""
        _settle(call.tokens, tokens)

    def undo(self, call: AdmittedCall) -> None:
        """The call was not made."""
        _settle(call.requests, 0)
        _settle(call.tokens, 0)


def _rate_limits(
    per_minute: int | None, make_limit: Callable[[int], RateLimit], shared: RateLimit | None
) -> list[RateLimit]:
    own = [make_limit(per_minute)] if per_minute is not None else []
    return own if shared is None else [*own, shared]


def _settle(charges: Iterable[tuple[RateLimit, Charge]], cost: float) -> None:
    for rate_limit, charge in charges:
        rate_limit.settle(charge, cost)
