"""[limits]: how fast judge models may be called, and what their calls may cost."""

from __future__ import annotations

from pydantic import Field, model_validator

from assizes.judge.config.prices import Price
from assizes.judge.config.table import ConfigTable


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
