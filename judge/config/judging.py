"""[judge] and [limits]: who judges and what, how fast models are called, what they cost.

Prices are stored with a run, so that a later price list does not change its costs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Any, Final, Literal

from pydantic import Field, field_validator, model_validator

from assizes.judge.config import ConfigTable
from assizes.judge.config.cascade import CascadeConfig

OFFLINE_MODEL = "offline/lexical"
"""The name of the model that answers by text rules, without a network or a key."""


class MetricSelection(ConfigTable):
    """A chosen metric; with the weight `None` it has its default weight."""

    metric: str = Field(description="The name of the metric; `assizes metrics` lists the names.")
    # Weights are shares: only their ratio counts, they need not add up to 1.
    weight: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="The weight of the metric in the overall score. Only the ratio of the weights "
        "counts. Not set: the metric's default weight.",
    )


ReplyFormat = Literal["json_schema", "json_object", "words"]
"""How a call asks for the shape of a reply: by its schema, as any JSON object, or in words alone."""

FlaggedPasses = Literal["apart", "count"]
"""How a pass counts when the case addresses its judges (see `JudgeConfig.flagged_passes`)."""


class JudgeConfig(ConfigTable):
    """[judge]: the judges, their metrics and their models."""

    metrics: tuple[MetricSelection, ...] | None = Field(
        default=None,
        description="The conversation metrics that are scored. A name stands for a metric with its "
        "default weight. Not set or empty: the eight default metrics.",
    )
    judges: tuple[str, ...] = Field(
        default=("conversation",),
        description="The judges of a run: built-in names, names of judges in `rubrics` folders, or "
        "`module:attribute` of your own code.",
    )
    pass_threshold: float = Field(
        default=75.0,
        ge=0,
        le=100,
        description="The overall score from 0 to 100 that a case needs to pass when it has no "
        "expected outcomes.",
    )
    floors: dict[str, Annotated[float, Field(ge=0, le=5, allow_inf_nan=False)]] = Field(
        default_factory=dict,
        description="The least score by metric, in the metric's own unit, as in `tool_routing = 2`. A "
        "case below a floor fails whatever its average is.",
    )
    flagged_passes: FlaggedPasses = Field(
        default="apart",
        description="How a pass counts when the texts of the case dictate a verdict to its judges or "
        "forge their replies. `apart`: the case is not passed and counts as "
        "`pass_flagged`. `count`: the case is passed and carries the flag.",
    )
    second_look: bool = Field(
        default=False,
        description="Ask once more, with the data marked, about a case that speaks to its judges. A "
        "case whose second answer differs is flagged `needs_review`.",
    )
    model: str | None = Field(
        default=None,
        description="The model that judges, by its litellm name. Not set: `offline/lexical`, which "
        "applies text rules and asks no model.",
    )
    provider: str | None = Field(
        default=None,
        description="The litellm provider, which is put before the model's name: `provider/model`.",
    )
    api_base: str | None = Field(default=None, description="The address of a self-hosted endpoint.")
    temperature: float | None = Field(
        default=None,
        ge=0,
        le=2,
        description="The sampling temperature of the model. Not set: 0.2 where the model takes a "
        "temperature.",
    )
    reply_format: ReplyFormat | None = Field(
        default=None,
        description="How the shape of a reply is asked for: by its JSON schema, as any JSON object, "
        "or in words alone. Not set: the strictest way that the models are known to take.",
    )
    max_output_tokens: int = Field(
        default=4096,
        ge=1,
        description="The most tokens of one answer. An answer that was cut off is asked for once more "
        "with twice as many.",
    )
    panel: tuple[str, ...] = Field(
        default=(),
        description="Models that all judge each case instead of `model`. The majority decides.",
    )
    repeats: int = Field(
        default=1,
        ge=1,
        le=25,
        description="How many times each model is asked the same question, independently.",
    )
    escalate_to: str | None = Field(
        default=None, description="A model that judges again what `model` is unsure of."
    )
    cascade: CascadeConfig | None = Field(
        default=None,
        description="When `escalate_to` is asked: below a confidence that labels of people have set. "
        "Not set: where plain signs of doubt show.",
    )
    rubrics: tuple[str, ...] = Field(
        default=(), description="Folders with TOML files of your own metrics and judges."
    )
    options: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="The options of one judge, in the table `[judge.options.NAME]`.",
    )

    @field_validator("metrics", mode="before")
    @classmethod
    def _names_are_selections(cls, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [{"metric": item} if isinstance(item, str) else item for item in value]
        return value

    @field_validator("api_base")
    @classmethod
    def _address_is_a_url(cls, value: str | None) -> str | None:
        if value and not value.startswith(("http://", "https://")):
            raise ValueError(
                f"must begin with http:// or https://, as in http://{''.join(value.split())}"
            )
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


MAX_PRICE_USD: Final = 1_000_000.0
"""US dollars for a million tokens above which a number is no price."""


class Price(ConfigTable):
    """The price of a model in US dollars for a million tokens, and the source of the figures."""

    input_usd_per_million: float = Field(
        ge=0, le=MAX_PRICE_USD, description="US dollars for a million prompt tokens."
    )
    output_usd_per_million: float = Field(
        ge=0, le=MAX_PRICE_USD, description="US dollars for a million answer tokens."
    )
    cached_input_usd_per_million: float | None = Field(
        default=None,
        ge=0,
        le=MAX_PRICE_USD,
        description="US dollars for a million prompt tokens that the provider had in its cache. Not "
        "set: they cost the full price.",
    )
    cache_write_usd_per_million: float | None = Field(
        default=None,
        ge=0,
        le=MAX_PRICE_USD,
        description="US dollars for a million prompt tokens that a call puts into the provider's cache. "
        "Not set: they cost the full price.",
    )
    batch_factor: float = Field(
        default=0.5, ge=0, le=1, description="The share of these prices that a batch call costs."
    )
    cached_batch_factor: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="The share of the price of cached prompt tokens that a batch call costs. Not set: "
        "`batch_factor`.",
    )
    source: str = Field(
        default="configured",
        description="Where the prices come from: `configured`, or the name of a price list.",
    )

    def cost_usd(
        self,
        input_tokens: int,
        output_tokens: int,
        cached_tokens: int = 0,
        cache_write_tokens: int = 0,
        *,
        batch: bool = False,
    ) -> float:
        """The cost of one call in US dollars; `input_tokens` includes the two kinds of cache tokens."""
        full = self.input_usd_per_million
        usd = (input_tokens - cached_tokens - cache_write_tokens) * full
        # Without a price of their own, tokens of the provider's cache cost the full price.
        for tokens, price in (
            (cached_tokens, self.cached_input_usd_per_million),
            (cache_write_tokens, self.cache_write_usd_per_million),
        ):
            usd += tokens * (full if price is None else price)
        usd += output_tokens * self.output_usd_per_million
        if not batch:
            return usd / 1e6
        usd *= self.batch_factor
        cached_price = self.cached_input_usd_per_million
        if cached_price is not None and self.cached_batch_factor is not None:
            usd += cached_tokens * cached_price * (self.cached_batch_factor - self.batch_factor)
        return usd / 1e6

    def worst_usd(self, input_tokens: int, output_tokens: int, *, batch: bool = False) -> float:
        """The most that a call of so many tokens can cost: all of its prompt may be put into a cache."""
        is_dearer = (self.cache_write_usd_per_million or 0.0) > self.input_usd_per_million
        to_cache = input_tokens if is_dearer else 0
        return self.cost_usd(input_tokens, output_tokens, 0, to_cache, batch=batch)


def listed_price(listed: Mapping[str, Any], source: str) -> Price | None:
    """The price in an entry of litellm's price list, or `None` where the entry has no price."""
    names = ("input_cost_per_token", "output_cost_per_token")
    sent, written = (listed.get(name) for name in names)  # US dollars for one token
    if sent is None or written is None:
        return None
    cached, to_cache = (listed.get(f"cache_{how}_input_token_cost") for how in ("read", "creation"))
    cached_batches = listed.get("cache_read_input_token_cost_batches")
    batches = [  # batch price / price, for prompt and answer; the dearer one counts
        listed[f"{name}_batches"] / listed[name]
        for name in names
        if listed[name] and listed.get(f"{name}_batches")
    ]
    return Price(
        input_usd_per_million=round(sent * 1e6, 9),  # 0.05, not 0.049999999999999996
        output_usd_per_million=round(written * 1e6, 9),
        cached_input_usd_per_million=None if cached is None else round(cached * 1e6, 9),
        cache_write_usd_per_million=None if to_cache is None else round(to_cache * 1e6, 9),
        batch_factor=round(min(1.0, max(batches, default=0.5)), 6),
        cached_batch_factor=(
            round(min(1.0, cached_batches / cached), 6) if cached and cached_batches else None
        ),
        source=source,
    )


def estimated_tokens(*texts: str) -> int:
    """The estimated tokens of the texts, by their bytes in UTF-8 and their quotes; at least 1."""
    return int(sum(map(_text_tokens, texts))) + 1


@lru_cache(maxsize=64)  # the messages of a call are looked at several times
def _text_tokens(text: str) -> float:
    # Bytes, not characters: a Chinese character is three bytes and more tokens than a letter.
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return size * _TOKENS_PER_BYTE + text.count('"') * _TOKENS_PER_QUOTE


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

    max_in_flight: int = Field(
        default=32, ge=1, le=10000, description="The most model calls at once, over all models."
    )
    requests_per_minute: int | None = Field(
        default=None,
        ge=1,
        description="The most calls a minute of each model. Not set: the provider's answers set the "
        "pace.",
    )
    tokens_per_minute: int | None = Field(
        default=None,
        ge=1,
        description="The most tokens a minute of each model, prompt and answer together. Not set: no "
        "limit of tokens.",
    )
    shared: str | None = Field(
        default=None,
        pattern="^[A-Za-z0-9][A-Za-z0-9_.-]{0,80}$",
        description="The name of Prefect global concurrency limits, through which all runs share the "
        "two limits above. Not set: this process has them for itself.",
    )
    timeout_s: float = Field(
        default=120.0, gt=0, description="The most seconds that one model call may take."
    )
    deadline_s: float = Field(
        default=300.0,
        gt=0,
        description="The most seconds that one ask may take with all its retries, from its first call "
        "on.",
    )
    max_attempts: int = Field(
        default=4, ge=1, le=10, description="The most model calls for one ask."
    )
    budget_usd: float | None = Field(
        default=None,
        gt=0,
        description="The most US dollars that one run may spend. Not set: no budget.",
    )
    budget_usd_per_day: float | None = Field(
        default=None,
        gt=0,
        description="The most US dollars that all runs with the same ledger may spend in one UTC day. "
        "Not set: no budget.",
    )
    max_asks: int | None = Field(
        default=None, ge=1, description="The most model calls of one run. Not set: no limit."
    )
    max_asks_per_day: int | None = Field(
        default=None,
        ge=1,
        description="The most model calls of all runs with the same ledger in one UTC day. Not set: "
        "no limit.",
    )
    prices: dict[str, Price] = Field(
        default_factory=dict,
        description='The prices of models, in tables `[limits.prices."MODEL"]`. They count before '
        "those of litellm's list.",
    )
    ledger: str = Field(
        default=".assizes/ledger.db",
        description="The file in which every model call and its cost is counted.",
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
