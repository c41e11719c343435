"""Scores, the findings of a judge: each is scored, skipped or failed, and never NaN."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Literal

Status = Literal["scored", "skipped", "failed"]
Tier = Literal["execution", "knowledge", "process", "delivery"]

Gate = Literal["judges", "quality"]
"""How a metric decides over a case. `judges`: every judge that applied must pass.
`quality`: the yes/no gate that names a root cause."""

LABELS = ("critical_fail", "fail", "poor", "acceptable", "good", "excellent")
"""The names of the levels 0 to 5. They are for readers and decide nothing."""

ACCEPTABLE = 3
"""The lowest level, 0 to 5, that needs no failure code."""

UNSPECIFIED_FAILURE = "unspecified_failure"
"""The failure code of a level below `ACCEPTABLE` for which the judge named no code."""


SUSPECT = "suspect"
"""Key in the details of a suspect score; the value says what the contradiction is."""


class Scale(Enum):
    """The unit of a metric: its range of raw numbers, and the labels of these numbers."""

    SCORED = "scored"
    """An integer level 0..5."""
    BINARY = "binary"
    """Pass or fail, stored as level 5 or 0 so that the metric enters weighted sums like others."""
    YES_NO = "yes_no"
    """Yes or no, stored as 1 or 0."""
    FRACTION = "fraction"
    """A number 0..1."""
    AMOUNT = "amount"
    """A measurement without a best value (tokens, ms): `raw` only, no `value`."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A named quantity that a judge promises to score."""

    name: str
    scale: Scale = Scale.FRACTION
    display_name: str = ""
    description: str = ""
    tier: Tier | None = None
    # Share in the overall score, not normalised; conversation metrics (rubrics) only.
    default_weight: float = 0.0
    include_in_defaults: bool = False
    # Parts of a case, for listings only; the judge's own `missing` does the skipping.
    needs: tuple[str, ...] = ()
    needs_ground_truth: bool = False  # an expected value is among them
    rubric: str = ""
    rubric_hash: str = ""  # changes with one character of it
    gate: Gate | None = None  # how the headline decides over a case, if it does
    run_names: tuple[str, ...] = ()  # of its mean in a run: of values, for amounts of `raw`


@dataclass(frozen=True, slots=True)
class Score:
    """One finding of a judge about one metric, or about a `part` of it such as `outcome:2`."""

    metric: str
    part: str = ""  # empty: the headline
    status: Status = "scored"  # scored: a finite number; else a reason and no number
    value: float | None = None  # 0..1
    raw: float | None = None  # in the unit of the metric's scale
    label: str | None = None
    passed: bool | None = None  # `None`: the metric has no threshold
    reason: str | None = None  # why it is skipped or failed
    failure_code: str | None = None  # snake_case; below `ACCEPTABLE` only
    turns: tuple[int, ...] = ()  # indexes of the turns it is about
    details: Mapping[str, Any] = field(default_factory=dict)  # JSON values

    def __post_init__(self) -> None:
        """Raise ValueError where numbers and reason do not fit the status: a bug of the judge."""
        numbers = [n for n in (self.value, self.raw) if n is not None]
        if not all(map(math.isfinite, numbers)):  # NaN >= 0.8 is true in DuckDB (decision 2)
            raise ValueError(f"score of {self.metric!r} is not finite: {numbers}")
        if self.status == "scored" and not numbers:
            raise ValueError(f"score of {self.metric!r} is scored but has no number")
        if self.status != "scored" and (numbers or not self.reason):
            raise ValueError(f"score of {self.metric!r} is {self.status}: a reason and no number")

    @classmethod
    def of(cls, metric: Metric, raw: float, **rest: Any) -> Score:
        """A scored finding from a raw number; the metric's scale gives value and label."""
        value: float | None = raw
        label: str | None = None
        match metric.scale:
            case Scale.SCORED:
                value, label = raw / 5, LABELS[int(raw)]  # a level 0..5
            case Scale.BINARY:
                value, label = raw / 5, "pass" if raw == 5 else "fail"
            case Scale.YES_NO:
                label = "yes" if raw == 1 else "no"
            case Scale.AMOUNT:
                value = None  # no best value to divide by
        return cls(metric=metric.name, raw=float(raw), value=value, label=label, **rest)

    @classmethod
    def skipped(cls, metric: str, reason: str, part: str = "") -> Score:
        """A finding that says why the metric does not apply to this case."""
        return cls(metric=metric, part=part, status="skipped", reason=reason)

    @classmethod
    def failed(cls, metric: str, reason: str, code: str, part: str = "", **details: Any) -> Score:
        """A finding that says why the judge got no reply; `code` is the machine-readable reason."""
        details = {"error": code, **details}
        return cls(metric=metric, part=part, status="failed", reason=reason, details=details)

    def with_details(self, **more: Any) -> Score:
        """The same finding with more entries in `details`."""
        return replace(self, details={**self.details, **more})
