"""The intervals of a run's numbers as a report shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from assizes.judge.summary.run_intervals import NumberInterval


def interval_of(intervals: Mapping[str, NumberInterval], *names: str) -> dict[str, Any] | None:
    """The interval of the first of these numbers that has one, with its words."""
    for name in names:
        if (interval := intervals.get(name)) is not None:
            return interval.model_dump() | {"shown": "; ".join(_interval_texts(interval))}
    return None


def _interval_texts(interval: NumberInterval) -> Iterator[str]:
    if interval.low is not None and interval.high is not None:
        yield f"{interval.confidence:.0%} CI {interval.low:.2f} to {interval.high:.2f}"
    if interval.worst is not None and interval.best is not None and interval.worst < interval.best:
        yield f"with what is missing {interval.worst:.2f} to {interval.best:.2f}"
