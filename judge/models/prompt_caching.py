"""Prompt caches of providers that have to be asked for: which models, and where the mark stands.

Most providers cache the beginning of prompts by themselves. Claude models do so only up to a mark in
the request. The mark stands at the end of the system message: role, rules and rubric, which are equal
over a run (`assizes.judge.protocol.Prompt`). It is no part of the prompt's text or hash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from assizes.judge.config.judging import Price, estimated_tokens

MARKED_PROVIDERS: Final = frozenset(
    {"anthropic", "azure_ai", "bedrock", "bedrock_converse", "openrouter", "vertex_ai"}
)
"""Providers of Claude models whose requests litellm lets carry the mark."""

UNKNOWN_MINIMUM: Final = 4096
"""Tokens from which a text is marked for a model that is not in litellm's list: the most of any model."""

WRITE_FACTOR: Final = 1.25
"""Price of a token that is put into the cache for five minutes, as a share of that of a plain one."""

_MARK: Final = {"type": "ephemeral"}


def marked_from(model: str, provider: str, entry: Mapping[str, Any]) -> int | None:
    """Tokens of the stable text from which a model's requests are marked; `None`: they never are.

    `entry` is that of the model in litellm's list, empty without one.
    """
    if provider not in MARKED_PROVIDERS or "claude" not in model.lower():
        return None
    if entry and not entry.get("supports_prompt_caching"):
        return None
    minimum = entry.get("prompt_cache_min_tokens")
    return minimum if isinstance(minimum, int) and minimum > 0 else UNKNOWN_MINIMUM


def with_write_price(price: Price | None) -> Price | None:
    """A price at which tokens put into the cache are not counted too cheap."""
    if price is None or price.cache_write_usd_per_million is not None:
        return price
    dearer = round(price.input_usd_per_million * WRITE_FACTOR, 9)
    return price.model_copy(update={"cache_write_usd_per_million": dearer})


def is_marked(system: str, minimum: int | None) -> bool:
    """Whether a system message is long enough to be cached by a model with this minimum."""
    return minimum is not None and estimated_tokens(system) >= minimum


def marked_tokens(model: object, system: str) -> int:
    """The estimated tokens of a system message that a model's calls mark; 0 where they mark none."""
    minimum: int | None = getattr(model, "marked_from", None)
    return estimated_tokens(system) if is_marked(system, minimum) else 0


def with_mark(messages: Sequence[Mapping[str, str]], minimum: int | None) -> list[dict[str, Any]]:
    """The messages of a call, with a mark at the end of a system message that is long enough."""
    marked: list[dict[str, Any]] = []
    for message in messages:
        content: Any = message["content"]
        if message["role"] == "system" and is_marked(content, minimum):
            content = [{"type": "text", "text": content, "cache_control": dict(_MARK)}]
        marked.append({**message, "content": content})
    return marked
