"""The query strings of the API, which refuse a parameter that no model names, and its responses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import date, datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from assizes.deployments.options import RUN_NAMES
from assizes.judge.config.gates import ComparisonConfig, FractionOrPercent
from assizes.judge.verdicts.run_outcome import outcome_of
from assizes.tasks.finding.case_filter import CaseFilter, LabelFilter
from assizes.tasks.finding.search_query import QUERY_CHARS
from assizes.tasks.reports.schema.corrected import Corrected
from assizes.tasks.runs.run_progress import CommittedProgress
from assizes.tasks.runs.stored_runs import named_baseline

Text = Annotated[str | None, Field(max_length=512)]
RunId = Annotated[str, Field(min_length=1, max_length=160, description=RUN_NAMES)]
Sort = Literal[
    "case_id",
    "overall_score",
    "agent_latency_ms",
    "turn_count",
    "agent_cost_usd",
    "-case_id",
    "-overall_score",
    "-agent_latency_ms",
    "-turn_count",
    "-agent_cost_usd",
    "started_at",
    "-started_at",
]


class _QueryString(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class _PagedQuery(_QueryString):
    limit: int = Field(default=50, ge=1, le=1000)
    offset: int = Field(default=0, ge=0, le=2**31)


class RunQuery(_PagedQuery):
    """Which runs; `None` matches any run."""

    name: Text = None
    trigger: Literal["nightly", "deployment", "backfill", "adhoc"] | None = None
    status: Literal["running", "interrupted", "complete", "incomplete", "failed"] | None = None


class CaseQuery(_PagedQuery):
    """Which cases of a run; `None` matches any case."""

    q: str | None = Field(
        default=None,
        max_length=QUERY_CHARS,
        description='full text, such as `refund "too late" cancel*`: every term must occur',
    )
    passed: bool | None = None
    status: Text = None
    agent: Text = None
    agent_version: Text = None
    root_cause: Text = None
    failure_code: Text = Field(default=None, description="one of its scores has it")
    metric: Text = Field(
        default=None,
        description="its score of this metric is below acceptable, or a no; with `level`, has it",
    )
    level: Text = Field(default=None, description="label of the score of `metric`, as `poor`")
    tool: Text = Field(default=None, description="the agent called it")
    tag: Text = Field(default=None, description="`name=value`, or a name")
    flag: Text = Field(default=None, description="one of column `flags`")
    label: LabelFilter | None = Field(
        default=None, description="labels of people; agrees, differs: with the judge's verdict"
    )
    search: Text = Field(default=None, description="part of a case id")
    sort: Sort = Field(default="overall_score", description="a - in front turns the order round")

    def case_filter(self) -> CaseFilter:
        """The conditions and the order, without full text and pages."""
        return CaseFilter(**self.model_dump(exclude={"q", "limit", "offset"}))


class ExecutionQuery(_QueryString):
    """Which execution of a case; `None` for all executions."""

    repetition: int | None = Field(default=None, ge=0, le=2**31 - 1)  # Int32 in the store


class CompareQuery(_QueryString):
    """Two runs, and thresholds in place of those of the configuration."""

    baseline: RunId
    candidate: RunId
    max_pass_rate_drop: float | None = Field(
        default=None, ge=0, le=1, description="fraction; more is a regression"
    )
    max_avg_score_drop: float | None = Field(
        default=None, ge=0, le=100, description="points of 0..100; more is a regression"
    )
    max_latency_increase_pct: FractionOrPercent | None = Field(
        default=None, description="fraction, 0.2 or `20%`; more is a regression"
    )
    mode: Literal["rules", "statistics", "both"] | None = Field(
        default=None, description="what decides"
    )
    verdict: Literal["raw", "corrected"] | None = Field(
        default=None, description="whose pass rate decides: the judge's, or that of labels"
    )
    allow: bool = Field(default=False, description="also runs that were judged differently")

    def thresholds(self, base: ComparisonConfig) -> ComparisonConfig:
        """The thresholds of a configuration, with those that this query gives in their place."""
        known = self.model_dump(exclude={"baseline", "candidate"}, exclude_none=True)
        if not self.allow:
            del known["allow"]  # False only means that the query did not say it
        return ComparisonConfig.model_validate({**base.model_dump(), "baseline": None, **known})


class ComparePageQuery(_QueryString):
    """The two runs of the page of a comparison, which goes by the configured thresholds."""

    baseline: str = ""
    candidate: str = ""


class TrendsPageQuery(_QueryString):
    """Which runs the page of trends is about, and the only series that it shows."""

    name: str | None = None
    series: str | None = None


T = TypeVar("T")


class _ResponseModel(BaseModel):
    model_config = ConfigDict(frozen=True)


class Page(_ResponseModel, Generic[T]):
    """Part of a list; `count` is how many there are in all."""

    data: list[T]
    count: int = Field(ge=0)
    limit: int
    offset: int


class MetricInfo(_ResponseModel):
    """A conversation metric."""

    name: str
    display_name: str
    description: str
    tier: str
    default_weight: float
    score_type: str
    rubric: str
    include_in_defaults: bool


class Metrics(_ResponseModel):
    """Every conversation metric, opt-in ones included."""

    data: list[MetricInfo]
    count: int


class Progress(_ResponseModel):
    """How far a run is, counting what is committed."""

    status: str
    due: int = Field(description="cases to judge")
    done: int = Field(description="cases judged, errored or skipped")
    failed: int = Field(description="cases that could not be judged")
    shards: int
    shards_done: int
    counts: dict[str, int]
    spent_usd: float | None = Field(
        description="what the asks of the cases done cost; null: not known, or the run has ended"
    )
    cases_per_minute: float | None = Field(description="speed of the processes at work")
    ends_at: datetime | None = Field(description="when the last case is done at that speed (UTC)")
    seen_at: datetime | None = Field(description="when a process at work last said so (UTC)")
    line: str = Field(description="all of it in words")

    @classmethod
    def of_run(cls, progress: CommittedProgress) -> Progress:
        """The response for the progress of a run."""
        return cls(**asdict(progress), failed=progress.failed, line=progress.line())


class Run(_ResponseModel):
    """One line of the list of runs; numbers are `null` until the run is summed up."""

    run_id: str
    name: str
    trigger: str
    status: str = Field(description="running, interrupted, complete, incomplete, failed")
    judge_model: str
    day: date = Field(description="that the run is about, as a night; else the day it began (UTC)")
    started_at: datetime  # UTC
    finished_at: datetime | None  # None: running or interrupted
    outcome: str | None = Field(description="of its own gates: passed, failed, inconclusive")
    verdict: str | None = Field(
        description="as its report says, with that comparison: passed, failed, regression, "
        "inconclusive, undecided (the data cannot tell, or the judge moved), not_comparable, "
        "incomplete"
    )
    weighted_metrics_score_pct: float | None = Field(description="0..100")
    cases_pass_rate_pct: float | None = Field(description="0..100")
    coverage: float | None = Field(description="scored / due, 0..1")
    cases: int | None = Field(description="executions of cases; skipped ones are none")
    cost_usd: float | None = Field(description="of the judge; null where a price is not known")
    baseline: str | None = Field(description="the run it was compared with last")
    ending: str | None = Field(
        description="of that comparison: fine, regressed, inconclusive, not_comparable"
    )
    regression_detected: bool | None = Field(description="by the three rules")
    progress: Progress | None = Field(default=None, description="of a run that is running")

    @classmethod
    def of_row(
        cls,
        row: Mapping[str, Any],  # of table runs
        status: str,  # to show: `interrupted` where the row may have `running`
        compared: Mapping[str, Any] | None,  # its last row of table comparisons, if there is one
        *,
        judge_moved: bool = False,  # its anchors say that the judge has changed
    ) -> Run:
        """An item for a row of table runs."""
        summary = json.loads(row["summary"]) if row["summary"] else {}
        verdict = json.loads(compared["verdict"]) if compared else {}
        plain = ("run_id", "name", "trigger", "judge_model", "day", "started_at", "finished_at")
        numbers = ("outcome", "weighted_metrics_score_pct", "cases_pass_rate_pct", "coverage")
        own, ending, report_verdict = summary.get("outcome"), verdict.get("ending"), None
        if own:
            # A comparison with a named baseline is due and missing; a rule may have found no run.
            unknown = "inconclusive" if named_baseline(json.loads(row["config"])) else "fine"
            report_verdict = outcome_of(
                row["status"],
                own,
                ending or unknown,
                judge_moved=judge_moved,
                surely_failed=summary.get("surely_failed", False),
            )
        return cls(
            **{name: row[name] for name in plain},
            **{name: summary.get(name) for name in numbers},
            cases=summary.get("total_executions"),
            cost_usd=summary.get("total_platform_cost_usd"),
            status=status,
            verdict=report_verdict,
            baseline=compared["baseline"] if compared else None,
            ending=ending,
            regression_detected=verdict.get("regression_detected"),
        )


class RunDetail(Run):
    """A run with its frozen configuration, its summary and its published numbers."""

    config: dict[str, Any]
    config_hash: str
    counts: dict[str, int]
    summary: dict[str, Any] | None
    metrics: dict[str, float | None] = Field(description="table run_metrics")
    calibration: list[str] = Field(description="how the judge agrees with people, a line each")
    corrected: Corrected | None = Field(
        default=None, description="by labels of people; null: no label counts for this run"
    )
    progress: Progress


class CaseItem(_ResponseModel):
    """One line of the list of cases."""

    case_id: str
    repetition: int
    agent: str | None
    agent_version: str | None
    status: str
    passed: bool | None  # None: no verdict, or a flagged pass
    overall_score: float | None = Field(description="0..100")
    gate: str | None
    root_cause: str | None  # metric that the failure is traced to
    summary: str | None
    error: str | None
    turn_count: int | None
    agent_latency_ms: float | None
    agent_cost_usd: float | None


class IndexProgress(_ResponseModel):
    """How far the search index of a run is; what is not indexed yet is not found."""

    cases: int = Field(description="cases of the run")
    judged: int = Field(description="whose ids, tags, summaries and reasons are indexed")
    said: int = Field(description="whose conversations are indexed")
    unreadable: int = Field(description="whose conversations cannot be read any more")

    @property
    def is_complete(self) -> bool:
        """Whether everything that can be read is indexed."""
        return self.judged == self.cases == self.said + self.unreadable


class CasePage(Page[CaseItem]):
    """Part of a list of cases; `index` is there after a search of full text."""

    index: IndexProgress | None = None
    excerpts: list[str] | None = Field(
        default=None,
        description="for each case the text that was found, between U+0002 and U+0003",
    )


class SearchQuery(_QueryString):
    """A search of full text in the newest runs."""

    q: str = Field(
        min_length=1,
        max_length=QUERY_CHARS,
        description='words, "phrases" and begin*: a case must hold all',
    )
    runs: int = Field(default=10, ge=1, le=50, description="newest runs that are searched")
    limit: int = Field(default=5, ge=1, le=100, description="cases that are shown of each run")


class RunHits(_ResponseModel):
    """The cases that a search found in one run."""

    run_id: str
    day: date
    page: CasePage


class SearchPage(_ResponseModel):
    """What a search found, run by run, the newest first; runs without any are left out."""

    data: list[RunHits]
    searched: int = Field(description="runs that were searched")
    unfinished: int = Field(description="runs among them whose index is still being built")


class CaseRows(_ResponseModel):
    """One execution of a case: its row of table cases, its scores and its asks, as stored."""

    case: dict[str, Any]
    scores: list[dict[str, Any]]
    asks: list[dict[str, Any]]


class CaseDetail(_ResponseModel):
    """Every execution of a case in a run."""

    data: list[CaseRows]
    count: int


class Health(_ResponseModel):
    """The service is up; `store` says whether the store can be read."""

    status: str
    version: str
    store: str
