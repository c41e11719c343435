"""The metrics of a run as a report shows them: rows, tiers, failure codes and the distribution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import polars as pl

from assizes.judge.comparison.compare import RunComparison
from assizes.judge.comparison.metrics import MetricAggregate
from assizes.judge.score import LABELS, UNSPECIFIED_FAILURE
from assizes.judge.summary.headlines import MetricSummary, published_names
from assizes.judge.summary.run_intervals import NumberInterval
from assizes.judge.summary.run_summary import RunSummary
from assizes.judge.verdicts.executions import collect_rows
from assizes.judge.verdicts.root_cause import suggested_fix
from assizes.tasks.reports.data.families import family_of
from assizes.tasks.reports.data.intervals import interval_of
from assizes.tasks.reports.formatting import name_of
from assizes.tasks.reports.schema.parts import Counted
from assizes.tasks.reports.schema.report import (
    Bin,
    CodeLine,
    Distribution,
    FailureCodes,
    LabelCount,
    MetricLine,
    RootCause,
    TierLine,
)

MAX_METRICS: Final = 100
"""Metrics that are listed, at most."""

MAX_CODES: Final = 50
"""Failure codes, metrics of a failure code, and root causes that are listed, at most."""

BIN_POINTS: Final = 10
"""Width of a bin of the distribution, in points of the overall score."""

_ORDER: Final = ("pass", "yes", *reversed(LABELS), "no")
_LEVEL_WORDS: Final = frozenset({*LABELS, "pass"})
_TIERS: Final = ("execution", "knowledge", "process", "delivery")


def metric_rows(
    metrics: Iterable[MetricSummary],
    comparison: RunComparison | None,
    intervals: Mapping[str, NumberInterval],
) -> list[MetricLine]:
    """One row for each metric of each judge, in the order of tiers and weights.

    Args:
        metrics: the metrics of the run's summary.
        comparison: the comparison with the baseline; `None` without one.
        intervals: the intervals of the run's summary.
    """
    summaries = list(metrics)
    names = published_names(summaries)
    deltas = () if comparison is None else comparison.aggregate.per_metric_aggregate_deltas
    delta_by_name = {delta.metric: delta for delta in deltas}
    rows = []
    for metric in sorted(summaries, key=_metric_order)[:MAX_METRICS]:
        name = names[metric.judge, metric.name]
        rows.append(_metric_row(name, metric, delta_by_name.get(name), intervals))
    return rows


def _metric_order(metric: MetricSummary) -> tuple[Any, ...]:
    tier = _TIERS.index(metric.tier) if metric.tier in _TIERS else len(_TIERS)
    return (tier, -(metric.weight or 0.0), metric.name, metric.judge)


def _metric_row(
    name: str,
    metric: MetricSummary,
    delta: MetricAggregate | None,
    intervals: Mapping[str, NumberInterval],
) -> MetricLine:
    unit = _unit(metric)
    # A comparison holds binary metrics as the share that passed; their level is five times that.
    factor = 5 if delta and delta.is_binary and unit == "0-5" else 1
    return MetricLine(
        judge=name_of(metric.judge),
        metric=name_of(name),
        family=family_of(metric),
        tier=metric.tier,
        weight=metric.weight,
        unit=unit,
        mean=metric.mean_raw,
        pass_rate=metric.pass_rate,
        labels=_label_counts(metric.labels),
        scored=metric.scored,
        failed=metric.failed,
        skipped=metric.skipped,
        baseline_mean=_times(delta.baseline_avg, factor) if delta else None,
        delta=_times(delta.delta, factor) if delta else None,
        interval=interval_of(intervals, f"metrics/{name}/mean_raw"),
        pass_rate_interval=interval_of(intervals, f"metrics/{name}/pass_rate"),
    )


def _times(value: float | None, factor: int) -> float | None:
    return None if value is None else round(value * factor, 9)


def _unit(metric: MetricSummary) -> str:
    """`0-5` for levels, `0-1` for fractions and yes/no, empty for amounts without a best value."""
    binary_fails = metric.is_binary and "fail" in metric.labels
    if binary_fails or _LEVEL_WORDS.intersection(metric.labels):
        return "0-5"
    return "" if metric.mean_value is None else "0-1"


def _label_counts(labels: Mapping[str, int]) -> list[LabelCount]:
    """How often each label was given: known labels from best to worst, then the others by name."""
    known = [label for label in _ORDER if label in labels]
    others = sorted(label for label in labels if label not in _ORDER)
    return [
        LabelCount(label=name_of(label.replace("_", " ")), count=labels[label])
        for label in (*known, *others)
    ]


def failure_codes(summary: RunSummary) -> FailureCodes:
    """How often each failure code was given, with the metrics that it was given for."""
    counts: Counter[str] = Counter()
    metrics: dict[str, Counter[str]] = {}
    for failure in summary.failure_codes:
        counts[failure.failure_code] += failure.count
        metrics.setdefault(failure.failure_code, Counter())[failure.metric] += failure.count
    ranked = most_frequent(counts)
    return FailureCodes(
        total=counts.total(),
        unspecified=counts[UNSPECIFIED_FAILURE],
        more=max(0, len(ranked) - MAX_CODES),
        shown=[
            CodeLine(code=name_of(code), count=count, metrics=_name_counts(metrics[code]))
            for code, count in ranked[:MAX_CODES]
        ],
    )


def _name_counts(counts: Mapping[str, int]) -> list[Counted]:
    ranked = most_frequent(counts)[:MAX_CODES]
    return [Counted(name=name_of(name), count=count) for name, count in ranked]


def most_frequent(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Names with their counts, the highest count first; equal counts are sorted by name."""
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def root_causes(summary: RunSummary) -> list[RootCause]:
    """How often each root cause was named, with a suggested fix where one is known."""
    published = {metric.name: metric.run_names for metric in summary.metrics}
    return [
        RootCause(
            name=name_of(name),
            count=count,
            suggested_fix=suggested_fix(name, published.get(name, ())),
        )
        for name, count in most_frequent(summary.root_causes)[:MAX_CODES]
    ]


def tier_rows(summary: RunSummary) -> list[TierLine]:
    """The mean score (0..100) of each tier, in the order of the tiers in a conversation."""
    others = sorted(tier for tier in summary.tier_scores if tier not in _TIERS)
    return [
        TierLine(
            tier=name_of(tier),
            score=summary.tier_scores[tier],
            interval=interval_of(summary.intervals, f"tiers/{tier}"),
        )
        for tier in (*_TIERS, *others)
        if tier in summary.tier_scores
    ]


def score_distribution(cases: pl.LazyFrame) -> Distribution:
    """The cases with an overall score in ten bins; the last bin includes a score of 100."""
    lows = range(0, 100, BIN_POINTS)
    passed_counts, other_counts = [0] * len(lows), [0] * len(lows)
    judged = cases.drop_nulls("overall_score").group_by("overall_score", "passed")
    for score, passed, rows in collect_rows(judged.agg(rows=pl.len())).rows():
        index = min(int(score // BIN_POINTS), len(lows) - 1)
        (passed_counts if passed else other_counts)[index] += rows
    return Distribution(
        bins=[
            # `from` is a word of Python, so it cannot be a keyword argument.
            Bin(**{"from": low}, to=low + BIN_POINTS, passed=passed, not_passed=other)
            for low, passed, other in zip(lows, passed_counts, other_counts, strict=True)
        ]
    )
