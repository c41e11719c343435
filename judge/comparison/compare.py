"""Compares two runs by the rules of seed 001: what got worse, and whether that is a regression.

The three rules look at the whole suite: the drop of the pass rate, the drop of the average score
and the growth of the average latency; a rule fires when its number is strictly over its limit. The
numbers are taken over the cases that both runs executed, each case with the average of its
repetitions. An errored execution counts as not passed, and a case without a score in one run enters
the average of neither run: a judge that was not available must never look like a better agent.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Literal

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.comparison.cases import (
    CaseComparison,
    case_comparisons,
    changes_within_noise,
    joined_metrics,
    noise_threshold,
)
from assizes.judge.comparison.metrics import MetricAggregate, metric_names, paired_metrics
from assizes.judge.comparison.rules import PairedCases, RuleFigures, reasons
from assizes.judge.comparison.runs import Mismatch, RunData, RunPair, mismatches
from assizes.judge.comparison.statistical import StatisticalComparison, compared_metrics
from assizes.judge.comparison.statistical_verdict import (
    Noise,
    StatisticalVerdict,
    statistical_verdict,
)
from assizes.judge.config.diff import FieldChange, config_diff, judge_changes
from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.errors import NotComparable
from assizes.judge.prompts.prompt_texts import PromptDiff, prompt_diff
from assizes.judge.rows import COMPLETE
from assizes.judge.statistics.exact import rounded_value
from assizes.judge.summary.cautions import MIXED_JUDGE
from assizes.judge.summary.run_summary import RunSummary
from assizes.judge.verdicts.executions import executions, latency_quantile

RULES = ("max_pass_rate_drop", "max_avg_score_drop", "max_latency_increase_pct")
"""Names of the settings in [comparison] that hold the limits of the three rules."""

Ending = Literal["fine", "regressed", "inconclusive", "not_comparable"]
"""How a comparison ends."""


class _ComparisonModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ComparisonAggregate(_ComparisonModel):
    """The summaries of both runs and the differences between them, candidate minus baseline.

    The pass rate is a fraction, the score in points of 0..100; these two and the latencies are over
    the cases that the runs share. The cost is that of the whole runs. A difference is `None` where
    the number of one run is not known.
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


class ComparisonVerdict(_ComparisonModel):
    """Whether any of the three rules fired, with one sentence for each rule that did.

    Beside the rules stand the limits that were used, the statistical verdict, the differences that
    keep the runs from being compared, and the conclusion (`ending`).
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
        """The sentences that give the reasons for the ending."""
        if self.ending == "not_comparable":
            return tuple(mismatch.line for mismatch in self.mismatches)
        if self.mode == "statistics" and self.statistics is not None:
            return self.statistics.reasons
        return self.reasons


class CaseCounts(_ComparisonModel):
    """How many cases the runs hold; a comparison of big runs lists only a part of them (`listed`).

    `flipped_regressions` and `flipped_improvements` count the cases whose verdict turned.
    """

    matched: int
    listed: int
    baseline_only: int
    candidate_only: int
    flipped_regressions: int
    flipped_improvements: int


class RunComparison(_ComparisonModel):
    """The comparison of a candidate run with its baseline.

    Of each status, and of the cases of one run only, up to `assizes.judge.comparison.rules.MAX_LISTED`
    cases are listed: turned verdicts first, then the largest moves. `case_counts` and the totals are
    exact.
    """

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
    case_counts: CaseCounts
    config_diff: tuple[FieldChange, ...]
    prompt_diff: tuple[PromptDiff, ...] | None = Field(
        default=None, description="null: a run kept no texts of its prompts"
    )
    verdict: ComparisonVerdict
    warnings: tuple[str, ...]
    regression_analysis: str | None = Field(
        default=None, description="free text about the causes, where somebody wrote one"
    )


def compare(baseline: RunData, candidate: RunData, thresholds: ComparisonConfig) -> RunComparison:
    """Compare two complete runs.

    Where the runs executed different cases, the rules look at the cases that both executed, and a
    warning says so; where the runs share no case, the rules look at each run as a whole.

    Raises:
        NotComparable: a run is not complete.
    """
    summaries = _summaries(baseline, candidate)
    runs = RunPair(baseline, candidate)
    names = metric_names(summaries)
    cases = PairedCases.of(baseline.cases, candidate.cases)
    changes = config_diff(baseline.config, candidate.config)
    answered = (baseline.answered_by, candidate.answered_by)
    differing = mismatches(changes, answered, cases.overlap)
    both = None
    if thresholds.mode != "rules":
        both = StatisticalComparison.of(baseline, candidate, thresholds)
    numbers = {
        **_deltas(cases, *summaries),
        "latency_p95_delta_ms": _p95_delta(baseline, candidate, cases),
        "per_metric_aggregate_deltas": compared_metrics(runs, names, cases, both),
    }
    statistics = None if both is None else _statistics(both, differing, cases)
    listed = case_comparisons(cases.listed, joined_metrics(runs.scores, cases.listed, names))
    return RunComparison(
        baseline_run_id=baseline.run_id,
        candidate_run_id=candidate.run_id,
        baseline_agent_version=baseline.agent_version,
        candidate_agent_version=candidate.agent_version,
        baseline_run_name=baseline.name,
        candidate_run_name=candidate.name,
        aggregate=ComparisonAggregate.model_validate(numbers),
        test_case_comparisons=tuple(listed),
        baseline_only_test_cases=cases.baseline_only,
        candidate_only_test_cases=cases.candidate_only,
        case_counts=CaseCounts(
            matched=cases.matched,
            listed=len(listed),
            baseline_only=cases.alone[0],
            candidate_only=cases.alone[1],
            flipped_regressions=cases.flipped.get("regression", 0),
            flipped_improvements=cases.flipped.get("improvement", 0),
        ),
        config_diff=tuple(changes),
        prompt_diff=prompt_diff(baseline.prompts, candidate.prompts),
        verdict=_verdict(cases, thresholds, statistics, differing),
        warnings=(*_judge_warning(changes), *_warnings(cases, *summaries)),
    )


def gated_runs(
    baseline: RunData, candidate: RunData, thresholds: ComparisonConfig
) -> StatisticalComparison:
    """Prepare two runs for the statistics, with only the metrics that `thresholds` gates on."""
    both = StatisticalComparison.of(baseline, candidate, thresholds)
    scores = RunPair(baseline, candidate).scores
    names = metric_names(_summaries(baseline, candidate))
    wanted = {key: name for key, name in names.items() if name in thresholds.gating}
    repeated = PairedCases.of(baseline.cases, candidate.cases).repeated
    for pair in paired_metrics(scores, wanted, repeated=repeated):
        both.add(pair)
    return both


def _statistics(
    both: StatisticalComparison, differing: tuple[Mismatch, ...], cases: PairedCases
) -> StatisticalVerdict:
    """The statistical verdict; where cases were repeated, with the changes that are within noise."""
    verdict, spread = statistical_verdict(both, differing), both.repeat_sd
    if spread is None or cases.changed is None:
        return verdict
    threshold = noise_threshold(spread)
    noise = Noise(
        repeat_sd=rounded_value(spread),
        threshold=rounded_value(threshold),
        changed_within=changes_within_noise(cases.changed, threshold),
    )
    return verdict.model_copy(update={"noise": noise})


def _verdict(
    cases: PairedCases,
    thresholds: ComparisonConfig,
    statistics: StatisticalVerdict | None,
    differing: tuple[Mismatch, ...],
) -> ComparisonVerdict:
    fired = tuple(reasons(cases.baseline, cases.candidate, thresholds))
    return ComparisonVerdict(
        regression_detected=bool(fired),
        reasons=fired,
        thresholds_used={name: getattr(thresholds, name) for name in RULES},
        mode=thresholds.mode,
        statistics=statistics,
        mismatches=differing,
        ending=_ending(bool(fired), thresholds, statistics, differing),
    )


def _ending(
    fired: bool,
    thresholds: ComparisonConfig,
    statistics: StatisticalVerdict | None,
    differing: tuple[Mismatch, ...],
) -> Ending:
    """The conclusion: by the statistical verdict in mode `statistics`, else by the three rules."""
    if differing and not thresholds.allow:
        return "not_comparable"
    if thresholds.mode != "statistics" or statistics is None:
        return "regressed" if fired else "fine"
    if statistics.verdict in ("regressed", "inconclusive"):
        return statistics.verdict
    return "fine"


def _summaries(baseline: RunData, candidate: RunData) -> tuple[RunSummary, RunSummary]:
    return _summary(baseline, "baseline"), _summary(candidate, "candidate")


def _summary(run: RunData, role: str) -> RunSummary:
    if run.status != COMPLETE or run.summary is None:
        raise NotComparable(
            f"{role} run {run.run_id!r} has status {run.status!r}; "
            f"only {COMPLETE!r} runs are compared"
        )
    return run.summary


def _difference(before: float | Fraction | None, after: float | Fraction | None) -> float | None:
    return None if before is None or after is None else rounded_value(after - before)


def _deltas(cases: PairedCases, baseline: RunSummary, candidate: RunSummary) -> dict[str, Any]:
    before, after = cases.baseline, cases.candidate
    return {
        "baseline_metrics": baseline,
        "candidate_metrics": candidate,
        "pass_rate_delta": _difference(before.pass_rate, after.pass_rate),
        "avg_score_delta": _difference(before.score, after.score),
        "latency_avg_delta_ms": _difference(before.latency_ms, after.latency_ms),
        "cost_delta_usd": _difference(
            baseline.total_estimated_cost_usd, candidate.total_estimated_cost_usd
        ),
        "total_regressions": cases.statuses.get("regression", 0),
        "total_improvements": cases.statuses.get("improvement", 0),
        "total_unchanged": cases.statuses.get("unchanged", 0),
        "total_errors": cases.statuses.get("error", 0),
    }


def _p95_delta(baseline: RunData, candidate: RunData, cases: PairedCases) -> float | None:
    """The difference of the 95th percentiles; each repetition counts as an execution of its own."""
    if cases.latency_p95_ms is not None:
        return _difference(*cases.latency_p95_ms)
    return _difference(*(_p95(run, cases) for run in (baseline, candidate)))


def _p95(run: RunData, cases: PairedCases) -> float | None:
    executed = executions(run.cases)
    if cases.keys is not None and cases.matched:
        executed = executed.with_columns(pl.col("case_id").hash()).join(
            cases.keys.lazy(), on="case_id", how="semi"
        )
    return latency_quantile(executed, 0.95)


def _judge_warning(changes: list[FieldChange]) -> Iterator[str]:
    if changed := judge_changes(changes):
        names = ", ".join(changed)
        yield f"the runs were judged differently ({names}): a change need not be the agent's"


def _warnings(cases: PairedCases, *summaries: RunSummary) -> Iterator[str]:
    """Write a sentence for everything a reader must know before believing the verdict."""
    yield from _case_warnings(cases)
    sides = zip(
        ("baseline", "candidate"), (cases.baseline, cases.candidate), summaries, strict=True
    )
    for role, side, summary in sides:
        if side.pass_rate is None:
            yield f"the {role} run executed no case: no rule could be applied"
        if summary.outcome == "inconclusive":
            yield (
                f"the {role} run is inconclusive (coverage {summary.coverage}, floor "
                f"{summary.min_coverage}): that no rule fired does not mean that nothing got worse"
            )
        if summary.pass_flagged_count:
            yield (
                f"the {role} run: {summary.pass_flagged_count} passes are flagged and count as not "
                "passed (docs/judges.md)"
            )
        for caution in summary.warnings:
            if caution.startswith(MIXED_JUDGE):
                yield f"the {role} run: {caution}"
    yield from _skipped_rules(cases.baseline, cases.candidate)


def _case_warnings(cases: PairedCases) -> Iterator[str]:
    if not cases.matched:
        yield "the runs share no case: each is taken as a whole, and they are only roughly alike"
    elif not cases.has_same_cases:
        yield (
            f"the runs executed different cases: {cases.matched} matched, "
            f"{cases.alone[0]} only in the baseline, "
            f"{cases.alone[1]} only in the candidate; "
            "the rules look at the matched ones"
        )
    if cases.uneven:
        yield (
            f"{cases.uneven} cases have different numbers of repetitions in the two runs; "
            "each case counts once, with the average of its repetitions"
        )
    if cases.unscored:
        yield (
            f"{cases.unscored} cases have a score in one run only; "
            "they enter the average score of neither"
        )


def _skipped_rules(before: RuleFigures, after: RuleFigures) -> Iterator[str]:
    if before.score is None or after.score is None:
        yield "average score rule skipped: no overall scores to compare"
    if before.latency_ms is None or after.latency_ms is None:
        yield "latency rule skipped: no latencies to compare"
    elif not before.latency_ms:
        yield "latency rule skipped: the baseline's average latency is 0"
