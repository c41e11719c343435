"""The metrics of a run as a report shows them: one row each, tiers, failure codes, distributions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import polars as pl

from assizes.judge.score import LABELS, UNSPECIFIED_FAILURE
from assizes.judge.summary.headlines import MetricSummary, published_names
from assizes.judge.summary.run_intervals import NumberInterval
from assizes.judge.summary.run_summary import RunSummary
from assizes.judge.verdicts.executions import collect_rows
from assizes.judge.verdicts.root_cause import suggested_fix
from assizes.tasks.reports.data.families import family_of
from assizes.tasks.reports.data.intervals import interval_of
from assizes.tasks.reports.formatting import name_of

MAX_METRICS: Final = 100
MAX_CODES: Final = 50
BIN_POINTS: Final = 10

_ORDER: Final = ("pass", "yes", *reversed(LABELS), "no")
_LEVEL_WORDS: Final = frozenset({*LABELS, "pass"})
_TIERS: Final = ("execution", "knowledge", "process", "delivery")


def metric_rows(
    metrics: Iterable[MetricSummary],
    deltas: Mapping[str, Mapping[str, Any]],
    intervals: Mapping[str, NumberInterval],
) -> list[dict[str, Any]]:
    """One row for each metric of each judge, in the order of their tiers and weights.

    Args:
        metrics: of the run's summary.
        deltas: the comparison's averages by published name, empty without a baseline.
        intervals: of the run's summary.
    """
    summaries = list(metrics)
    names = published_names(summaries)
    rows = []
    for metric in sorted(summaries, key=_metric_order)[:MAX_METRICS]:
        name = names[metric.judge, metric.name]
        path = f"metrics/{name}"
        metric_intervals = {
            "interval": interval_of(intervals, f"{path}/mean_raw"),
            "pass_rate_interval": interval_of(intervals, f"{path}/pass_rate"),
        }
        rows.append(_metric_row(name, metric, deltas.get(name)) | metric_intervals)
    return rows


def _metric_order(metric: MetricSummary) -> tuple[Any, ...]:
    tier = _TIERS.index(metric.tier) if metric.tier in _TIERS else len(_TIERS)
    return (tier, -(metric.weight or 0.0), metric.name, metric.judge)


def _metric_row(
    name: str, metric: MetricSummary, delta: Mapping[str, Any] | None
) -> dict[str, Any]:
    unit = _unit(metric)
    # A comparison holds binary metrics as the share that passed; their level is five times that.
    factor = 5 if delta and delta["is_binary"] and unit == "0-5" else 1
    return {
        "judge": name_of(metric.judge),
        "metric": name_of(name),
        "family": family_of(metric),
        "tier": metric.tier,
        "weight": metric.weight,
        "unit": unit,
        "mean": metric.mean_raw,
        "pass_rate": metric.pass_rate,
        "labels": _distribution(metric.labels),
        "scored": metric.scored,
        "failed": metric.failed,
        "skipped": metric.skipped,
        "baseline_mean": _times(delta["baseline_avg"], factor) if delta else None,
        "delta": _times(delta["delta"], factor) if delta else None,
    }


def _times(value: float | None, factor: int) -> float | None:
    return None if value is None else round(value * factor, 9)


def _unit(metric: MetricSummary) -> str:
    """`0-5` for levels, `0-1` for fractions and yes/no, empty for amounts without a best value."""
    binary_fails = metric.is_binary and "fail" in metric.labels
    if binary_fails or _LEVEL_WORDS.intersection(metric.labels):
        return "0-5"
    return "" if metric.mean_value is None else "0-1"


def _distribution(labels: Mapping[str, int]) -> list[dict[str, Any]]:
    known = [label for label in _ORDER if label in labels]
    others = sorted(label for label in labels if label not in _ORDER)
    return [
        {"label": name_of(label.replace("_", " ")), "count": labels[label]}
        for label in (*known, *others)
    ]


def failure_codes(summary: RunSummary) -> dict[str, Any]:
    """How often each failure code was given, with the metrics it was given for."""
    counts: Counter[str] = Counter()
    metrics: dict[str, Counter[str]] = {}
    for failure in summary.failure_codes:
        counts[failure.failure_code] += failure.count
        metrics.setdefault(failure.failure_code, Counter())[failure.metric] += failure.count
    ranked = most_frequent(counts)
    return {
        "total": counts.total(),
        "unspecified": counts[UNSPECIFIED_FAILURE],
        "more": max(0, len(ranked) - MAX_CODES),
        "shown": [
            {"code": name_of(code), "count": amount, "metrics": _name_counts(metrics[code])}
            for code, amount in ranked[:MAX_CODES]
        ],
    }


def _name_counts(counts: Mapping[str, int]) -> list[dict[str, Any]]:
    ranked = most_frequent(counts)[:MAX_CODES]
    return [{"name": name_of(name), "count": amount} for name, amount in ranked]


def most_frequent(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Names and how often each came up, the most frequent first, whatever order they were kept in."""
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def root_causes(summary: RunSummary) -> list[dict[str, Any]]:
    """How often each root cause was named, and what to try."""
    published = {metric.name: metric.run_names for metric in summary.metrics}
    return [
        {
            "name": name_of(name),
            "count": count,
            "suggested_fix": suggested_fix(name, published.get(name, ())),
        }
        for name, count in most_frequent(summary.root_causes)[:MAX_CODES]
    ]


def tier_rows(summary: RunSummary) -> list[dict[str, Any]]:
    """The mean score 0..100 of each tier, in the order a conversation goes through them."""
    others = sorted(tier for tier in summary.tier_scores if tier not in _TIERS)
    return [
        {
            "tier": name_of(tier),
            "score": summary.tier_scores[tier],
            "interval": interval_of(summary.intervals, f"tiers/{tier}"),
        }
        for tier in (*_TIERS, *others)
        if tier in summary.tier_scores
    ]


def score_distribution(cases: pl.LazyFrame) -> dict[str, Any]:
    """Cases with a score in ten bins of it; the last bin holds 100 as well."""
    bins = [
        {"from": low, "to": low + BIN_POINTS, "passed": 0, "not_passed": 0}
        for low in range(0, 100, BIN_POINTS)
    ]
    judged = cases.drop_nulls("overall_score").group_by("overall_score", "passed")
    for score, passed, rows in collect_rows(judged.agg(rows=pl.len())).rows():
        place = min(int(score // BIN_POINTS), len(bins) - 1)
        bins[place]["passed" if passed else "not_passed"] += rows
    return {"bins": bins}
