"""The numbers that labels of people correct, in report.json and in the API."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CorrectedSlice(_Part):
    """A corrected number over the cases of one agent, version or tag."""

    name: str = Field(description="such as agent_version=2.1")
    value: float = Field(description="0..1")
    low: float = Field(description="of the 95 % interval")
    high: float
    labels: int
    shown: str


class CorrectedLine(_Part):
    """A number of the run as judged and as corrected by labels of people."""

    name: str = Field(description="pass rate, or the metric that was labelled")
    metric: str
    raw: float | None = Field(description="by the judge, over the same cases; 0..1")
    value: float | None = Field(description="corrected, 0..1; null: too few labels")
    low: float | None = Field(description="of the 95 % interval")
    high: float | None
    labels: int = Field(description="labels that count")
    labelled_run: str | None = Field(description="the run whose conversations people read")
    days_after: int | None = Field(description="from the day of the data to the last label")
    left_out: dict[str, int] = Field(description="labels that do not count, by reason")
    check_agrees: bool | None = Field(
        description="whether the number after Rogan and Gladen agrees; null: there is none"
    )
    lines: list[str] = Field(description="the same in words")
    slices: list[CorrectedSlice] = Field(description="those with labels enough")


class Corrected(_Part):
    """What labels of people say of a run, and of its comparison with the baseline."""

    first: str | None = Field(description="what the labels say against the judge; null: nothing")
    numbers: list[CorrectedLine]
    changes: list[str] = Field(description="corrected changes to the baseline, a line each")
    fell_back: str | None = Field(description="why the judge's numbers decide nevertheless")
