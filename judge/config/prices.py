"""What tokens cost: prices are pinned into a run, so that a later price list changes nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

_TOKENS_PER_BYTE: Final = 0.205
_TOKENS_PER_QUOTE: Final = 1.3
"""JSON has shorter tokens than prose, and quotes tell how much of a text is JSON. Fitted to the
prompts for 70 conversations of tau-bench and tau2: within 4 % of OpenAI's tokenizers on each."""

_MARGIN: Final = 1.5
"""An estimate that calls so far put right may still be too low by this much."""

_AROUND_TOKENS: Final = 32
"""What a provider puts around a message, or around a schema, at most."""

_TRIAL_TOKENS: Final = 5_000
"""How many tokens count for the estimate before metered ones do."""


class Price(BaseModel):
    """US dollars for a million tokens, and where the figures come from."""

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
        """The price of one call; `cached_tokens` are among the `input_tokens`."""
        cached_price = self.cached_input_usd_per_million
        cached = cached_tokens if cached_price is not None else 0
        usd = (input_tokens - cached) * self.input_usd_per_million
        usd += cached * (cached_price or 0.0)
        usd += output_tokens * self.output_usd_per_million
        return usd / 1e6 * (self.batch_factor if batch else 1.0)


def listed_price(listed: Mapping[str, Any], source: str) -> Price | None:
    """The price in an entry of litellm's price list, in dollars a token there; null where it has
    none. Batches cost half where the list does not say.
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
    """How many tokens texts are, about: by their length in UTF-8 and their quotes, at least 1."""
    tokens = 0.0
    for text in texts:
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        tokens += size * _TOKENS_PER_BYTE + text.count('"') * _TOKENS_PER_QUOTE
    return int(tokens) + 1


def most_tokens(estimate: int, texts: Iterable[str]) -> int:
    """The most tokens that a prompt can be, whatever is in it.

    A tokenizer that works on bytes makes no token of less than one byte, and makes one of each byte
    of digits between commas; less than that would not be a bound.

    Args:
        estimate: what it is expected to be.
        texts: all that is sent, its messages and the schema.
    """
    size = sum(len(text.encode("utf-8", "surrogatepass")) + _AROUND_TOKENS for text in texts)
    return max(math.ceil(estimate * _MARGIN), size)


class TokenScale:
    """How far estimates for one model are off, learnt from what the provider metered."""

    def __init__(self) -> None:
        self._estimated = self._metered = float(_TRIAL_TOKENS)

    def adjusted_estimate(self, estimate: int) -> int:
        """An estimate, put right by the calls so far: at most to a quarter or to four times it."""
        ratio = self._metered / self._estimated
        return max(1, round(estimate * min(4.0, max(0.25, ratio))))

    def note(self, metered: int | None, estimate: int) -> None:
        """What was estimated for a call, and what was metered; null: nothing was."""
        if metered is not None:
            self._metered += metered
            self._estimated += estimate
