"""Models that several parts of report.json share."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.summary.run_intervals import NumberInterval


class ReportPart(BaseModel):
    """A part of report.json: these keys and no others."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Interval(NumberInterval):
    """The interval of a number, and the same in words."""

    shown: str


class Counted(ReportPart):
    """How often a name came up."""

    name: str
    count: int


class NameValue(ReportPart):
    """A name and what is said of it, both as text."""

    name: str
    value: str


class OfMany(ReportPart):
    """Ids of cases, cut where there are many."""

    total: int
    shown: list[str]
    more: int = Field(description="how many are not shown")
