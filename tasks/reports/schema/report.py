"""The model of report.json as a whole, and of its parts other than cases and comparison."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from assizes.judge.history.anchors import Cause, Change
from assizes.judge.summary.early_stop import EarlyStop
from assizes.judge.summary.spending import JudgeSpending
from assizes.tasks.reports.schema import parts as shared
from assizes.tasks.reports.schema.causes import Causes
from assizes.tasks.reports.schema.corrected import Corrected


class JudgedBy(shared.ReportPart):
    """Who judged; `line` says it in a sentence."""

    line: str
    model: str
    answered_by: list[str]  # the models, as they name themselves
    offline: bool = Field(description="no language model: plain text rules")


class AgentVersion(shared.ReportPart):
    """An agent in a version."""

    agent: str | None
    version: str | None


class RunHead(shared.ReportPart):
    """Which run it is."""

    run_id: str
    name: str
    trigger: Literal["nightly", "deployment", "backfill", "adhoc"]
    status: Literal["running", "complete", "incomplete", "failed"]
    config_hash: str  # of the settings that change results
    day: str = Field(description="that it is about, as a night: 2026-03-01")
    started_at: str | None = Field(description="2026-03-02 01:00:00 UTC")
    finished_at: str | None
    agents: list[str]  # each with its version
    agent_versions: list[AgentVersion] = Field(default_factory=list)  # the same, in two parts


class Dimension(shared.ReportPart):
    """A gate of the run."""

    name: Literal["Metrics", "Cases", "Coverage"]
    meaning: str
    value: float | None = Field(description="0..100")
    threshold: float = Field(description="0..100")
    passed: bool | None = Field(description="null: there is no value")
    shown: str
    needs: str  # the threshold as text
    interval: shared.Interval | None


class Verdict(shared.ReportPart):
    """What became of the run."""

    outcome: Literal[
        "passed",
        "failed",
        "regression",
        "inconclusive",
        "not_comparable",
        "undecided",
        "incomplete",
    ]
    word: str
    headline: str
    reasons: list[str]
    cautions: list[str]
    dimensions: list[Dimension]


class ChangedNumber(shared.ReportPart):
    """A number of the run beside the baseline's, as text, and how sure its change is."""

    name: str
    baseline: str
    candidate: str
    change: str
    low: float | None = Field(description="of the change, in points; null: no interval")
    high: float | None
    span: str | None = Field(description="the interval as text")
    limit: str | None = Field(description="what the configuration allows")
    word: str
    worse: bool = Field(description="whether the verdict is a regression because of it")


class FirstLook(shared.ReportPart):
    """What to know first: what got worse, how sure that is, and why."""

    changes: list[ChangedNumber]  # what got worse comes first
    confidence: str = Field(description="of the intervals: 95 %")
    sure: str | None = Field(description="how sure the changes are; null without a baseline")
    reasons: list[str] = Field(description="of the verdict, those that are no change above")
    failure_code: str | None = Field(description="the one that moved most, else the commonest")
    failure_code_note: str | None = Field(description="what goes after its name")
    moved: str | None = Field(description="how many cases moved; null without a baseline")


class Counts(shared.ReportPart):
    """What became of every record that was read."""

    read: int
    parts: list[shared.Counted]  # each record that was read is in exactly one
    reconciles: bool = Field(description="whether the parts add up to what was read")
    sentence: str


class Failure(shared.ReportPart):
    """Why scores could not be had."""

    code: str
    count: int


class Coverage(shared.ReportPart):
    """Scores found, of those that were due."""

    scored: int
    failed: int
    skipped: int
    share: float | None = Field(description="scored / due, 0..1")
    floor: float = Field(description="0..1; under it a run is inconclusive")
    failures: list[Failure]
    sentence: str


class Family(shared.ReportPart):
    """Metrics that decide together."""

    family: Literal["conversation", "judges", "quality", "measured"]
    title: str
    meaning: str


class LabelCount(shared.ReportPart):
    """How often a label was given."""

    label: str
    count: int


class MetricLine(shared.ReportPart):
    """A metric of the run."""

    judge: str
    metric: str
    family: Literal["conversation", "judges", "quality", "measured"]
    tier: str | None  # of a conversation metric
    weight: float | None  # 0..1, of the conversation metrics alone
    unit: Literal["0-5", "0-1", ""] = Field(description="empty: an amount")
    mean: float | None  # in that unit
    pass_rate: float | None = Field(description="0..1")
    labels: list[LabelCount]
    scored: int
    failed: int
    skipped: int
    baseline_mean: float | None  # over the cases of both runs, as is the change
    delta: float | None
    interval: shared.Interval | None
    pass_rate_interval: shared.Interval | None
    low: int = Field(default=0, description="cases in which it is below acceptable, or not passed")
    delta_span: str | None = Field(default=None, description="interval of the change, as text")
    delta_sure: bool = Field(default=False, description="whether that interval leaves 0 out")


class Published(shared.ReportPart):
    """A number under the name that its judge publishes it by."""

    name: str
    value: float | None


class TierLine(shared.ReportPart):
    """The mean score of a tier."""

    tier: str
    score: float | None = Field(description="0..100")
    interval: shared.Interval | None


class CodeShift(shared.ReportPart):
    """The share of cases with a failure code, in points of 0..100, in both runs."""

    baseline: float
    candidate: float
    delta: float
    span: str | None = Field(description="interval of the change, as text")
    sure: bool = Field(description="whether that interval leaves 0 out")


class CodeLine(shared.ReportPart):
    """A failure code, and the metrics it was given for."""

    code: str
    count: int
    metrics: list[shared.Counted]
    shift: CodeShift | None = Field(default=None, description="null: too rare to compare")


class FailureCodes(shared.ReportPart):
    """Failure codes, the most frequent first."""

    total: int
    unspecified: int  # failures for which the judge named no code
    more: int = Field(description="how many codes are not shown")
    shown: list[CodeLine]


class RootCause(shared.Counted):
    """A root cause, and what to try."""

    suggested_fix: str | None


class Bin(shared.ReportPart):
    """Cases whose overall score lies in [from, to)."""

    low: int = Field(alias="from")  # points of 0..100, as is `to`
    to: int
    passed: int
    not_passed: int


class Distribution(shared.ReportPart):
    """Cases by overall score."""

    bins: list[Bin]


class Facts(shared.ReportPart):
    """A few figures as text."""

    title: str
    facts: list[shared.NameValue]


class JudgeLine(JudgeSpending):
    """What a judge asked, and what that took."""

    judge: str


class SkipLine(shared.ReportPart):
    """A judge that had no say in some cases."""

    judge: str
    metrics: list[str]  # those of the judge that were skipped alike
    reason: str
    count: int


class Skips(shared.ReportPart):
    """Judges that had no say, and why."""

    shown: list[SkipLine]
    more: int = Field(description="how many lines are not shown")


class AskError(shared.ReportPart):
    """A question that was not answered."""

    error: str
    count: int


class Attributed(shared.ReportPart):
    """Whose change it is (docs/trends.md), and the same in words."""

    cause: Cause
    anchors: Change | None
    data: Change | None
    against: str | None = Field(description="the anchor run that this one's is compared with")
    sentence: str


class Reproduce(shared.ReportPart):
    """How to get the run again."""

    toml: str  # the text of assizes.toml
    commands: list[str]  # for a shell, in this order


class Report(shared.ReportPart):
    """A run of assizes: report.json."""

    schema_version: int
    judged_by: JudgedBy
    run: RunHead
    verdict: Verdict
    first_look: FirstLook | None = None
    corrected: Corrected | None = Field(default=None, description="null: no label of people counts")
    causes: Causes | None = Field(default=None, description="null: none was found, or none sought")
    counts: Counts
    early_stop: EarlyStop | None = Field(
        default=None, description="how far a run went that was decided early; null: all were judged"
    )
    coverage: Coverage
    families: list[Family]
    metrics: list[MetricLine]
    published: list[Published]  # numbers under the names that judges publish them by
    tiers: list[TierLine]
    failure_codes: FailureCodes
    root_causes: list[RootCause]
    scores: Distribution
    usage: list[Facts]
    judges: list[JudgeLine]
    skipped: Skips  # judges that had no say in some cases
    cases: shared.Cases
    ask_errors: list[AskError]
    attribution: Attributed | None = Field(description="null: no anchors were judged")
    calibration: list[str]  # how well the judge agrees with people, a line for each metric
    warnings: list[str]
    comparison: shared.Comparison | None = Field(description="null: no baseline")
    config: dict[str, Any] = Field(description="as in the configuration file, by table")
    fingerprints: list[shared.NameValue]  # hashes of rubrics, prompts and judges
    reproduce: Reproduce
