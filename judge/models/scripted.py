"""A model with prepared replies: for tests, demonstrations and rehearsals without a provider."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from assizes.judge.config.prices import Price, estimated_tokens
from assizes.judge.errors import ModelError
from assizes.judge.models.model import FREE, Completion
from assizes.judge.protocol import Ask

ScriptedReply = (
    str
    | Mapping[str, Any]
    | ModelError
    | Completion
    | Callable[[Ask[Any]], str | Mapping[str, Any]]
)
"""A prepared reply: text, a JSON object, an error to raise, a completion or a function of the ask."""


class ScriptedModel:
    """Answers asks with queued replies, in the order of the asks.

    A text or an object becomes an answer with 10 tokens in, 5 tokens out, 1 ms latency and no cost;
    queue a `Completion` where other figures matter.

    Args:
        replies: the queue.
        cache_key: None keeps the answers out of caches.

    Attributes:
        asked: the asks so far, each with its complaint (None for a first ask).
    """

    name = "scripted/queue"
    provider = "scripted"
    price: Price | None = FREE

    def __init__(
        self, replies: Iterable[ScriptedReply], cache_key: str | None = "scripted"
    ) -> None:
        self.cache_key = cache_key
        self.asked: list[tuple[Ask[Any], str | None]] = []
        self._replies: deque[ScriptedReply] = deque(replies)

    def tokens(self, ask: Ask[Any], cap: int = 1) -> tuple[int, int]:
        """Estimate tokens by the length of the prompt; an answer has at most 100 times `cap`."""
        return estimated_tokens(ask.prompt.system, ask.prompt.user), 100 * cap

    async def complete(
        self, ask: Ask[Any], *, complaint: str | None = None, cap: int = 1
    ) -> Completion:
        """Answer with the next reply of the queue.

        Raises:
            ModelError: the queued error, or `script_empty` when the queue is empty.
        """
        self.asked.append((ask, complaint))
        if not self._replies:
            raise ModelError("script_empty", f"no reply is queued for ask {len(self.asked)}")
        reply = self._replies.popleft()
        if callable(reply):
            reply = reply(ask)
        if isinstance(reply, ModelError):
            raise reply
        if isinstance(reply, Completion):
            return reply
        text = reply if isinstance(reply, str) else json.dumps(reply)
        return Completion(text, self.name, 10, 5, cost_usd=0.0, latency_ms=1.0)

    async def aclose(self) -> None:
        """Do nothing: no connection is ever opened."""
