"""The statistical verdict on two runs as it is stored and shown; all figures in points of 0..100."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.statistics.effects import Method, Word

LABELS: Final = {"pass_rate": "pass rate", "overall_score": "average score"}
SHOWN: Final = {
    "regressed": "regressed",
    "not_worse": "not worse",
    "inconclusive": "inconclusive",
    "improved": "improved",
}


class _VerdictPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MetricVerdict(_VerdictPart):
    """One gating measure: what it was, how it moved, and what may be said of that.

    `low` and `high` bound the change at the confidence 1 - alpha; null where too little was seen.
    `worst` and `best` are the change if every missing score had gone against the candidate, or in
    its favour.
    """

    measure: str
    verdict: Word
    baseline: float
    candidate: float
    delta: float
    low: float | None
    high: float | None
    worst: float
    best: float
    p_value: float = Field(description="two-sided, of this measure alone")
    p_adjusted: float = Field(
        description="one-sided, of a change this way; Holm over the gating measures"
    )
    method: Method
    paired: bool
    cases: int
    clusters: int
    baseline_coverage: float = Field(description="scored / due, 0..1")
    candidate_coverage: float
    mde: float | None = Field(
        description="smallest change that 4 of 5 such comparisons would see; null: not known"
    )
    severe: bool = Field(description="the whole interval lies under -margin")
    line: str


class Exploratory(_VerdictPart):
    """A metric, a slice or a failure code that moved; nothing is decided by it."""

    kind: Literal["metric", "slice", "failure_code"]
    name: str
    measure: str
    baseline: float
    candidate: float
    delta: float
    low: float | None
    high: float | None
    p_value: float
    q_value: float = Field(description="Benjamini-Hochberg, over everything exploratory")
    cases: int
    clusters: int
    moved: bool = Field(description="q_value is at most alpha")


class Mix(_VerdictPart):
    """The change of a measure between different cases, split by what it is owed to."""

    measure: str
    by: str
    total: float
    quality: float = Field(description="what the strata did, at the shares of both runs averaged")
    mix: float = Field(description="what the strata's shares did")
    strata: int


class Noise(_VerdictPart):
    """How much a score moves when nothing changes, measured on repetitions of a case."""

    repeat_sd: float
    threshold: float = Field(description="max(5, 2 x repeat_sd): moves up to it are within noise")
    changed_within: tuple[str, ...] = Field(
        description="ids of the cases that count as changed, but within noise"
    )


class Bridge(_VerdictPart):
    """A measure of two runs with different judges, on the scale of the candidate's judge."""

    measure: str
    judge: float = Field(description="what that judge gives more, on anchors that both judged")
    delta: float = Field(description="the change without it")
    low: float
    high: float
    anchors: int
    line: str


class StatisticalVerdict(_VerdictPart):
    """What two runs say about the agent, with the chance of a false alarm held at alpha."""

    verdict: Word
    reasons: tuple[str, ...]
    margin: float
    alpha: float
    metrics: tuple[MetricVerdict, ...]
    exploratory: tuple[Exploratory, ...] = ()
    mix: tuple[Mix, ...] = ()
    critical_flips: tuple[str, ...] = ()
    bridge: tuple[Bridge, ...] = Field(
        default=(), description="where the judge differs, and both judged the same anchors"
    )
    noise: Noise | None = Field(default=None, description="null: no case was repeated")


def verdict_line(verdict: MetricVerdict, alpha: float) -> str:
    """The report line: both sides, the change with its interval, what it rests on, the word."""
    name = LABELS.get(verdict.measure, verdict.measure)
    unit = " %" if verdict.measure == "pass_rate" else ""
    if verdict.low is None or verdict.high is None:
        span = "no interval"
    else:
        span = f"{100 * (1 - alpha):g} % CI {verdict.low:+.1f}..{verdict.high:+.1f}"
    how = "paired" if verdict.paired else "unpaired"
    coverage = f"{100 * verdict.baseline_coverage:.1f}/{100 * verdict.candidate_coverage:.1f} %"
    mde = "unknown" if verdict.mde is None else f"{verdict.mde:.1f}"
    return (
        f"{name} {verdict.baseline:.1f}{unit} -> {verdict.candidate:.1f}{unit} ({verdict.delta:+.1f}; "
        f"{span}; {how} {verdict.cases} cases / {verdict.clusters} clusters; coverage {coverage}; "
        f"MDE {mde}) -> {SHOWN[verdict.verdict]}"
    )
