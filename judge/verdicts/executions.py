"""The rows of the table `cases` as executions of the agent, each repetition one, with states."""

from __future__ import annotations

import polars as pl

from assizes.judge.score import ACCEPTABLE
from assizes.judge.statistics.exact import rounded_value

PASS_FLAGGED = "pass_flagged"
"""State of a pass that does not count, and the first of the flags in its row."""

CASE = ("case_id", "repetition")
"""The columns that identify a row of `cases` within a run."""

IS_PASS = pl.col("passed").fill_null(value=False)
"""Whether a judged case passed. A flagged pass and an undecided case, which have no verdict, did
not (decision 92)."""

IS_LOW = (
    (pl.col("part") == "")
    & (pl.col("status") == "scored")
    & pl.coalesce(~pl.col("passed"), pl.col("value") < ACCEPTABLE / 5).fill_null(value=False)
)
"""Whether a row of `scores` says no, or lies below acceptable where it says neither yes nor no."""


def collect_rows(frame: pl.LazyFrame) -> pl.DataFrame:
    """The rows of a query, computed in batches: memory grows with the result, not with the run."""
    return frame.collect(engine="streaming")


def states(cases: pl.LazyFrame) -> pl.LazyFrame:
    """The cases with one more column, `state`.

    The states are `passed`, `failed`, `pass_flagged`, `undecided`, `errored` and `skipped`. A
    judged case to which no gate applied is `undecided`; a case whose pass does not count is
    `pass_flagged` (`assizes.judge.verdicts.case_rows`). Both count as not passed.
    """
    # The order counts: an errored case may have `passed` false, and a flagged pass has none.
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
    """The cases that were not skipped, with column `state`; a skipped one was never judged."""
    return states(cases).filter(pl.col("state") != "skipped")


def quantile(numbers: pl.Series, share: float) -> float | None:
    """The number below which a share 0..1 of the known numbers lies; `None` without a number.

    It interpolates between neighbours: the 95th percentile of 100, 200 .. 2000 is 1905.
    """
    value = numbers.quantile(share, interpolation="linear")  # as DuckDB's `quantile_cont`
    return None if value is None else rounded_value(value)
