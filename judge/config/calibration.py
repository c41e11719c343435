"""[calibration]: the human labels that a judge is compared with, and how well it must agree."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from assizes.judge.config.table import ConfigTable

CASES = "cases:"
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
        return [value] if isinstance(value, str) else value


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
