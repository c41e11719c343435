"""A run beside its baseline, as a report shows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from assizes.judge.comparison.cases import CaseComparison, MetricDelta
from assizes.judge.comparison.compare import RunComparison
from assizes.judge.rows import as_json
from assizes.judge.summary.summary import RunSummary
from assizes.tasks.reports import formatting
from assizes.tasks.reports.data.case_rows import ID_CHARS
from assizes.tasks.reports.data.metric_rows import MAX_METRICS
from assizes.tasks.reports.data.prompts import prompt_changes
from assizes.tasks.reports.data.statistics import mismatches, statistics

MAX_MOVED: Final = 100
MAX_ONLY: Final = 50
MAX_CHANGES: Final = 100
MAX_METRICS_OF_A_CASE: Final = 6

_FLIPS: Final = {
    (True, False): "passed → failed",
    (False, True): "failed → passed",
    (True, True): "passed both times",
    (False, False): "failed both times",
}


def case_changes(comparison: RunComparison | None) -> dict[str, str]:
    """The status of each case that both runs executed, by case id."""
    if comparison is None:
        return {}
    return {case.test_case_id: case.status for case in comparison.test_case_comparisons}


def comparison_data(comparison: RunComparison | None) -> dict[str, Any] | None:
    """The comparison as JSON-able data; null without a baseline."""
    if comparison is None:
        return None
    totals, counts = comparison.aggregate, comparison.case_counts
    return {
        "baseline": _side(
            comparison.baseline_run_id,
            comparison.baseline_run_name,
            comparison.baseline_agent_version,
        ),
        "candidate": _side(
            comparison.candidate_run_id,
            comparison.candidate_run_name,
            comparison.candidate_agent_version,
        ),
        "regression_detected": comparison.verdict.regression_detected,
        "reasons": [formatting.line_of(reason) for reason in comparison.verdict.reasons],
        "ending": comparison.verdict.ending,
        "mode": comparison.verdict.mode,
        "why": [formatting.line_of(reason) for reason in comparison.verdict.why],
        "mismatches": mismatches(comparison.verdict),
        "statistics": statistics(comparison.verdict),
        "thresholds_used": dict(sorted(comparison.verdict.thresholds_used.items())),
        "rules": _rules(comparison),
        "rules_note": "Values are those of each whole run; changes are over the cases in both.",
        "totals": _totals(comparison),
        "worse": _movers(
            comparison, "regression", totals.total_regressions, counts.flipped_regressions
        ),
        "better": _movers(
            comparison, "improvement", totals.total_improvements, counts.flipped_improvements
        ),
        "metrics": _metrics(comparison),
        "baseline_only": _unmatched_cases(
            comparison.baseline_only_test_cases, counts.baseline_only
        ),
        "candidate_only": _unmatched_cases(
            comparison.candidate_only_test_cases, counts.candidate_only
        ),
        "config_diff": _changes(comparison),
        "prompt_diff": prompt_changes(comparison),
        "warnings": [formatting.line_of(warning) for warning in comparison.warnings],
    }


def _changes(comparison: RunComparison) -> list[dict[str, str]]:
    return [
        {
            "field": formatting.name_of(setting.field),
            "baseline": _setting(setting.baseline),
            "candidate": _setting(setting.candidate),
        }
        for setting in comparison.config_diff[:MAX_CHANGES]
    ]


def _side(run_id: str, name: str, agent_version: str | None) -> dict[str, str | None]:
    shown = None if agent_version is None else formatting.line_of(agent_version)
    return {"run_id": run_id, "name": name, "agent_version": shown}


def _totals(comparison: RunComparison) -> dict[str, int]:
    aggregate = comparison.aggregate
    return {
        "matched": comparison.case_counts.matched,
        "regressions": aggregate.total_regressions,
        "improvements": aggregate.total_improvements,
        "unchanged": aggregate.total_unchanged,
        "errors": aggregate.total_errors,
    }


def _metrics(comparison: RunComparison) -> list[dict[str, Any]]:
    return [
        {
            "metric": formatting.name_of(metric.metric),
            "is_binary": metric.is_binary,
            "unit": "share passed" if metric.is_binary else "mean",
            "baseline_avg": metric.baseline_avg,
            "candidate_avg": metric.candidate_avg,
            "delta": metric.delta,
        }
        for metric in comparison.aggregate.per_metric_aggregate_deltas[:MAX_METRICS]
    ]


def _setting(value: Any) -> str:
    if value is None:
        return "not set"
    return formatting.line_of(value if isinstance(value, str) else as_json(value))


def _rules(comparison: RunComparison) -> list[dict[str, str]]:
    """The numbers behind the three rules: of each whole run, and the change the rule looks at."""
    aggregate, limits = comparison.aggregate, comparison.verdict.thresholds_used
    latency = aggregate.latency_avg_delta_ms
    return [
        _rule(
            "Pass rate",
            _sides(comparison, lambda run: formatting.share(run.pass_rate)),
            formatting.points(aggregate.pass_rate_delta),
            f"may drop by {limits['max_pass_rate_drop'] * 100:g} points",
        ),
        _rule(
            "Average score",
            _sides(comparison, lambda run: formatting.number(run.avg_overall_score)),
            formatting.signed_number(aggregate.avg_score_delta),
            f"may drop by {limits['max_avg_score_drop']:g} points",
        ),
        _rule(
            "Average latency",
            _sides(comparison, lambda run: formatting.duration(run.latency_avg_ms)),
            formatting.DASH if latency is None else f"{formatting.signed_number(latency, 0)} ms",
            f"may grow by {limits['max_latency_increase_pct'] * 100:g} %",
        ),
    ]


def _sides(comparison: RunComparison, to_text: Callable[[RunSummary], str]) -> tuple[str, str]:
    aggregate = comparison.aggregate
    return to_text(aggregate.baseline_metrics), to_text(aggregate.candidate_metrics)


def _rule(name: str, sides: tuple[str, str], change: str, limit: str) -> dict[str, str]:
    return {
        "name": name,
        "baseline": sides[0],
        "candidate": sides[1],
        "change": change,
        "limit": limit,
    }


def _movers(comparison: RunComparison, status: str, total: int, flips: int) -> dict[str, Any]:
    """The cases that moved one way, flips of the verdict first, the largest move first."""
    matching_cases = (case for case in comparison.test_case_comparisons if case.status == status)
    moved_cases = sorted(matching_cases, key=_largest_first)
    return {
        "total": total,
        "flips": flips,
        "more": max(0, total - MAX_MOVED),
        "shown": [
            {
                "case_id": formatting.clean_line(case.test_case_id, ID_CHARS),
                "flip": _flip(case),
                "baseline_score": case.baseline_score,
                "candidate_score": case.candidate_score,
                "score_delta": case.score_delta,
                "moved": _moved_metrics(case.metric_deltas),
            }
            for case in moved_cases[:MAX_MOVED]
        ],
    }


def _largest_first(case: CaseComparison) -> tuple[Any, ...]:
    flipped = case.baseline_passed != case.candidate_passed
    return (not flipped, -abs(case.score_delta or 0.0), case.test_case_id)


def _flip(case: CaseComparison) -> str:
    return _FLIPS.get((bool(case.baseline_passed), bool(case.candidate_passed)), "")


def _moved_metrics(deltas: Sequence[MetricDelta]) -> str:
    moved_deltas = sorted(
        (delta for delta in deltas if delta.status != "unchanged"),
        key=lambda delta: (-abs(delta.delta or 0.0), delta.metric),
    )
    shown = [
        f"{formatting.name_of(one.metric)} {_step(one)}"
        for one in moved_deltas[:MAX_METRICS_OF_A_CASE]
    ]
    more = len(moved_deltas) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _step(delta: MetricDelta) -> str:
    if delta.is_binary:
        labels = (delta.baseline_label, delta.candidate_label)
        return " → ".join(formatting.name_of(label or formatting.DASH) for label in labels)
    sides = (delta.baseline_score, delta.candidate_score)
    return " → ".join(formatting.DASH if side is None else f"{round(side, 2):g}" for side in sides)


def _unmatched_cases(ids: Sequence[str], total: int) -> dict[str, Any]:
    shown = [formatting.clean_line(one, ID_CHARS) for one in sorted(ids)[:MAX_ONLY]]
    return {"total": total, "shown": shown, "more": max(0, total - MAX_ONLY)}
