"""Case values of a run's numbers beside verdicts, scores and metrics: tiers, the overall
assessment, repeated trials, the agent's latency and cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import comb
from typing import Final

import polars as pl

from assizes.judge.statistics.clusters import Sample
from assizes.judge.statistics.counted import CountedSample
from assizes.judge.summary.case_values import KEY, Number, counted_values, key, sample
from assizes.judge.summary.headlines import (
    METRIC,
    OVERALL,
    MetricSummary,
    headlines,
    published_names,
    quality,
    tier_points,
)
from assizes.judge.verdicts.executions import CASE, collect_rows, executions

_LATENCIES: Final = {"latency_avg_ms": None, "latency_p50_ms": 0.5, "latency_p95_ms": 0.95}


def agent_numbers(
    cases: pl.LazyFrame, clusters: pl.DataFrame | None
) -> Iterator[tuple[str, Number]]:
    """Latency over the executions that measured it, cost over those that recorded it.

    The interval of the total cost is that of another run of as many such executions. Without
    `clusters` every case stands alone and was executed once.
    """
    measured = collect_rows(
        executions(cases).select(
            key(),
            pl.col("agent_latency_ms", "agent_cost_usd").cast(pl.Float64),
        )
    )
    for name, quantile in _LATENCIES.items():
        averaged = quantile is None and clusters is not None
        rows = _case_averages(measured, "agent_latency_ms") if averaged else measured
        values = sample(rows, "agent_latency_ms", clusters)
        yield name, _amount(values, measured["agent_latency_ms"])._replace(quantile=quantile)
    rows = measured if clusters is None else _case_averages(measured, "agent_cost_usd")
    values = sample(rows, "agent_cost_usd", clusters)
    cost = _amount(values, measured["agent_cost_usd"])
    yield "total_agent_cost_usd", cost._replace(times=float(cost.known))


def _case_averages(measured: pl.DataFrame, column: str) -> pl.DataFrame:
    return measured.group_by(KEY).agg(pl.col(column).mean())


def _amount(values: Sample, column: pl.Series) -> Number:
    known = len(column) - column.null_count()
    return Number(values, known, column.null_count(), least=0.0, most=None)


def tier_numbers(
    cases: pl.LazyFrame,
    scores: pl.LazyFrame,
    tiers: Mapping[str, pl.DataFrame],
    clusters: pl.DataFrame | None,
) -> Iterator[tuple[str, Number]]:
    """Mean score of each tier, 0..100; an errored case has none.

    Where every case stands alone, `tiers` say all: how often each score occurs.
    """
    errored = executions(cases).filter(pl.col("state") == "errored").select(CASE)
    missing = collect_rows(errored.select(pl.len())).item()
    for tier, counts in tiers.items():
        known = int(counts["rows"].sum())
        values: Sample | CountedSample
        if clusters is None:
            values = counted_values(counts, "points")
        else:
            points = tier_points(scores, errored, tier).group_by(key())
            averaged = collect_rows(points.agg(pl.col("points").mean()).sort(KEY))
            values = sample(averaged, "points", clusters)
        yield f"tiers/{tier}", Number(values, known, missing, most=100.0)


def assessment_numbers(
    scores: pl.LazyFrame, metrics: Sequence[MetricSummary], clusters: pl.DataFrame | None
) -> Iterator[tuple[str, Number]]:
    """The share of yes among the cases where the quality judges come to a yes or a no."""
    if not any(metric.gate == "quality" for metric in metrics):
        return
    yes = (pl.col("rating") == "yes").cast(pl.Float64)
    ratings = collect_rows(
        quality(scores, metrics)
        .group_by(key())
        .agg(yes.mean().alias("yes"), known=pl.col("rating").count(), rows=pl.len())
    )
    known = int(ratings["known"].sum())
    missing = int(ratings["rows"].sum()) - known
    yield OVERALL, Number(sample(ratings, "yes", clusters), known, missing, rate=True)


def trial_numbers(
    cases: pl.LazyFrame,
    scores: pl.LazyFrame,
    metrics: Sequence[MetricSummary],
    clusters: pl.DataFrame,
) -> Iterator[tuple[str, Number]]:
    """pass^k and pass@k of the verdict, and of every metric that passes or fails.

    As in `assizes.judge.summary.repetitions`, a trial whose verdict could not be had did not succeed.
    """
    by_verdict = collect_rows(
        executions(cases)
        .group_by(key())
        .agg(
            trials=pl.len(),
            successes=(pl.col("state") == "passed").sum(),
            missing=(pl.col("state") == "errored").sum(),
        )
    )
    yield from _by_k("", by_verdict, clusters)
    success, failed = pl.col("success"), pl.col("status") == "failed"
    for (judge, metric), name in published_names(metrics).items():
        rows = headlines(scores).filter(
            (pl.col(METRIC[0]) == judge) & (pl.col(METRIC[1]) == metric)
        )
        tried = rows.filter(success.is_not_null() | failed).group_by(key())
        trial_rows = collect_rows(
            tried.agg(trials=pl.len(), successes=success.sum(), missing=failed.sum())
        )
        if int(trial_rows["trials"].sum()) > int(trial_rows["missing"].sum()):
            yield from _by_k(f"{name}/", trial_rows, clusters)


def _by_k(
    prefix: str, tallies: pl.DataFrame, clusters: pl.DataFrame
) -> Iterator[tuple[str, Number]]:
    most = tallies["trials"].max()
    if not isinstance(most, int) or most < 2:
        return
    pairs = tallies.select("trials", "successes").unique().sort("trials", "successes")
    for k in range(1, most + 1):
        shares = pairs.filter(pl.col("trials") >= k).with_columns(
            pl.Series("all", [comb(c, k) / comb(n, k) for n, c in pairs.rows() if n >= k]),
            pl.Series("one", [1 - comb(n - c, k) / comb(n, k) for n, c in pairs.rows() if n >= k]),
        )
        rows = tallies.join(shares, on=["trials", "successes"])
        missing = int(rows["missing"].sum())
        known = int(rows["trials"].sum()) - missing
        for name, column in ((f"{prefix}pass^{k}", "all"), (f"{prefix}pass@{k}", "one")):
            values = sample(rows, column, clusters)
            yield name, Number(values, known, missing, rate=True, most=None)
