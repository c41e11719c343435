"""The metrics of two runs: each case's numbers in both runs, and the averages over the cases.

`paired_metrics` joins the cases of one metric at a time, by the hashes of their ids.
`counted_metrics` counts how often each pair of values occurs, block by block: of a million cases
some hundred counts are left. It needs runs that hold their scores in one order, as those of one
judge over the same transcripts do, and cases that are neither repeated nor clustered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import fsum
from typing import Final, NamedTuple

import polars as pl

from assizes.judge.comparison.cases import GUARD, SIDES, PairedCases, change_status
from assizes.judge.statistics.exact import DECIMALS, rounded_value
from assizes.judge.statistics.intervals import CountedSample
from assizes.judge.summary.headlines import METRIC, FrozenModel, headlines, published_names
from assizes.judge.summary.run_summary import RunSummary
from assizes.judge.verdicts.executions import collect_rows

BLOCK: Final = 450_000
"""Rows of each run that are in memory at once while values are counted."""

MAX_PAIRS: Final = 300_000
"""Different pairs of values up to which counting them saves memory."""

_SIDES: Final = ("before", "after")  # prefixes of the columns of the two runs
_VALUES: Final = ("failed", "value", "raw", "two_valued", "success")
_PAIR: Final = [
    *(f"before_{name}" for name in METRIC),  # equal in both runs, so one side is enough
    *(f"{side}_{value}" for side in _SIDES for value in _VALUES),
]

Names = Mapping[tuple[str, str], str]
"""The published name of each metric, by judge and metric."""

Scores = tuple[pl.LazyFrame, pl.LazyFrame]
"""Rows of table `scores`: those of the baseline, then those of the candidate."""


class MetricAggregate(FrozenModel):
    """Averages of one metric in both runs, over the matched cases that both runs scored.

    The average of a binary metric is the share of passed cases (0..1), that of another metric its
    mean in its own unit.
    """

    metric: str
    is_binary: bool
    baseline_avg: float | None  # None where no matched case has a score there
    candidate_avg: float | None
    delta: float | None  # candidate minus baseline

    @classmethod
    def of(
        cls, metric: str, averages: Sequence[float | None], *, is_binary: bool, paired: bool
    ) -> MetricAggregate:
        """Round the averages; there is a delta only where they are `paired`: over the same cases."""
        # Averages over different cases would make a delta of the mix of cases, not of the agent.
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
    """Published names of the metrics that any of the runs scored, by (judge, metric)."""
    scored = {
        (metric.judge, metric.name): metric
        for run in summaries
        for metric in run.metrics
        if metric.scored
    }
    return published_names(scored[key] for key in sorted(scored))


def paired_metrics(scores: Scores, names: Names, *, repeated: bool) -> Iterator[PairedMetric]:
    """Read the metrics of two runs one after the other, in the order of `names`.

    `repeated` says whether some case was executed more than once.
    """
    scored, failed = pl.col("status") == "scored", pl.col("status") == "failed"
    key, value = pl.col("case_id").hash(), pl.when(scored).then("value")
    of_row = {  # columns of a case with one execution
        "scored": value.is_not_null().cast(pl.UInt32),
        "failed": failed.cast(pl.UInt32),
        "total": value.fill_null(0.0) * 100,  # points of 0..100
        "two_valued": pl.when(scored).then("two_valued"),
        # A score without pass or fail hinders no success: all() ignores nulls likewise.
        "success": pl.when(scored).then(pl.col("success").fill_null(value=True)),
        "raw": pl.when(scored).then("raw"),
    }
    of_rows = {  # columns of a case with several executions
        "scored": value.count(),
        "failed": failed.sum(),
        "total": value.sum() * 100,
        "two_valued": pl.when(scored.any()).then(pl.col("two_valued").filter(scored).all()),
        "success": pl.when(scored.any()).then(pl.col("success").filter(scored).all()),
        "raw": pl.col("raw").filter(scored).mean().round(GUARD),
    }
    # A join of all metrics at once takes more than a gigabyte (docs/decisions.md, decision 63).
    for (judge, metric), name in names.items():
        own = (pl.col("metric") == metric) & (pl.col("judge") == judge)
        of_metric = [headlines(side.filter(own)).filter(scored | failed) for side in scores]
        # Without repetitions a row is a case, and grouping takes several times as long.
        sides = (
            rows.group_by(key).agg(**of_rows) if repeated else rows.select(key, **of_row)
            for rows in of_metric
        )
        yield PairedMetric(name, *map(collect_rows, sides))


def joined_metrics(scores: Scores, cases: pl.DataFrame, names: Names) -> pl.DataFrame:
    """Join the scored headlines of these cases in two runs, sorted by case, judge and metric.

    Columns of the result: `metric` (the published name), `is_binary`, `status`, `delta`, and of
    each run `score`, `success`, `label`.
    """
    keys, ids = ["case_id", *METRIC], cases["case_id"].implode()
    baseline, candidate = (
        headlines(rows.filter(pl.col("case_id").is_in(ids)))
        .filter(pl.col("status") == "scored")
        .group_by(keys)
        .agg(
            binary=pl.col("two_valued").all(),
            success=pl.col("success").all(),
            score=pl.col("raw").mean().round(GUARD),
            value=pl.col("value").mean().round(GUARD),
            label=pl.when(pl.col("label").n_unique() == 1).then(pl.col("label").first()),
        )
        .select(*keys, pl.exclude(keys).name.prefix(f"{side}_"))
        for rows, side in zip(scores, SIDES, strict=True)
    )
    # The run that lacks a metric does not say whether it is binary.
    binary = pl.all_horizontal(pl.col(f"{side}_binary").fill_null(value=True) for side in SIDES)
    success, other_success = pl.col("baseline_success"), pl.col("candidate_success")
    turned = change_status(success & ~other_success, ~success & other_success)
    change, moved = (
        (pl.col(f"candidate_{number}") - pl.col(f"baseline_{number}")).round(DECIMALS)
        for number in ("score", "value")
    )
    status = pl.when("is_binary").then(turned).otherwise(change_status(moved < 0, moved > 0))
    metrics = collect_rows(
        baseline.join(candidate, on=keys, how="full", coalesce=True)
        .with_columns(is_binary=binary)
        .with_columns(
            delta=pl.when(~pl.col("is_binary")).then(change),
            status=status.fill_null(pl.lit("unchanged")),
        )
        .sort(keys)
    )
    shown = [names.get((judge, name), name) for judge, name in metrics.select(METRIC).iter_rows()]
    return metrics.with_columns(metric=pl.Series(shown, dtype=pl.String))


def metric_aggregate(pair: PairedMetric, cases: PairedCases) -> MetricAggregate | None:
    """The averages of a metric over the matched cases; `None` where no matched case has a score.

    Where no case is scored in both runs, each average is over the cases of its own run.
    """
    sides = [side.drop_nulls("two_valued") for side in (pair.before, pair.after)]
    if cases.keys is not None:
        sides = [side.join(cases.keys, on="case_id", how="semi") for side in sides]
    if not any(side.height for side in sides):
        return None
    binary = all(bool(side["two_valued"].all()) for side in sides)
    number = pl.col("success").cast(pl.Float64) if binary else pl.col("raw")
    known = [side.select("case_id", number=number).drop_nulls() for side in sides]
    # A score that is missing in one run must not move the averages.
    together = align_cases(known[0], known[1], "number")
    paired = together.height > 0
    averages: list[float | None] = []
    for column, side in zip(("number", "number_after"), known, strict=True):
        mean = (together[column] if paired else side["number"]).mean()
        averages.append(round(float(mean), GUARD) if isinstance(mean, int | float) else None)
    return MetricAggregate.of(pair.name, averages, is_binary=binary, paired=paired)


def align_cases(before: pl.DataFrame, after: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Put the cases that both tables hold side by side, by their column `case_id`.

    The columns of `after` get a suffix `_after`; only the named ones are kept, or all of them.
    """
    wanted = after.select("case_id", *columns) if columns else after
    renamed = wanted.rename({n: f"{n}_after" for n in wanted.columns if n != "case_id"})
    # Two runs over the same transcripts hold their cases in one order, and need no join.
    if before.height == after.height and (before["case_id"] == after["case_id"]).all():
        return before.hstack(renamed.drop("case_id"))
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
    values, or cannot be read `block` rows at a time: unless `sliceable`, reading some rows from the
    middle costs more than those rows.
    """
    before, after = (int(collect_rows(side.select(pl.len())).item()) for side in scores)
    if before != after or (before > block and not sliceable):
        return None
    blocks: list[pl.DataFrame] = []
    for start in range(0, before, block):
        counts = _block_counts(scores, start, block)
        if not counts["alike"].all():
            return None
        # Memory holds the counts so far and those of one block, never the rows of a run.
        both = pl.concat([*blocks, counts]).group_by(_PAIR)
        blocks = [both.agg(pl.col("cases").sum(), pl.col("alike").all())]
        if blocks[0].height > MAX_PAIRS:  # such as free amounts: hardly two cases are alike
            return None
    if not blocks:
        return []
    by_key = blocks[0].partition_by(*(f"before_{name}" for name in METRIC), as_dict=True)
    return [
        CountedMetric(name, by_key[key].sort(_PAIR[len(METRIC) :]))
        for key, name in names.items()
        if key in by_key
    ]


def _block_counts(scores: Scores, start: int, size: int) -> pl.DataFrame:
    scored = pl.col("status") == "scored"
    columns = (
        pl.col("case_id").hash().alias("key"),
        *map(pl.col, METRIC),
        (pl.col("status") == "failed").alias("failed"),
        *(pl.when(scored).then(name).alias(name) for name in ("value", "raw", "two_valued")),
        pl.when(scored).then(pl.col("success").fill_null(value=True)).alias("success"),
    )
    sides = [
        headlines(rows.slice(start, size)).select(columns).select(pl.all().name.prefix(f"{side}_"))
        for rows, side in zip(scores, _SIDES, strict=True)
    ]
    keys = ("key", *METRIC)
    # Rows side by side must be of one case and metric, or the pairs of values mean nothing.
    alike = [pl.col(f"before_{key}").eq_missing(pl.col(f"after_{key}")) for key in keys]
    both = pl.concat(sides, how="horizontal").group_by(_PAIR)
    return collect_rows(both.agg(cases=pl.len(), alike=pl.all_horizontal(alike).all()))


def counted_aggregate(metric: CountedMetric) -> MetricAggregate:
    """The averages that `metric_aggregate` gives for the same cases; some case must be scored."""
    two_valued = [metric.rows[f"{side}_two_valued"].drop_nulls() for side in _SIDES]
    binary = all(bool(series.all()) for series in two_valued)
    columns = [f"{side}_{'success' if binary else 'raw'}" for side in _SIDES]
    both = metric.rows.drop_nulls(columns)
    paired = both.height > 0
    averages = []
    for column in columns:
        rows = both if paired else metric.rows.drop_nulls(column)
        number = pl.col(column).cast(pl.Float64)
        averages.append(None if rows.is_empty() else round(_counted_mean(rows, number), GUARD))
    return MetricAggregate.of(metric.name, averages, is_binary=binary, paired=paired)


def _counted_mean(rows: pl.DataFrame, number: pl.Expr) -> float:
    total = fsum(rows.select(number * pl.col("cases")).to_series())
    return total / int(rows["cases"].sum())


def counted_moves(metric: CountedMetric) -> tuple[bool, tuple[float, float], CountedSample] | None:
    """How a metric moved over the cases with a value on 0..1 in both runs; `None` without any.

    The result says whether the mean is a share of cases; it has the means of both runs in points of
    0..100, and candidate minus baseline for each case: -1..1 for a share, else points.
    """
    scored = [metric.rows.drop_nulls(f"{side}_value") for side in _SIDES]
    both = scored[0].drop_nulls("after_value")
    if both.is_empty():
        return None
    share = all(
        bool(rows[f"{side}_two_valued"].all()) for side, rows in zip(_SIDES, scored, strict=True)
    )
    before, after = (pl.col(f"{side}_value") * 100 for side in _SIDES)
    moves = both.select(moved=after - before, cases="cases").group_by("moved")
    counts = moves.agg(pl.col("cases").sum().cast(pl.Float64)).sort("moved")
    values = counts["moved"].to_numpy() / (100 if share else 1)
    means = (_counted_mean(both, before), _counted_mean(both, after))
    return share, means, CountedSample(values, counts["cases"].to_numpy())
