"""What a judge finds: scores of metrics, each in one of three states, never NaN."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Literal

Status = Literal["scored", "skipped", "failed"]
Tier = Literal["execution", "knowledge", "process", "delivery"]

Gate = Literal["judges", "quality"]
"""`judges`: every judge that applied must pass (seed 002). `quality`: the yes/no gate with a root
cause (seed 004)."""

LABELS = ("critical_fail", "fail", "poor", "acceptable", "good", "excellent")
"""Names of the levels 0 to 5 (seed 001). They describe; they never gate."""

ACCEPTABLE = 3
"""From this level on a metric has no failure code (seed 000)."""

UNSPECIFIED_FAILURE = "unspecified_failure"


class Scale(Enum):
    """How a metric is expressed; owns its native range and its labels."""

    SCORED = "scored"
    """An integer level 0..5."""
    BINARY = "binary"
    """Pass or fail, kept as level 5 or 0 so that it enters weighted sums like any other."""
    YES_NO = "yes_no"
    """Yes or no, kept as 1 or 0."""
    FRACTION = "fraction"
    """A number 0..1."""
    AMOUNT = "amount"
    """A measurement without a best value (tokens, ms): `raw` only, no `value`."""

    def normalised_value(self, raw: float) -> float | None:
        """The native number on 0..1; null for amounts."""
        if self is Scale.AMOUNT:
            return None
        if self in (Scale.SCORED, Scale.BINARY):
            return raw / 5
        return raw

    def label(self, raw: float) -> str | None:
        """The word for a native number, where the scale has words."""
        if self is Scale.SCORED:
            return LABELS[int(raw)]
        if self is Scale.BINARY:
            return "pass" if raw == 5 else "fail"
        if self is Scale.YES_NO:
            return "yes" if raw == 1 else "no"
        return None


@dataclass(frozen=True, slots=True)
class Metric:
    """A named quantity that a judge promises to score.

    `default_weight` is the share in the overall score before renormalisation; 0 means that a
    weight must be given when the metric is chosen. `needs` names the parts of a case that must
    be there. `gate`: a case needs the headline to pass (see `assizes.judge.verdicts.verdict`). `run_names` are the
    published names under which a run shows the mean of the values (of the raw numbers for amounts).
    """

    name: str
    scale: Scale = Scale.FRACTION
    display_name: str = ""
    description: str = ""
    tier: Tier | None = None
    default_weight: float = 0.0
    include_in_defaults: bool = False
    needs: tuple[str, ...] = ()
    needs_ground_truth: bool = False
    rubric: str = ""
    rubric_hash: str = ""
    gate: Gate | None = None
    run_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Score:
    """One finding. `part` is empty on the headline, else names what of it this is (`outcome:2`).

    Exactly one of three: scored (a finite `raw`), skipped or failed (a `reason`, no number).
    """

    metric: str
    part: str = ""
    status: Status = "scored"
    value: float | None = None
    raw: float | None = None
    label: str | None = None
    passed: bool | None = None
    reason: str | None = None
    failure_code: str | None = None
    turns: tuple[int, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Hold the three states apart; a violation is a bug in a judge."""
        numbers = [n for n in (self.value, self.raw) if n is not None]
        if not all(math.isfinite(n) for n in numbers):
            raise ValueError(f"score of {self.metric!r} is not finite: {numbers}")
        if self.status == "scored" and not numbers:
            raise ValueError(f"score of {self.metric!r} is scored but has no number")
        if self.status != "scored" and (numbers or not self.reason):
            raise ValueError(f"score of {self.metric!r} is {self.status}: a reason and no number")

    @classmethod
    def of(cls, metric: Metric, raw: float, **rest: Any) -> Score:
        """A scored finding in the metric's own unit; value and label follow from its scale."""
        return cls(
            metric=metric.name,
            raw=float(raw),
            value=metric.scale.normalised_value(raw),
            label=metric.scale.label(raw),
            **rest,
        )

    @classmethod
    def skipped(cls, metric: str, reason: str, part: str = "") -> Score:
        """The metric does not apply to this case."""
        return cls(metric=metric, part=part, status="skipped", reason=reason)

    @classmethod
    def failed(cls, metric: str, reason: str, code: str, part: str = "", **details: Any) -> Score:
        """The judge could not be had; `code` is the machine-readable reason."""
        return cls(
            metric=metric,
            part=part,
            status="failed",
            reason=reason,
            details={"error": code, **details},
        )

    def with_details(self, **more: Any) -> Score:
        """The same finding with more evidence beside it."""
        return replace(self, details={**self.details, **more})
