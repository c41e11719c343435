"""What a number of a run is made of: one value a case with its cluster, and what is missing."""

from __future__ import annotations

from typing import Final, NamedTuple

import polars as pl

from assizes.judge.statistics.clusters import Sample
from assizes.judge.statistics.counted import CountedSample
from assizes.judge.verdicts.executions import collect_rows, executions

KEY: Final = "key"
"""A case by the hash of its id: a run of many cases is held as numbers, not as text."""


class Number(NamedTuple):
    """Case values of one number, and how an interval comes of them.

    Attributes:
        values: one a case; of a quantile one an execution.
        known: executions, or scores, that have it.
        missing: those that should have it.
        rate: the values are shares of passes.
        least: the smallest there is, where it is known.
        most: the best there is; null for amounts, which have no bounds of what is missing.
        total: sum over what is known, where it is not mean x known.
        quantile: the number is this quantile of the values, 0..1; null: their mean.
        times: the number is so many times the mean.
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


def key() -> pl.Expr:
    """The key of a row's case."""
    return pl.col("case_id").hash().alias(KEY)


def clusters_of(cases: pl.LazyFrame) -> pl.DataFrame:
    """The number of each case's cluster; a case without one is its own."""
    alone = pl.concat_str(pl.lit("i:"), pl.col("case_id"))
    named = pl.coalesce(pl.concat_str(pl.lit("c:"), "cluster"), alone)
    return collect_rows(
        executions(cases)
        .group_by(key())
        .agg(code=named.first().hash())
        .with_columns(code=pl.col("code").rank("dense").cast(pl.Int64))
    )


def sample(frame: pl.DataFrame, column: str, clusters: pl.DataFrame | None) -> Sample:
    """The known values of a column with their clusters; without those each row is its own."""
    if clusters is None:
        return Sample.of(frame[column].drop_nulls().sort().to_numpy())
    return coded_sample(frame.select(KEY, column).drop_nulls().join(clusters, on=KEY), column)


def coded_sample(rows: pl.DataFrame, column: str) -> Sample:
    """The same of rows that have their clusters' numbers already, as `code`."""
    known = rows.select("code", column).drop_nulls().sort("code", column)
    return Sample(known[column].to_numpy(), known["code"].to_numpy())


def counted_values(frame: pl.DataFrame, column: str) -> CountedSample:
    """The known values of a column, each so often as its `rows` say."""
    known = frame.select(pl.col(column).cast(pl.Float64), "rows").drop_nulls(column)
    frequencies = known.group_by(column).agg(pl.col("rows").sum().cast(pl.Float64)).sort(column)
    return CountedSample(frequencies[column].to_numpy(), frequencies["rows"].to_numpy())
