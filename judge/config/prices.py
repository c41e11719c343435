"""What tokens cost, and how many tokens a prompt has.

Prices are stored with a run, so that a later price list does not change its costs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

_TOKENS_PER_BYTE: Final = 0.205
_TOKENS_PER_QUOTE: Final = 1.3
"""JSON has shorter tokens than prose, and the number of quotes says how much of a text is JSON. The
factors were fitted to the prompts for 70 conversations of tau-bench and tau2; on each of them the
estimate is within 4 % of OpenAI's tokenizers."""

_MARGIN: Final = 1.5
"""The factor by which a corrected estimate may still be too low."""

_AROUND_TOKENS: Final = 32
"""The most tokens that a provider adds around one message or one schema."""

_TRIAL_TOKENS: Final = 5_000
"""Tokens with which the correction starts, so that the first metered calls do not sway it."""


class Price(BaseModel):
    """The price of a model in US dollars for a million tokens, and the source of the figures."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    input_usd_per_million: float = Field(ge=0)
    output_usd_per_million: float = Field(ge=0)
    cached_input_usd_per_million: float | None = Field(
        default=None, ge=0, description="for prompt tokens the provider had in its cache"
    )
    batch_factor: float = Field(
        default=0.5, ge=0, le=1, description="share of these prices that a batch call costs"
    )
    source: str = Field(default="configured", description="`configured`, or the price list's name")

    def cost_usd(
        self, input_tokens: int, output_tokens: int, cached_tokens: int = 0, *, batch: bool = False
    ) -> float:
        """The cost of one call in US dollars; `input_tokens` includes the `cached_tokens`."""
        cached_price = self.cached_input_usd_per_million
        cached = cached_tokens if cached_price is not None else 0
        usd = (input_tokens - cached) * self.input_usd_per_million
        usd += cached * (cached_price or 0.0)
        usd += output_tokens * self.output_usd_per_million
        return usd / 1e6 * (self.batch_factor if batch else 1.0)


def listed_price(listed: Mapping[str, Any], source: str) -> Price | None:
    """The price in an entry of litellm's price list, or `None` where the entry has no price.

    The list gives US dollars for one token. Where it has no batch price, batches cost half.
    """
    names = ("input_cost_per_token", "output_cost_per_token")
    sent, written = (listed.get(name) for name in names)
    if sent is None or written is None:
        return None
    cached = listed.get("cache_read_input_token_cost")
    batches = [
        listed[f"{name}_batches"] / listed[name]
        for name in names
        if listed[name] and listed.get(f"{name}_batches")
    ]
    return Price(
        input_usd_per_million=_per_million(sent),
        output_usd_per_million=_per_million(written),
        cached_input_usd_per_million=None if cached is None else _per_million(cached),
        batch_factor=round(min(1.0, max(batches, default=0.5)), 6),
        source=source,
    )


def _per_million(usd: float) -> float:
    return round(usd * 1e6, 9)


def estimated_tokens(*texts: str) -> int:
    """The estimated tokens of the texts, by their bytes in UTF-8 and their quotes; at least 1."""
    tokens = 0.0
    for text in texts:
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        tokens += size * _TOKENS_PER_BYTE + text.count('"') * _TOKENS_PER_QUOTE
    return int(tokens) + 1


def most_tokens(estimate: int, texts: Iterable[str]) -> int:
    """The most tokens that a prompt can have, whatever its content.

    A tokenizer that works on bytes makes no token of less than one byte, and digits between commas
    do become one token a byte: a smaller number would not be an upper bound.

    Args:
        estimate: the expected number of tokens.
        texts: all texts that are sent, the messages and the schema.
    """
    size = sum(len(text.encode("utf-8", "surrogatepass")) + _AROUND_TOKENS for text in texts)
    return max(math.ceil(estimate * _MARGIN), size)


class TokenScale:
    """The correction of token estimates for one model, learnt from what the provider metered."""

    def __init__(self) -> None:
        self._estimated = self._metered = float(_TRIAL_TOKENS)

    def adjusted_estimate(self, estimate: int) -> int:
        """The estimate times the learnt ratio, which is bounded to the range 0.25 to 4."""
        ratio = self._metered / self._estimated
        return max(1, round(estimate * min(4.0, max(0.25, ratio))))

    def note(self, metered: int | None, estimate: int) -> None:
        """Learn from a call the tokens estimated and metered; `metered` is `None` where unknown."""
        if metered is not None:
            self._metered += metered
            self._estimated += estimate
