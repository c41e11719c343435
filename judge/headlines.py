"""Headline scores as frames: which count as a success, and what each metric came to in a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import polars as pl
from pydantic import BaseModel, ConfigDict

from judge.exact import mean_of_counts, rounded
from judge.executions import CASE, collected

METRIC = ("judge", "metric")
"""The identity of a metric within a run."""


class MetricSummary(BaseModel):
    """What one metric came to over the headline scores of a run.

    `mean_raw` is in the metric's own unit, `mean_value` on 0..1 (null for amounts). `pass_rate` is
    the share of successes among the scores that say pass or fail (or yes or no); null where none
    does. Skipped and failed scores enter no mean; they are counted.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    judge: str
    tier: str | None
    is_binary: bool
    weight: float | None
    scored: int
    skipped: int
    failed: int
    mean_raw: float | None
    mean_value: float | None
    pass_rate: float | None
    labels: dict[str, int]


def headlines(scores: pl.LazyFrame) -> pl.LazyFrame:
    """The headline rows with two more columns.

    `two_valued`: the score is pass or fail, or yes or no. `success`: the score's own `passed`, else
    what its two-valued label says; null for scores that have neither.
    """
    label, raw = pl.col("label"), pl.col("raw")
    # The word `fail` also names level 1 of the scored metrics; a failed binary metric has raw 0.
    negative = (label == "no") | ((label == "fail") & (raw == 0))
    positive = label.is_in(["pass", "yes"])
    two_valued = (positive | negative).fill_null(value=False)
    return scores.filter(pl.col("part") == "").with_columns(
        two_valued=two_valued,
        success=pl.coalesce("passed", pl.when(two_valued).then(positive)),
    )


def metric_summaries(scores: pl.LazyFrame) -> tuple[MetricSummary, ...]:
    """Every metric of a run, by judge and name."""
    columns = ["tier", "weight", "status", "label", "two_valued", "success", "raw", "value"]
    counted = collected(headlines(scores).group_by([*METRIC, *columns]).agg(pl.len().alias("rows")))
    rows = counted.sort(*METRIC).rows(named=True)
    by_metric = groupby(rows, key=lambda row: (row["judge"], row["metric"]))
    return tuple(_metric_summary(judge, name, list(of)) for (judge, name), of in by_metric)


def _metric_summary(judge: str, name: str, rows: Sequence[dict[str, Any]]) -> MetricSummary:
    scored = [row for row in rows if row["status"] == "scored"]
    decided = _counts(scored, "success")
    return MetricSummary(
        name=name,
        judge=judge,
        tier=min((row["tier"] for row in rows if row["tier"]), default=None),
        is_binary=bool(scored) and all(row["two_valued"] for row in scored),
        weight=min((row["weight"] for row in rows if row["weight"] is not None), default=None),
        scored=_rows_of(rows, "scored"),
        skipped=_rows_of(rows, "skipped"),
        failed=_rows_of(rows, "failed"),
        mean_raw=_mean(scored, "raw"),
        mean_value=_mean(scored, "value"),
        pass_rate=rounded(decided[True] / decided.total()) if decided else None,
        labels=dict(sorted(_counts(scored, "label").items())),
    )


def _rows_of(rows: Iterable[dict[str, Any]], status: str) -> int:
    return sum(row["rows"] for row in rows if row["status"] == status)


def _mean(rows: Iterable[dict[str, Any]], column: str) -> float | None:
    return mean_of_counts((row[column], row["rows"]) for row in rows if row[column] is not None)


def _counts(rows: Iterable[dict[str, Any]], column: str) -> Counter[Any]:
    counts: Counter[Any] = Counter()
    for row in rows:
        if row[column] is not None:
            counts[row[column]] += row["rows"]
    return counts


def published_names(metrics: Iterable[MetricSummary]) -> dict[tuple[str, str], str]:
    """Names by (judge, metric): the metric's own, with its judge before it where two share one."""
    found = list(metrics)
    sharing = Counter(metric.name for metric in found)
    return {
        (one.judge, one.name): one.name if sharing[one.name] == 1 else f"{one.judge}/{one.name}"
        for one in found
    }


def tier_scores(scores: pl.LazyFrame, errored: pl.LazyFrame) -> dict[str, float]:
    """Mean score 0..100 of each tier over the cases that have a verdict.

    Within a case: sum(value x weight) / sum(weight) x 100 over the tier's scored metrics.

    Args:
        scores: rows of `scores`.
        errored: identities of the errored cases; they are left out.
    """
    weighted = pl.col("value") * pl.col("weight")
    points = (weighted.sum() / pl.col("weight").sum() * 100).round(2)
    counted = collected(
        scores.filter(
            (pl.col("part") == "") & (pl.col("status") == "scored") & (pl.col("weight") > 0)
        )
        .drop_nulls(["tier", "value"])
        .join(errored, on=CASE, how="anti")
        .group_by(*CASE, "tier")
        .agg(points=points)
        .group_by("tier", "points")
        .agg(rows=pl.len())
        .sort("tier", "points")
    )
    by_tier = groupby(counted.rows(), key=lambda row: str(row[0]))
    means = {tier: mean_of_counts((row[1], row[2]) for row in of) for tier, of in by_tier}
    return {tier: points for tier, points in means.items() if points is not None}
