"""The case values behind the numbers of a run, and how reliable an agent is over repetitions.

A number is the mean of one value for each case; a quantile is taken over all executions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import groupby
from math import comb
from operator import itemgetter
from typing import Final, NamedTuple

import polars as pl

from assizes.judge.statistics.exact import rounded_value
from assizes.judge.statistics.intervals import CountedSample, Sample
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

_AMOUNTS: Final = {
    "latency_avg_ms": ("agent_latency_ms", None),
    "latency_p50_ms": ("agent_latency_ms", 0.5),
    "latency_p95_ms": ("agent_latency_ms", 0.95),
    "total_agent_cost_usd": ("agent_cost_usd", None),
}
"""The column of each amount and its quantile 0..1; `None` for the mean."""


class RunNumber(NamedTuple):
    """One number of a run: its case values, and how its interval is computed."""

    values: Sample | CountedSample  # one for each case; for a quantile one for each execution
    known: int  # executions or scores that have the value
    missing: int  # those that should have one
    rate: bool = False  # whether the values are shares of passes, 0..1
    least: float | None = None  # smallest possible value; None: not known
    most: float | None = 1.0  # best possible value; None for amounts, which have none
    total: float | None = None  # sum over the known values; None: mean x known
    quantile: float | None = None  # 0..1; None: the number is the mean of the values
    times: float = 1.0  # factor of the mean: a sum is mean x executions


CASE_KEY: Final = pl.col("case_id").hash().alias(KEY)
"""The expression for the column `key` of a row's case."""


def clusters_of(cases: pl.LazyFrame) -> pl.DataFrame:
    """The number of each case's cluster, in columns `key` and `code`; a case may be its own."""
    # The prefixes keep the id of a case apart from a cluster of the same name.
    alone = pl.concat_str(pl.lit("i:"), pl.col("case_id"))
    named = pl.coalesce(pl.concat_str(pl.lit("c:"), "cluster"), alone)
    by_case = executions(cases).group_by(CASE_KEY).agg(code=named.first().hash())
    return collect_rows(by_case.with_columns(code=pl.col("code").rank("dense").cast(pl.Int64)))


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

    `clusters` is `None` where every case is independent and was executed once.
    """
    amounts = pl.col("agent_latency_ms", "agent_cost_usd").cast(pl.Float64)
    measured = collect_rows(executions(cases).select(CASE_KEY, amounts))
    for name, (column, quantile) in _AMOUNTS.items():
        averaged = quantile is None and clusters is not None
        rows = measured.group_by(KEY).agg(pl.col(column).mean()) if averaged else measured
        missing = measured[column].null_count()
        known = measured.height - missing
        number = RunNumber(sample(rows, column, clusters), known, missing, least=0.0, most=None)
        # The interval of the total cost is that of another run with as many such executions.
        times = float(known) if column == "agent_cost_usd" else 1.0
        yield name, number._replace(quantile=quantile, times=times)


def tier_numbers(
    cases: pl.LazyFrame,
    scores: pl.LazyFrame,
    tiers: Mapping[str, pl.DataFrame],
    clusters: pl.DataFrame | None,
) -> Iterator[tuple[str, RunNumber]]:
    """The mean score of each tier, 0..100; an errored case has no score.

    `tiers` says how often each score of a tier occurs, which is enough where `clusters` is `None`:
    where every case is independent and was executed once.
    """
    errored = executions(cases).filter(pl.col("state") == "errored").select(CASE)
    missing = collect_rows(errored.select(pl.len())).item()
    for tier, counts in tiers.items():
        values: Sample | CountedSample
        if clusters is None:
            values = counted_values(counts, "points")
        else:
            points = tier_points(scores, errored, tier).group_by(CASE_KEY)
            averaged = collect_rows(points.agg(pl.col("points").mean()).sort(KEY))
            values = sample(averaged, "points", clusters)
        yield f"tiers/{tier}", RunNumber(values, int(counts["rows"].sum()), missing, most=100.0)


def assessment_numbers(
    scores: pl.LazyFrame, metrics: Sequence[MetricSummary], clusters: pl.DataFrame | None
) -> Iterator[tuple[str, RunNumber]]:
    """The share of yes among the cases that the quality judges together rate yes or no."""
    if not any(metric.gate == "quality" for metric in metrics):
        return
    yes = (pl.col("rating") == "yes").cast(pl.Float64)
    by_case = quality_ratings(scores, metrics).group_by(CASE_KEY)
    ratings = collect_rows(
        by_case.agg(yes=yes.mean(), known=pl.col("rating").count(), rows=pl.len())
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
    """pass^k and pass@k of the verdict, and of every metric that passes or fails."""
    passed, errored = ((pl.col("state") == state).sum() for state in ("passed", "errored"))
    by_case = executions(cases).group_by(CASE_KEY)
    by_verdict = collect_rows(by_case.agg(trials=pl.len(), successes=passed, missing=errored))
    yield from _trial_shares("", by_verdict, clusters)
    success, failed = pl.col("success"), pl.col("status") == "failed"
    for (judge, metric), name in published_names(metrics).items():
        rows = headlines(scores).filter((pl.col("judge") == judge) & (pl.col("metric") == metric))
        tried = rows.filter(success.is_not_null() | failed).group_by(CASE_KEY)
        trial_rows = collect_rows(
            tried.agg(trials=pl.len(), successes=success.sum(), missing=failed.sum())
        )
        # A metric whose scores all failed says nothing of pass or fail.
        if int(trial_rows["trials"].sum()) > int(trial_rows["missing"].sum()):
            yield from _trial_shares(f"{name}/", trial_rows, clusters)


def _trial_shares(
    prefix: str, tallies: pl.DataFrame, clusters: pl.DataFrame
) -> Iterator[tuple[str, RunNumber]]:
    most = tallies["trials"].max()
    if not isinstance(most, int) or most < 2:
        return
    # Cases with the same trials and successes have one value, so comb() runs for a few pairs.
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


_Tally = tuple[int, int, int]
"""Trials of a case, how many of them succeeded, and the number of cases with these two."""


def reliability(
    cases: pl.LazyFrame, scores: pl.LazyFrame, names: Mapping[tuple[str, str], str]
) -> dict[str, dict[str, float]]:
    """pass^k and pass@k of a run: of its cases, and of each metric under its published name.

    pass^k is the chance that k trials of a case all succeed, pass@k the chance that at least one
    does, for every k up to the most trials; both are empty when no case was repeated. An errored
    execution, and a failed score, is a trial without success; a skipped score is no trial.
    """
    if not collect_rows(cases.select((pl.col("repetition") > 0).any())).item():
        return {"pass_hat_k": {}, "pass_at_k": {}}  # no case was repeated
    by_case, passed = executions(cases).group_by(CASE_KEY), pl.col("state") == "passed"
    per_case = by_case.agg(trials=pl.len(), successes=passed.sum())
    counted = per_case.group_by("trials", "successes").agg(cases=pl.len())
    of_cases = collect_rows(counted.sort("trials", "successes")).rows()
    shares = {"": _exact_shares(of_cases)}
    if shares[""]:
        tallies = _metric_tallies(scores)
        shares |= {f"{names[key]}/": _exact_shares(of) for key, of in tallies.items()}
    return {
        field: {f"{name}{sign}{k}": of[k][place] for name, of in shares.items() for k in of}
        for place, (field, sign) in enumerate((("pass_hat_k", "pass^"), ("pass_at_k", "pass@")))
    }


def _exact_shares(tallies: Sequence[_Tally]) -> dict[int, tuple[float, float]]:
    """pass^k and pass@k (in this order) by k; empty when no case was repeated."""
    most = max((n for n, _, _ in tallies), default=0)
    shares = {}
    for k in range(1, most + 1) if most > 1 else ():
        # From c successes in n >= k trials, without bias: pass@k is 1 - C(n - c, k) / C(n, k) (Chen
        # et al. 2021), pass^k is C(c, k) / C(n, k) (Yao et al. 2024).
        due = [tally for tally in tallies if tally[0] >= k]
        # Fractions, since a float sum would depend on the order of the cases.
        every = sum(Fraction(comb(c, k), comb(n, k)) * cases for n, c, cases in due)
        some = sum((1 - Fraction(comb(n - c, k), comb(n, k))) * cases for n, c, cases in due)
        number = sum(cases for _, _, cases in due)
        shares[k] = (rounded_value(every / number), rounded_value(some / number))
    return shares


def _metric_tallies(scores: pl.LazyFrame) -> dict[tuple[str, str], list[_Tally]]:
    """Tallies by (judge, metric) for the metrics whose scores say pass or fail."""
    success = pl.col("success")
    per_case = (
        headlines(scores)
        .filter(success.is_not_null() | (pl.col("status") == "failed"))
        .group_by(*METRIC, "case_id")
        .agg(trials=pl.len(), successes=success.sum(), decided=success.count())
    )
    keys = [*METRIC, "trials", "successes"]
    counted = per_case.group_by(keys).agg(cases=pl.len(), decided=pl.col("decided").sum())
    tallies = {}
    for metric, rows in groupby(collect_rows(counted.sort(keys)).rows(), key=itemgetter(0, 1)):
        own = list(rows)
        # Failed scores alone do not tell whether the metric passes or fails at all.
        if any(decided for *_, decided in own):
            tallies[metric] = [row[2:5] for row in own]
    return tallies
