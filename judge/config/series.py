"""[series]: how control charts watch a history of runs.

The defaults are those that textbooks give for a single series.
"""

from __future__ import annotations

from pydantic import Field

from assizes.judge.config.table import ConfigTable


class SeriesConfig(ConfigTable):
    """[series]: the reference period, the limits of the charts, and when an incident is opened."""

    metrics: tuple[str, ...] = Field(
        default=(), description="series to watch; empty: pass_rate, overall_score, all metrics"
    )
    slices: tuple[str, ...] = Field(
        default=(),
        description="agent, agent_version, tool or tags.NAME: a series a value, exploratory",
    )
    reference_runs: int = Field(
        default=28, ge=5, description="first runs of a judge, which say what is usual"
    )
    ewma_weight: float = Field(default=0.2, gt=0, le=1, description="of the newest run")
    ewma_limit: float = Field(default=3.0, gt=0, description="in standard deviations")
    cusum_slack: float = Field(default=0.5, ge=0, description="in standard deviations")
    cusum_limit: float = Field(default=5.0, gt=0, description="in standard deviations")
    confirm: int = Field(
        default=2, ge=1, description="runs in a row that a milder signal must stay"
    )
    announce: bool = Field(
        default=True, description="after a nightly run, an event for each problem there is"
    )
