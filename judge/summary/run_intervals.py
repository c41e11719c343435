"""The uncertainty of each number of a run, and of estimates for the cases that it was drawn from.

The repetitions of a case are averaged first, and the cases of one cluster count as sampled
together: neither more repetitions nor more cases of one user look like more evidence.

In the estimates for all cases, from a stratified sample, each stratum has the weight of all its
cases, however many of them were drawn, and a stratum that was judged completely adds no uncertainty
(finite population correction).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from math import sqrt
from typing import Any, Final, Literal

import numpy as np
import polars as pl
from pydantic import Field

from assizes.judge.selection import ALWAYS, stratum_name
from assizes.judge.statistics import intervals
from assizes.judge.statistics.exact import rounded_value
from assizes.judge.statistics.intervals import CONFIDENCE, CountedSample, Sample, ValueInterval
from assizes.judge.summary import case_values
from assizes.judge.summary.case_values import CASE_KEY, KEY, RunNumber
from assizes.judge.summary.headlines import FrozenModel, MetricSummary, headlines, published_names
from assizes.judge.verdicts.executions import collect_rows, executions


class NumberInterval(FrozenModel):
    """The interval of one number of a run, in that number's unit.

    `worst` and `best` are the values that the number would have if every missing score were 0, or
    the best possible score; `null` for amounts, which have no best score. `coverage` is scored /
    due, 0..1.
    """

    low: float | None = Field(description="null with fewer than two clusters")
    high: float | None
    confidence: float  # share of such intervals that hold the true value, 0..1
    method: Literal["wilson", "clustered_t", "woodruff"]
    cases: int  # for a quantile: executions
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

    `counts` and `tiers` are the results of `metric_counts` and `tier_counts` for the scores.
    """
    executed = executions(cases)
    by_score = collect_rows(executed.group_by("state", "overall_score").agg(rows=pl.len()))
    repeated, clustered = collect_rows(
        executed.select((pl.col("repetition") > 0).any(), pl.col("cluster").is_not_null().any())
    ).row(0)
    # One number after the other: all numbers at once take hundreds of bytes for each case.
    clusters = case_values.clusters_of(cases) if repeated or clustered else None
    numbers = chain(
        _case_numbers(cases, by_score, clusters),
        _metric_numbers(scores, counts, metrics, clusters, repeated=repeated),
        case_values.agent_numbers(cases, clusters),
        case_values.assessment_numbers(scores, metrics, clusters),
        case_values.tier_numbers(cases, scores, tiers, clusters),
        case_values.trial_numbers(cases, scores, metrics, clusters)
        if repeated and clusters is not None
        else (),
    )
    return {name: _interval(number) for name, number in numbers if number.values.size}


_Values = Callable[[str], Sample | CountedSample]
"""Takes a column, and gives the value of each case in it with the cluster of the case."""


def _case_numbers(
    cases: pl.LazyFrame, by_score: pl.DataFrame, clusters: pl.DataFrame | None
) -> Iterator[tuple[str, RunNumber]]:
    """Pass rate and overall score; an errored execution has not passed and has no score."""
    passes = (pl.col("state") == "passed").cast(pl.Float64)
    scored = pl.when(pl.col("state") != "errored").then("overall_score")
    of: _Values = partial(
        case_values.counted_values, by_score.with_columns(passes=passes, score=scored)
    )
    if clusters is not None:
        by_case = executions(cases).group_by(CASE_KEY)
        averages = collect_rows(by_case.agg(passes=passes.mean(), score=scored.mean()))
        of = partial(case_values.coded_sample, averages.join(clusters, on=KEY))
    runs = int(by_score["rows"].sum())
    missing = int(by_score.filter(state="errored")["rows"].sum())
    passed = float(by_score.filter(state="passed")["rows"].sum())
    rate = RunNumber(of("passes"), runs - missing, missing, rate=True, total=passed)
    yield "pass_rate", rate
    yield "cases_pass_rate_pct", rate._replace(most=100.0)  # the same share, in percent
    known = by_score.filter(pl.col("state") != "errored").drop_nulls("overall_score")
    total = float((known["overall_score"] * known["rows"]).sum())
    score = RunNumber(of("score"), int(known["rows"].sum()), missing, most=100.0, total=total)
    yield "avg_overall_score", score
    yield "weighted_metrics_score_pct", score


def _metric_numbers(
    scores: pl.LazyFrame,
    counts: pl.DataFrame,
    metrics: Sequence[MetricSummary],
    clusters: pl.DataFrame | None,
    *,
    repeated: bool,
) -> Iterator[tuple[str, RunNumber]]:
    """The means and the pass rate of every metric; without clusters `counts` suffice."""
    names = published_names(metrics)
    for metric in metrics:
        of_metric = {"status": "scored", "judge": metric.judge, "metric": metric.name}
        counted = counts.filter(**of_metric)
        of: _Values = partial(case_values.counted_values, counted)
        if clusters is not None:
            own = headlines(scores).filter(**of_metric)
            numbers = pl.col("raw", "value", "success").cast(pl.Float64)
            # Without repetitions a row is a case; grouping would only take as much memory again.
            rows = own.select(CASE_KEY, numbers)
            if repeated:
                rows = own.group_by(CASE_KEY).agg(numbers.mean())
            of = partial(case_values.coded_sample, collect_rows(rows).join(clusters, on=KEY))
        path = f"metrics/{names[metric.judge, metric.name]}"
        known = (metric.scored, metric.failed)  # a skipped score is not missing: none was due
        total = (metric.mean_value or 0.0) * metric.scored
        value = RunNumber(of("value"), *known, rate=metric.is_binary, total=total)
        raw = RunNumber(of("raw"), *known, most=None)  # in the metric's own unit: no known bounds
        if metric.is_binary:  # of yes and no, all three means are the share of yes
            raw = value
        yield f"{path}/mean_raw", raw
        yield f"{path}/mean_value", value
        if metric.pass_rate is not None:
            decided = counted.drop_nulls("success")  # the scores that say pass or fail
            passes = float(decided.filter("success")["rows"].sum())
            known = (int(decided["rows"].sum()), metric.failed)
            rate = RunNumber(of("success"), *known, rate=True, total=passes)
            yield f"{path}/pass_rate", rate
        for name in metric.run_names:
            yield name, raw if metric.mean_value is None else value


def _interval(number: RunNumber) -> NumberInterval:
    span, due = _span(number), number.known + number.missing
    worst: float | None = None
    best: float | None = None
    if number.most is not None and due:
        total = number.values.mean * number.known if number.total is None else number.total
        # Passes are counted, but the number may be in percent.
        total *= number.most if number.rate else 1.0
        worst = rounded_value(total / due)
        best = rounded_value((total + number.most * number.missing) / due)
    method = "woodruff" if number.quantile is not None else "clustered_t"
    return NumberInterval(
        low=None if span is None else rounded_value(span.low),
        high=None if span is None else rounded_value(span.high),
        confidence=CONFIDENCE,
        method="wilson" if number.rate else method,
        cases=number.values.size,
        clusters=number.values.clusters,
        coverage=rounded_value(number.known / due) if due else None,
        worst=worst,
        best=best,
    )


def _span(number: RunNumber) -> ValueInterval | None:
    values, factor = number.values, number.most or 1.0
    if number.quantile is not None and isinstance(values, Sample):
        return intervals.quantile_interval(values, number.quantile)
    if number.rate:
        rate = intervals.rate_interval(values)
        return rate and ValueInterval(rate.low * factor, rate.high * factor)
    span = intervals.mean_interval(values)
    if span is None:
        return None
    if number.most is not None:
        return span.clip(0.0, number.most)
    least = span.low if number.least is None else max(span.low, number.least)
    return ValueInterval(least * number.times, span.high * number.times)


_NUMBERS: Final = {"pass_rate": 1.0, "avg_overall_score": 100.0}
"""The numbers that are estimated, each with its greatest possible value."""


class PopulationNumber(FrozenModel):
    """The estimate of one number for all cases from which a sample was drawn, in its unit."""

    value: float
    low: float | None = Field(description="null where a stratum gave fewer than two clusters")
    high: float | None
    confidence: float
    cases: int = Field(description="in the sample, with a value")
    population: int = Field(description="cases it was drawn from")


def population_numbers(
    cases: pl.LazyFrame, design: Mapping[str, Any], always: tuple[str, ...]
) -> dict[str, PopulationNumber]:
    """The estimated pass rate and mean overall score of all cases that could have been drawn.

    `design` is the run's plan of how its cases were drawn (`strata` and `by`); the cases with an id
    in `always` were judged without being drawn, and are a stratum of their own. The result is empty
    where the sample does not tell: nothing was drawn, or some case belongs to no stratum.
    """
    strata = design.get("strata", ())
    sizes = {stratum["name"]: stratum["cases"] for stratum in strata if stratum["cases"]}
    # A limit takes the first cases of the sample, which are no random ones.
    if not sizes or design.get("limited"):
        return {}
    table = _by_case(cases, tuple(design["by"]), frozenset(always))
    # Redaction of tags can take away the stratum of a case.
    if not set(table["stratum"]) <= sizes.keys():
        return {}
    return {
        name: number
        for name, most in _NUMBERS.items()
        if (number := _population_number(table, name, most, sizes)) is not None
    }


def _by_case(cases: pl.LazyFrame, by: tuple[str, ...], always: frozenset[str]) -> pl.DataFrame:
    """Each case's values, its repetitions averaged, with its cluster and its stratum."""
    by_case = (
        executions(cases)
        .group_by("case_id")
        .agg(
            pl.col("agent", "agent_version", "tags", "cluster").first(),
            pass_rate=(pl.col("state") == "passed").mean(),
            avg_overall_score=pl.when(pl.col("state") != "errored").then("overall_score").mean(),
        )
    )
    table = collect_rows(by_case.sort("case_id"))
    strata = [
        ALWAYS if row["case_id"] in always else stratum_name(row, json.loads(row["tags"]), by)
        for row in table.select("case_id", "agent", "agent_version", "tags").iter_rows(named=True)
    ]
    cluster = pl.coalesce("cluster", "case_id")
    return table.with_columns(cluster=cluster, stratum=pl.Series(strata, dtype=pl.String))


def _population_number(
    table: pl.DataFrame, name: str, most: float, sizes: Mapping[str, int]
) -> PopulationNumber | None:
    known = table.filter(pl.col(name).is_not_null())
    if set(known["stratum"]) != sizes.keys():
        return None  # a stratum without any value cannot be estimated
    total = sum(sizes.values())
    value, measurable = 0.0, True
    drawn_from: list[tuple[float, int]] = []  # (variance of the weighted mean, clusters - 1)
    # The order is fixed, because the last digits of a sum of floats depend on it.
    for (stratum,), group in known.group_by("stratum", maintain_order=True):
        size = sizes[str(stratum)]
        value += size / total * float(group[name].to_numpy().mean())
        clusters, spread = _variance(group, name, size)
        measurable = measurable and spread is not None
        if group.height < size:
            drawn_from.append(((size / total) ** 2 * (spread or 0.0), clusters - 1))
    span = None
    if measurable:
        variance = sum(part for part, _ in drawn_from)
        quantile = intervals.t_of(CONFIDENCE, _freedom(drawn_from))
        drawn = (known.height, total) if name == "pass_rate" else None
        span = _population_span(value, variance, quantile, drawn).clip(0.0, most)
    return PopulationNumber(
        value=rounded_value(value),
        low=None if span is None else rounded_value(span.low),
        high=None if span is None else rounded_value(span.high),
        confidence=CONFIDENCE,
        cases=known.height,
        population=total,
    )


def _freedom(strata: Sequence[tuple[float, int]]) -> float:
    """Degrees of freedom of a sum of variances by Satterthwaite (1946), at least 1.

    `strata` are those of which a part was drawn: the variance of the weighted mean, clusters - 1.
    """
    total = sum(variance for variance, _ in strata)
    if total == 0:
        return max(1, sum(freedom for _, freedom in strata))
    return max(1.0, total**2 / sum(v**2 / freedom for v, freedom in strata if v > 0))


def _population_span(
    value: float, variance: float, quantile: float, rate: tuple[int, int] | None
) -> ValueInterval:
    """The interval of a mean; Wilson's for a `rate`, given as cases (drawn, in all)."""
    if rate is None or rate[0] >= rate[1]:
        half = quantile * sqrt(variance)
        return ValueInterval(value - half, value + half)
    # Wilson's for as many independent cases as have this variance: a rate of 1 needs a width too.
    alone = value * (1 - value) / variance if variance > 0 else rate[0] / (1 - rate[0] / rate[1])
    return intervals.wilson(value, alone, quantile)


def _variance(group: pl.DataFrame, name: str, size: int) -> tuple[int, float | None]:
    """The number of clusters in a stratum, and the variance of its mean; `None` for one cluster."""
    count = group.height
    # In order: the last digits of a sum depend on the order of its terms.
    by_cluster = group.sort("cluster", name).group_by("cluster", maintain_order=True)
    apart = by_cluster.agg((pl.col(name) - group[name].mean()).sum())
    sums = apart[name].to_numpy()
    if count >= size:
        return len(sums), 0.0
    if len(sums) < 2:
        return len(sums), None
    spread = float(np.sum(sums**2)) * len(sums) / (len(sums) - 1) / count**2
    return len(sums), spread * (1 - count / size)  # finite population correction
