"""The metrics of two runs: each case's numbers in both runs, and the averages over the cases.

There are two ways to get at a metric, because a run of a million cases and nine metrics has nine
million headlines:

- `paired_metrics` joins the cases of one metric at a time, by the hashes of their ids.
- `counted_metrics` counts how often each pair of values occurs. Two runs over the same transcripts
  with the same judges hold their scores in one order, and a metric takes few values: of a million
  cases and nine metrics some hundred counts are left, read from a block of rows of both runs at a
  time. This way is closed where the orders differ, or where cases were repeated or belong together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import fsum
from typing import Final, NamedTuple

import polars as pl
from pydantic import BaseModel, ConfigDict

from assizes.judge.comparison.cases import GUARD
from assizes.judge.comparison.rules import PairedCases
from assizes.judge.statistics.counted import CountedSample
from assizes.judge.statistics.exact import rounded_value
from assizes.judge.summary.headlines import METRIC, headlines
from assizes.judge.summary.run_summary import RunSummary
from assizes.judge.verdicts.executions import collect_rows

BLOCK: Final = 450_000
"""Rows of each run that are in memory at once while values are counted."""

MAX_PAIRS: Final = 300_000
"""Different pairs of values up to which counting them saves memory."""

_SIDES: Final = ("before", "after")
_VALUES: Final = ("failed", "value", "raw", "two_valued", "success")
_PAIR: Final = [
    *(f"before_{name}" for name in METRIC),
    *(f"{side}_{value}" for side in _SIDES for value in _VALUES),
]

Names = Mapping[tuple[str, str], str]
"""The published name of each metric, by judge and metric."""

Scores = tuple[pl.LazyFrame, pl.LazyFrame]
"""Rows of table `scores`: those of the baseline, then those of the candidate."""


class MetricAggregate(BaseModel):
    """Averages of one metric in both runs, over the matched cases that both runs scored.

    The average of a binary metric is the share of passed cases (0..1), that of another metric its
    mean in its own unit.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    metric: str
    is_binary: bool
    baseline_avg: float | None
    candidate_avg: float | None
    delta: float | None

    @classmethod
    def of(
        cls, metric: str, averages: Sequence[float | None], *, is_binary: bool, paired: bool
    ) -> MetricAggregate:
        """Round the averages of both runs; there is a delta only where `paired`: over the same cases."""
        before, after = averages
        apart = after - before if paired and before is not None and after is not None else None
        return cls(
            metric=metric,
            is_binary=is_binary,
            baseline_avg=None if before is None else rounded_value(before),
            candidate_avg=None if after is None else rounded_value(after),
            delta=None if apart is None else rounded_value(apart),
        )


class PairedMetric(NamedTuple):
    """One metric of two runs, with one row for each case.

    Columns of each run: `case_id` (hashed), `scored` and `failed` (counts of repetitions), `total`
    (sum of the values, each 0..100), and `two_valued`, `success` and `raw` of the scored
    repetitions.
    """

    name: str
    before: pl.DataFrame
    after: pl.DataFrame


def metric_names(summaries: Iterable[RunSummary]) -> dict[tuple[str, str], str]:
    """Published names of the metrics that any of the runs scored, by (judge, metric).

    Where two judges have a metric of the same name, the name of the judge goes before it.
    """
    keys = {
        (metric.judge, metric.name) for run in summaries for metric in run.metrics if metric.scored
    }
    metrics = [metric for _, metric in keys]
    return {
        (judge, metric): metric if metrics.count(metric) == 1 else f"{judge}/{metric}"
        for judge, metric in sorted(keys)
    }


def paired_metrics(scores: Scores, names: Names, *, repeated: bool) -> Iterator[PairedMetric]:
    """Read the metrics of two runs one after the other, in the order of `names`.

    Args:
        scores: rows of table `scores` of both runs.
        names: the metrics wanted.
        repeated: whether some case was executed more than once.
    """
    for (judge, metric), name in names.items():
        own = (pl.col("metric") == metric) & (pl.col("judge") == judge)
        sides = [_paired_side(side.filter(own), repeated=repeated) for side in scores]
        yield PairedMetric(name, *sides)


def _paired_side(of_metric: pl.LazyFrame, *, repeated: bool) -> pl.DataFrame:
    scored, failed = pl.col("status") == "scored", pl.col("status") == "failed"
    rows = headlines(of_metric).filter(scored | failed)
    value = pl.when(scored).then("value")
    if not repeated:  # a row is a case already, and grouping takes several times as long
        return collect_rows(
            rows.select(
                pl.col("case_id").hash(),
                scored=value.is_not_null().cast(pl.UInt32),
                failed=failed.cast(pl.UInt32),
                total=value.fill_null(0.0) * 100,
                two_valued=pl.when(scored).then("two_valued"),
                success=pl.when(scored).then(pl.col("success").fill_null(value=True)),
                raw=pl.when(scored).then("raw"),
            )
        )
    return collect_rows(
        rows.group_by(pl.col("case_id").hash()).agg(
            scored=value.count(),
            failed=failed.sum(),
            total=value.sum() * 100,
            two_valued=pl.when(scored.any()).then(pl.col("two_valued").filter(scored).all()),
            success=pl.when(scored.any()).then(pl.col("success").filter(scored).all()),
            raw=pl.col("raw").filter(scored).mean().round(GUARD),
        )
    )


def metric_aggregate(pair: PairedMetric, cases: PairedCases) -> MetricAggregate | None:
    """The averages of a metric over the matched cases that both runs scored.

    A score that is missing in one run can therefore not move the averages. Where no case is scored
    in both runs, each average is over the cases of its own run. `None` where no matched case has a
    score.
    """
    sides = [side.drop_nulls("two_valued") for side in (pair.before, pair.after)]
    if cases.keys is not None:
        sides = [side.join(cases.keys, on="case_id", how="semi") for side in sides]
    if not any(side.height for side in sides):
        return None
    binary = all(bool(side["two_valued"].all()) for side in sides)
    number = pl.col("success").cast(pl.Float64) if binary else pl.col("raw")
    known = [side.select("case_id", number=number).drop_nulls() for side in sides]
    together = align_cases(known[0], known[1], "number")
    paired = together.height > 0
    averages = [
        _average(together[column] if paired else side["number"])
        for column, side in zip(("number", "number_after"), known, strict=True)
    ]
    return MetricAggregate.of(pair.name, averages, is_binary=binary, paired=paired)


def _average(values: pl.Series) -> float | None:
    mean = values.mean()
    return round(float(mean), GUARD) if isinstance(mean, int | float) else None


def align_cases(before: pl.DataFrame, after: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Put the cases that both tables hold side by side; the columns of `after` get a suffix `_after`.

    Args:
        before: a table with column `case_id`.
        after: another one.
        columns: the columns of `after` that are wanted; all of them where none is named.
    """
    wanted = after.select("case_id", *columns) if columns else after
    # Two runs over the same transcripts hold their cases in one order, and need no join.
    if before.height == after.height and (before["case_id"] == after["case_id"]).all():
        rest = wanted.drop("case_id")
        return before.hstack(rest.rename({name: f"{name}_after" for name in rest.columns}))
    renamed = wanted.rename({n: f"{n}_after" for n in wanted.columns if n != "case_id"})
    return before.join(renamed, on="case_id", maintain_order="left")


class CountedMetric(NamedTuple):
    """One metric of two runs, with one row for each pair of values.

    Columns of `rows`: `cases`, the number of cases with that pair of values; and of each run,
    prefixed `before_` and `after_`, `failed`, and for scored cases `value` (0..1), `raw`,
    `two_valued`, `success`.
    """

    name: str
    rows: pl.DataFrame


def counted_metrics(
    scores: Scores, names: Names, block: int = BLOCK, *, sliceable: bool = True
) -> list[CountedMetric] | None:
    """Count the values of every metric of two runs in which each case was judged once.

    The result is `None` where the rows of the runs are in different orders, hold too many different
    values, or cannot be read block by block.

    Args:
        scores: rows of table `scores` of both runs.
        names: the metrics wanted.
        block: the number of rows read at once.
        sliceable: whether reading some rows from the middle costs no more than those rows.
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
        if total_counts.height > MAX_PAIRS:
            return None
    if total_counts is None:
        return []
    by_key = total_counts.partition_by(*(f"before_{name}" for name in METRIC), as_dict=True)
    return [
        CountedMetric(name, by_key[key].sort(_PAIR[len(METRIC) :]))
        for key, name in names.items()
        if key in by_key
    ]


def _block_counts(scores: Scores, start: int, size: int) -> pl.DataFrame:
    sides = [
        _counted_side(rows.slice(start, size)).select(pl.all().name.prefix(f"{side}_"))
        for rows, side in zip(scores, _SIDES, strict=True)
    ]
    keys = ("key", *METRIC)
    alike = [pl.col(f"before_{key}").eq_missing(pl.col(f"after_{key}")) for key in keys]
    both = pl.concat(sides, how="horizontal")
    counts = both.group_by(_PAIR).agg(cases=pl.len(), alike=pl.all_horizontal(alike).all())
    return collect_rows(counts)


def _counted_side(scores: pl.LazyFrame) -> pl.LazyFrame:
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


def counted_aggregate(metric: CountedMetric) -> MetricAggregate:
    """The averages that `metric_aggregate` gives for the same cases; some case must be scored."""
    two_valued = [metric.rows[f"{side}_two_valued"].drop_nulls() for side in _SIDES]
    binary = all(bool(series.all()) for series in two_valued)
    columns = [f"{side}_{'success' if binary else 'raw'}" for side in _SIDES]
    both = metric.rows.drop_nulls(columns)
    paired = both.height > 0
    averages = [
        _counted_average(both if paired else metric.rows.drop_nulls(column), column)
        for column in columns
    ]
    return MetricAggregate.of(metric.name, averages, is_binary=binary, paired=paired)


def _counted_average(rows: pl.DataFrame, column: str) -> float | None:
    if rows.is_empty():
        return None
    return round(_total(rows, pl.col(column).cast(pl.Float64)) / _case_count(rows), GUARD)


def _total(rows: pl.DataFrame, number: pl.Expr) -> float:
    return fsum(rows.select(number * pl.col("cases")).to_series())


def _case_count(rows: pl.DataFrame) -> int:
    return int(rows["cases"].sum())


class CountedMoves(NamedTuple):
    """How a metric moved over the cases that are scored in both runs.

    Attributes:
        share: whether the metric is two-valued, so that its mean is a share of cases.
        means: the means of both runs in points of 0..100.
        moved: candidate minus baseline, a case each: -1..1 where `share`, else points.
    """

    share: bool
    means: tuple[float, float]
    moved: CountedSample


def counted_moves(metric: CountedMetric) -> CountedMoves | None:
    """The moves of a metric; `None` where no case has a value on 0..1 in both runs."""
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
    means = [_total(both, point) / _case_count(both) for point in points]
    return CountedMoves(
        share,
        (means[0], means[1]),
        CountedSample(values / 100 if share else values, moves["cases"].to_numpy()),
    )
