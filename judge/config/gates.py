"""What a run is measured against: gates, another run, people's labels, its history, its anchors.

The defaults of [series] are those that textbooks give for a single series.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Final, Literal

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from assizes.judge.config import ConfigTable
from assizes.judge.config.transcripts import FormatName


class ThresholdsConfig(ConfigTable):
    """[thresholds]: what a run must reach, in percent; coverage is a fraction."""

    metrics_pass_threshold: float = Field(default=80.0, ge=0, le=100)  # percent
    cases_pass_threshold: float = Field(default=100.0, ge=0, le=100)  # percent
    min_coverage: float = Field(
        default=0.95, ge=0, le=1, description="scored / due; below it a run is inconclusive"
    )


_PERCENT: Final = {"type": "string", "pattern": r"^[0-9]{1,6}(\.[0-9]{1,6})?%$"}

STORED: Final = {"stored": True}
"""The context in which stored settings are validated: what was once accepted can still be read."""


def _fraction(value: Any, info: ValidationInfo) -> Any:
    if isinstance(value, str) and value.strip().endswith("%"):
        return round(float(value.strip()[:-1]) / 100, 9)  # 0.011, not 0.011000000000000001
    if isinstance(value, str | float | int) and not info.context and 1 < float(value) < math.inf:
        raise ValueError(
            f"{value} could be {value} % or {float(value) * 100:g} %: write it as text, with a "
            f'percent sign, as in "{value}%"'
        )
    return value


FractionOrPercent = Annotated[
    float,
    Field(ge=0),
    BeforeValidator(_fraction),
    PlainSerializer(lambda share: share if share <= 1 else f"{round(share * 100, 9):.15g}%"),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, _PERCENT]}),
]
"""A fraction, or text such as `20%`. Over 1 it must be text, as which it is stored too."""


class ComparisonConfig(ConfigTable):
    """[comparison]: the three rules, each a strict `>`, and the statistical tests."""

    baseline: str | None = Field(
        default=None,
        description="run id; or by rule, over runs of this name: `latest` (complete), `latest_passed`, "
        "`previous_version` (of the agent)",
    )
    max_pass_rate_drop: FractionOrPercent = Field(
        default=0.0, le=1, description="fraction, or `2%`"
    )
    max_avg_score_drop: float = Field(default=5.0, ge=0, le=100, description="points of 0..100")
    max_latency_increase_pct: FractionOrPercent = Field(
        default=0.2, description="fraction, or text: 0.2 or `20%`; over 1 only text: `150%`"
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


CASES_PREFIX = "cases:"
"""The prefix of a label that the transcripts themselves carry, as in `cases:reward`."""

VERDICT = "verdict"
"""The metric name that stands for the verdict on the whole case, passed or not."""


class LabelColumns(ConfigTable):
    """[calibration.columns]: the names of the columns; a file may lack those not set here."""

    case: str = "case_id"
    label: tuple[str, ...] = Field(
        default=("label",), description="several: one rater each, named by the column"
    )
    rater: str = "rater"
    metric: str = "metric"
    cluster: str = "cluster"
    repetition: str = "repetition"
    judge: str = Field(default="judge", description="the judge's grade, in a file of judgements")
    reply: str | None = Field(
        default=None, description="in place of `judge`: the model's text, parsed as replies are"
    )
    verdict: str = Field(default="verdict", description="the key of the grade in such a reply")

    @field_validator("label", mode="before")
    @classmethod
    def _one_or_more(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value  # "a" for ["a"]


class CalibrationConfig(ConfigTable):
    """[calibration]: where the labels are, how they are read, and the floors of the gate."""

    labels: str | None = Field(
        default=None,
        description="CSV, TSV, Parquet, JSON, JSON lines or TREC qrels, plain or .gz; "
        "`cases:NAME` for a label that the transcripts carry",
    )
    judgements: str | None = Field(
        default=None, description="recorded grades of a judge, in place of a run"
    )
    metric: str | None = Field(
        default=None, description=f"of labels without a metric column; null: {VERDICT}"
    )
    columns: LabelColumns = LabelColumns()
    words: dict[str, float] = Field(
        default_factory=dict, description="grades of further words; any case"
    )
    levels: tuple[float, ...] | None = Field(
        default=None, description="the grades there are; null: those that people gave"
    )
    clip: bool = Field(default=False, description="pull numbers beyond the levels to the next one")
    scale: Literal["ordinal", "nominal"] = "ordinal"
    pass_from: float | None = Field(
        default=None, description="the lowest grade that passes; null: 1 of 0 and 1, 3 of 0 to 5"
    )
    min_kappa: float | None = Field(
        default=None, ge=-1, le=1, description="floor of the gate; null: no floor"
    )
    max_kappa_drop: float | None = Field(
        default=None, ge=0, le=2, description="under the judge calibrated before on these labels"
    )
    canaries: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="labelled cases that fail and are judged again with an attack planted in them",
    )
    storage_options: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _can_be_clipped(self) -> CalibrationConfig:
        if self.clip and not self.levels:
            raise ValueError("clip: needs levels to clip to")
        if self.scale == "nominal" and self.pass_from is not None:
            raise ValueError("pass_from: nominal grades have no order")
        return self


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
    # EWMA chart (Roberts, 1959), tabular CUSUM (Page, 1954).
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


class AnchorsConfig(ConfigTable):
    """[anchors]: golden transcripts that are judged beside a run, asked anew every time."""

    uri: str | None = Field(default=None, description="as [transcripts] uri; null: no anchors")
    format: FormatName = Field(default="auto", description="as [transcripts] format")
    labels: str | None = Field(
        default=None, description="as [calibration] labels: each anchor run calibrates the judge"
    )
    triggers: tuple[Literal["nightly", "deployment", "backfill", "adhoc"], ...] = Field(
        default=("nightly",), description="of the runs they are judged with; also with a new judge"
    )
    alpha: float = Field(
        default=0.01, gt=0, lt=1, description="false alarms of drift a run, where none is"
    )
