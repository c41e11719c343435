"""Checks that no record and no score disappears: a total must be the sum of its parts.

A run whose counts do not add up stops with `Unreconciled`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from assizes.judge.errors import Unreconciled
from assizes.judge.protocol import Judge
from assizes.judge.summary.headlines import MetricSummary

_STATUSES: Final = ("scored", "skipped", "failed")


def reconcile(what: str, total: int, parts: Mapping[str, int]) -> None:
    """Check that a total is the sum of its parts.

    Args:
        what: what was counted, for the error message.
        total: how many there were.
        parts: how many of them ended in which way.

    Raises:
        Unreconciled: when the sum differs from the total, or a part is negative.
    """
    if sum(parts.values()) == total and min(parts.values(), default=0) >= 0:
        return
    equation = " + ".join(f"{count} {name}" for name, count in parts.items())
    raise Unreconciled(f"counts do not reconcile: {total!r} {what}, but {equation or 'nothing'}")


def reconcile_scores(
    cases: int, judges: Iterable[Judge], metrics: Iterable[MetricSummary]
) -> dict[str, int]:
    """Check that every promised metric has exactly one headline score in every case.

    Args:
        cases: how many cases have rows, repetitions counted.
        judges: the judges of the run; each promises its metrics.
        metrics: the numbers of each metric.

    Returns:
        Sums over the promised metrics: `due` = `scored` + `skipped` + `failed`.

    Raises:
        Unreconciled: when a score is missing or double.
    """
    sums = {"due": 0, **dict.fromkeys(_STATUSES, 0)}
    by_metric = {(metric.judge, metric.name): metric for metric in metrics}
    for judge in judges:
        for metric in judge.metrics:
            summary = by_metric.get((judge.name, metric.name))
            parts = {status: getattr(summary, status) if summary else 0 for status in _STATUSES}
            reconcile(f"scores due of {judge.name}/{metric.name}", cases, parts)
            sums["due"] += cases
            for status, count in parts.items():
                sums[status] += count
    return sums
