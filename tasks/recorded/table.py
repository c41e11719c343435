"""What each judge of each set is worth: one row a judge, with intervals over whole clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.calibration.calibrate import CalibrationSubject, calibrate
from assizes.judge.calibration.measures import Estimate
from assizes.judge.calibration.order_flips import OrderFlips, order_flips
from assizes.judge.calibration.record import Calibration
from assizes.tasks.recorded.values import JudgedItems

MEASURES: Final = (
    *("accuracy", "kappa", "quadratic_kappa", "alpha", "failing_f1"),
    *("false_positive_rate", "false_negative_rate", "flip_rate"),
)
"""The measures of a row that have an interval; each is three columns of the Parquet file."""


class WorthRow(BaseModel):
    """One judge on one set, or on one part of it. Every rate and share is 0..1.

    A false positive is something that people passed and the judge failed. A measure that does not
    apply is `None`: unordered grades have no quadratic kappa and no failing class, and only judges of
    pairs have a flip rate.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: str
    task: str = Field(description="what was asked")
    part: str = Field(description="part of the set, or `all`")
    judge: str
    kind: Literal["recorded", "floor", "model"] = Field(
        description="recorded by others, the offline judge, or a model asked now"
    )
    items: int = Field(description="items that people graded and agree on")
    clusters: int = Field(description="groups of items that were resampled together")
    unread: int = Field(description="answers outside the vocabulary, or no answer")
    accuracy: Estimate = Field(description="share of equal grades, of the answers that were read")
    kappa: Estimate = Field(description="Cohen's")
    quadratic_kappa: Estimate | None
    alpha: Estimate = Field(description="Krippendorff's")
    failing_f1: Estimate | None = Field(description="F1 of the failing class")
    false_positive_rate: Estimate | None
    false_negative_rate: Estimate | None
    ceiling_kappa: float | None = Field(
        description="mean of the pairs of people, in the same kappa"
    )
    ceiling_alpha: float | None = Field(description="of all people")
    flip_rate: Estimate | None = Field(
        description="share of pairs whose winner changes with the order"
    )
    flips: int | None
    both_read: int | None = Field(description="pairs that were read in both orders")
    first_shown: float | None = Field(description="share of winners that were shown first")

    @property
    def cited_kappa(self) -> Estimate:
        """The kappa to cite: the quadratic one of ordered grades, else Cohen's."""
        return self.quadratic_kappa or self.kappa


def worth_row(judged: JudgedItems) -> WorthRow:
    """Compare one judge with people, through the calibration of the product."""
    subject = CalibrationSubject(judged.task, judged.judge, "", judged.dataset, "")
    calibration = calibrate(subject, judged.items, judged.config)
    flips = order_flips(judged.pairs) if judged.pairs else None
    weighted = calibration.agreement.quadratic_kappa if calibration.is_weighted else None
    return WorthRow(
        dataset=judged.dataset,
        task=judged.task,
        part=judged.part,
        judge=judged.judge,
        kind=judged.kind,
        items=calibration.agreement.items + calibration.judge_errors,
        clusters=calibration.clusters,
        unread=calibration.judge_errors,
        accuracy=calibration.agreement.accuracy,
        kappa=calibration.agreement.kappa,
        quadratic_kappa=weighted,
        alpha=calibration.agreement.alpha,
        **_failing_measures(calibration),
        ceiling_kappa=calibration.ceiling.mean_kappa if calibration.ceiling else None,
        ceiling_alpha=calibration.ceiling.alpha.value if calibration.ceiling else None,
        **_order_measures(flips),
    )


def _failing_measures(calibration: Calibration) -> Mapping[str, Estimate | None]:
    failing = calibration.failing
    return {
        "failing_f1": failing.f1 if failing else None,
        "false_positive_rate": failing.false_positive_rate if failing else None,
        "false_negative_rate": failing.false_negative_rate if failing else None,
    }


def _order_measures(flips: OrderFlips | None) -> Mapping[str, Any]:
    return {
        "flip_rate": flips.rate if flips else None,
        "flips": flips.flips if flips else None,
        "both_read": flips.read if flips else None,
        "first_shown": flips.first_shown if flips else None,
    }


def as_frame(rows: Sequence[WorthRow]) -> pl.DataFrame:
    """The rows as a table of plain columns; an interval is `NAME_low` and `NAME_high`."""
    return pl.DataFrame([_flat(row) for row in rows], schema=_schema())


def _flat(row: WorthRow) -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in row:
        if name not in MEASURES:
            flat[name] = value
            continue
        flat[name] = value and value.value
        flat[f"{name}_low"], flat[f"{name}_high"] = value and value.low, value and value.high
    return flat


def _schema() -> dict[str, type[pl.DataType]]:
    texts = ("dataset", "task", "part", "judge", "kind")
    counts = ("items", "clusters", "unread", "flips", "both_read")
    schema: dict[str, type[pl.DataType]] = {}
    for name in WorthRow.model_fields:
        kind = pl.String if name in texts else pl.Int64 if name in counts else pl.Float64
        bounds = (f"{name}_low", f"{name}_high") if name in MEASURES else ()
        schema |= dict.fromkeys((name, *bounds), kind)
    return schema
