"""Compares two runs by three rules: what got worse, and whether that is a regression.

The rules limit the drop of the pass rate, the drop of the average score and the growth of the
average latency over the executions of the cases that both runs hold: the numbers that each run
itself shows. A rule fires only if its number is strictly over its limit twice: over all executions,
and with each case counted once. Uneven repetitions weigh a case differently in the two runs. A
judge that was not available must never look like a better agent: an errored execution counts as not
passed, and a case without a score in one run enters neither average.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

import polars as pl
from pydantic import Field

from assizes.judge.comparison.cases import (
    SIDES,
    CaseComparison,
    PairedCases,
    RuleFigures,
    case_comparisons,
)
from assizes.judge.comparison.corrected_change import CorrectedVerdict
from assizes.judge.comparison.early_stops import limits_after_looks, run_mismatches
from assizes.judge.comparison.metrics import (
    MetricAggregate,
    joined_metrics,
    metric_names,
    paired_metrics,
)
from assizes.judge.comparison.rules import RULES, fired_rules
from assizes.judge.comparison.runs import (
    Mismatch,
    RunData,
    suite_warnings,
)
from assizes.judge.comparison.statistical import StatisticalComparison, compared_metrics
from assizes.judge.comparison.statistical_verdict import (
    INCONCLUSIVE_RUN,
    StatisticalVerdict,
    statistical_verdict,
)
from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.config.run import FieldChange, config_diff, judge_changes
from assizes.judge.errors import NotComparable
from assizes.judge.prompts.prompt_texts import PromptDiff, prompt_diff
from assizes.judge.rows import COMPLETE
from assizes.judge.statistics.exact import rounded_value
from assizes.judge.summary.headlines import FrozenModel
from assizes.judge.summary.run_summary import RunSummary
from assizes.judge.summary.spending import MIXED_JUDGE
from assizes.judge.summary.task_success import NO_TOOL_TRACE
from assizes.judge.verdicts.executions import collect_rows, executions, quantile

Ending = Literal["fine", "regressed", "inconclusive", "not_comparable"]
"""How a comparison ends."""

ALLOW_HINT = (
    "a change need not be the agent's; [comparison] allow = true (--allow) compares all the same"
)


class ComparisonAggregate(FrozenModel):
    """The summaries of both runs and the differences between them, candidate minus baseline.

    The pass rate is a fraction, the score in points of 0..100; these two and the latencies are over
    the cases that the runs share. The cost is that of the whole runs. A difference is `None` where
    the number of one run is not known.
    """

    baseline_metrics: RunSummary  # over all cases of the run, not only the shared ones
    candidate_metrics: RunSummary
    pass_rate_delta: float | None  # -1..1
    avg_score_delta: float | None  # points of 0..100
    latency_avg_delta_ms: float | None
    latency_p95_delta_ms: float | None  # over executions: repetitions are not averaged here
    cost_delta_usd: float | None  # agent and judge
    total_regressions: int  # matched cases, as the three counts below
    total_improvements: int
    total_unchanged: int
    total_errors: int  # with an error in either run
    per_metric_aggregate_deltas: tuple[MetricAggregate, ...]


class ComparisonVerdict(FrozenModel):
    """Whether any of the three rules fired, with one sentence for each rule that did.

    Beside the rules stand the limits that were used, the statistical verdict, the differences that
    keep the runs from being compared, and the conclusion (`ending`).
    """

    # By the rules alone, in every mode (decision 47): not the conclusion; read `ending`.
    regression_detected: bool
    reasons: tuple[str, ...]
    thresholds_used: dict[str, float]  # limit by name, as in RULES
    mode: Literal["rules", "statistics", "both"] = "rules"
    statistics: StatisticalVerdict | None = Field(
        default=None, description="null where the rules stand alone"
    )
    mismatches: tuple[Mismatch, ...] = ()  # shown also where they were allowed
    doubts: tuple[str, ...] = Field(
        default=(), description="why a verdict that nothing got worse would not hold"
    )
    ending: Ending = Field(
        default="fine",
        description="by the mode; not_comparable: something differs and was not allowed to",
    )

    @property
    def why(self) -> tuple[str, ...]:
        """The sentences that give the reasons for the ending."""
        if self.ending == "not_comparable":
            return (*(mismatch.line for mismatch in self.mismatches), ALLOW_HINT)
        if self.mode == "statistics" and self.statistics is not None:
            return tuple(dict.fromkeys((*self.doubts, *self.statistics.reasons)))
        # Where missing scores leave the ending open, what seems to have fallen is no reason.
        return self.doubts if self.ending == "inconclusive" else (*self.reasons, *self.doubts)


class CaseCounts(FrozenModel):
    """How many cases the runs hold; a comparison of big runs lists only a part of them (`listed`).

    `flipped_regressions` and `flipped_improvements` count the cases whose verdict turned.
    """

    matched: int  # cases that both runs executed
    listed: int
    baseline_only: int
    candidate_only: int
    flipped_regressions: int
    flipped_improvements: int


class RunComparison(FrozenModel):
    """The comparison of a candidate run with its baseline.

    Of each status, and of the cases of one run only, up to `assizes.judge.comparison.cases.MAX_LISTED`
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
    baseline_only_test_cases: tuple[str, ...]  # ids
    candidate_only_test_cases: tuple[str, ...]
    case_counts: CaseCounts
    config_diff: tuple[FieldChange, ...]
    prompt_diff: tuple[PromptDiff, ...] | None = Field(
        default=None, description="null: a run kept no texts of its prompts"
    )
    verdict: ComparisonVerdict
    warnings: tuple[str, ...]  # to be known before believing the verdict
    corrected: CorrectedVerdict | None = Field(
        default=None, description="by labels of people; null: no label counts for either run"
    )
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
    summaries = (_summary(baseline, "baseline"), _summary(candidate, "candidate"))
    runs, scores = (baseline, candidate), (baseline.scores, candidate.scores)
    names = metric_names(summaries)
    cases = PairedCases.of(baseline.cases, candidate.cases)
    changes = config_diff(baseline.config, candidate.config)
    thresholds = limits_after_looks(thresholds, candidate.config)
    differing = run_mismatches(runs, cases, changes)
    statistical = None
    if thresholds.mode != "rules":
        statistical = StatisticalComparison.of(baseline, candidate, thresholds)
    # This fills `statistical` too, so that each metric is read from the store once. Then it can be
    # judged.
    metrics = compared_metrics(runs, names, cases, statistical)
    statistics = (
        None if statistical is None else statistical_verdict(statistical, differing, cases.changed)
    )
    listed = case_comparisons(cases.listed, joined_metrics(scores, cases.listed, names))
    return RunComparison(
        baseline_run_id=baseline.run_id,
        candidate_run_id=candidate.run_id,
        baseline_agent_version=baseline.agent_version,
        candidate_agent_version=candidate.agent_version,
        baseline_run_name=baseline.name,
        candidate_run_name=candidate.name,
        aggregate=_aggregate(runs, cases, summaries, metrics),
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
        verdict=_doubted(_verdict(cases, thresholds, statistics, differing), summaries),
        warnings=tuple(_warnings(runs, cases, judge_changes(changes), summaries)),
    )


def gated_runs(
    baseline: RunData, candidate: RunData, thresholds: ComparisonConfig
) -> StatisticalComparison:
    """Prepare two runs for the statistics, with only the metrics that `thresholds` gates on."""
    statistical = StatisticalComparison.of(baseline, candidate, thresholds)
    names = metric_names((_summary(baseline, "baseline"), _summary(candidate, "candidate")))
    wanted = {key: name for key, name in names.items() if name in thresholds.gating}
    repeated = PairedCases.of(baseline.cases, candidate.cases).repeated
    for pair in paired_metrics((baseline.scores, candidate.scores), wanted, repeated=repeated):
        statistical.add(pair)
    return statistical


def _verdict(
    cases: PairedCases,
    thresholds: ComparisonConfig,
    statistics: StatisticalVerdict | None,
    differing: tuple[Mismatch, ...],
) -> ComparisonVerdict:
    """What the rules and the statistics say; in mode `statistics` only these decide the ending."""
    fired_by_case = dict(fired_rules(*cases.by_case, thresholds))
    by_execution = fired_rules(cases.baseline, cases.candidate, thresholds)
    fired = tuple(why for rule, why in by_execution if rule in fired_by_case)
    # Runs that cannot be compared end so whatever fired; in mode `both` the rules decide, and the
    # statistics are only shown (docs/decisions.md, decision 47).
    ending: Ending = "regressed" if fired else "fine"
    if differing and not thresholds.allow:
        ending = "not_comparable"
    elif thresholds.mode == "statistics" and statistics is not None:
        word = statistics.verdict
        ending = word if word in ("regressed", "inconclusive") else "fine"
    return ComparisonVerdict(
        regression_detected=bool(fired),
        reasons=fired,
        thresholds_used={name: getattr(thresholds, name) for name in RULES},
        mode=thresholds.mode,
        statistics=statistics,
        mismatches=differing,
        ending=ending,
    )


_NO_CALLS: Final = (
    "no conversation of the candidate holds a tool call, though the baseline's do: the agent calls no "
    "tools any more, or they are not recorded"
)


def _doubted(
    verdict: ComparisonVerdict, summaries: tuple[RunSummary, RunSummary]
) -> ComparisonVerdict:
    """The verdict with the doubts about it: scores that are missing never make it better.

    A run under its coverage leaves the ending open, whatever its numbers are; a candidate without
    tool calls does so only where nothing got worse.
    """
    uncovered = [
        f"the {role} {INCONCLUSIVE_RUN}"
        for role, summary in zip(SIDES, summaries, strict=True)
        if summary.outcome == "inconclusive"
    ]
    lacks_calls = [NO_TOOL_TRACE in "\n".join(summary.warnings) for summary in summaries]
    untraced = [_NO_CALLS] if lacks_calls == [False, True] else []
    is_open = uncovered if verdict.ending == "regressed" else uncovered or untraced
    ending = "inconclusive" if is_open and verdict.ending != "not_comparable" else verdict.ending
    return verdict.model_copy(update={"doubts": (*uncovered, *untraced), "ending": ending})


def _summary(run: RunData, role: str) -> RunSummary:
    if run.status != COMPLETE or run.summary is None:
        raise NotComparable(
            f"{role} run {run.run_id!r} has status {run.status!r}; "
            f"only {COMPLETE!r} runs are compared"
        )
    return run.summary


def _aggregate(
    runs: tuple[RunData, RunData],
    cases: PairedCases,
    summaries: tuple[RunSummary, RunSummary],
    metrics: list[MetricAggregate],
) -> ComparisonAggregate:
    # Of repeated cases each repetition counts as an execution of its own.
    p95 = cases.latency_p95_ms or (_p95(runs[0], cases), _p95(runs[1], cases))
    pairs = [
        *zip(cases.baseline, cases.candidate, strict=True),  # pass rate, score, mean latency
        p95,
        [run.total_estimated_cost_usd for run in summaries],
    ]
    pass_rate, score, latency_avg, latency_p95, cost = (
        None if before is None or after is None else rounded_value(after - before)
        for before, after in pairs
    )
    return ComparisonAggregate(
        baseline_metrics=summaries[0],
        candidate_metrics=summaries[1],
        pass_rate_delta=pass_rate,
        avg_score_delta=score,
        latency_avg_delta_ms=latency_avg,
        latency_p95_delta_ms=latency_p95,
        cost_delta_usd=cost,
        total_regressions=cases.statuses.get("regression", 0),
        total_improvements=cases.statuses.get("improvement", 0),
        total_unchanged=cases.statuses.get("unchanged", 0),
        total_errors=cases.statuses.get("error", 0),
        per_metric_aggregate_deltas=tuple(metrics),
    )


def _p95(run: RunData, cases: PairedCases) -> float | None:
    executed = executions(run.cases)
    if cases.keys is not None and cases.matched:
        hashed = executed.with_columns(pl.col("case_id").hash())
        executed = hashed.join(cases.keys.lazy(), on="case_id", how="semi")
    latencies = collect_rows(executed.select("agent_latency_ms"))["agent_latency_ms"]
    return quantile(latencies, 0.95)


def _warnings(
    runs: tuple[RunData, RunData],
    cases: PairedCases,
    judged_otherwise: Sequence[str],
    summaries: tuple[RunSummary, RunSummary],
) -> Iterator[str]:
    """Write a sentence for everything a reader must know before believing the verdict."""
    yield from suite_warnings(runs)
    if judged_otherwise:
        names = ", ".join(judged_otherwise)
        yield f"the runs were judged differently ({names}): a change need not be the agent's"
    alone = cases.alone
    about_cases = {  # sentence -> whether it applies
        "the runs share no case: each is taken as a whole, and they are only roughly alike": (
            not cases.matched
        ),
        f"the runs executed different cases: {cases.matched} matched, {alone[0]} only in the "
        f"baseline, {alone[1]} only in the candidate; the rules look at the matched ones": (
            cases.matched and any(alone)
        ),
        f"{cases.uneven} cases have different numbers of repetitions in the two runs; a rule fires "
        "only if it also does with each case counted once": cases.uneven,
        f"{cases.uneven_numbers} cases have a score or a latency of different numbers of "
        "repetitions in the two runs; the rule about it fires only if it also does with each case "
        "counted once": cases.uneven_numbers,
        f"{cases.unscored} cases have a score in one run only; neither average score counts "
        "them": cases.unscored,
    }
    yield from (text for text, applies in about_cases.items() if applies)
    sides = (cases.baseline, cases.candidate)
    for role, side, summary in zip(SIDES, sides, summaries, strict=True):
        yield from _run_warnings(f"the {role} run", side, summary)
    if cases.baseline.score is None or cases.candidate.score is None:
        yield "average score rule skipped: no overall scores to compare"
    if cases.baseline.latency_ms is None or cases.candidate.latency_ms is None:
        yield "latency rule skipped: no latencies to compare"
    elif not cases.baseline.latency_ms:
        yield "latency rule skipped: the baseline's average latency is 0"


def _run_warnings(run: str, side: RuleFigures, summary: RunSummary) -> Iterator[str]:
    if side.pass_rate is None:
        yield f"{run} executed no case: no rule could be applied"
    if summary.outcome == "inconclusive":
        yield (
            f"{run} is inconclusive (coverage {summary.coverage}, floor "
            f"{summary.min_coverage}): that no rule fired does not mean that nothing got worse"
        )
    if summary.pass_flagged_count:
        yield (
            f"{run}: {summary.pass_flagged_count} passes are flagged and count as not "
            "passed (docs/judges.md)"
        )
    # A judge model that changed during a run may have moved the scores as much as the agent.
    mixed = (caution for caution in summary.warnings if caution.startswith(MIXED_JUDGE))
    yield from (f"{run}: {caution}" for caution in mixed)
