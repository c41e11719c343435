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
from assizes.judge.comparison.statistical import Compared

if TYPE_CHECKING:
    from assizes.judge.comparison.compare import RunData


def compared_metrics(
    runs: tuple[RunData, RunData], names: Names, cases: PairedCases, both: Compared | None
) -> list[MetricAggregate]:
    """The averages of every metric, which the statistics see on the way."""
    scores = (runs[0].scores, runs[1].scores)
    found: list[MetricAggregate | None] = []
    counted = _counted(runs, names, cases, both)
    for one in counted:
        found.append(counted_aggregate(one))
        if both is not None:
            both.add_counted(one)
    done = {one.name for one in counted}
    left = {key: name for key, name in names.items() if name not in done}
    for pair in paired_metrics(scores, left, repeated=cases.repeated):
        found.append(metric_aggregate(pair, cases))
        if both is not None:
            both.add(pair)
    return sorted((one for one in found if one is not None), key=lambda one: one.metric)


def _counted(
    runs: tuple[RunData, RunData], names: Names, cases: PairedCases, both: Compared | None
) -> list[CountedMetric]:
    """The metrics of which counts say all: none gates, and every case stands alone in both runs."""
    plain = not cases.repeated and cases.keys is None
    if not plain or (both is not None and not both.alone):
        return []
    gating = () if both is None else both.limits.gating
    wanted = {key: name for key, name in names.items() if name not in gating}
    sliceable = all(run.sliceable for run in runs)
    scores = (runs[0].scores, runs[1].scores)
    return counted_metrics(scores, wanted, sliceable=sliceable) or []
