"""The cases and the comparison in report.json, and models that several parts of it share."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.comparison.cases import CaseStatus as Change
from assizes.judge.comparison.compare import Ending
from assizes.judge.comparison.statistical import Exploratory
from assizes.judge.comparison.statistical_verdict import MetricVerdict, Mix
from assizes.judge.score import Status
from assizes.judge.statistics.effects import Word
from assizes.judge.summary.run_intervals import NumberInterval
from assizes.judge.verdicts.verdict import CaseStatus


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
    turns: list[int]  # positions in the conversation, from 0
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


class Side(ReportPart):
    """One of the two runs."""

    run_id: str
    name: str
    agent_version: str | None


class Measure(MetricVerdict):
    """A gating measure, and the same in words."""

    name: str
    word: str
    span: str
    rests_on: str  # pairing, cases and clusters, as text


class Explored(Exploratory):
    """Something that moved and decides nothing, and the same in words."""

    kind: Literal["metric", "slice", "failure code"]  # type: ignore[assignment]  # as it is shown
    span: str


class Within(OfMany):
    """Cases that changed, but no more than scores do when nothing changes."""

    repeat_sd: float  # standard deviation between repetitions of a case, points of 0..100
    threshold: float = Field(description="points of 0..100")


class Statistics(ReportPart):
    """The statistical verdict."""

    verdict: Word
    word: str
    reasons: list[str]
    margin: float = Field(description="points of 0..100")
    alpha: float  # share of false alarms over all gating measures, 0..1
    note: str
    measures: list[Measure]
    mix: list[Mix]
    moved: int  # exploratory changes whose q value is at most alpha
    explored: int  # exploratory changes in all, of which the first are listed
    by_tool: bool = Field(description="whether slices by the tools of cases are among the next")
    exploratory: list[Explored]
    noise: Within | None = Field(description="null: no case was repeated")


class Rule(ReportPart):
    """One of the three rules, as text."""

    name: str
    baseline: str
    candidate: str
    change: str
    limit: str


class Totals(ReportPart):
    """How many cases of both runs went which way."""

    matched: int
    regressions: int
    improvements: int
    unchanged: int
    errors: int


class MovedCase(ReportPart):
    """A case that moved."""

    case_id: str
    flip: str  # both verdicts, such as `passed → failed`
    baseline_score: float | None = Field(description="0..100")
    candidate_score: float | None
    score_delta: float | None  # candidate minus baseline
    moved: str = Field(description="its metrics, the largest move first")


class Movers(ReportPart):
    """The cases that moved one way."""

    total: int
    flips: int = Field(description="of these, those whose verdict turned")
    more: int = Field(description="how many are not shown")
    shown: list[MovedCase]


class MetricChange(ReportPart):
    """How a metric moved over the cases of both runs."""

    metric: str
    is_binary: bool
    unit: Literal["share passed", "mean"]
    baseline_avg: float | None
    candidate_avg: float | None
    delta: float | None  # candidate minus baseline; `None` unless over the same cases


class Setting(ReportPart):
    """A setting that the two runs do not share."""

    field: str
    baseline: str
    candidate: str


class PromptChange(ReportPart):
    """What differs in the prompts of a judge of both runs."""

    judge: str
    lines: list[str] = Field(description="a unified diff: - baseline, + candidate")
    more: int = Field(description="how many lines are not shown")


class Prompts(ReportPart):
    """What differs in what the judges were told."""

    note: str | None = Field(description="null: the judges are the same")
    judges: list[PromptChange]


class Comparison(ReportPart):
    """This run beside its baseline."""

    baseline: Side
    candidate: Side
    regression_detected: bool = Field(description="by the three rules")
    reasons: list[str]
    ending: Ending
    mode: str = Field(description="what decides: rules, statistics, both")
    why: list[str]
    mismatches: list[str]  # one line for each difference in how the runs were judged
    statistics: Statistics | None
    thresholds_used: dict[str, float]  # name of a limit of the rules -> its value
    rules: list[Rule]
    rules_note: str
    totals: Totals
    worse: Movers
    better: Movers
    metrics: list[MetricChange]
    baseline_only: OfMany
    candidate_only: OfMany
    config_diff: list[Setting]
    prompt_diff: Prompts
    warnings: list[str]
