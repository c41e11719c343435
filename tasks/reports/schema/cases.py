"""The cases of a run in report.json."""

from __future__ import annotations

from pydantic import Field

from assizes.judge.comparison.cases import CaseStatus as Change
from assizes.judge.score import Status
from assizes.judge.verdicts.verdict import CaseStatus
from assizes.tasks.reports.schema.parts import ReportPart


class Execution(ReportPart):
    """Which case, and which repetition of it."""

    case_id: str
    repetition: int


class CaseLine(Execution):
    """A line of the table of cases."""

    status: CaseStatus
    passed: bool | None
    overall_score: float | None = Field(description="0..100")
    gate: str | None = Field(description="what decided")
    root_cause: str | None
    change: Change | None = Field(description="since the baseline; null without one")
    summary: str | None


class OutcomeLine(ReportPart):
    """An expected outcome: whether it holds, and why."""

    passed: bool
    statement: str
    justification: str


class Finding(ReportPart):
    """A score of a case."""

    judge: str
    metric: str
    part: str = Field(description="empty: the metric itself")
    status: Status
    value: float | None = Field(description="0..1")
    raw: float | None = Field(description="in the metric's own unit")
    label: str | None
    shown: str
    justification: str
    failure_code: str | None
    turns: list[int]
    warnings: list[str]


class CaseInFull(CaseLine):
    """A case to read first, with all its findings."""

    transcript_uri: str
    position: int | None = Field(description="of its record in that object")
    agent: str | None
    tags: str | None
    turn_count: int | None
    error: str | None
    suggested_fix: str | None
    outcomes: list[OutcomeLine]
    findings: list[Finding]
    more_findings: int = Field(description="how many are not shown")


class CaseError(Execution):
    """A case that could not be judged."""

    error: str


class Cases(ReportPart):
    """Cases, those that need a reader first."""

    total: int
    shown: list[CaseLine]
    more: int = Field(description="how many are not shown")
    read_first: list[CaseInFull]
    errors: list[CaseError]
    more_errors: int
