"""[anchors]: transcripts that are judged again beside each run, to see whether the judge moved."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.config.format_names import FormatName


class AnchorsConfig(BaseModel):
    """[anchors]: golden transcripts that are judged beside a run, asked anew every time."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

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
