"""Two runs side by side, by the documents' rules (seed 001): what got worse, and is it a regression.

The three rules look at the suite: the drop of the pass rate, the drop of the average score, the
growth of the average latency, each strictly over its limit. They are taken over the cases that both
runs executed, each case with the average of its repetitions. An errored execution counts as not
passed, and a case without a score on one side enters the average of neither: a judge that could not
be had never looks like a better agent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from judge.case_noise import changed_within, noise_threshold
from judge.cautions import MIXED_JUDGE
from judge.comparability import Mismatch, mismatches
from judge.compare_cases import (
    CaseComparison,
    MetricAggregate,
    case_comparisons,
    joined_cases,
    joined_metrics,
    metric_aggregates,
)
from judge.compare_rules import Figures, figures, reasons
from judge.config import ComparisonConfig
from judge.config_diff import FieldChange, config_diff, judge_changes
from judge.errors import NotComparable
from judge.exact import rounded
from judge.executions import agent_latency, executions
from judge.statistical import Compared, statistical_verdict
from judge.statistical_verdict import Noise, StatisticalVerdict
from judge.summary import RunSummary

COMPLETE = "complete"
"""The status of a run that can be compared."""

RULES = ("max_pass_rate_drop", "max_avg_score_drop", "max_latency_increase_pct")
"""The thresholds of the documents' rules."""

Ending = Literal["fine", "regressed", "inconclusive", "not_comparable"]


@dataclass(frozen=True, slots=True, eq=False)
class RunData:
    """A stored run: its row and its tables. `config` is the snapshot taken when it began;
    `answered_by` names the models whose replies it holds.
    """

    run_id: str
    name: str
    agent_version: str | None
    config: Mapping[str, Any]
    summary: RunSummary | None
    cases: pl.LazyFrame
    scores: pl.LazyFrame
    status: str
    answered_by: tuple[str, ...] = ()


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ComparisonAggregate(_Part):
    """Both runs' summaries and what moved between them; deltas are candidate minus baseline.

    Pass rate as a fraction, score in points of 0..100; both and the latencies over the cases that
    the runs share. The cost is that of the whole runs. Null where a side is not known.
    """

    baseline_metrics: RunSummary
    candidate_metrics: RunSummary
    pass_rate_delta: float | None
    avg_score_delta: float | None
    latency_avg_delta_ms: float | None
    latency_p95_delta_ms: float | None
    cost_delta_usd: float | None
    total_regressions: int
    total_improvements: int
    total_unchanged: int
    total_errors: int
    per_metric_aggregate_deltas: tuple[MetricAggregate, ...]


class ComparisonVerdict(_Part):
    """Whether any of the documents' rules fired, one sentence for each that did, and the limits
    that were used; beside them the statistics, what was not alike, and what is to be concluded.
    """

    regression_detected: bool
    reasons: tuple[str, ...]
    thresholds_used: dict[str, float]
    mode: Literal["rules", "statistics", "both"] = "rules"
    statistics: StatisticalVerdict | None = Field(
        default=None, description="null where the rules stand alone"
    )
    mismatches: tuple[Mismatch, ...] = ()
    ending: Ending = Field(
        default="fine",
        description="by the mode; not_comparable: something differs and was not allowed to",
    )

    @property
    def why(self) -> tuple[str, ...]:
        """The sentences behind the ending."""
        if self.ending == "not_comparable":
            return tuple(one.line for one in self.mismatches)
        if self.mode == "statistics" and self.statistics is not None:
            return self.statistics.reasons
        return self.reasons


class RunComparison(_Part):
    """The comparison of a candidate run with its baseline."""

    baseline_run_id: str
    candidate_run_id: str
    baseline_agent_version: str | None
    candidate_agent_version: str | None
    baseline_run_name: str
    candidate_run_name: str
    aggregate: ComparisonAggregate
    test_case_comparisons: tuple[CaseComparison, ...]
    baseline_only_test_cases: tuple[str, ...]
    candidate_only_test_cases: tuple[str, ...]
    config_diff: tuple[FieldChange, ...]
    verdict: ComparisonVerdict
    warnings: tuple[str, ...]
    regression_analysis: str | None = Field(
        default=None, description="free text about the causes, where somebody wrote one"
    )


@dataclass(frozen=True, slots=True)
class _Pairing:
    """The runs joined: the cases of both, of each alone, and the figures the rules look at."""

    matched: pl.DataFrame
    baseline_only: tuple[str, ...]
    candidate_only: tuple[str, ...]
    baseline: Figures
    candidate: Figures

    @classmethod
    def of(cls, baseline: RunData, candidate: RunData) -> _Pairing:
        cases = joined_cases(baseline.cases, candidate.cases)
        matched = cases.drop_nulls(["baseline_runs", "candidate_runs"])
        paired = not matched.is_empty()
        shared = matched if paired else cases
        return cls(
            matched=matched,
            baseline_only=tuple(cases.filter(pl.col("candidate_runs").is_null())["case_id"]),
            candidate_only=tuple(cases.filter(pl.col("baseline_runs").is_null())["case_id"]),
            baseline=figures(shared, "baseline", paired=paired),
            candidate=figures(shared, "candidate", paired=paired),
        )

    @property
    def overlap(self) -> float:
        """Shared cases / cases of the larger run, 0..1."""
        alone = max(len(self.baseline_only), len(self.candidate_only))
        return self.matched.height / (self.matched.height + alone) if self.matched.height else 0.0

    @property
    def same_cases(self) -> bool:
        return not self.baseline_only and not self.candidate_only


def compare(baseline: RunData, candidate: RunData, thresholds: ComparisonConfig) -> RunComparison:
    """Compare two complete runs.

    Where the runs executed different cases the rules look at those they share, and a warning says
    so; where they share none, at each run as a whole.

    Raises:
        NotComparable: a run is not complete.
    """
    summaries = (_summary(baseline, "baseline"), _summary(candidate, "candidate"))
    pairing = _Pairing.of(baseline, candidate)
    metrics = joined_metrics(baseline.scores, candidate.scores, pairing.matched)
    changes = config_diff(baseline.config, candidate.config)
    numbers = {
        **_deltas(pairing, *summaries),
        "latency_p95_delta_ms": _p95_delta(baseline, candidate, pairing),
        "per_metric_aggregate_deltas": metric_aggregates(metrics),
    }
    answered = (baseline.answered_by, candidate.answered_by)
    differing = mismatches(changes, answered, pairing.overlap)
    listed = tuple(case_comparisons(pairing.matched, metrics))
    found = None
    if thresholds.mode != "rules":
        found = _statistics(Compared.of(baseline, candidate, thresholds), differing, listed)
    return RunComparison(
        baseline_run_id=baseline.run_id,
        candidate_run_id=candidate.run_id,
        baseline_agent_version=baseline.agent_version,
        candidate_agent_version=candidate.agent_version,
        baseline_run_name=baseline.name,
        candidate_run_name=candidate.name,
        aggregate=ComparisonAggregate.model_validate(numbers),
        test_case_comparisons=listed,
        baseline_only_test_cases=pairing.baseline_only,
        candidate_only_test_cases=pairing.candidate_only,
        config_diff=tuple(changes),
        verdict=_verdict(pairing, thresholds, found, differing),
        warnings=(*_judge_warning(changes), *_warnings(pairing, *summaries)),
    )


def _statistics(
    both: Compared, differing: tuple[Mismatch, ...], listed: Iterable[CaseComparison]
) -> StatisticalVerdict:
    """The statistical verdict, with the changed cases that repetitions alone could have changed."""
    found, spread = statistical_verdict(both, differing), both.repeat_sd
    if spread is None:
        return found
    threshold = noise_threshold(spread)
    noise = Noise(
        repeat_sd=rounded(spread),
        threshold=rounded(threshold),
        changed_within=changed_within(listed, threshold),
    )
    return found.model_copy(update={"noise": noise})


def _verdict(
    pairing: _Pairing,
    thresholds: ComparisonConfig,
    found: StatisticalVerdict | None,
    differing: tuple[Mismatch, ...],
) -> ComparisonVerdict:
    fired = tuple(reasons(pairing.baseline, pairing.candidate, thresholds))
    return ComparisonVerdict(
        regression_detected=bool(fired),
        reasons=fired,
        thresholds_used={name: getattr(thresholds, name) for name in RULES},
        mode=thresholds.mode,
        statistics=found,
        mismatches=differing,
        ending=_ending(bool(fired), thresholds, found, differing),
    )


def _ending(
    fired: bool,
    thresholds: ComparisonConfig,
    found: StatisticalVerdict | None,
    differing: tuple[Mismatch, ...],
) -> Ending:
    """What is to be concluded: in mode `statistics` by them, else by the documents' rules."""
    if differing and not thresholds.allow:
        return "not_comparable"
    if thresholds.mode != "statistics" or found is None:
        return "regressed" if fired else "fine"
    if found.verdict in ("regressed", "inconclusive"):
        return found.verdict
    return "fine"


def _summary(run: RunData, role: str) -> RunSummary:
    if run.status != COMPLETE or run.summary is None:
        raise NotComparable(
            f"{role} run {run.run_id!r} has status {run.status!r}; "
            f"only {COMPLETE!r} runs are compared"
        )
    return run.summary


def _difference(before: float | Fraction | None, after: float | Fraction | None) -> float | None:
    return None if before is None or after is None else rounded(after - before)


def _deltas(pairing: _Pairing, baseline: RunSummary, candidate: RunSummary) -> dict[str, Any]:
    before, after = pairing.baseline, pairing.candidate
    statuses = Counter(pairing.matched["status"])
    return {
        "baseline_metrics": baseline,
        "candidate_metrics": candidate,
        "pass_rate_delta": _difference(before.pass_rate, after.pass_rate),
        "avg_score_delta": _difference(before.score, after.score),
        "latency_avg_delta_ms": _difference(before.latency_ms, after.latency_ms),
        "cost_delta_usd": _difference(
            baseline.total_estimated_cost_usd, candidate.total_estimated_cost_usd
        ),
        "total_regressions": statuses["regression"],
        "total_improvements": statuses["improvement"],
        "total_unchanged": statuses["unchanged"],
        "total_errors": statuses["error"],
    }


def _p95_delta(baseline: RunData, candidate: RunData, pairing: _Pairing) -> float | None:
    before, after = (_p95(run, pairing.matched) for run in (baseline, candidate))
    return _difference(before, after)


def _p95(run: RunData, matched: pl.DataFrame) -> float | None:
    executed = executions(run.cases)
    if not matched.is_empty():
        executed = executed.join(matched.lazy().select("case_id"), on="case_id", how="semi")
    return agent_latency(executed).p95


def _judge_warning(changes: list[FieldChange]) -> Iterator[str]:
    if changed := judge_changes(changes):
        names = ", ".join(changed)
        yield f"the runs were judged differently ({names}): a change need not be the agent's"


def _warnings(pairing: _Pairing, *summaries: RunSummary) -> Iterator[str]:
    """Everything a reader must know before believing the verdict."""
    yield from _case_warnings(pairing)
    sides = zip(
        ("baseline", "candidate"), (pairing.baseline, pairing.candidate), summaries, strict=True
    )
    for role, side, summary in sides:
        if side.pass_rate is None:
            yield f"the {role} run executed no case: no rule could be applied"
        if summary.outcome == "inconclusive":
            yield (
                f"the {role} run is inconclusive (coverage {summary.coverage}, floor "
                f"{summary.min_coverage}): that no rule fired does not mean that nothing got worse"
            )
        for caution in summary.warnings:
            if caution.startswith(MIXED_JUDGE):
                yield f"the {role} run: {caution}"
    yield from _skipped_rules(pairing.baseline, pairing.candidate)


def _case_warnings(pairing: _Pairing) -> Iterator[str]:
    matched = pairing.matched
    if matched.is_empty():
        yield "the runs share no case: each is taken as a whole, and they are only roughly alike"
    elif not pairing.same_cases:
        yield (
            f"the runs executed different cases: {matched.height} matched, "
            f"{len(pairing.baseline_only)} only in the baseline, "
            f"{len(pairing.candidate_only)} only in the candidate; "
            "the rules look at the matched ones"
        )
    uneven = matched.filter(pl.col("baseline_runs") != pl.col("candidate_runs"))
    if uneven.height:
        yield (
            f"{uneven.height} cases have different numbers of repetitions in the two runs; "
            "each case counts once, with the average of its repetitions"
        )
    unscored = matched.filter(
        pl.col("baseline_score").is_null() != pl.col("candidate_score").is_null()
    )
    if unscored.height:
        yield (
            f"{unscored.height} cases have a score in one run only; "
            "they enter the average score of neither"
        )


def _skipped_rules(before: Figures, after: Figures) -> Iterator[str]:
    if before.score is None or after.score is None:
        yield "average score rule skipped: no overall scores to compare"
    if before.latency_ms is None or after.latency_ms is None:
        yield "latency rule skipped: no latencies to compare"
    elif not before.latency_ms:
        yield "latency rule skipped: the baseline's average latency is 0"
