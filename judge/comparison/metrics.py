"""The metrics of two runs: counted where that says all, else joined case by case."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assizes.judge.comparison.cases import MetricAggregate
from assizes.judge.comparison.counted_metrics import (
    CountedMetric,
    counted_aggregate,
    counted_metrics,
)
from assizes.judge.comparison.paired_cases import PairedCases
from assizes.judge.comparison.paired_metrics import Names, metric_aggregate, paired_metrics
from assizes.judge.comparison.statistical import StatisticalComparison

if TYPE_CHECKING:
    from assizes.judge.comparison.compare import RunData


def compared_metrics(
    runs: tuple[RunData, RunData],
    names: Names,
    cases: PairedCases,
    both: StatisticalComparison | None,
) -> list[MetricAggregate]:
    """The averages of every metric, which the statistics see on the way."""
    scores = (runs[0].scores, runs[1].scores)
    aggregates: list[MetricAggregate | None] = []
    counted = _countable_metrics(runs, names, cases, both)
    for metric in counted:
        aggregates.append(counted_aggregate(metric))
        if both is not None:
            both.add_counted(metric)
    done = {metric.name for metric in counted}
    left = {key: name for key, name in names.items() if name not in done}
    for pair in paired_metrics(scores, left, repeated=cases.repeated):
        aggregates.append(metric_aggregate(pair, cases))
        if both is not None:
            both.add(pair)
    return sorted(
        (aggregate for aggregate in aggregates if aggregate is not None),
        key=lambda aggregate: aggregate.metric,
    )


def _countable_metrics(
    runs: tuple[RunData, RunData],
    names: Names,
    cases: PairedCases,
    both: StatisticalComparison | None,
) -> list[CountedMetric]:
    """The metrics of which counts say all: none gates, and every case stands alone in both runs."""
    plain = not cases.repeated and cases.keys is None
    if not plain or (both is not None and not both.is_unclustered):
        return []
    gating = () if both is None else both.limits.gating
    wanted = {key: name for key, name in names.items() if name not in gating}
    sliceable = all(run.sliceable for run in runs)
    scores = (runs[0].scores, runs[1].scores)
    return counted_metrics(scores, wanted, sliceable=sliceable) or []
