"""Rate limits of the judge model: what exceeds them in a sliding window is refused."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tests.doubles.openai_answer import Answer, error
from tests.doubles.openai_tally import Window

MINUTE_S = 60.0


@dataclass(frozen=True)
class Limits:
    """Requests and tokens a minute; None: no limit.

    Attributes:
        window_s: the window they are held in, with its share of a minute's requests and tokens.
        hint: whether a refusal says when to come again.
    """

    rpm: float | None = None
    tpm: float | None = None
    window_s: float = MINUTE_S
    hint: bool = True

    @property
    def requests(self) -> int | None:
        """Most requests in a window."""
        return None if self.rpm is None else math.floor(self.rpm * self.window_s / MINUTE_S)

    @property
    def tokens(self) -> int | None:
        """Most tokens in a window."""
        return None if self.tpm is None else math.floor(self.tpm * self.window_s / MINUTE_S)


class Limiter:
    """Admits requests; refused ones do not count against the limits."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.accepted = Window(limits.window_s)

    @property
    def active(self) -> bool:
        return self.limits.rpm is not None or self.limits.tpm is not None

    def admit(self, tokens: int, now: float) -> Answer | None:
        """The refusal of a request of so many tokens, or None: it is admitted and counted."""
        self.accepted.forget(now)
        over = self._too_many(tokens)
        if over == 0:
            self.accepted.add(now, tokens)
            return None
        return self._refusal(self._wait_s(over, now))

    def _too_many(self, tokens: int) -> int:
        """How many of the oldest requests must leave the window before this one fits."""
        requests, most_tokens = self.limits.requests, self.limits.tokens
        held = self.accepted
        over = max(0, len(held.events) + 1 - requests) if requests is not None else 0
        if most_tokens is None:
            return over
        excess = held.tokens + tokens - most_tokens
        for leaving, (_, freed) in enumerate(held.events):
            if excess <= 0:
                return max(over, leaving)
            excess -= freed
        # A request of more tokens than the limit never fits.
        return max(over, len(held.events) + (excess > 0))

    def _wait_s(self, over: int, now: float) -> float:
        events = self.accepted.events
        if over > len(events):
            return self.limits.window_s
        return events[over - 1][0] + self.limits.window_s - now

    def _refusal(self, wait_s: float) -> Answer:
        # Rounded up: a caller who waits exactly so long is admitted.
        hint = {"Retry-After": f"{math.ceil(wait_s * 1000) / 1000:.3f}"} if self.limits.hint else {}
        return error(429, "Rate limit reached for requests.", "rate_limit_exceeded", hint)
