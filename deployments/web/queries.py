"""Models of the query strings; a parameter that no model names is refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.config.gates import ComparisonConfig

Text = Annotated[str | None, Field(max_length=512)]
RunId = Annotated[str, Field(min_length=1, max_length=128, description="a run id")]
Sort = Literal[
    "case_id",
    "overall_score",
    "agent_latency_ms",
    "turn_count",
    "agent_cost_usd",
    "-case_id",
    "-overall_score",
    "-agent_latency_ms",
    "-turn_count",
    "-agent_cost_usd",
]


class _QueryString(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class _PagedQuery(_QueryString):
    limit: int = Field(default=50, ge=1, le=1000)
    offset: int = Field(default=0, ge=0, le=2**31)


class RunQuery(_PagedQuery):
    """Which runs; `None` matches any run."""

    name: Text = None
    trigger: Literal["nightly", "deployment", "backfill", "adhoc"] | None = None
    status: Literal["running", "interrupted", "complete", "incomplete", "failed"] | None = None


class CaseQuery(_PagedQuery):
    """Which cases of a run; `None` matches any case."""

    passed: bool | None = None
    status: Text = None
    agent: Text = None
    agent_version: Text = None
    root_cause: Text = None
    failure_code: Text = Field(default=None, description="one of its scores has it")
    search: Text = Field(default=None, description="part of a case id")
    sort: Sort = Field(default="overall_score", description="a - in front turns the order round")


class ExecutionQuery(_QueryString):
    """Which execution of a case; `None` for all executions."""

    repetition: int | None = Field(default=None, ge=0, le=2**31 - 1)


class CompareQuery(_QueryString):
    """Two runs, and thresholds in place of those of the configuration (seed 001)."""

    baseline: RunId
    candidate: RunId
    max_pass_rate_drop: float | None = Field(
        default=None, ge=0, le=1, description="fraction; more is a regression"
    )
    max_avg_score_drop: float | None = Field(
        default=None, ge=0, le=100, description="points of 0..100; more is a regression"
    )
    max_latency_increase_pct: float | None = Field(
        default=None, ge=0, description="fraction, 0.2 is 20 %; more is a regression"
    )
    mode: Literal["rules", "statistics", "both"] | None = Field(
        default=None, description="what decides"
    )
    allow: bool = Field(default=False, description="also runs that were judged differently")

    def thresholds(self, base: ComparisonConfig) -> ComparisonConfig:
        """The thresholds of a configuration, replaced by the thresholds of this query where given."""
        own = ("max_pass_rate_drop", "max_avg_score_drop", "max_latency_increase_pct", "mode")
        values: dict[str, Any] = {name: getattr(self, name) for name in own}
        known = {name: value for name, value in values.items() if value is not None}
        if self.allow:
            known["allow"] = True
        return base.model_copy(update={"baseline": None, **known})
