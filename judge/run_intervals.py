"""How sure each number of a run is: its interval, its coverage, and what missing scores could do.

Repetitions are averaged within a case first, and cases of one cluster are counted as sampled
together: neither more repetitions nor more turns of one user look like more evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final, Literal, NamedTuple

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from judge.exact import rounded
from judge.executions import collected, executions
from judge.headlines import METRIC, MetricSummary, headlines, published_names
from judge.statistics.clusters import Sample
from judge.statistics.intervals import (
    CONFIDENCE,
    Span,
    mean_interval,
    missing_bounds,
    rate_interval,
)

_KEY: Final = "key"
# A case by the hash of its id: a run of many cases is held as numbers, not as text.


class NumberInterval(BaseModel):
    """The interval of one number of a run, in that number's unit.

    `worst` and `best` are what the number would be if every score that could not be had were 0, or
    the best there is; null where that is not known (amounts). `coverage` is scored / due, 0..1.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    low: float | None = Field(description="null with fewer than two clusters")
    high: float | None
    confidence: float
    method: Literal["wilson", "clustered_t"]
    cases: int
    clusters: int
    coverage: float | None
    worst: float | None = None
    best: float | None = None


class _Number(NamedTuple):
    """Case values of one number; `rate` when they are shares of passes, `most` its best value."""

    values: Sample
    known: int
    missing: int
    rate: bool = False
    most: float | None = 1.0
    total: float | None = None


def run_intervals(
    cases: pl.LazyFrame, scores: pl.LazyFrame, metrics: Sequence[MetricSummary]
) -> dict[str, NumberInterval]:
    """The intervals of a run's numbers, by the names that `run_metrics` gives the numbers.

    Args:
        cases: rows of `cases`, of one run.
        scores: rows of `scores`.
        metrics: what they came to.
    """
    clusters = _clusters(cases)
    repeated = bool(collected(executions(cases).select((pl.col("repetition") > 0).any())).item())
    # One number after the other: all of them at once take hundreds of bytes a case.
    numbers = chain(
        _case_numbers(cases, clusters),
        _metric_numbers(_values(scores, metrics, repeated=repeated), metrics, clusters),
    )
    return {name: _interval(number) for name, number in numbers if number.values.size}


def _clusters(cases: pl.LazyFrame) -> pl.DataFrame:
    """The number of each case's cluster; a case without one is its own."""
    named = pl.coalesce(pl.concat_str(pl.lit("c:"), "cluster"), pl.concat_str(pl.lit("i:"), _id()))
    return collected(
        executions(cases)
        .group_by(_id().hash().alias(_KEY))
        .agg(code=named.first().hash())
        .with_columns(code=pl.col("code").rank("dense").cast(pl.Int64))
    )


def _id() -> pl.Expr:
    return pl.col("case_id")


def _sample(frame: pl.DataFrame, column: str, clusters: pl.DataFrame) -> Sample:
    known = frame.select(_KEY, column).drop_nulls().join(clusters, on=_KEY).sort("code", column)
    return Sample(known[column].to_numpy(), known["code"].to_numpy())


def _case_numbers(cases: pl.LazyFrame, clusters: pl.DataFrame) -> Iterator[tuple[str, _Number]]:
    """Pass rate and overall score; an errored execution did not pass, and has no score."""
    errored = pl.col("state") == "errored"
    table = collected(
        executions(cases)
        .group_by(_id().hash().alias(_KEY))
        .agg(
            runs=pl.len(),
            errors=errored.sum(),
            passes=(pl.col("state") == "passed").mean(),
            passed=(pl.col("state") == "passed").sum(),
            score=pl.when(~errored).then("overall_score").mean(),
            total=pl.when(~errored).then("overall_score").sum(),
            scored=(~errored & pl.col("overall_score").is_not_null()).sum(),
        )
    )
    missing = int(table["errors"].sum())
    runs = int(table["runs"].sum())
    passes = _sample(table, "passes", clusters)
    rate = _Number(passes, runs - missing, missing, rate=True, total=float(table["passed"].sum()))
    yield "pass_rate", rate
    yield "cases_pass_rate_pct", rate._replace(most=100.0)
    scored = int(table["scored"].sum())
    score = _Number(
        _sample(table, "score", clusters),
        scored,
        missing,
        most=100.0,
        total=float(table["total"].sum()),
    )
    yield "avg_overall_score", score
    yield "weighted_metrics_score_pct", score


def _metric_numbers(
    values: pl.DataFrame, metrics: Sequence[MetricSummary], clusters: pl.DataFrame
) -> Iterator[tuple[str, _Number]]:
    names = published_names(metrics)
    for place in values["place"].unique().sort():
        metric, of_case = metrics[place], values.filter(place=place)
        path = f"metrics/{names[metric.judge, metric.name]}"
        counted = (metric.scored, metric.failed)
        value = _Number(_sample(of_case, "value", clusters), *counted, total=_total(metric))
        raw = _Number(_sample(of_case, "raw", clusters), *counted, most=None)
        yield f"{path}/mean_raw", raw
        yield f"{path}/mean_value", value
        if metric.pass_rate is not None:
            yield (
                f"{path}/pass_rate",
                value._replace(values=_sample(of_case, "success", clusters), rate=True),
            )
        for name in metric.run_names:
            yield name, raw if metric.mean_value is None else value


def _total(metric: MetricSummary) -> float:
    return (metric.mean_value or 0.0) * metric.scored


def _values(
    scores: pl.LazyFrame, metrics: Sequence[MetricSummary], *, repeated: bool
) -> pl.DataFrame:
    """Each case's scored headlines, its repetitions averaged: the metric's `place` among the
    metrics, the case's key, `raw`, `value` and `success`.
    """
    pairs = list(published_names(metrics))
    places = pl.LazyFrame(
        {
            "judge": [judge for judge, _ in pairs],
            "metric": [metric for _, metric in pairs],
            "place": range(len(pairs)),
        },
        schema={"judge": pl.String, "metric": pl.String, "place": pl.UInt32},
    )
    numbers = pl.col("raw", "value", "success").cast(pl.Float64)
    key = _id().hash().alias(_KEY)
    scored = headlines(scores).filter(pl.col("status") == "scored").join(places, on=METRIC)
    if not repeated:  # a row is a case already, and grouping takes as much memory as the rows
        return collected(scored.select("place", key, numbers))
    return collected(scored.group_by("place", key).agg(numbers.mean()))


def _interval(number: _Number) -> NumberInterval:
    values, factor = number.values, number.most or 1.0
    span = rate_interval(values) if number.rate else mean_interval(values)
    if span is not None and number.rate:
        span = Span(span.low * factor, span.high * factor)
    elif span is not None and number.most is not None:
        span = span.clipped(0.0, number.most)
    bounds = _bounds(number)
    due = number.known + number.missing
    return NumberInterval(
        low=None if span is None else rounded(span.low),
        high=None if span is None else rounded(span.high),
        confidence=CONFIDENCE,
        method="wilson" if number.rate else "clustered_t",
        cases=values.size,
        clusters=values.clusters,
        coverage=rounded(number.known / due) if due else None,
        worst=None if bounds is None else rounded(bounds.low),
        best=None if bounds is None else rounded(bounds.high),
    )


def _bounds(number: _Number) -> Span | None:
    if number.most is None:
        return None
    factor = number.most if number.rate else 1.0
    total = number.values.mean * number.known if number.total is None else number.total
    return missing_bounds(total * factor, number.known, number.missing, number.most)
