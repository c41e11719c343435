"""The case values from which the numbers of a run and their intervals are computed.

A number is the mean of one value for each case (a quantile: of one value for each execution), with
the cluster of each case and with the count of values that are missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import comb
from typing import Final, NamedTuple

import polars as pl

from assizes.judge.statistics.clusters import Sample
from assizes.judge.statistics.counted import CountedSample
from assizes.judge.summary.headlines import (
    METRIC,
    OVERALL,
    MetricSummary,
    headlines,
    published_names,
    quality_ratings,
    tier_points,
)
from assizes.judge.verdicts.executions import CASE, collect_rows, executions

KEY: Final = "key"
"""Column with the hash of a case's id: in a large run numbers take less memory than text."""

_LATENCIES: Final = {"latency_avg_ms": None, "latency_p50_ms": 0.5, "latency_p95_ms": 0.95}
"""The quantile 0..1 of each latency figure; `None` for the mean."""


class RunNumber(NamedTuple):
    """One number of a run: its case values, and how its interval is computed.

    Attributes:
        values: one value for each case; for a quantile one for each execution.
        known: how many executions, or scores, have a value.
        missing: how many executions, or scores, should have a value and have none.
        rate: whether the values are shares of passes.
        least: the smallest possible value; `None` where it is not known.
        most: the best possible value. `None` for amounts: missing amounts have no bounds.
        total: the sum over the known values; `None` where it is mean x known.
        quantile: the number is this quantile 0..1 of the values; `None`: it is their mean.
        times: the number is the mean times this factor.
    """

    values: Sample | CountedSample
    known: int
    missing: int
    rate: bool = False
    least: float | None = None
    most: float | None = 1.0
    total: float | None = None
    quantile: float | None = None
    times: float = 1.0


def case_key() -> pl.Expr:
    """The expression for the column `key` of a row's case."""
    return pl.col("case_id").hash().alias(KEY)


def clusters_of(cases: pl.LazyFrame) -> pl.DataFrame:
    """The cluster of each case as a number, in columns `key` and `code`.

    A case without a cluster is a cluster of its own.
    """
    # The prefixes keep the id of a case apart from a cluster of the same name.
    alone = pl.concat_str(pl.lit("i:"), pl.col("case_id"))
    named = pl.coalesce(pl.concat_str(pl.lit("c:"), "cluster"), alone)
    return collect_rows(
        executions(cases)
        .group_by(case_key())
        .agg(code=named.first().hash())
        .with_columns(code=pl.col("code").rank("dense").cast(pl.Int64))
    )


def sample(frame: pl.DataFrame, column: str, clusters: pl.DataFrame | None) -> Sample:
    """The known values of a column with their clusters; without clusters each row is its own."""
    if clusters is None:
        return Sample.of(frame[column].drop_nulls().sort().to_numpy())
    return coded_sample(frame.select(KEY, column).drop_nulls().join(clusters, on=KEY), column)


def coded_sample(rows: pl.DataFrame, column: str) -> Sample:
    """The known values of a column with their clusters, which the column `code` holds."""
    known = rows.select("code", column).drop_nulls().sort("code", column)
    return Sample(known[column].to_numpy(), known["code"].to_numpy())


def counted_values(frame: pl.DataFrame, column: str) -> CountedSample:
    """The known values of a column; the column `rows` says how often each value occurs."""
    known = frame.select(pl.col(column).cast(pl.Float64), "rows").drop_nulls(column)
    frequencies = known.group_by(column).agg(pl.col("rows").sum().cast(pl.Float64)).sort(column)
    return CountedSample(frequencies[column].to_numpy(), frequencies["rows"].to_numpy())


def agent_numbers(
    cases: pl.LazyFrame, clusters: pl.DataFrame | None
) -> Iterator[tuple[str, RunNumber]]:
    """The agent's latency and cost, over the executions that recorded them.

    The interval of the total cost is that of another run with as many such executions.

    Args:
        cases: rows of `cases`, of one run.
        clusters: the clusters of the cases; `None` where every case is independent and was executed
            once.
    """
    measured = collect_rows(
        executions(cases).select(
            case_key(),
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


def _amount(values: Sample, column: pl.Series) -> RunNumber:
    known = len(column) - column.null_count()
    return RunNumber(values, known, column.null_count(), least=0.0, most=None)


def tier_numbers(
    cases: pl.LazyFrame,
    scores: pl.LazyFrame,
    tiers: Mapping[str, pl.DataFrame],
    clusters: pl.DataFrame | None,
) -> Iterator[tuple[str, RunNumber]]:
    """The mean score of each tier, 0..100; an errored case has no score.

    Args:
        cases: rows of `cases`, of one run.
        scores: rows of `scores`.
        tiers: how often each score of a tier occurs; without clusters no more is needed.
        clusters: the clusters of the cases; `None` where every case is independent and was executed
            once.
    """
    errored = executions(cases).filter(pl.col("state") == "errored").select(CASE)
    missing = collect_rows(errored.select(pl.len())).item()
    for tier, counts in tiers.items():
        known = int(counts["rows"].sum())
        values: Sample | CountedSample
        if clusters is None:
            values = counted_values(counts, "points")
        else:
            points = tier_points(scores, errored, tier).group_by(case_key())
            averaged = collect_rows(points.agg(pl.col("points").mean()).sort(KEY))
            values = sample(averaged, "points", clusters)
        yield f"tiers/{tier}", RunNumber(values, known, missing, most=100.0)


def assessment_numbers(
    scores: pl.LazyFrame, metrics: Sequence[MetricSummary], clusters: pl.DataFrame | None
) -> Iterator[tuple[str, RunNumber]]:
    """The share of yes among the cases that the quality judges together rate yes or no."""
    if not any(metric.gate == "quality" for metric in metrics):
        return
    yes = (pl.col("rating") == "yes").cast(pl.Float64)
    ratings = collect_rows(
        quality_ratings(scores, metrics)
        .group_by(case_key())
        .agg(yes.mean().alias("yes"), known=pl.col("rating").count(), rows=pl.len())
    )
    known = int(ratings["known"].sum())
    missing = int(ratings["rows"].sum()) - known
    yield OVERALL, RunNumber(sample(ratings, "yes", clusters), known, missing, rate=True)


def trial_numbers(
    cases: pl.LazyFrame,
    scores: pl.LazyFrame,
    metrics: Sequence[MetricSummary],
    clusters: pl.DataFrame,
) -> Iterator[tuple[str, RunNumber]]:
    """pass^k and pass@k of the verdict, and of every metric that passes or fails.

    As in `assizes.judge.summary.repetitions`, a trial without a verdict did not succeed.
    """
    by_verdict = collect_rows(
        executions(cases)
        .group_by(case_key())
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
        tried = rows.filter(success.is_not_null() | failed).group_by(case_key())
        trial_rows = collect_rows(
            tried.agg(trials=pl.len(), successes=success.sum(), missing=failed.sum())
        )
        if int(trial_rows["trials"].sum()) > int(trial_rows["missing"].sum()):
            yield from _by_k(f"{name}/", trial_rows, clusters)


def _by_k(
    prefix: str, tallies: pl.DataFrame, clusters: pl.DataFrame
) -> Iterator[tuple[str, RunNumber]]:
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
            yield name, RunNumber(values, known, missing, rate=True, most=None)
