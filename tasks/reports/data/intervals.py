"""The interval of a number of a run, with its words for a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from assizes.judge.summary.run_intervals import NumberInterval
from assizes.tasks.reports.schema.parts import Interval


def interval_of(intervals: Mapping[str, NumberInterval], name: str) -> Interval | None:
    """The interval of a number by the name of the number; `None` where it has no interval."""
    interval = intervals.get(name)
    if interval is None:
        return None
    return Interval(**interval.model_dump(), shown="; ".join(_interval_texts(interval)))


def _interval_texts(interval: NumberInterval) -> Iterator[str]:
    if interval.low is not None and interval.high is not None:
        yield f"{interval.confidence:.0%} CI {interval.low:.2f} to {interval.high:.2f}"
    if interval.worst is not None and interval.best is not None and interval.worst < interval.best:
        yield f"with what is missing {interval.worst:.2f} to {interval.best:.2f}"
