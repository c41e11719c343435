"""The result of `assizes cascade`: the thresholds by judge, and the settings to put into a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.calibration.cascade import CascadeCalibration
from assizes.judge.config.cascade import CascadeConfig, CascadeThreshold


class JudgeCascade(BaseModel):
    """One judge: what its labels say, and the threshold as a setting."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    calibration: CascadeCalibration
    setting: CascadeThreshold


class CascadeResult(BaseModel):
    """The thresholds of the judges of a run that asked both sides about every case."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: str
    labels: str = Field(description="where the labels lie")
    labels_hash: str
    agreement: float
    delta: float
    first: tuple[str, ...] = Field(description="the models that judge first")
    senior: str = Field(description="the stronger model")
    judges: tuple[JudgeCascade, ...]
    notes: tuple[str, ...] = Field(default=(), description="what the promise does not cover")

    def settings(self) -> str:
        """The table [judge.cascade] in TOML, to put into a configuration file."""
        lines = [
            "[judge.cascade]",
            f"agreement = {self.agreement!r}",
            f"delta = {self.delta!r}",
        ]
        for judge in self.judges:
            lines += ["", f"[judge.cascade.thresholds.{json.dumps(judge.calibration.judge)}]"]
            # JSON of numbers, texts and lists of texts is TOML, too.
            body = judge.setting.model_dump(mode="json")
            lines += [f"{name} = {json.dumps(value)}" for name, value in body.items()]
        return "\n".join(lines) + "\n"


def threshold_setting(calibration: CascadeCalibration, basis: str) -> CascadeThreshold:
    """The threshold as it is set in [judge.cascade.thresholds]; figures are rounded to four places.

    The lower bound is rounded down.
    """
    least = min(calibration.metrics, key=lambda metric: metric.attained_low)
    return CascadeThreshold(
        confidence=calibration.confidence,
        metrics=tuple(metric.metric for metric in calibration.metrics),
        agreement=calibration.agreement,
        delta=calibration.delta,
        basis=basis,
        labels=min(metric.labels for metric in calibration.metrics),
        escalated=round(calibration.escalated, 4),
        attained=round(least.attained, 4),
        attained_low=int(least.attained_low * 10_000) / 10_000,
    )


def promise_lines(config: Mapping[str, Any]) -> list[str]:
    """What the cascade of a run promises, one line a judge; empty without a cascade.

    `config` is the configuration of a run as stored in its record.
    """
    stored = (config.get("judge") or {}).get("cascade")
    if stored is None:
        return []
    cascade = CascadeConfig.model_validate(stored)
    if cascade.collect:
        return ["cascade: both models judged every case, so that labels can set a threshold"]
    return [
        f"cascade of {judge}: agreement of at least {own.agreement:.1%} with people on "
        f"{', '.join(own.metrics)}, with the chance {1 - own.delta:g}; {own.attained:.1%} of "
        f"{own.labels:,} labels agreed (at least {own.attained_low:.1%}), and {own.escalated:.1%} of "
        f"the cases went to the stronger model, below the confidence {own.confidence:g}"
        for judge, own in sorted(cascade.thresholds.items())
    ]
