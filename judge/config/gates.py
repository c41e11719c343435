"""[thresholds] and [comparison]: what a run must reach, and when a change is a regression (seed 001)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from assizes.judge.config.table import ConfigTable


class ThresholdsConfig(ConfigTable):
    """[thresholds]: what a run must reach (seed 001), in percent; coverage is a fraction."""

    metrics_pass_threshold: float = Field(default=80.0, ge=0, le=100)
    cases_pass_threshold: float = Field(default=100.0, ge=0, le=100)
    min_coverage: float = Field(
        default=0.95, ge=0, le=1, description="scored / due; below it a run is inconclusive"
    )


class ComparisonConfig(ConfigTable):
    """[comparison]: the three rules of seed 001, each a strict `>`, and the statistical tests."""

    baseline: str | None = Field(
        default=None,
        description="run id; or by rule, over runs of this name: `latest` (complete), `latest_passed`, "
        "`previous_version` (of the agent)",
    )
    max_pass_rate_drop: float = Field(default=0.0, ge=0, le=1, description="fraction")
    max_avg_score_drop: float = Field(default=5.0, ge=0, le=100, description="points of 0..100")
    max_latency_increase_pct: float = Field(
        default=0.2, ge=0, description="fraction; text such as '20%' is read as 0.2"
    )
    mode: Literal["rules", "statistics", "both"] = Field(
        default="both",
        description="what decides: the rules, the statistics, or the rules with the statistics shown",
    )
    gating: tuple[str, ...] = Field(
        default=("pass_rate", "overall_score"),
        min_length=1,
        description="what the statistics decide on: these two, and names of metrics",
    )
    margin: float = Field(
        default=2.0, gt=0, le=100, description="smallest drop that matters, points of 0..100"
    )
    alpha: float = Field(
        default=0.05, gt=0, lt=0.5, description="share of false alarms over all of `gating`"
    )
    mix_by: str | None = Field(
        default=None,
        description="tag, agent or agent_version by which different cases are made alike",
    )
    slices: tuple[str, ...] | None = Field(
        default=None, description="tags, agent, agent_version, tool; null: every one of few values"
    )
    critical_cases: tuple[str, ...] = Field(
        default=(), description="case ids that must not turn from pass to fail"
    )
    allow: bool = Field(
        default=False, description="compare runs that were judged differently all the same"
    )

    @field_validator("max_pass_rate_drop", "max_latency_increase_pct", mode="before")
    @classmethod
    def _percent(cls, value: Any) -> Any:
        if isinstance(value, str) and value.strip().endswith("%"):
            return round(float(value.strip()[:-1]) / 100, 9)
        return value
