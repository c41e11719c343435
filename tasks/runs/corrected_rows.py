"""The corrected numbers of runs as rows of table run_metrics, and as points of trends.

A run's rows are committed before anybody has labelled it, and are never written anew. So these rows
are joined to them where they are read: they follow from the labels and rows of the store alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import polars as pl

from assizes.judge.config.gates import VERDICT
from assizes.judge.history.trends import CorrectedPoint, Trend, TrendPoint, Trends
from assizes.judge.rows import frame
from assizes.judge.statistics.exact import rounded_value
from assizes.judge.statistics.prediction_powered import CorrectedEstimate
from assizes.tasks.runs.corrected import LabelledNumber, corrected_numbers
from assizes.tasks.runs.history import PASS_RATE
from assizes.tasks.runs.labels.label_sources import LabelReader
from assizes.tasks.store import Store

PREFIX: Final = "corrected"
"""The beginning of the published names of corrected numbers."""


def corrected_metrics(store: Store, run_ids: Iterable[str]) -> pl.DataFrame:
    """The corrected numbers of runs (full ids) as rows of table run_metrics, sorted by its keys.

    The names are `corrected/pass_rate` and `corrected/metrics/NAME` (0..1), each also with `/low`,
    `/high` (95 %) and `/labels`. A number with too few labels has no row.
    """
    reader = LabelReader(store)
    rows = [
        {"run_id": run_id, "name": name, "value": value}
        for run_id in (() if reader.is_empty else run_ids)
        for number in corrected_numbers(store, run_id, reader)
        for name, value in _named(number)
    ]
    return frame("run_metrics", rows)


def run_metrics_with_corrections(store: Store, run_id: str) -> pl.DataFrame:
    """Table run_metrics of a run (its full id) with the corrected numbers."""
    stored = store.table(run_id, "run_metrics")
    return pl.concat([stored, corrected_metrics(store, [run_id])]).sort("run_id", "name")


def metrics_of_query(store: Store, run_id: str | None) -> pl.DataFrame:
    """The corrected rows of table run_metrics that a query over a run, or over all, also reads."""
    wanted = store.run_index()["run_id"].to_list() if run_id is None else [store.run(run_id).run_id]
    return corrected_metrics(store, wanted)


def _named(number: LabelledNumber) -> Iterator[tuple[str, float]]:
    now, metric = number.number.estimate, number.number.metric
    if now is None:
        return
    name = f"{PREFIX}/pass_rate" if metric == VERDICT else f"{PREFIX}/metrics/{metric}"
    yield name, rounded_value(now.value)
    yield f"{name}/low", rounded_value(now.low)
    yield f"{name}/high", rounded_value(now.high)
    yield f"{name}/labels", float(now.labels)


def trends_with_corrections(store: Store, trends: Trends) -> Trends:
    """The trends with the corrected value beside each point that labels correct, or why not."""
    reader = LabelReader(store)
    if reader.is_empty:
        return trends
    runs = {point.run_id for trend in trends.series for point in trend.points}
    numbers: dict[tuple[str, str], LabelledNumber] = {}
    for run_id in sorted(runs):
        for number in corrected_numbers(store, run_id, reader):
            metric = number.number.metric
            series = PASS_RATE if metric == VERDICT else metric.rpartition("/")[2]
            numbers[run_id, series] = number
    series_trends = tuple(_with_points(trend, numbers) for trend in trends.series)
    return trends.model_copy(update={"series": series_trends})


def _with_points(trend: Trend, numbers: dict[tuple[str, str], LabelledNumber]) -> Trend:
    points = tuple(
        _with_correction(point, trend.slice_of, numbers.get((point.run_id, trend.series)))
        for point in trend.points
    )
    return trend.model_copy(update={"points": points})


def _with_correction(
    point: TrendPoint, slice_of: str, labelled: LabelledNumber | None
) -> TrendPoint:
    if labelled is None:
        return point
    number = labelled.number
    now = number.slices.get(slice_of) if slice_of else number.estimate
    if now is None and slice_of:
        return point
    return point.model_copy(update={"corrected": _point(labelled, now)})


def _point(labelled: LabelledNumber, now: CorrectedEstimate | None) -> CorrectedPoint:
    parts = [] if labelled.origin is None else [labelled.origin.sentence()]
    parts += [f"{count} {reason}" for reason, count in labelled.number.left_out.items()]
    why = labelled.number.why_not
    values: dict[str, Any] = {
        name: None if now is None else rounded_value(getattr(now, name))
        for name in ("value", "low", "high")
    }
    count = labelled.number.labels if now is None else now.labels
    return CorrectedPoint(**values, labels=count, note="; ".join([why, *parts] if why else parts))
