"""How sure each number of a run is: its interval, its coverage, and what missing scores could do.

Repetitions are averaged within a case first, and cases of one cluster are counted as sampled
together: neither more repetitions nor more turns of one user look like more evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Literal

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from judge.case_values import Number, clusters_of, key, sample
from judge.exact import rounded
from judge.executions import collected, executions
from judge.headlines import METRIC, MetricSummary, headlines, published_names
from judge.run_values import agent_numbers, assessment_numbers, tier_numbers, trial_numbers
from judge.statistics.intervals import (
    CONFIDENCE,
    Span,
    mean_interval,
    missing_bounds,
    quantile_interval,
    rate_interval,
)


class NumberInterval(BaseModel):
    """The interval of one number of a run, in that number's unit.

    `worst` and `best` are what the number would be if every score that could not be had were 0, or
    the best there is; null where that is not known (amounts). `coverage` is scored / due, 0..1.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    low: float | None = Field(description="null with fewer than two clusters")
    high: float | None
    confidence: float
    method: Literal["wilson", "clustered_t", "woodruff"]
    cases: int
    clusters: int
    coverage: float | None
    worst: float | None = None
    best: float | None = None


def run_intervals(
    cases: pl.LazyFrame,
    scores: pl.LazyFrame,
    metrics: Sequence[MetricSummary],
    tiers: Sequence[str] = (),
) -> dict[str, NumberInterval]:
    """The intervals of a run's numbers, by the names that `run_metrics` gives the numbers.

    Args:
        cases: rows of `cases`, of one run.
        scores: rows of `scores`.
        metrics: what they came to.
        tiers: those that the run has a score for.
    """
    clusters = clusters_of(cases)
    repeated = bool(collected(executions(cases).select((pl.col("repetition") > 0).any())).item())
    # One number after the other: all of them at once take hundreds of bytes a case.
    numbers = chain(
        _case_numbers(cases, clusters),
        _metric_numbers(_values(scores, metrics, repeated=repeated), metrics, clusters),
        agent_numbers(cases, clusters),
        assessment_numbers(scores, metrics, clusters),
        tier_numbers(cases, scores, tiers, clusters),
        trial_numbers(cases, scores, metrics, clusters) if repeated else (),
    )
    return {name: _interval(number) for name, number in numbers if number.values.size}


def _case_numbers(cases: pl.LazyFrame, clusters: pl.DataFrame) -> Iterator[tuple[str, Number]]:
    """Pass rate and overall score; an errored execution did not pass, and has no score."""
    errored = pl.col("state") == "errored"
    table = collected(
        executions(cases)
        .group_by(key())
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
    passes = sample(table, "passes", clusters)
    rate = Number(passes, runs - missing, missing, rate=True, total=float(table["passed"].sum()))
    yield "pass_rate", rate
    yield "cases_pass_rate_pct", rate._replace(most=100.0)
    scored = int(table["scored"].sum())
    score = Number(
        sample(table, "score", clusters),
        scored,
        missing,
        most=100.0,
        total=float(table["total"].sum()),
    )
    yield "avg_overall_score", score
    yield "weighted_metrics_score_pct", score


def _metric_numbers(
    values: pl.DataFrame, metrics: Sequence[MetricSummary], clusters: pl.DataFrame
) -> Iterator[tuple[str, Number]]:
    names = published_names(metrics)
    for place in values["place"].unique().sort():
        metric, of_case = metrics[place], values.filter(place=place)
        path = f"metrics/{names[metric.judge, metric.name]}"
        counted = (metric.scored, metric.failed)
        value = Number(sample(of_case, "value", clusters), *counted, total=_total(metric))
        raw = Number(sample(of_case, "raw", clusters), *counted, most=None)
        yield f"{path}/mean_raw", raw
        yield f"{path}/mean_value", value
        if metric.pass_rate is not None:
            yield (
                f"{path}/pass_rate",
                value._replace(values=sample(of_case, "success", clusters), rate=True),
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
    scored = headlines(scores).filter(pl.col("status") == "scored").join(places, on=METRIC)
    if not repeated:  # a row is a case already, and grouping takes as much memory as the rows
        return collected(scored.select("place", key(), numbers))
    return collected(scored.group_by("place", key()).agg(numbers.mean()))


def _interval(number: Number) -> NumberInterval:
    values, span, bounds = number.values, _span(number), _bounds(number)
    due = number.known + number.missing
    method = "woodruff" if number.quantile is not None else "clustered_t"
    return NumberInterval(
        low=None if span is None else rounded(span.low),
        high=None if span is None else rounded(span.high),
        confidence=CONFIDENCE,
        method="wilson" if number.rate else method,
        cases=values.size,
        clusters=values.clusters,
        coverage=rounded(number.known / due) if due else None,
        worst=None if bounds is None else rounded(bounds.low),
        best=None if bounds is None else rounded(bounds.high),
    )


def _span(number: Number) -> Span | None:
    values, factor = number.values, number.most or 1.0
    if number.quantile is not None:
        return quantile_interval(values, number.quantile)
    if number.rate:
        rate = rate_interval(values)
        return rate and Span(rate.low * factor, rate.high * factor)
    span = mean_interval(values)
    if span is None:
        return None
    if number.most is not None:
        return span.clipped(0.0, number.most)
    least = span.low if number.least is None else max(span.low, number.least)
    return Span(least * number.times, span.high * number.times)


def _bounds(number: Number) -> Span | None:
    if number.most is None:
        return None
    factor = number.most if number.rate else 1.0
    total = number.values.mean * number.known if number.total is None else number.total
    return missing_bounds(total * factor, number.known, number.missing, number.most)
