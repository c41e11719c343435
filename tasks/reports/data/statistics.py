"""The statistical verdict as a report shows it."""

from __future__ import annotations

from typing import Any, Final

from assizes.judge.comparison.compare import ComparisonVerdict
from assizes.judge.comparison.labels import TOOL
from assizes.judge.comparison.statistical_verdict import (
    LABELS,
    SHOWN,
    Exploratory,
    MetricVerdict,
    StatisticalVerdict,
)
from assizes.tasks.reports import formatting
from assizes.tasks.reports.data.case_rows import ID_CHARS

MAX_EXPLORATORY: Final = 25
MAX_NOISE: Final = 50
MAX_MISMATCHES: Final = 50


def statistics(verdict: ComparisonVerdict) -> dict[str, Any] | None:
    """The statistics of a comparison as JSON-able data; null where the rules stand alone."""
    result = verdict.statistics
    if result is None:
        return None
    return {
        "verdict": result.verdict,
        "word": SHOWN[result.verdict],
        "reasons": [formatting.line_of(reason) for reason in result.reasons],
        "margin": result.margin,
        "alpha": result.alpha,
        "note": _note(result),
        "measures": [_measure_row(metric) for metric in result.metrics],
        "mix": [one.model_dump() | {"by": formatting.name_of(one.by)} for one in result.mix],
        "moved": sum(change.moved for change in result.exploratory),
        "explored": len(result.exploratory),
        "by_tool": any(change.name.startswith(f"{TOOL}=") for change in result.exploratory),
        "exploratory": [
            _exploratory_row(change) for change in result.exploratory[:MAX_EXPLORATORY]
        ],
        "noise": _noise(result),
    }


def mismatches(verdict: ComparisonVerdict) -> list[str]:
    """What was not alike, a line each."""
    return [formatting.line_of(one.line) for one in verdict.mismatches[:MAX_MISMATCHES]]


def _note(result: StatisticalVerdict) -> str:
    return (
        f"Points of 100. Regressed: the interval lies under 0 and the drop reaches the margin of "
        f"{result.margin:g}. Not worse: the interval lies over minus the margin. Else the data "
        f"cannot tell. False alarms over all measures: at most {result.alpha:.1%}."
    )


def _measure_row(metric: MetricVerdict) -> dict[str, Any]:
    return metric.model_dump() | {
        "measure": formatting.name_of(metric.measure),
        "name": formatting.name_of(LABELS.get(metric.measure, metric.measure)),
        "word": SHOWN[metric.verdict],
        "span": span(metric.low, metric.high),
        "rests_on": (
            f"{'paired' if metric.paired else 'unpaired'}, {formatting.plural(metric.cases, 'case')}, "
            f"{formatting.plural(metric.clusters, 'cluster')}"
        ),
        "line": formatting.line_of(metric.line),
    }


def span(low: float | None, high: float | None) -> str:
    """An interval of a change, or a dash."""
    if low is None or high is None:
        return formatting.DASH
    return f"{formatting.signed_number(low, 1)} .. {formatting.signed_number(high, 1)}"


def _exploratory_row(change: Exploratory) -> dict[str, Any]:
    return change.model_dump() | {
        "name": formatting.clean_line(change.name, ID_CHARS),
        "measure": formatting.name_of(LABELS.get(change.measure, change.measure)),
        "kind": change.kind.replace("_", " "),
        "span": span(change.low, change.high),
    }


def _noise(result: StatisticalVerdict) -> dict[str, Any] | None:
    if result.noise is None:
        return None
    ids = result.noise.changed_within
    return {
        "repeat_sd": result.noise.repeat_sd,
        "threshold": result.noise.threshold,
        "total": len(ids),
        "shown": [formatting.clean_line(one, ID_CHARS) for one in ids[:MAX_NOISE]],
        "more": max(0, len(ids) - MAX_NOISE),
    }
