"""The uncertainty of each number of a run: its interval, its coverage, and its worst and best
value.

The repetitions of a case are averaged first, and the cases of one cluster count as sampled
together. So neither more repetitions of a case nor more cases of one user look like more evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Literal

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.statistics.clusters import Sample
from assizes.judge.statistics.counted import CountedSample
from assizes.judge.statistics.exact import rounded_value
from assizes.judge.statistics.intervals import (
    CONFIDENCE,
    ValueInterval,
    mean_interval,
    missing_bounds,
    quantile_interval,
    rate_interval,
)
from assizes.judge.summary.case_values import (
    KEY,
    RunNumber,
    agent_numbers,
    assessment_numbers,
    case_key,
    clusters_of,
    coded_sample,
    counted_values,
    tier_numbers,
    trial_numbers,
)
from assizes.judge.summary.headlines import MetricSummary, headlines, published_names
from assizes.judge.verdicts.executions import collect_rows, executions


class NumberInterval(BaseModel):
    """The interval of one number of a run, in that number's unit.

    `worst` and `best` are the values that the number would have if every missing score were 0, or
    the best possible score; `null` for amounts, which have no best score. `coverage` is scored /
    due, 0..1.
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
    counts: pl.DataFrame,
    tiers: Mapping[str, pl.DataFrame],
) -> dict[str, NumberInterval]:
    """The intervals of a run's numbers, by the names of the numbers in `run_metrics`.

    Args:
        cases: rows of `cases`, of one run.
        scores: rows of `scores`.
        metrics: the numbers of each metric.
        counts: the result of `metric_counts` for the scores.
        tiers: the result of `tier_counts` for the scores.
    """
    executed = executions(cases)
    by_score = collect_rows(executed.group_by("state", "overall_score").agg(rows=pl.len()))
    repeated, clustered = collect_rows(
        executed.select((pl.col("repetition") > 0).any(), pl.col("cluster").is_not_null().any())
    ).row(0)
    # One number after the other: all numbers at once take hundreds of bytes for each case.
    clusters = clusters_of(cases) if repeated or clustered else None
    values: _Values = (
        _IndependentCases(by_score, counts)
        if clusters is None
        else _GroupedCases(cases, scores, clusters, repeated=repeated)
    )
    numbers = chain(
        _case_numbers(by_score, values),
        _metric_numbers(metrics, values),
        agent_numbers(cases, clusters),
        assessment_numbers(scores, metrics, clusters),
        tier_numbers(cases, scores, tiers, clusters),
        trial_numbers(cases, scores, metrics, clusters)
        if repeated and clusters is not None
        else (),
    )
    return {name: _interval(number) for name, number in numbers if number.values.size}


class _IndependentCases:
    """Values of cases that were each judged once, without clusters.

    Such values need no case ids: it is enough to know how often each value occurs.

    Args:
        by_score: how many executions have each `state` and `overall_score`.
        counts: the result of `metric_counts`.
    """

    def __init__(self, by_score: pl.DataFrame, counts: pl.DataFrame) -> None:
        self._cases = by_score.with_columns(
            passes=(pl.col("state") == "passed").cast(pl.Float64),
            score=pl.when(pl.col("state") != "errored").then("overall_score"),
        )
        self._scored = counts.filter(status="scored")

    def of_cases(self, column: str) -> CountedSample:
        """One value for each case: `passes` (1 where it passed, else 0) or `score`."""
        return counted_values(self._cases, column)

    def of_metric(self, metric: MetricSummary) -> Callable[[str], CountedSample]:
        """A function from a column (`raw`, `value`, `success`) to the values of one metric."""
        rows = self._scored.filter(judge=metric.judge, metric=metric.name)
        return partial(counted_values, rows)


class _GroupedCases:
    """Values of cases with repetitions or clusters: the average of each case, with its cluster.

    Args:
        cases: rows of `cases`.
        scores: rows of `scores`.
        clusters: the clusters of the cases, by case key.
        repeated: whether some case was judged more than once.
    """

    def __init__(
        self, cases: pl.LazyFrame, scores: pl.LazyFrame, clusters: pl.DataFrame, *, repeated: bool
    ) -> None:
        self._scores = headlines(scores).filter(pl.col("status") == "scored")
        self._clusters = clusters
        self._repeated = repeated
        of_case = (
            executions(cases)
            .group_by(case_key())
            .agg(
                passes=(pl.col("state") == "passed").mean(),
                score=pl.when(pl.col("state") != "errored").then("overall_score").mean(),
            )
        )
        self._cases = collect_rows(of_case).join(clusters, on=KEY)

    def of_cases(self, column: str) -> Sample:
        """One value for each case: `passes` (share of its executions that passed) or `score`."""
        return coded_sample(self._cases, column)

    def of_metric(self, metric: MetricSummary) -> Callable[[str], Sample]:
        """A function from a column (`raw`, `value`, `success`) to the values of one metric."""
        own = self._scores.filter(
            (pl.col("judge") == metric.judge) & (pl.col("metric") == metric.name)
        )
        numbers = pl.col("raw", "value", "success").cast(pl.Float64)
        # Without repetitions each row is one case; grouping would only take as much memory again.
        rows = (
            own.group_by(case_key()).agg(numbers.mean())
            if self._repeated
            else own.select(case_key(), numbers)
        )
        averages = collect_rows(rows).join(self._clusters, on=KEY)
        return partial(coded_sample, averages)


_Values = _IndependentCases | _GroupedCases


def _case_numbers(by_score: pl.DataFrame, values: _Values) -> Iterator[tuple[str, RunNumber]]:
    """Pass rate and overall score; an errored execution has not passed and has no score."""
    runs = int(by_score["rows"].sum())
    missing = int(by_score.filter(state="errored")["rows"].sum())
    passed = float(by_score.filter(state="passed")["rows"].sum())
    rate = RunNumber(values.of_cases("passes"), runs - missing, missing, rate=True, total=passed)
    yield "pass_rate", rate
    yield "cases_pass_rate_pct", rate._replace(most=100.0)
    known = by_score.filter(pl.col("state") != "errored").drop_nulls("overall_score")
    score = RunNumber(
        values.of_cases("score"),
        int(known["rows"].sum()),
        missing,
        most=100.0,
        total=float((known["overall_score"] * known["rows"]).sum()),
    )
    yield "avg_overall_score", score
    yield "weighted_metrics_score_pct", score


def _metric_numbers(
    metrics: Sequence[MetricSummary], values: _Values
) -> Iterator[tuple[str, RunNumber]]:
    names = published_names(metrics)
    for metric in metrics:
        path = f"metrics/{names[metric.judge, metric.name]}"
        had = (metric.scored, metric.failed)
        of = values.of_metric(metric)
        total = (metric.mean_value or 0.0) * metric.scored
        value = RunNumber(of("value"), *had, total=total)
        raw = RunNumber(of("raw"), *had, most=None)
        yield f"{path}/mean_raw", raw
        yield f"{path}/mean_value", value
        if metric.pass_rate is not None:
            yield f"{path}/pass_rate", value._replace(values=of("success"), rate=True)
        for name in metric.run_names:
            yield name, raw if metric.mean_value is None else value


def _interval(number: RunNumber) -> NumberInterval:
    values, span, bounds = number.values, _span(number), _bounds(number)
    due = number.known + number.missing
    method = "woodruff" if number.quantile is not None else "clustered_t"
    return NumberInterval(
        low=None if span is None else rounded_value(span.low),
        high=None if span is None else rounded_value(span.high),
        confidence=CONFIDENCE,
        method="wilson" if number.rate else method,
        cases=values.size,
        clusters=values.clusters,
        coverage=rounded_value(number.known / due) if due else None,
        worst=None if bounds is None else rounded_value(bounds.low),
        best=None if bounds is None else rounded_value(bounds.high),
    )


def _span(number: RunNumber) -> ValueInterval | None:
    values, factor = number.values, number.most or 1.0
    if number.quantile is not None and isinstance(values, Sample):
        return quantile_interval(values, number.quantile)
    if number.rate:
        rate = rate_interval(values)
        return rate and ValueInterval(rate.low * factor, rate.high * factor)
    span = mean_interval(values)
    if span is None:
        return None
    if number.most is not None:
        return span.clip(0.0, number.most)
    least = span.low if number.least is None else max(span.low, number.least)
    return ValueInterval(least * number.times, span.high * number.times)


def _bounds(number: RunNumber) -> ValueInterval | None:
    if number.most is None:
        return None
    factor = number.most if number.rate else 1.0
    total = number.values.mean * number.known if number.total is None else number.total
    return missing_bounds(total * factor, number.known, number.missing, number.most)
