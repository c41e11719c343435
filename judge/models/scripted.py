"""A model that answers as told: for tests, demonstrations and rehearsals without a provider."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from assizes.judge.config.prices import Price, estimated_tokens
from assizes.judge.errors import ModelError
from assizes.judge.models.model import (
    FREE,
    Completion,
)
from assizes.judge.protocol import Ask

ScriptedReply = (
    str
    | Mapping[str, Any]
    | ModelError
    | Completion
    | Callable[[Ask[Any]], str | Mapping[str, Any]]
)
"""A text, a JSON object, an error to raise, a whole completion, or a function of the ask."""


class ScriptedModel:
    """Answers asks with queued replies, in the order in which they are asked.

    A text or an object is one answer of 10 tokens in, 5 out, 1 ms and no cost; give a `Completion`
    where other figures matter. `asked` holds what was asked, with the complaint of a re-ask.
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
        """By the length of the prompt; answers are short."""
        return estimated_tokens(ask.prompt.system, ask.prompt.user), 100 * cap

    async def complete(
        self, ask: Ask[Any], *, complaint: str | None = None, cap: int = 1
    ) -> Completion:
        """The next reply of the queue.

        Raises:
            ModelError: the queued one, or `script_empty` when the queue has run out.
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
        """Nothing is open."""
