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

from assizes.judge.config import ConfigTable, StorageOptions
from assizes.judge.config.transcripts import FormatName


class ThresholdsConfig(ConfigTable):
    """[thresholds]: what a run must reach, in percent; coverage is a fraction."""

    metrics_pass_threshold: float = Field(
        default=80.0,
        ge=0,
        le=100,
        description="The average score from 0 to 100 that a run must reach.",
    )
    cases_pass_threshold: float = Field(
        default=100.0, ge=0, le=100, description="The percentage of cases that must pass."
    )
    min_coverage: float = Field(
        default=0.95,
        ge=0,
        le=1,
        description="The share of the due scores that must be there. A run below it is inconclusive.",
    )


_PERCENT: Final = {"type": "string", "pattern": r"^[0-9]{1,6}(\.[0-9]{1,6})?%$"}

STORED: Final = {"stored": True}
"""The context in which stored settings are validated: what was once accepted can still be read."""


def _fraction(value: Any, info: ValidationInfo) -> Any:
    if isinstance(value, str):
        try:
            number = float(value.strip().removesuffix("%"))
        except ValueError:
            raise ValueError('must be a fraction or a percentage, e.g. 0.02 or "2%"') from None
        if value.strip().endswith("%"):
            return round(number / 100, 9)  # 0.011, not 0.011000000000000001
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
        description="The run to compare with: a run id, or a rule over the runs of this name: "
        "`latest`, `latest_passed` or `previous_version`. Not set: no comparison.",
    )
    max_pass_rate_drop: FractionOrPercent = Field(
        default=0.0,
        le=1,
        description="The largest allowed drop of the pass rate, as a fraction or as text with a "
        'percent sign: `0.02` or `"2%"`.',
    )
    max_avg_score_drop: float = Field(
        default=5.0,
        ge=0,
        le=100,
        description="The largest allowed drop of the average score, in points from 0 to 100.",
    )
    max_latency_increase_pct: FractionOrPercent = Field(
        default=0.2,
        description="The largest allowed increase of the average latency, as a fraction or as text: "
        '`0.2` or `"20%"`. Over 1 it must be text: `"150%"`.',
    )
    mode: Literal["rules", "statistics", "both"] = Field(
        default="both",
        description="What decides: the rules, the statistics, or the rules with the statistics shown "
        "beside them (`both`).",
    )
    verdict: Literal["raw", "corrected"] = Field(
        default="raw",
        description="Whose pass rate decides: that of the judge (`raw`), or that corrected by labels "
        "of people where there are enough (`corrected`).",
    )
    gating: tuple[str, ...] = Field(
        default=("pass_rate", "overall_score"),
        min_length=1,
        description="What the statistics decide on: `pass_rate`, `overall_score` and names of "
        "metrics.",
    )
    margin: float = Field(
        default=2.0,
        gt=0,
        le=100,
        description="The smallest drop that matters, in points from 0 to 100.",
    )
    alpha: float = Field(
        default=0.05,
        gt=0,
        lt=0.5,
        description="The accepted share of false alarms over all of `gating`.",
    )
    mix_by: str | None = Field(
        default=None,
        description="The tag, `agent` or `agent_version` by which runs over different cases are "
        "weighted alike.",
    )
    slices: tuple[str, ...] | None = Field(
        default=None,
        description="The tags, `agent`, `agent_version` or `tool` whose values are compared apart. "
        "Not set: each one with few values.",
    )
    critical_cases: tuple[str, ...] = Field(
        default=(), description="Ids of cases that must not turn from pass to fail."
    )
    allow: bool = Field(
        default=False, description="Compare runs that were judged differently all the same."
    )


CASES_PREFIX = "cases:"
"""The prefix of a label that the transcripts themselves carry, as in `cases:reward`."""

STORE_LABELS: Final = "store:"
"""Stands for a file of labels, and means the labels in the store that has the run."""

VERDICT = "verdict"
"""The metric name that stands for the verdict on the whole case, passed or not."""


class LabelColumns(ConfigTable):
    """[calibration.columns]: the names of the columns; a file may lack those not set here."""

    case: str = Field(default="case_id", description="The column with the case id.")
    label: tuple[str, ...] = Field(
        default=("label",),
        description="The column with the label. Several columns stand for several raters, each named "
        "by its column.",
    )
    rater: str = Field(default="rater", description="The column with the name of the rater.")
    metric: str = Field(
        default="metric", description="The column with the name of the metric that was labelled."
    )
    cluster: str = Field(
        default="cluster",
        description="The column with the cluster, which groups cases that depend on each other.",
    )
    repetition: str = Field(
        default="repetition", description="The column with the repetition of the case."
    )
    judge: str = Field(
        default="judge", description="The column with the judge's grade, in a file of judgements."
    )
    reply: str | None = Field(
        default=None,
        description="The column with the model's reply, which is parsed, in place of `judge`. Not "
        "set: there is no such column.",
    )
    verdict: str = Field(default="verdict", description="The key of the grade in such a reply.")

    @field_validator("label", mode="before")
    @classmethod
    def _one_or_more(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value  # "a" for ["a"]


class CalibrationConfig(ConfigTable):
    """[calibration]: where the labels are, how they are read, and the floors of the gate."""

    labels: str | None = Field(
        default=None,
        description="The file with people's labels: CSV, TSV, Parquet, JSON, JSON lines or TREC "
        "qrels, plain or .gz. `cases:NAME` means a label that the transcripts carry, `store:` the "
        "labels that people gave in the store.",
    )
    judgements: str | None = Field(
        default=None, description="A file with recorded grades of a judge, in place of a run."
    )
    metric: str | None = Field(
        default=None,
        description="The metric that was labelled; of labels with a metric column only those of "
        "it count. Not set: all of these, or `verdict`, which is the whole case.",
    )
    columns: LabelColumns = LabelColumns()
    words: dict[str, float] = Field(
        default_factory=dict,
        description="The grades of further words in the labels, as in `tie = 0`. Upper and lower case "
        "are the same.",
    )
    levels: tuple[float, ...] | None = Field(
        default=None, description="The grades there are. Not set: the grades that people gave."
    )
    clip: bool = Field(
        default=False, description="Pull numbers beyond the levels to the nearest level."
    )
    scale: Literal["ordinal", "nominal"] = Field(
        default="ordinal",
        description="Whether grades have an order (`ordinal`) or not (`nominal`).",
    )
    pass_from: float | None = Field(
        default=None,
        description="The lowest grade that passes. Not set: 1 for grades 0 and 1, and 3 for grades 0 "
        "to 5.",
    )
    min_kappa: float | None = Field(
        default=None,
        ge=-1,
        le=1,
        description="The least agreement (Cohen's kappa) with people. Below it the exit code is 1. "
        "Not set: no gate.",
    )
    max_kappa_drop: float | None = Field(
        default=None,
        ge=0,
        le=2,
        description="The largest allowed drop of kappa under the judge that was calibrated before on "
        "these labels. Not set: no gate.",
    )
    canaries: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="The number of labelled, failing cases that are judged again with an attack "
        "planted in them.",
    )
    storage_options: StorageOptions = Field(default_factory=dict)

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
        default=(),
        description="The series to watch. Empty: `pass_rate`, `overall_score` and all metrics.",
    )
    slices: tuple[str, ...] = Field(
        default=(),
        description="`agent`, `agent_version`, `tool` or `tags.NAME`: each value gets a series of its "
        "own, which is exploratory.",
    )
    reference_runs: int = Field(
        default=28, ge=5, description="The number of first runs of a judge that say what is usual."
    )
    # EWMA chart (Roberts, 1959), tabular CUSUM (Page, 1954).
    ewma_weight: float = Field(
        default=0.2, gt=0, le=1, description="The weight of the newest run in the EWMA chart."
    )
    ewma_limit: float = Field(
        default=3.0, gt=0, description="The limits of the EWMA chart, in standard deviations."
    )
    cusum_slack: float = Field(
        default=0.5, ge=0, description="The slack of the CUSUM chart, in standard deviations."
    )
    cusum_limit: float = Field(
        default=5.0, gt=0, description="The limit of the CUSUM chart, in standard deviations."
    )
    confirm: int = Field(
        default=2,
        ge=1,
        description="The number of runs in a row for which a milder signal must stay before an "
        "incident is opened.",
    )
    announce: bool = Field(
        default=True, description="Emit an event for each open problem after a nightly run."
    )


class AnchorsConfig(ConfigTable):
    """[anchors]: golden transcripts that are judged beside a run, asked anew every time."""

    uri: str | None = Field(
        default=None,
        description="Where the anchors are, as in `[transcripts] uri`. Not set: there are no anchors.",
    )
    format: FormatName = Field(
        default="auto", description="The format of the anchors, as in `[transcripts] format`."
    )
    labels: str | None = Field(
        default=None,
        description="The labels of the anchors, as in `[calibration] labels`. With labels each anchor "
        "run calibrates the judge.",
    )
    triggers: tuple[Literal["nightly", "deployment", "backfill", "adhoc"], ...] = Field(
        default=("nightly",),
        description="The triggers of the runs beside which the anchors are judged. A new judge is "
        "judged on them too.",
    )
    alpha: float = Field(
        default=0.01,
        gt=0,
        lt=1,
        description="The accepted share of false alarms about drift in one run.",
    )
