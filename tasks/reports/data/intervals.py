"""The intervals of a run's numbers as a report shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from assizes.judge.summary.run_intervals import NumberInterval


def interval_of(found: Mapping[str, NumberInterval], *names: str) -> dict[str, Any] | None:
    """The interval of the first of these numbers that has one, with its words."""
    for name in names:
        if (one := found.get(name)) is not None:
            return one.model_dump() | {"shown": "; ".join(_said(one))}
    return None


def _said(one: NumberInterval) -> Iterator[str]:
    if one.low is not None and one.high is not None:
        yield f"{one.confidence:.0%} CI {one.low:.2f} to {one.high:.2f}"
    if one.worst is not None and one.best is not None and one.worst < one.best:
        yield f"with what is missing {one.worst:.2f} to {one.best:.2f}"
