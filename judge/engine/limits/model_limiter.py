"""One model's limits, and who waits for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from assizes.judge.config.run import LimitsConfig
from assizes.judge.engine.limits.adaptive_rate import Pressure
from assizes.judge.engine.limits.fair_queue import Line, Waiter
from assizes.judge.engine.limits.rate_limiter import Charge, Pace, Pacer


@dataclass(slots=True, eq=False)
class Start:
    """A call that may be made, and what it was charged.

    Args:
        waiter: who asked for it.
        at: when it was let start.
        spell: see `Pressure`.
        requests: its charges as a request.
        tokens: its charges for the tokens it is estimated to take.
    """

    waiter: Waiter
    at: float
    spell: int
    requests: Sequence[tuple[Pace, Charge]]
    tokens: Sequence[tuple[Pace, Charge]]


class Lane:
    """Every start of a model's calls goes through its lane, one after the other.

    Args:
        limits: those that this process keeps for itself.
        shared: paces of requests and of tokens that it shares; null for none.
    """

    def __init__(
        self, limits: LimitsConfig, shared: tuple[Pace | None, Pace | None] = (None, None)
    ) -> None:
        self.line = Line()
        self.pressure = Pressure()
        self._requests = _paces(limits.requests_per_minute, Pacer.of_requests, shared[0])
        self._tokens = _paces(limits.tokens_per_minute, Pacer.of_tokens, shared[1])

    def join(self, waiter: Waiter) -> None:
        """Stand in line."""
        if not self.line:
            for pace in (*self._requests, *self._tokens):
                pace.begin(waiter.since)
        self.line.join(waiter)

    def ready_at(self, now: float) -> float:
        """When the next in line may start.

        Raises:
            AssizesError: when a shared limit cannot be had.
        """
        tokens = self.line.next().tokens
        times = [self.pressure.ready_at()]
        times += [pace.ready_at(1, now) for pace in self._requests]
        times += [pace.ready_at(tokens, now) for pace in self._tokens]
        return max(times)

    def start(self, now: float) -> Start:
        """Let the next in line start."""
        waiter = self.line.serve()
        return Start(
            waiter=waiter,
            at=now,
            spell=self.pressure.take(now),
            requests=[(pace, pace.take(1, now)) for pace in self._requests],
            tokens=[(pace, pace.take(waiter.tokens, now)) for pace in self._tokens],
        )

    def settle(self, start: Start, tokens: int) -> None:
        """The call took so many tokens."""
        _settle(start.tokens, tokens)

    def undo(self, start: Start) -> None:
        """The call was not made."""
        _settle(start.requests, 0)
        _settle(start.tokens, 0)


def _paces(
    per_minute: int | None, keeping: Callable[[int], Pace], shared: Pace | None
) -> list[Pace]:
    own = [keeping(per_minute)] if per_minute is not None else []
    return own if shared is None else [*own, shared]


def _settle(charges: Iterable[tuple[Pace, Charge]], cost: float) -> None:
    for pace, charge in charges:
        pace.settle(charge, cost)
