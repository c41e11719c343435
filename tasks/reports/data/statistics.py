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

MAX_EXPLORED: Final = 25
MAX_NOISE: Final = 50
MAX_MISMATCHES: Final = 50


def statistics(verdict: ComparisonVerdict) -> dict[str, Any] | None:
    """The statistics of a comparison as JSON-able data; null where the rules stand alone."""
    found = verdict.statistics
    if found is None:
        return None
    return {
        "verdict": found.verdict,
        "word": SHOWN[found.verdict],
        "reasons": [formatting.line_of(reason) for reason in found.reasons],
        "margin": found.margin,
        "alpha": found.alpha,
        "note": _note(found),
        "measures": [_measure(one) for one in found.metrics],
        "mix": [one.model_dump() | {"by": formatting.name_of(one.by)} for one in found.mix],
        "moved": sum(one.moved for one in found.exploratory),
        "explored": len(found.exploratory),
        "by_tool": any(one.name.startswith(f"{TOOL}=") for one in found.exploratory),
        "exploratory": [_explored(one) for one in found.exploratory[:MAX_EXPLORED]],
        "noise": _noise(found),
    }


def mismatches(verdict: ComparisonVerdict) -> list[str]:
    """What was not alike, a line each."""
    return [formatting.line_of(one.line) for one in verdict.mismatches[:MAX_MISMATCHES]]


def _note(found: StatisticalVerdict) -> str:
    return (
        f"Points of 100. Regressed: the interval lies under 0 and the drop reaches the margin of "
        f"{found.margin:g}. Not worse: the interval lies over minus the margin. Else the data "
        f"cannot tell. False alarms over all measures: at most {found.alpha:.1%}."
    )


def _measure(one: MetricVerdict) -> dict[str, Any]:
    return one.model_dump() | {
        "measure": formatting.name_of(one.measure),
        "name": formatting.name_of(LABELS.get(one.measure, one.measure)),
        "word": SHOWN[one.verdict],
        "span": span(one.low, one.high),
        "rests_on": (
            f"{'paired' if one.paired else 'unpaired'}, {formatting.plural(one.cases, 'case')}, "
            f"{formatting.plural(one.clusters, 'cluster')}"
        ),
        "line": formatting.line_of(one.line),
    }


def span(low: float | None, high: float | None) -> str:
    """An interval of a change, or a dash."""
    if low is None or high is None:
        return formatting.NONE
    return f"{formatting.signed(low, 1)} .. {formatting.signed(high, 1)}"


def _explored(one: Exploratory) -> dict[str, Any]:
    return one.model_dump() | {
        "name": formatting.clean_line(one.name, ID_CHARS),
        "measure": formatting.name_of(LABELS.get(one.measure, one.measure)),
        "kind": one.kind.replace("_", " "),
        "span": span(one.low, one.high),
    }


def _noise(found: StatisticalVerdict) -> dict[str, Any] | None:
    if found.noise is None:
        return None
    ids = found.noise.changed_within
    return {
        "repeat_sd": found.noise.repeat_sd,
        "threshold": found.noise.threshold,
        "total": len(ids),
        "shown": [formatting.clean_line(one, ID_CHARS) for one in ids[:MAX_NOISE]],
        "more": max(0, len(ids) - MAX_NOISE),
    }
