"""The scores of a run become its summary: two gates, coverage, and the numbers behind them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, field_validator

from assizes.judge.config.run import RunConfig
from assizes.judge.protocol import Judge
from assizes.judge.statistics.exact import mean_of_counts, reaches, rounded_value
from assizes.judge.summary.cautions import cautions
from assizes.judge.summary.headlines import (
    MetricSummary,
    metric_counts,
    metric_summaries,
    published_names,
    published_numbers,
    tier_counts,
    tier_scores,
)
from assizes.judge.summary.population import PopulationNumber
from assizes.judge.summary.reconcile import reconcile, reconcile_scores
from assizes.judge.summary.repetitions import reliability
from assizes.judge.summary.run_intervals import NumberInterval, run_intervals
from assizes.judge.summary.spending import (
    JudgeSpending,
    ModelCalls,
    estimated_share,
    judge_spending,
    model_calls,
    spending,
)
from assizes.judge.summary.vote_stability import Stability, stability
from assizes.judge.verdicts.executions import (
    CASE,
    PASS_FLAGGED,
    agent_latency,
    collect_rows,
    executions,
    states,
)

Outcome = Literal["passed", "failed", "inconclusive"]

GATES = ("expected_outcomes", "overall_score", "error")
"""Counted in every run; the other gates where they decided something."""

COUNTS = (
    "read",
    "judged",
    "reused",
    "quarantined",
    "duplicate",
    "errored",
    "skipped",
    "not_attempted",
)
"""What became of the records read; the first is the sum of the others, always."""


class _SummaryPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FailureCode(_SummaryPart):
    """How often a metric failed in one way."""

    metric: str
    failure_code: str
    count: int


class RunSummary(_SummaryPart):
    """The aggregate of a run (seed 001). Null means not known, never failed.

    Fractions run 0..1 (`pass_rate`, `coverage`), `_pct` and scores 0..100. Skipped cases are no
    executions. The two means of scores are equal; both names are public.
    """

    outcome: Outcome = Field(
        description="inconclusive: coverage under its floor, or no verdict; failed: a gate missed"
    )
    unique_test_case_count: int
    total_executions: int
    passed_count: int
    failed_count: int
    error_count: int
    undecided_count: int = Field(description="judged, but no gate applied; not passed")
    pass_flagged_count: int = Field(
        default=0,
        description="passes of cases that speak to their judges, or whose agent says nothing: not "
        "passed, see `flags`",
    )
    skipped_count: int
    pass_rate: float = Field(description="passed / executions; 0 for an empty run")
    latency_p50_ms: float | None = Field(description="over each case's median agent latency")
    latency_p95_ms: float | None
    latency_max_ms: float | None
    latency_avg_ms: float | None
    total_agent_token_usage: dict[str, int] | None = Field(
        description="input, output, total over the cases that recorded them; unknown ones left out"
    )
    total_platform_token_usage: dict[str, int] | None = Field(
        description="of the judge model, kept replies not counted"
    )
    total_agent_cost_usd: float | None = Field(
        description="over the cases that recorded it; null when none did"
    )
    total_platform_cost_usd: float | None = Field(
        description="of the judge model; null when any paid call has no known price"
    )
    total_estimated_cost_usd: float | None = Field(
        description="agent and judge; null when either is"
    )
    avg_overall_score: float | None
    weighted_metrics_score_pct: float | None
    metrics_pass_threshold: float
    metrics_passed: bool | None
    cases_pass_rate_pct: float | None
    cases_pass_threshold: float
    cases_passed: bool | None
    coverage: float | None = Field(
        description="scored / due headline scores of the metrics that decide cases, by weight or "
        "by a gate (of all, where none does); null when none is due"
    )
    min_coverage: float
    gates: dict[str, int]
    tier_scores: dict[str, float]
    metrics: tuple[MetricSummary, ...]
    failure_codes: tuple[FailureCode, ...]
    failures: dict[str, int] = Field(description="failed headline scores by error code")
    root_causes: dict[str, int]
    model_calls: ModelCalls
    judges: dict[str, JudgeSpending] = Field(
        default_factory=dict, description="what each judge asked, by its name"
    )
    published: dict[str, float] = Field(
        default_factory=dict,
        description="means under the names of seed 004, e.g. "
        "`response/llm_judged/correctness/rating/percentage`; without a rating a name is left out",
    )
    flags: dict[str, int] = Field(
        default_factory=dict, description="cases by what was flagged in them, passed or not"
    )
    counts: dict[str, int] = Field(
        description="read = judged + reused + quarantined + duplicate + errored + skipped "
        "+ not_attempted"
    )
    score_counts: dict[str, int] = Field(
        default_factory=dict,
        description="due = scored + skipped + failed, over the metrics that the judges promise, one "
        "headline score in each case that was heard",
    )
    pass_hat_k: dict[str, float] = Field(
        description="`pass^k`, and `<metric>/pass^k` where a metric passes or fails; empty without "
        "repetitions"
    )
    pass_at_k: dict[str, float]
    stability: tuple[Stability, ...] = Field(
        default=(), description="of metrics that a panel or repeats voted on"
    )
    spent_usd: float | None = Field(
        default=None,
        description="all that the run paid over its sittings, by the ledger; at the worst case "
        "where a cost is not known; null without a ledger or a price",
    )
    spent_outside_rows_usd: float | None = Field(
        default=None,
        description="the part of it that no row holds: calls of interrupted sittings, lost calls",
    )
    cost_estimated: float | None = Field(
        default=None,
        description="share of the judge's cost whose tokens were not metered; null: none",
    )
    intervals: dict[str, NumberInterval] = Field(
        default_factory=dict, description="how sure the numbers are, by the names of `run_metrics`"
    )
    population: dict[str, PopulationNumber] = Field(
        default_factory=dict,
        description="of a sample: what the numbers are for all cases it was drawn from",
    )
    warnings: tuple[str, ...] = Field(
        default=(), description="what to know before believing the numbers, one line each"
    )

    @field_validator("counts")
    @classmethod
    def _counts_in_order(cls, counts: dict[str, int]) -> dict[str, int]:
        """Stored JSON has sorted keys; what people read keeps the order of the equation."""
        return {name: counts.get(name, 0) for name in COUNTS}


def summarise(
    cases: pl.LazyFrame,
    scores: pl.LazyFrame,
    asks: pl.LazyFrame,
    config: RunConfig,
    intake: Mapping[str, int],
    judges: Sequence[Judge] = (),
) -> RunSummary:
    """The summary of a run.

    Args:
        cases: rows of `cases`, of one run.
        scores: rows of `scores`.
        asks: rows of `asks`.
        config: the run's configuration; its thresholds gate.
        intake: what became of the records that were read: `read`, and where there are any
            `duplicate`, `quarantined`, `unselected` (left out by filter, sample or limit),
            `not_attempted`, and `reused` (those of the judged cases that an earlier run judged).
        judges: those who sat; they know how their metrics gate and what they are published as.

    Raises:
        Unreconciled: when records read or scores due are not the sum of what became of them.
    """
    tally = _tally(cases)
    metrics = metric_summaries(counts := metric_counts(scores), judges)
    tiers = tier_counts(scores, _errored_cases(cases), counts)
    coverage = _coverage(cases, scores, metrics)
    gates = _gate_numbers(cases, tally, config)
    return RunSummary.model_validate(
        {
            **_case_numbers(cases, tally),
            **spending(cases, asks),
            **gates,
            "outcome": _outcome(tally, coverage, gates),
            "coverage": coverage,
            "gates": _gate_counts(cases),
            "tier_scores": tier_scores(tiers),
            "metrics": metrics,
            "failure_codes": _failure_codes(scores),
            "failures": _failures(scores),
            "root_causes": _value_counts(cases.select(name="root_cause")),
            "model_calls": model_calls(asks),
            "judges": judge_spending(asks),
            "published": published_numbers(scores, metrics),
            **_equations(tally, intake, judges, metrics),
            **_certainty(cases, scores, metrics, (counts, tiers)),
            "cost_estimated": estimated_share(asks),
            "warnings": cautions(cases, asks),
        }
    )


def _tally(cases: pl.LazyFrame) -> Counter[str]:
    """Rows by state."""
    counted = collect_rows(states(cases).group_by("state").agg(rows=pl.len()))
    return Counter(dict(counted.rows()))


def _errored_cases(cases: pl.LazyFrame) -> pl.LazyFrame:
    return executions(cases).filter(pl.col("state") == "errored").select(CASE)


def _case_numbers(cases: pl.LazyFrame, tally: Counter[str]) -> dict[str, Any]:
    executed = executions(cases)
    latency = agent_latency(executed)
    run = tally.total() - tally["skipped"]
    return {
        "unique_test_case_count": collect_rows(
            executed.select(pl.col("case_id").hash().n_unique())
        ).item(),
        "total_executions": run,
        "passed_count": tally["passed"],
        "failed_count": tally["failed"],
        "error_count": tally["errored"],
        "undecided_count": tally["undecided"],
        "pass_flagged_count": tally[PASS_FLAGGED],
        "flags": _value_counts(cases.select(name=pl.col("flags")).explode("name")),
        "skipped_count": tally["skipped"],
        "pass_rate": rounded_value(tally["passed"] / run) if run else 0.0,
        "latency_p50_ms": latency.p50,
        "latency_p95_ms": latency.p95,
        "latency_max_ms": latency.max,
        "latency_avg_ms": latency.avg,
    }


def _gate_numbers(
    cases: pl.LazyFrame, tally: Counter[str], config: RunConfig
) -> dict[str, float | bool | None]:
    """Both dimensions of seed 001 with their thresholds, each inclusive."""
    scored = executions(cases).filter(pl.col("state") != "errored").drop_nulls("overall_score")
    counted = collect_rows(scored.group_by("overall_score").agg(rows=pl.len()))
    score = mean_of_counts(counted.rows())
    run = tally.total() - tally["skipped"]
    # Multiplied before dividing: 29 of 50 is 58, not 57.99999999999999.
    rate = rounded_value(tally["passed"] * 100 / run) if run else None
    limits = config.thresholds
    return {
        "avg_overall_score": score,
        "weighted_metrics_score_pct": score,
        "metrics_pass_threshold": limits.metrics_pass_threshold,
        "metrics_passed": reaches(score, limits.metrics_pass_threshold),
        "cases_pass_rate_pct": rate,
        "cases_pass_threshold": limits.cases_pass_threshold,
        "cases_passed": reaches(rate, limits.cases_pass_threshold),
        "min_coverage": limits.min_coverage,
    }


def _outcome(tally: Counter[str], coverage: float | None, gates: Mapping[str, Any]) -> Outcome:
    covered = reaches(coverage, gates["min_coverage"])
    if covered is False or not tally["passed"] + tally["failed"]:
        return "inconclusive"
    missed = False in (gates["metrics_passed"], gates["cases_passed"])
    return "failed" if missed else "passed"


def _coverage(
    cases: pl.LazyFrame, scores: pl.LazyFrame, metrics: Sequence[MetricSummary]
) -> float | None:
    """Scored / due; a score that an errored case lacks altogether is due as well."""
    deciding = [metric for metric in metrics if metric.weight or metric.gate]
    counted = deciding or metrics
    scored = sum(metric.scored for metric in counted)
    due = scored + sum(metric.failed for metric in counted)
    errored = collect_rows(_errored_cases(cases))
    if errored.height:
        named = pl.DataFrame(
            {"judge": [m.judge for m in counted], "metric": [m.name for m in counted]},
            schema={"judge": pl.String, "metric": pl.String},
        )
        rows = (
            scores.filter(pl.col("part") == "")
            .join(named.lazy(), on=["judge", "metric"], how="semi")
            .join(errored.lazy(), on=CASE, how="semi")
        )
        present = collect_rows(rows.select(pl.len())).item()
        due += errored.height * max(1, len(counted)) - present
    return rounded_value(scored / due) if due else None


def _value_counts(names: pl.LazyFrame) -> dict[str, int]:
    """How often each value of the column `name` occurs, the most frequent first."""
    counted = names.drop_nulls().group_by("name").agg(rows=pl.len())
    ordered = counted.sort("rows", "name", descending=[True, False])
    return {str(name): int(rows) for name, rows in collect_rows(ordered).rows()}


def _gate_counts(cases: pl.LazyFrame) -> dict[str, int]:
    counted = _value_counts(executions(cases).select(name="gate"))
    others = [gate for gate in counted if gate not in GATES]
    return {gate: counted.get(gate, 0) for gate in (*GATES, *others)}


def _failures(scores: pl.LazyFrame) -> dict[str, int]:
    failed = scores.filter((pl.col("part") == "") & (pl.col("status") == "failed"))
    code = pl.col("details").str.json_path_match("$.error")
    return _value_counts(failed.select(name=code.fill_null("unknown")))


def _failure_codes(scores: pl.LazyFrame) -> tuple[FailureCode, ...]:
    counted = collect_rows(
        scores.filter(pl.col("part") == "")
        .drop_nulls("failure_code")
        .group_by("metric", "failure_code")
        .agg(count=pl.len())
        .sort("count", "metric", "failure_code", descending=[True, False, False])
    )
    return tuple(FailureCode.model_validate(row) for row in counted.rows(named=True))


def _counts(tally: Counter[str], intake: Mapping[str, int]) -> dict[str, int]:
    reused = intake.get("reused", 0)
    decided = ("passed", "failed", PASS_FLAGGED, "undecided")
    judged = sum(tally[state] for state in decided) - reused
    parts = {
        "judged": judged,
        "reused": reused,
        "quarantined": intake.get("quarantined", 0),
        "duplicate": intake.get("duplicate", 0),
        "errored": tally["errored"],
        "skipped": tally["skipped"] + intake.get("unselected", 0),
        "not_attempted": intake.get("not_attempted", 0),
    }
    read = intake["read"]
    reconcile("records read", read, parts)
    return {"read": read, **parts}


def _equations(
    tally: Counter[str],
    intake: Mapping[str, int],
    judges: Sequence[Judge],
    metrics: Sequence[MetricSummary],
) -> dict[str, Any]:
    return {
        "counts": _counts(tally, intake),
        "score_counts": reconcile_scores(tally.total(), judges, metrics),
    }


def _certainty(
    cases: pl.LazyFrame,
    scores: pl.LazyFrame,
    metrics: Sequence[MetricSummary],
    counted: tuple[pl.DataFrame, Mapping[str, pl.DataFrame]],
) -> dict[str, Any]:
    intervals = run_intervals(cases, scores, metrics, *counted)
    steady = reliability(cases, scores, published_names(metrics))
    return {**steady, "stability": stability(scores), "intervals": intervals}
