"""The metrics of two runs whose rows stand in one order: how often each pair of values occurs.

Two runs over the same transcripts with the same judges hold their scores in one order, and a metric
takes few values: of a million cases and nine metrics some hundred counts are left, read a block of
rows of both runs at a time. Where the orders differ, or cases were repeated or belong together,
`assizes.judge.comparison.paired_metrics` joins case by case.
"""

from __future__ import annotations

from math import fsum
from typing import Final, NamedTuple

import polars as pl

from assizes.judge.comparison.cases import GUARD, MetricAggregate
from assizes.judge.comparison.paired_metrics import Names, Scores
from assizes.judge.statistics.counted import CountedSample
from assizes.judge.summary.headlines import METRIC, headlines
from assizes.judge.verdicts.executions import collect_rows

BLOCK: Final = 450_000
"""So many rows of each run are in memory at once."""

MOST: Final = 300_000
"""With more different pairs than these, counting saves nothing."""

_SIDES: Final = ("before", "after")
_VALUES: Final = ("failed", "value", "raw", "two_valued", "success")
_PAIR: Final = [
    *(f"before_{name}" for name in METRIC),
    *(f"{side}_{value}" for side in _SIDES for value in _VALUES),
]


class CountedMetric(NamedTuple):
    """One metric of two runs: `rows` holds each pair of values and `cases`, how many have it.

    Columns of a side, prefixed `before_` and `after_`: `failed`, and of scored ones `value` (0..1),
    `raw`, `two_valued`, `success`.
    """

    name: str
    rows: pl.DataFrame


def counted_metrics(
    scores: Scores, names: Names, block: int = BLOCK, *, sliceable: bool = True
) -> list[CountedMetric] | None:
    """Every metric of two runs in which each case was judged once; null where their rows stand in
    different orders, hold too many different values, or cannot be had block by block.

    Args:
        scores: rows of `scores` of both runs.
        names: the metrics wanted, by judge and metric.
        block: so many rows are read at once.
        sliceable: some rows from the middle cost no more than those rows.
    """
    before, after = (int(collect_rows(side.select(pl.len())).item()) for side in scores)
    if before != after or (before > block and not sliceable):
        return None
    total_counts: pl.DataFrame | None = None
    for start in range(0, before, block):
        counts = _block_counts(scores, start, block)
        if not counts["alike"].all():
            return None
        total_counts = counts if total_counts is None else pl.concat([total_counts, counts])
        total_counts = total_counts.group_by(_PAIR).agg(
            pl.col("cases").sum(), pl.col("alike").all()
        )
        if total_counts.height > MOST:
            return None
    return [] if total_counts is None else list(_by_metric(total_counts, names))


def _block_counts(scores: Scores, start: int, size: int) -> pl.DataFrame:
    sides = [
        _side(rows.slice(start, size)).select(pl.all().name.prefix(f"{side}_"))
        for rows, side in zip(scores, _SIDES, strict=True)
    ]
    keys = ("key", *METRIC)
    alike = [pl.col(f"before_{key}").eq_missing(pl.col(f"after_{key}")) for key in keys]
    both = pl.concat(sides, how="horizontal")
    counts = both.group_by(_PAIR).agg(cases=pl.len(), alike=pl.all_horizontal(alike).all())
    return collect_rows(counts)


def _side(scores: pl.LazyFrame) -> pl.LazyFrame:
    scored = pl.col("status") == "scored"
    return headlines(scores).select(
        pl.col("case_id").hash().alias("key"),
        *METRIC,
        failed=pl.col("status") == "failed",
        value=pl.when(scored).then("value"),
        raw=pl.when(scored).then("raw"),
        two_valued=pl.when(scored).then("two_valued"),
        success=pl.when(scored).then(pl.col("success").fill_null(value=True)),
    )


def _by_metric(counts: pl.DataFrame, names: Names) -> list[CountedMetric]:
    by_key = counts.partition_by(*(f"before_{name}" for name in METRIC), as_dict=True)
    return [
        CountedMetric(name, by_key[key].sort(_PAIR[len(METRIC) :]))
        for key, name in names.items()
        if key in by_key
    ]


def counted_aggregate(metric: CountedMetric) -> MetricAggregate:
    """What `assizes.judge.comparison.paired_metrics.metric_aggregate` says of the same cases: some side was scored."""
    two_valued = [metric.rows[f"{side}_two_valued"].drop_nulls() for side in _SIDES]
    binary = all(bool(series.all()) for series in two_valued)
    columns = [f"{side}_{'success' if binary else 'raw'}" for side in _SIDES]
    both = metric.rows.drop_nulls(columns)
    paired = both.height > 0
    averages = [
        _average(both if paired else metric.rows.drop_nulls(column), column) for column in columns
    ]
    return MetricAggregate.of(metric.name, averages, is_binary=binary, paired=paired)


def _average(rows: pl.DataFrame, column: str) -> float | None:
    if rows.is_empty():
        return None
    return round(_total(rows, pl.col(column).cast(pl.Float64)) / _cases(rows), GUARD)


def _total(rows: pl.DataFrame, number: pl.Expr) -> float:
    return fsum(rows.select(number * pl.col("cases")).to_series())


def _cases(rows: pl.DataFrame) -> int:
    return int(rows["cases"].sum())


class CountedMoves(NamedTuple):
    """How a metric moved over the cases scored in both runs: in points 0..100, or as shares.

    `means` are points of both sides; `moved` candidate minus baseline, shares -1..1.
    """

    share: bool
    means: tuple[float, float]
    moved: CountedSample


def counted_moves(metric: CountedMetric) -> CountedMoves | None:
    """The moves of a metric; null where a side has no value on 0..1, or no case has both."""
    sides = [metric.rows.drop_nulls(f"{side}_value") for side in _SIDES]
    both = sides[0].drop_nulls("after_value")
    if both.is_empty():
        return None
    share = bool(sides[0]["before_two_valued"].all())
    points = [pl.col(f"{side}_value") * 100 for side in _SIDES]
    moves = (
        both.select(moved=points[1] - points[0], cases="cases")
        .group_by("moved")
        .agg(pl.col("cases").sum().cast(pl.Float64))
        .sort("moved")
    )
    values = moves["moved"].to_numpy()
    means = [_total(both, point) / _cases(both) for point in points]
    return CountedMoves(
        share,
        (means[0], means[1]),
        CountedSample(values / 100 if share else values, moves["cases"].to_numpy()),
    )
