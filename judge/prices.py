"""What tokens cost: prices are pinned into a run, so that a later price list changes nothing."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field

CHARS_PER_TOKEN: Final = 4.0
"""A rule of thumb for English text and JSON; used where nothing better is known."""


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


def estimated_tokens(*texts: str) -> int:
    """How many tokens texts are, about: characters by `CHARS_PER_TOKEN`, at least 1."""
    return int(sum(map(len, texts)) / CHARS_PER_TOKEN) + 1
