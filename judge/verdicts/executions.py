"""The rows of the table `cases` as executions of the agent: their states and their latency.

A skipped case was never judged and is not an execution. Every other row is an execution, also each
repetition of a case.
"""

from __future__ import annotations

import polars as pl

from assizes.judge.statistics.exact import rounded_value, unrounded_mean

PASS_FLAGGED = "pass_flagged"
"""State of a pass that does not count, and the first of the flags in its row."""

CASE = ("case_id", "repetition")
"""The columns that identify a row of `cases` within a run."""


def collect_rows(frame: pl.LazyFrame) -> pl.DataFrame:
    """The rows of a query, computed in batches: memory grows with the result, not with the run."""
    return frame.collect(engine="streaming")


def states(cases: pl.LazyFrame) -> pl.LazyFrame:
    """The cases with one more column, `state`.

    The states are `passed`, `failed`, `pass_flagged`, `undecided`, `errored` and `skipped`. A
    judged case to which no gate applied is `undecided`; a case whose pass does not count is
    `pass_flagged` (`assizes.judge.verdicts.case_rows`). Both count as not passed.
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
    """The cases that were not skipped, with their column `state`."""
    return states(cases).filter(pl.col("state") != "skipped")


def agent_latency(executed: pl.LazyFrame) -> dict[str, float | None]:
    """The latency figures of a run in milliseconds, by the names of the summary's fields.

    They are over executions, and `None` where no latency was measured. The latency of one execution
    is the median over the turns of its conversation. Percentiles interpolate linearly between
    neighbours: the p95 of 100, 200 .. 2000 is 1905, as DuckDB's `quantile_cont` has it.
    """
    known = latencies(executed)
    longest = known.max()
    return {
        "latency_p50_ms": quantile(known, 0.5),
        "latency_p95_ms": quantile(known, 0.95),
        "latency_max_ms": longest if isinstance(longest, float) else None,
        "latency_avg_ms": rounded_value(unrounded_mean(known)) if known.len() else None,
    }


def latencies(executed: pl.LazyFrame) -> pl.Series:
    """The known latencies of executions, in milliseconds."""
    return collect_rows(executed.select(pl.col("agent_latency_ms").drop_nulls())).to_series()


def quantile(numbers: pl.Series, share: float) -> float | None:
    """The number below which a share 0..1 of the known numbers lies; `None` without a number."""
    value = numbers.quantile(share, interpolation="linear")
    return None if value is None else rounded_value(value)
