"""The summary of a run, computed from its rows: two thresholds, coverage, and all other numbers.

No record and no score disappears: a total must be the sum of its parts, and a run whose counts do
not add up stops with `Unreconciled`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import fsum
from typing import Any, Final

import polars as pl

from assizes.judge.config.run import RunConfig
from assizes.judge.engine.ledger import Account
from assizes.judge.errors import Unreconciled
from assizes.judge.protocol import Judge
from assizes.judge.statistics.exact import mean_of_counts, reaches, rounded_value
from assizes.judge.summary import headlines
from assizes.judge.summary.case_values import reliability
from assizes.judge.summary.headlines import METRIC, MetricSummary, published_names
from assizes.judge.summary.quotes import quote_counts, quote_lines
from assizes.judge.summary.run_intervals import run_intervals
from assizes.judge.summary.run_summary import Outcome, RunSummary
from assizes.judge.summary.spending import cautions, known_cost_usd, spending
from assizes.judge.summary.task_success import truth_lines, unjudged_count
from assizes.judge.verdicts.executions import (
    CASE,
    PASS_FLAGGED,
    collect_rows,
    executions,
    quantile,
    states,
)

GATES = ("expected_outcomes", "overall_score", "error")
"""Gates that every summary counts; other gates are counted where they decided a case."""

_STATUSES: Final = ("scored", "skipped", "failed")  # of a score

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
    """The summary of a run from its rows of `cases`, `scores` and `asks`.

    `intake` counts the records: `read`, and where there are any `duplicate`, `quarantined`,
    `unselected` (left out by filter, sample or limit), `not_attempted`, `not_needed` (left by a run
    that was decided early), and `reused` (judged cases whose verdict comes from an earlier run). The judges tell the gates and the published names.

    Raises:
        Unreconciled: when the records read, or the scores due, are not the sum of their parts.
    """
    by_state = states(cases).group_by("state").agg(pl.len())
    tally = Counter(dict(collect_rows(by_state).rows()))  # state -> cases
    metrics = headlines.metric_summaries(counts := headlines.metric_counts(scores), judges)
    errored = executions(cases).filter(pl.col("state") == "errored").select(CASE)
    tiers = headlines.tier_counts(scores, errored if tally["errored"] else None, counts)
    headline = scores.filter(pl.col("part") == "")
    error = pl.col("details").str.json_path_match("$.error").fill_null("unknown")
    codes = headline.drop_nulls("failure_code").group_by("metric", "failure_code")
    ordered_codes = codes.agg(count=pl.len()).sort(
        "count", "metric", "failure_code", descending=[True, False, False]
    )
    tier_means = ((tier, mean_of_counts(of.rows())) for tier, of in tiers.items())
    return RunSummary.model_validate(
        {
            **_case_numbers(cases, tally),
            **spending(cases, asks),
            **_gate_numbers(cases, tally, config, _coverage(errored, headline, metrics)),
            "gates": dict.fromkeys(GATES, 0) | _value_counts(executions(cases).select(name="gate")),
            "tier_scores": {tier: mean for tier, mean in tier_means if mean is not None},
            "metrics": metrics,
            "failure_codes": collect_rows(ordered_codes).rows(named=True),
            "failures": _value_counts(headline.filter(status="failed").select(name=error)),
            "root_causes": _value_counts(cases.select(name="root_cause")),
            "published": headlines.published_numbers(scores, metrics),
            **_reconciled_counts(tally, intake, judges, metrics),
            **reliability(cases, scores, published_names(metrics)),
            "stability": headlines.stability(scores),
            "intervals": run_intervals(cases, scores, metrics, counts, tiers),
            "task_unjudged_count": unjudged_count(cases, scores, asks, judges),
            **_remarks(cases, scores, asks),
        }
    )


def _remarks(cases: pl.LazyFrame, scores: pl.LazyFrame, asks: pl.LazyFrame) -> dict[str, Any]:
    """The counts of findings that misquote, and all warnings."""
    quotes = quote_counts(cases, scores, asks)
    lines = (*truth_lines(cases, scores), *cautions(cases, asks), *quote_lines(quotes))
    return {"quotes": quotes, "warnings": lines}


def reconcile(what: str, total: int, parts: Mapping[str, int]) -> None:
    """Check that a total is the sum of its parts: how many ended in which way.

    Raises:
        Unreconciled: when the sum differs from the total, or a part is negative.
    """
    if sum(parts.values()) == total and min(parts.values(), default=0) >= 0:
        return
    equation = " + ".join(f"{count} {name}" for name, count in parts.items())
    raise Unreconciled(f"counts do not reconcile: {total!r} {what}, but {equation or 'nothing'}")


def with_ledger(summary: RunSummary, account: Account, asks: pl.LazyFrame) -> RunSummary:
    """The summary with the run's dollars in the ledger: in all, and beside those in its asks.

    Where a call has no known price the run has no cost; where other ledgers count, the summary
    stays as it is.
    """
    if account.unpriced:  # of calls whose rows are not there, too: a sum without them looks cheap
        unknown = {"total_platform_cost_usd": None, "total_estimated_cost_usd": None}
        return summary.model_copy(update=unknown)
    # Less than in the rows: other calls of the run were counted in ledgers of other machines.
    in_rows = known_cost_usd(asks)
    if account.usd < in_rows * (1 - _LEDGER_ROUNDING):
        return summary
    spent = rounded_value(account.usd)
    return summary.model_copy(
        update={"spent_usd": spent, "spent_outside_rows_usd": rounded_value(spent - in_rows)}
    )


def _case_numbers(cases: pl.LazyFrame, tally: Counter[str]) -> dict[str, Any]:
    executed = executions(cases)
    unique = executed.select(pl.col("case_id").hash().n_unique())
    run = tally.total() - tally["skipped"]
    latencies = collect_rows(executed.select(pl.col("agent_latency_ms").drop_nulls())).to_series()
    longest = latencies.max()
    # An exact sum, since the mean must not depend on the order of the rows.
    mean = fsum(latencies.to_numpy()) / latencies.len() if latencies.len() else None
    return {
        "unique_test_case_count": collect_rows(unique).item(),
        "total_executions": run,
        "passed_count": tally["passed"],
        "failed_count": tally["failed"],
        "error_count": tally["errored"],
        "undecided_count": tally["undecided"],
        "pass_flagged_count": tally[PASS_FLAGGED],
        "flags": _value_counts(cases.select(name=pl.col("flags")).explode("name")),
        "skipped_count": tally["skipped"],
        "pass_rate": rounded_value(tally["passed"] / run) if run else 0.0,
        "latency_p50_ms": quantile(latencies, 0.5),
        "latency_p95_ms": quantile(latencies, 0.95),
        "latency_max_ms": longest if isinstance(longest, float) else None,
        "latency_avg_ms": mean and rounded_value(mean),
    }


def _gate_numbers(
    cases: pl.LazyFrame, tally: Counter[str], config: RunConfig, coverage: float | None
) -> dict[str, float | bool | str | None]:
    """Both dimensions of a run, mean score and pass rate, with their inclusive thresholds."""
    scored = executions(cases).filter(pl.col("state") != "errored").drop_nulls("overall_score")
    counted = collect_rows(scored.group_by("overall_score").agg(rows=pl.len()))
    score = mean_of_counts(counted.rows())
    run = tally.total() - tally["skipped"]
    # Multiplied before dividing: 29 of 50 is 58, not 57.99999999999999.
    rate = rounded_value(tally["passed"] * 100 / run) if run else None
    limits = config.thresholds
    metrics_passed = reaches(score, limits.metrics_pass_threshold)
    cases_passed = reaches(rate, limits.cases_pass_threshold)
    # A threshold without a number (None) neither passes nor fails the run.
    outcome: Outcome = "failed" if False in (metrics_passed, cases_passed) else "passed"
    decided = tally["passed"] + tally["failed"]
    if reaches(coverage, limits.min_coverage) is False or not decided:
        outcome = "inconclusive"
    best = mean_of_counts([*counted.rows(), (100.0, tally["errored"])])
    best_rate = (tally["passed"] + tally["errored"]) * 100 / run if decided else None
    best_passed = reaches(best, limits.metrics_pass_threshold)
    return {
        "outcome": outcome,
        "surely_failed": decided > 0
        and False in (best_passed, reaches(best_rate, limits.cases_pass_threshold)),
        "coverage": coverage,
        "avg_overall_score": score,
        "weighted_metrics_score_pct": score,
        "metrics_pass_threshold": limits.metrics_pass_threshold,
        "metrics_passed": metrics_passed,
        "cases_pass_rate_pct": rate,
        "cases_pass_threshold": limits.cases_pass_threshold,
        "cases_passed": cases_passed,
        "min_coverage": limits.min_coverage,
    }


def _coverage(
    errored: pl.LazyFrame, headline: pl.LazyFrame, metrics: Sequence[MetricSummary]
) -> float | None:
    """Scored / due headline scores; the scores that an errored case has no rows for are due too."""
    counted = [metric for metric in metrics if metric.weight or metric.gate] or metrics
    scored = sum(metric.scored for metric in counted)
    due = scored + sum(metric.failed for metric in counted)
    if (errored_rows := collect_rows(errored)).height:
        keys = [(metric.judge, metric.name) for metric in counted]
        named = pl.LazyFrame(keys, schema=dict.fromkeys(METRIC, pl.String), orient="row")
        of_errored = headline.join(errored_rows.lazy(), on=CASE, how="semi")
        rows = of_errored.join(named, on=METRIC, how="semi")
        present = collect_rows(rows.select(pl.len())).item()
        # An errored case owes a score for every metric; those with rows are counted already.
        due += errored_rows.height * max(1, len(counted)) - present
    return rounded_value(scored / due) if due else None


def _value_counts(names: pl.LazyFrame) -> dict[str, int]:
    """How often each value of the column `name` occurs, the most frequent first."""
    counted = names.drop_nulls().group_by("name").agg(rows=pl.len())
    ordered = counted.sort("rows", "name", descending=[True, False])
    return {str(name): int(rows) for name, rows in collect_rows(ordered).rows()}


def _reconciled_counts(
    tally: Counter[str],
    intake: Mapping[str, int],
    judges: Iterable[Judge],
    metrics: Iterable[MetricSummary],
) -> dict[str, dict[str, int]]:
    """The counts of the records, and of the scores over the metrics that the judges promise.

    Every promised metric must have exactly one headline score in every case.
    """
    reused = intake.get("reused", 0)
    judged = sum(tally[state] for state in ("passed", "failed", PASS_FLAGGED, "undecided"))
    counts = {
        "judged": judged - reused,  # a reused case has rows of this run as well
        "reused": reused,
        "quarantined": intake.get("quarantined", 0),
        "duplicate": intake.get("duplicate", 0),
        "errored": tally["errored"],
        "skipped": tally["skipped"] + intake.get("unselected", 0),
        "not_attempted": intake.get("not_attempted", 0),
        **({"not_needed": intake["not_needed"]} if intake.get("not_needed") else {}),
    }
    reconcile("records read", intake["read"], counts)
    cases, sums = tally.total(), Counter(dict.fromkeys(("due", *_STATUSES), 0))
    by_metric = {(metric.judge, metric.name): metric for metric in metrics}
    for judge in judges:
        for metric in judge.metrics:
            summary = by_metric.get((judge.name, metric.name))
            parts = {status: getattr(summary, status) if summary else 0 for status in _STATUSES}
            reconcile(f"scores due of {judge.name}/{metric.name}", cases, parts)
            sums.update({"due": cases, **parts})
    return {"counts": {"read": intake["read"], **counts}, "score_counts": dict(sums)}
