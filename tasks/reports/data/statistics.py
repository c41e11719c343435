"""The statistical verdict of a comparison, as a report shows it."""

from __future__ import annotations

from typing import Final

from assizes.judge.comparison.compare import ComparisonVerdict
from assizes.judge.comparison.measures import TOOL
from assizes.judge.comparison.statistical import Exploratory
from assizes.judge.comparison.statistical_verdict import (
    LABELS,
    SHOWN,
    MetricVerdict,
    StatisticalVerdict,
)
from assizes.tasks.reports import formatting
from assizes.tasks.reports.data.case_rows import ID_CHARS
from assizes.tasks.reports.schema.comparison import Explored, Measure, Statistics, Within

MAX_EXPLORATORY: Final = 25
"""Exploratory changes that are listed, at most."""

MAX_NOISE: Final = 50
"""Cases that changed only within noise that are listed, at most."""

MAX_MISMATCHES: Final = 50
"""Differences in how the runs were judged that are listed, at most."""


def statistics(verdict: ComparisonVerdict) -> Statistics | None:
    """The statistics of a comparison; `None` where the comparison goes by the rules only."""
    result = verdict.statistics
    if result is None:
        return None
    return Statistics(
        verdict=result.verdict,
        word=SHOWN[result.verdict],
        reasons=[formatting.line_of(reason) for reason in result.reasons],
        margin=result.margin,
        alpha=result.alpha,
        note=_note(result),
        measures=[_measure(metric) for metric in result.metrics],
        mix=[mix.model_copy(update={"by": formatting.name_of(mix.by)}) for mix in result.mix],
        moved=sum(change.moved for change in result.exploratory),
        explored=len(result.exploratory),
        by_tool=any(change.name.startswith(f"{TOOL}=") for change in result.exploratory),
        exploratory=[_explored(change) for change in result.exploratory[:MAX_EXPLORATORY]],
        noise=_noise(result),
    )


def mismatches(verdict: ComparisonVerdict) -> list[str]:
    """One line for each difference in how the two runs were judged."""
    return [formatting.line_of(mismatch.line) for mismatch in verdict.mismatches[:MAX_MISMATCHES]]


def _note(result: StatisticalVerdict) -> str:
    return (
        f"Points of 100. Regressed: the interval lies under 0 and the drop reaches the margin of "
        f"{result.margin:g}. Not worse: the interval lies over minus the margin. Else the data "
        f"cannot tell. False alarms over all measures: at most {result.alpha:.1%}."
    )


def _measure(metric: MetricVerdict) -> Measure:
    words = {
        "measure": formatting.name_of(metric.measure),
        "name": formatting.name_of(LABELS.get(metric.measure, metric.measure)),
        "word": SHOWN[metric.verdict],
        "span": _span(metric.low, metric.high),
        "rests_on": (
            f"{'paired' if metric.paired else 'unpaired'}, "
            f"{formatting.plural(metric.cases, 'case')}, "
            f"{formatting.plural(metric.clusters, 'cluster')}"
        ),
        "line": formatting.line_of(metric.line),
    }
    return Measure.model_validate(metric.model_dump() | words)


def _span(low: float | None, high: float | None) -> str:
    """The interval of a change; a dash where a bound is missing."""
    if low is None or high is None:
        return formatting.DASH
    return f"{formatting.signed_number(low, 1)} .. {formatting.signed_number(high, 1)}"


def _explored(change: Exploratory) -> Explored:
    words = {
        "name": formatting.clean_line(change.name, ID_CHARS),
        "measure": formatting.name_of(LABELS.get(change.measure, change.measure)),
        "kind": change.kind.replace("_", " "),
        "span": _span(change.low, change.high),
    }
    return Explored.model_validate(change.model_dump() | words)


def _noise(result: StatisticalVerdict) -> Within | None:
    if result.noise is None:
        return None
    ids = result.noise.changed_within
    return Within(
        repeat_sd=result.noise.repeat_sd,
        threshold=result.noise.threshold,
        total=len(ids),
        shown=[formatting.clean_line(case_id, ID_CHARS) for case_id in ids[:MAX_NOISE]],
        more=max(0, len(ids) - MAX_NOISE),
    )
