"""[judge] and [limits]: who judges and what, how fast models are called, what they cost.

Prices are stored with a run, so that a later price list does not change its costs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field, field_validator, model_validator

from assizes.judge.config import ConfigTable

OFFLINE_MODEL = "offline/lexical"
"""The name of the model that answers by text rules, without a network or a key."""


class MetricSelection(ConfigTable):
    """A chosen metric; with the weight `None` it has its default weight."""

    metric: str
    # Weights are shares: only their ratio counts, they need not add up to 1.
    weight: float | None = Field(default=None, ge=0, allow_inf_nan=False)


ReplyFormat = Literal["json_schema", "json_object", "words"]
"""How a call asks for the shape of a reply: by its schema, as any JSON object, or in words alone."""

FlaggedPasses = Literal["apart", "count"]
"""How a pass counts when the case addresses its judges (see `JudgeConfig.flagged_passes`)."""


class JudgeConfig(ConfigTable):
    """[judge]: the judges, their metrics and their models."""

    metrics: tuple[MetricSelection, ...] | None = Field(
        default=None, description="conversation metrics; null or empty: the eight defaults"
    )
    judges: tuple[str, ...] = ("conversation",)  # names of built-in or own judges
    pass_threshold: float = Field(
        default=75.0, ge=0, le=100, description="overall score 0..100 a case needs without outcomes"
    )
    floors: dict[str, Annotated[float, Field(ge=0, le=5, allow_inf_nan=False)]] = Field(
        default_factory=dict,
        description="metric -> least score, in the metric's own unit, without which a case fails "
        "whatever its average: `tool_routing = 2`",
    )
    flagged_passes: FlaggedPasses = Field(
        default="apart",
        description="a pass of a case whose texts dictate a verdict to its judges or forge their "
        "replies: `apart` is not passed and counted as pass_flagged, `count` is a pass that says so",
    )
    second_look: bool = Field(
        default=False,
        description="ask once more, with the data marked, about a case that speaks to its judges; "
        "where that says otherwise the case is flagged needs_review",
    )
    model: str | None = Field(default=None, description=f"null: {OFFLINE_MODEL}")
    provider: str | None = Field(default=None, description="put before the model: provider/model")
    api_base: str | None = Field(default=None, description="address of a self-hosted endpoint")
    temperature: float | None = Field(
        default=None, ge=0, le=2, description="null: 0.2 where the model takes a temperature"
    )
    reply_format: ReplyFormat | None = Field(
        default=None,
        description="how replies are asked for; null: the strictest that the models are known to take",
    )
    max_output_tokens: int = Field(default=4096, ge=1)  # of one call; doubled once when cut off
    panel: tuple[str, ...] = Field(
        default=(), description="models that all judge each case instead of `model`; majority rules"
    )
    repeats: int = Field(
        default=1, ge=1, le=25, description="times each model is asked the same, independently"
    )
    escalate_to: str | None = Field(
        default=None, description="model that judges anew what `model` is unsure of"
    )
    rubrics: tuple[str, ...] = Field(default=(), description="folders with TOML rubrics")
    options: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="[judge.options.NAME]: threshold, tools, model, temperature of one judge",
    )

    @field_validator("metrics", mode="before")
    @classmethod
    def _names_are_selections(cls, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [{"metric": item} if isinstance(item, str) else item for item in value]
        return value

    @model_validator(mode="after")
    def _panel_is_one(self) -> JudgeConfig:
        if self.panel and self.model is not None:
            raise ValueError("model and panel: give one of the two")
        members = self.panel or ((self.model,) if self.model else ())  # empty: the offline judge
        if len(set(self.panel)) != len(self.panel):
            raise ValueError("panel: a model is named twice; `repeats` asks one several times")
        if self.escalate_to in members:
            raise ValueError("escalate_to: names a model that has judged already")
        return self

    @property
    def model_id(self) -> str:
        """The name by which litellm is called: `provider/model` (000-38)."""
        if self.model is None:
            return OFFLINE_MODEL
        return f"{self.provider}/{self.model}" if self.provider else self.model


_TOKENS_PER_BYTE: Final = 0.205
_TOKENS_PER_QUOTE: Final = 1.3
"""JSON has shorter tokens than prose, and the number of quotes says how much of a text is JSON. The
factors were fitted to the prompts for 70 conversations of tau-bench and tau2; on each of them the
estimate is within 4 % of OpenAI's tokenizers."""

_MARGIN: Final = 1.5
_AROUND_TOKENS: Final = 32
_TRIAL_TOKENS: Final = 5_000
"""The factor by which a corrected estimate may still be too low; the most tokens that a provider
adds around one message or one schema; and the tokens with which the correction starts, so that the
first metered calls do not sway it."""


class Price(ConfigTable):
    """The price of a model in US dollars for a million tokens, and the source of the figures."""

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
        cached = 0 if cached_price is None else cached_tokens
        # Without a price of their own, tokens from the provider's cache cost the full price.
        usd = (input_tokens - cached) * self.input_usd_per_million
        usd += cached * (cached_price or 0.0)
        usd += output_tokens * self.output_usd_per_million
        return usd / 1e6 * (self.batch_factor if batch else 1.0)


def listed_price(listed: Mapping[str, Any], source: str) -> Price | None:
    """The price in an entry of litellm's price list, or `None` where the entry has no price."""
    names = ("input_cost_per_token", "output_cost_per_token")
    sent, written = (listed.get(name) for name in names)  # US dollars for one token
    if sent is None or written is None:
        return None
    cached = listed.get("cache_read_input_token_cost")
    batches = [  # batch price / price, for prompt and answer; the dearer one counts
        listed[f"{name}_batches"] / listed[name]
        for name in names
        if listed[name] and listed.get(f"{name}_batches")
    ]
    return Price(
        input_usd_per_million=round(sent * 1e6, 9),  # 0.05, not 0.049999999999999996
        output_usd_per_million=round(written * 1e6, 9),
        cached_input_usd_per_million=None if cached is None else round(cached * 1e6, 9),
        batch_factor=round(min(1.0, max(batches, default=0.5)), 6),
        source=source,
    )


def estimated_tokens(*texts: str) -> int:
    """The estimated tokens of the texts, by their bytes in UTF-8 and their quotes; at least 1."""
    tokens = 0.0
    for text in texts:
        # Bytes, not characters: a Chinese character is three bytes and more tokens than a letter.
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        tokens += size * _TOKENS_PER_BYTE + text.count('"') * _TOKENS_PER_QUOTE
    return int(tokens) + 1


def most_tokens(estimate: int, texts: Iterable[str]) -> int:
    """The most tokens that a prompt of these texts can have: its messages and its reply schema."""
    # A tokenizer that works on bytes makes no token of less than one byte, and digits between
    # commas do become one token a byte: a smaller number would not be an upper bound.
    size = sum(len(text.encode("utf-8", "surrogatepass")) + _AROUND_TOKENS for text in texts)
    return max(math.ceil(estimate * _MARGIN), size)


class TokenScale:
    """The correction of token estimates for one model, learnt from what the provider metered."""

    def __init__(self) -> None:
        self._estimated = self._metered = float(_TRIAL_TOKENS)

    def adjusted_estimate(self, estimate: int) -> int:
        """The estimate times the learnt ratio, which is bounded to the range 0.25 to 4."""
        # Bounded: a server that meters nonsense must not switch off a limit of tokens.
        ratio = self._metered / self._estimated
        return max(1, round(estimate * min(4.0, max(0.25, ratio))))

    def note(self, metered: int | None, estimate: int) -> None:
        """Learn from a call the tokens estimated and metered; `metered` is `None` where unknown."""
        if metered is not None:
            self._metered += metered
            self._estimated += estimate


class LimitsConfig(ConfigTable):
    """[limits]: the rate limits, timeouts, retries and budgets of calls to judge models."""

    max_in_flight: int = Field(default=32, ge=1, le=10_000, description="calls at once, all models")
    requests_per_minute: int | None = Field(
        default=None, ge=1, description="of each model; null: as the provider lets us"
    )
    tokens_per_minute: int | None = Field(
        default=None, ge=1, description="of each model, prompt and answer together"
    )
    shared: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,80}$",
        description="name of Prefect global concurrency limits that all runs under the two limits "
        "above share; null: this process has them for itself",
    )
    timeout_s: float = Field(default=120.0, gt=0, description="wall clock of one model call")
    deadline_s: float = Field(
        default=300.0,
        gt=0,
        description="wall clock of one ask with its retries, from its first call",
    )
    max_attempts: int = Field(default=4, ge=1, le=10, description="model calls for one ask")
    budget_usd: float | None = Field(default=None, gt=0, description="of one run")
    budget_usd_per_day: float | None = Field(
        default=None, gt=0, description="of all runs in a UTC day that share the ledger"
    )
    max_asks: int | None = Field(default=None, ge=1, description="model calls of one run")
    max_asks_per_day: int | None = Field(default=None, ge=1)
    prices: dict[str, Price] = Field(
        default_factory=dict, description='[limits.prices."MODEL"]: before litellm\'s price list'
    )
    ledger: str = Field(
        default=".assizes/ledger.db", description="file in which every model call is counted"
    )

    @model_validator(mode="after")
    def _shares_something(self) -> LimitsConfig:
        if self.shared and not (self.requests_per_minute or self.tokens_per_minute):
            raise ValueError("shared: needs requests_per_minute or tokens_per_minute to share")
        return self

    @property
    def spending_is_limited(self) -> bool:
        """Whether a budget in US dollars is set, so that every model needs a price."""
        return self.budget_usd is not None or self.budget_usd_per_day is not None
