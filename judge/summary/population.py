"""Estimates for all cases from which a stratified sample was drawn, with their intervals.

The numbers of a run over a sample describe the sample. Here each stratum has the weight of all its
cases, however many of them were drawn, and a stratum that was judged completely adds no uncertainty
(finite population correction).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.selection import ALWAYS, stratum_name
from assizes.judge.statistics.exact import rounded_value
from assizes.judge.statistics.intervals import CONFIDENCE, ValueInterval, t_of, wilson
from assizes.judge.verdicts.executions import collect_rows, executions

_NUMBERS: Final = {"pass_rate": 1.0, "avg_overall_score": 100.0}
"""The numbers that are estimated, each with its greatest possible value."""


class PopulationNumber(BaseModel):
    """The estimate of one number for all cases from which a sample was drawn, in its unit."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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

    Args:
        cases: rows of `cases`, of one run.
        design: `strata` and `by` of the run's plan: how the cases were drawn.
        always: ids of the cases that were judged without being drawn; a stratum of their own.

    Returns:
        The estimates by the name of the number. Empty where nothing was drawn, where `limit` cut
        the
        sample, and where a case belongs to no stratum of the design because its tags were redacted.
    """
    sizes = {
        stratum["name"]: stratum["cases"]
        for stratum in design.get("strata", ())
        if stratum["cases"]
    }
    if not sizes or design.get("limited"):
        return {}
    table = _by_case(cases, tuple(design["by"]), frozenset(always))
    if not set(table["stratum"]) <= sizes.keys():
        return {}
    numbers = {name: _number(table, name, most, sizes) for name, most in _NUMBERS.items()}
    return {name: number for name, number in numbers.items() if number is not None}


def _by_case(cases: pl.LazyFrame, by: tuple[str, ...], always: frozenset[str]) -> pl.DataFrame:
    """Each case's values, its repetitions averaged, with its cluster and its stratum."""
    passed = pl.col("state") == "passed"
    table = collect_rows(
        executions(cases)
        .group_by("case_id")
        .agg(
            pl.col("agent", "agent_version", "tags", "cluster").first(),
            pass_rate=passed.mean(),
            avg_overall_score=pl.when(pl.col("state") != "errored").then("overall_score").mean(),
        )
        .sort("case_id")
    )
    strata = [
        ALWAYS if row["case_id"] in always else stratum_name(row, json.loads(row["tags"]), by)
        for row in table.select("case_id", "agent", "agent_version", "tags").iter_rows(named=True)
    ]
    cluster = pl.coalesce("cluster", "case_id")
    return table.with_columns(cluster=cluster, stratum=pl.Series(strata, dtype=pl.String))


def _number(
    table: pl.DataFrame, name: str, most: float, sizes: Mapping[str, int]
) -> PopulationNumber | None:
    known = table.filter(pl.col(name).is_not_null())
    if set(known["stratum"]) != sizes.keys():
        return None  # a stratum without any value cannot be estimated
    total = sum(sizes.values())
    value, measurable = 0.0, True
    drawn_from: list[tuple[float, int]] = []
    # The order is fixed, because the last digits of a sum of floats depend on it.
    for (stratum,), group in known.group_by("stratum", maintain_order=True):
        weight = sizes[str(stratum)] / total
        value += weight * float(group[name].to_numpy().mean())
        clusters, spread = _variance(group, name, sizes[str(stratum)])
        measurable = measurable and spread is not None
        if group.height < sizes[str(stratum)]:
            drawn_from.append((weight**2 * (spread or 0.0), clusters - 1))
    span = None
    if measurable:
        variance = sum(part for part, _ in drawn_from)
        quantile = t_of(CONFIDENCE, _freedom(drawn_from))
        drawn = (known.height, total)
        span = _span(value, variance, quantile, drawn if name == "pass_rate" else None)
        span = span.clip(0.0, most)
    return PopulationNumber(
        value=rounded_value(value),
        low=None if span is None else rounded_value(span.low),
        high=None if span is None else rounded_value(span.high),
        confidence=CONFIDENCE,
        cases=known.height,
        population=total,
    )


def _freedom(strata: Sequence[tuple[float, int]]) -> float:
    """Degrees of freedom of a sum of variances, by Satterthwaite's formula, at least 1.

    A stratum counts as far as it makes the sum uncertain; one that was judged completely does not
    count.

    Args:
        strata: for each stratum of which a part was drawn, the variance of its weighted mean, and
            its number of clusters less one.
    """
    total = sum(variance for variance, _ in strata)
    if total == 0:
        return max(1, sum(freedom for _, freedom in strata))
    parts = sum(variance**2 / freedom for variance, freedom in strata if variance > 0)
    return max(1.0, total**2 / parts)


def _span(
    value: float, variance: float, quantile: float, rate: tuple[int, int] | None
) -> ValueInterval:
    """The interval of a mean, or Wilson's interval of a rate.

    Wilson's interval is that of a simple random sample with the same variance; a plain interval of
    a rate of 1 would have no width.

    Args:
        value: the estimate.
        variance: the variance of the estimate.
        quantile: the t quantile for the confidence level.
        rate: for a rate, the number of drawn cases and of all cases; `None` for a mean.
    """
    if rate is None or rate[0] >= rate[1]:
        half = quantile * float(np.sqrt(variance))
        return ValueInterval(value - half, value + half)
    alone = value * (1 - value) / variance if variance > 0 else rate[0] / (1 - rate[0] / rate[1])
    return wilson(value, alone, quantile)


def _variance(group: pl.DataFrame, name: str, size: int) -> tuple[int, float | None]:
    """The number of clusters in a stratum, and the variance of its mean; `None` for one cluster."""
    count = group.height
    mean = group[name].mean()
    sums = group.group_by("cluster").agg((pl.col(name) - mean).sum())[name].to_numpy()
    if count >= size:
        return len(sums), 0.0
    if len(sums) < 2:
        return len(sums), None
    spread = float(np.sum(sums**2)) * len(sums) / (len(sums) - 1) / count**2
    return len(sums), spread * (1 - count / size)
