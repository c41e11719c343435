"""The rows of `cases` as executions of an agent: what became of each, how long it took.

A skipped case was never judged and is no execution. Every other row is one, repetitions too.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from assizes.judge.statistics.exact import rounded_value, unrounded_mean

PASS_FLAGGED = "pass_flagged"
"""State, and first of the flags, of a pass that does not count."""

CASE = ("case_id", "repetition")
"""The identity of a row of `cases` within a run."""


def collect_rows(frame: pl.LazyFrame) -> pl.DataFrame:
    """The rows of a query, computed in batches: memory follows the result, not the run."""
    return frame.collect(engine="streaming")


def states(cases: pl.LazyFrame) -> pl.LazyFrame:
    """Cases with a column `state`: `passed`, `failed`, `pass_flagged`, `undecided`, `errored` or
    `skipped`.

    `undecided` is a judged case to which no gate applied, `pass_flagged` one whose pass is not
    believed (`assizes.judge.verdicts.flagged_passes`); both count as not passed.
    """
    state = (
        pl.when(pl.col("status").is_in(["skipped", "errored"]))
        .then("status")
        .when(pl.col("passed"))
        .then(pl.lit("passed"))
        .when(~pl.col("passed"))
        .then(pl.lit("failed"))
        .when(pl.col("flags").list.contains(PASS_FLAGGED))
        .then(pl.lit(PASS_FLAGGED))
        .otherwise(pl.lit("undecided"))
    )
    return cases.with_columns(state=state)


def executions(cases: pl.LazyFrame) -> pl.LazyFrame:
    """Every case that was not skipped, with its `state`."""
    return states(cases).filter(pl.col("state") != "skipped")


class Latency(NamedTuple):
    """Latencies of the agent over executions, each being the median over the turns of one
    conversation, in milliseconds; null where none was measured.
    """

    p50: float | None
    p95: float | None
    max: float | None
    avg: float | None


def agent_latency(executed: pl.LazyFrame) -> Latency:
    """The latency figures of a run; percentiles interpolate linearly between neighbours.

    100, 200 .. 2000 has a p95 of 1905 (DuckDB: `quantile_cont`).
    """
    latencies = _latencies(executed)
    longest = latencies.max()
    return Latency(
        p50=quantile(latencies, 0.5),
        p95=quantile(latencies, 0.95),
        max=longest if isinstance(longest, float) else None,
        avg=rounded_value(unrounded_mean(latencies)) if latencies.len() else None,
    )


def latency_quantile(executed: pl.LazyFrame, share: float) -> float | None:
    """One percentile of it, at a share 0..1; null where none was measured."""
    return quantile(_latencies(executed), share)


def quantile(numbers: pl.Series, share: float) -> float | None:
    """The number below which a share 0..1 of the known ones lies; null where none is known."""
    value = numbers.quantile(share, interpolation="linear")
    return None if value is None else rounded_value(value)


def _latencies(executed: pl.LazyFrame) -> pl.Series:
    return collect_rows(executed.select(pl.col("agent_latency_ms").drop_nulls())).to_series()
