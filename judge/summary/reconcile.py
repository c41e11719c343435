"""Nothing disappears: whatever was counted in is counted out, or the run says so and stops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from assizes.judge.errors import Unreconciled
from assizes.judge.protocol import Judge
from assizes.judge.summary.headlines import MetricSummary

_STATUSES: Final = ("scored", "skipped", "failed")


def reconcile(what: str, total: int, parts: Mapping[str, int]) -> None:
    """See that a total is the sum of what became of it.

    Args:
        what: was counted, for the message.
        total: how many there were.
        parts: what became of them.

    Raises:
        Unreconciled: when it is not, or a part is negative.
    """
    if sum(parts.values()) == total and min(parts.values(), default=0) >= 0:
        return
    equation = " + ".join(f"{count} {name}" for name, count in parts.items())
    raise Unreconciled(f"counts do not reconcile: {total!r} {what}, but {equation or 'nothing'}")


def reconcile_scores(
    cases: int, judges: Iterable[Judge], metrics: Iterable[MetricSummary]
) -> dict[str, int]:
    """See that every metric that was promised came to one score in every case that was heard.

    Args:
        cases: how many were heard.
        judges: those who sat; each promises its metrics.
        metrics: what was found.

    Returns:
        Sums over the promised metrics: `due` = `scored` + `skipped` + `failed`.

    Raises:
        Unreconciled: when a score is missing, or one is there twice.
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
