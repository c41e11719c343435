"""The metrics of two runs, one after the other: each case's numbers on both sides.

One metric of both runs is in memory at a time, its cases by the hashes of their ids: a run of a
million cases and nine metrics has nine million headlines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from assizes.judge.comparison.cases import GUARD, MetricAggregate
from assizes.judge.comparison.paired_cases import PairedCases
from assizes.judge.summary.headlines import headlines
from assizes.judge.verdicts.executions import collect_rows

if TYPE_CHECKING:
    from assizes.judge.summary.run_summary import RunSummary

Names = Mapping[tuple[str, str], str]
Scores = tuple[pl.LazyFrame, pl.LazyFrame]


class PairedMetric(NamedTuple):
    """One metric of two runs, a row a case.

    Columns of a side: `case_id` (hashed), `scored` and `failed` (counts of repetitions), `total`
    (sum of the values, 0..100), `two_valued`, `success` and `raw` of the scored ones.
    """

    name: str
    before: pl.DataFrame
    after: pl.DataFrame


def metric_names(summaries: Iterable[RunSummary]) -> dict[tuple[str, str], str]:
    """The scored metrics of any run by (judge, metric); where judges share a name, the judge goes
    before it.
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
    """Every metric of two runs, by judge and name."""
    for (judge, metric), name in names.items():
        own = (pl.col("metric") == metric) & (pl.col("judge") == judge)
        sides = [_side(side.filter(own), repeated=repeated) for side in scores]
        yield PairedMetric(name, *sides)


def _side(of_metric: pl.LazyFrame, *, repeated: bool) -> pl.DataFrame:
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
    """The averages of a metric over the matched cases that both sides scored, so that a score that
    is missing on one side cannot move them; of the side alone where only one has any. Null where
    no matched case has a score.
    """
    sides = [_matched_rows(side, cases) for side in (pair.before, pair.after)]
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


def _matched_rows(side: pl.DataFrame, cases: PairedCases) -> pl.DataFrame:
    scored = side.filter(pl.col("two_valued").is_not_null())
    if cases.keys is None:
        return scored
    return scored.join(cases.keys, on="case_id", how="semi")


def _average(values: pl.Series) -> float | None:
    mean = values.mean()
    return round(float(mean), GUARD) if isinstance(mean, int | float) else None


def align_cases(before: pl.DataFrame, after: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """The cases of both, those of `after` with `_after` behind the names of their columns.

    Two runs over the same transcripts hold their cases in one order, and need no join.
    """
    wanted = after.select("case_id", *columns) if columns else after
    if before.height == after.height and (before["case_id"] == after["case_id"]).all():
        rest = wanted.drop("case_id")
        return before.hstack(rest.rename({name: f"{name}_after" for name in rest.columns}))
    renamed = wanted.rename({n: f"{n}_after" for n in wanted.columns if n != "case_id"})
    return before.join(renamed, on="case_id", maintain_order="left")
