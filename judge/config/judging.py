"""[judge]: who judges and what is judged (seed 000)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from assizes.judge.config.table import ConfigTable

OFFLINE_MODEL = "offline/lexical"
"""The name of the model that answers by text rules, without a network or a key."""


class MetricSelection(ConfigTable):
    """A chosen metric; with the weight `None` it has its default weight."""

    metric: str
    weight: float | None = Field(default=None, ge=0, allow_inf_nan=False)


FlaggedPasses = Literal["apart", "count"]
"""How a pass counts when the case addresses its judges (see `JudgeConfig.flagged_passes`)."""


class JudgeConfig(ConfigTable):
    """[judge]: the judges, their metrics and their models (seed 000)."""

    metrics: tuple[MetricSelection, ...] | None = Field(
        default=None, description="conversation metrics; null or empty: the eight defaults"
    )
    judges: tuple[str, ...] = ("conversation",)
    pass_threshold: float = Field(
        default=75.0, ge=0, le=100, description="overall score 0..100 a case needs without outcomes"
    )
    flagged_passes: FlaggedPasses = Field(
        default="apart",
        description="a pass of a case that speaks to its judges: `apart` is not passed and counted "
        "as pass_flagged, `count` is a pass that says so",
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
    max_output_tokens: int = Field(default=4096, ge=1)
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
        members = self.panel or ((self.model,) if self.model else ())
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
