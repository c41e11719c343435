"""The summary of a run, computed from its rows: two thresholds, coverage, and all other numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from assizes.judge.config.run import RunConfig
from assizes.judge.engine.ledger import Account
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
from assizes.judge.summary.reconcile import reconcile, reconcile_scores
from assizes.judge.summary.repetitions import reliability
from assizes.judge.summary.run_intervals import run_intervals
from assizes.judge.summary.run_summary import FailureCode, Outcome, RunSummary
from assizes.judge.summary.spending import known_cost_usd, spending
from assizes.judge.summary.vote_stability import stability
from assizes.judge.verdicts.executions import (
    CASE,
    PASS_FLAGGED,
    agent_latency,
    collect_rows,
    executions,
    states,
)

GATES = ("expected_outcomes", "overall_score", "error")
"""Gates that every summary counts; other gates are counted where they decided a case."""

_LEDGER_ROUNDING = 1e-3
"""Share of the dollars that rounding may lose: the ledger keeps whole nano-dollars per call."""


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
        config: the run's configuration, with the thresholds.
        intake: counts of the records: `read`, and where there are any `duplicate`, `quarantined`,
            `unselected` (left out by filter, sample or limit), `not_attempted`, and `reused`
            (judged cases whose verdict comes from an earlier run).
        judges: the judges of the run; their metrics hold the gates and the published names.

    Raises:
        Unreconciled: when the records read, or the scores due, are not the sum of their parts.
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
            "published": published_numbers(scores, metrics),
            "counts": _counts(tally, intake),
            "score_counts": reconcile_scores(tally.total(), judges, metrics),
            **reliability(cases, scores, published_names(metrics)),
            "stability": stability(scores),
            "intervals": run_intervals(cases, scores, metrics, counts, tiers),
            "warnings": cautions(cases, asks),
        }
    )


def with_ledger(summary: RunSummary, account: Account, asks: pl.LazyFrame) -> RunSummary:
    """The summary with the run's dollars in the ledger: in all, and beside those in its rows.

    The summary stays as it is where the ledger holds less than the rows: then calls of the run were
    counted in other ledgers, on other machines. It also stays where a call has no known price.

    Args:
        summary: the summary of the rows.
        account: the run's account in the ledger.
        asks: rows of `asks`, of the same run.
    """
    in_rows = known_cost_usd(asks)
    if account.unpriced or account.usd < in_rows * (1 - _LEDGER_ROUNDING):
        return summary
    spent = rounded_value(account.usd)
    return summary.model_copy(
        update={"spent_usd": spent, "spent_outside_rows_usd": rounded_value(spent - in_rows)}
    )


def _tally(cases: pl.LazyFrame) -> Counter[str]:
    """The number of rows in each state."""
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
    """Both dimensions of seed 001, mean score and pass rate, with their inclusive thresholds."""
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
    """Scored / due headline scores; the scores that an errored case has no rows for are due too."""
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
