"""The comparison of a run with its baseline, as a report shows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from assizes.judge.comparison.cases import CaseComparison, MetricDelta
from assizes.judge.comparison.compare import RunComparison
from assizes.judge.config.diff import FINGERPRINTS
from assizes.judge.rows import as_json
from assizes.judge.summary.run_summary import RunSummary
from assizes.tasks.reports import formatting
from assizes.tasks.reports.data.case_rows import ID_CHARS
from assizes.tasks.reports.data.metric_rows import MAX_METRICS
from assizes.tasks.reports.data.statistics import mismatches, statistics
from assizes.tasks.reports.schema.comparison import (
    Comparison,
    MetricChange,
    MovedCase,
    Movers,
    PromptChange,
    Prompts,
    Rule,
    Setting,
    Side,
    Totals,
)
from assizes.tasks.reports.schema.parts import OfMany

MAX_MOVED: Final = 100
"""Cases that got worse, and cases that got better, that are listed at most."""

MAX_UNMATCHED: Final = 50
"""Cases of only one run that are listed, at most."""

MAX_SETTINGS: Final = 100
"""Settings that differ that are listed, at most."""

MAX_METRICS_OF_A_CASE: Final = 6
"""Metrics that are named for a case that moved, at most."""

MAX_JUDGES: Final = 25
"""Judges whose prompts are compared, at most."""

PROMPT_LINE_CHARS: Final = 2000
"""Characters of a line of a prompt, at most."""

_FLIPS: Final = {
    (True, False): "passed → failed",
    (False, True): "failed → passed",
    (True, True): "passed both times",
    (False, False): "failed both times",
}

_FINGERPRINTS_DIFFER: Final = (
    "The judges are not the same: each fingerprint that differs is another rubric, prompt or "
    "version."
)
_TEXTS_NOT_STORED: Final = (
    "A run of an earlier version keeps its hash, not its text; set the rubrics of both times side "
    "by side to read what changed."
)
_PROMPTS_ALIKE: Final = "Both runs kept the same prompts: what changed stands in none of them."
_PROMPTS_DIFFER: Final = "The judges are not the same: below is what differs in their prompts."


def case_changes(comparison: RunComparison | None) -> dict[str, str]:
    """The status of each case that both runs executed, by case id; empty without a baseline."""
    if comparison is None:
        return {}
    return {case.test_case_id: case.status for case in comparison.test_case_comparisons}


def comparison_part(comparison: RunComparison | None) -> Comparison | None:
    """The comparison as a part of the report; `None` without a baseline."""
    if comparison is None:
        return None
    verdict, counts = comparison.verdict, comparison.case_counts
    return Comparison(
        baseline=_side(
            comparison.baseline_run_id,
            comparison.baseline_run_name,
            comparison.baseline_agent_version,
        ),
        candidate=_side(
            comparison.candidate_run_id,
            comparison.candidate_run_name,
            comparison.candidate_agent_version,
        ),
        regression_detected=verdict.regression_detected,
        reasons=[formatting.line_of(reason) for reason in verdict.reasons],
        ending=verdict.ending,
        mode=verdict.mode,
        why=[formatting.line_of(reason) for reason in verdict.why],
        mismatches=mismatches(verdict),
        statistics=statistics(verdict),
        thresholds_used=dict(sorted(verdict.thresholds_used.items())),
        rules=_rules(comparison),
        rules_note="Values are those of each whole run; changes are over the cases in both.",
        totals=_totals(comparison),
        worse=_movers(comparison, "regression", counts.flipped_regressions),
        better=_movers(comparison, "improvement", counts.flipped_improvements),
        metrics=_metrics(comparison),
        baseline_only=_unmatched_cases(comparison.baseline_only_test_cases, counts.baseline_only),
        candidate_only=_unmatched_cases(
            comparison.candidate_only_test_cases, counts.candidate_only
        ),
        config_diff=_settings(comparison),
        prompt_diff=_prompts(comparison),
        warnings=[formatting.line_of(warning) for warning in comparison.warnings],
    )


def _side(run_id: str, name: str, agent_version: str | None) -> Side:
    shown = None if agent_version is None else formatting.line_of(agent_version)
    return Side(run_id=run_id, name=name, agent_version=shown)


def _totals(comparison: RunComparison) -> Totals:
    aggregate = comparison.aggregate
    return Totals(
        matched=comparison.case_counts.matched,
        regressions=aggregate.total_regressions,
        improvements=aggregate.total_improvements,
        unchanged=aggregate.total_unchanged,
        errors=aggregate.total_errors,
    )


def _metrics(comparison: RunComparison) -> list[MetricChange]:
    return [
        MetricChange(
            **metric.model_dump(exclude={"metric"}),
            metric=formatting.name_of(metric.metric),
            unit="share passed" if metric.is_binary else "mean",
        )
        for metric in comparison.aggregate.per_metric_aggregate_deltas[:MAX_METRICS]
    ]


def _settings(comparison: RunComparison) -> list[Setting]:
    return [
        Setting(
            field=formatting.name_of(setting.field),
            baseline=_setting_text(setting.baseline),
            candidate=_setting_text(setting.candidate),
        )
        for setting in comparison.config_diff[:MAX_SETTINGS]
    ]


def _setting_text(value: Any) -> str:
    if value is None:
        return "not set"
    return formatting.line_of(value if isinstance(value, str) else as_json(value))


def _rules(comparison: RunComparison) -> list[Rule]:
    """The values of both whole runs under the three rules, and the change that each rule limits."""
    aggregate, limits = comparison.aggregate, comparison.verdict.thresholds_used
    latency = aggregate.latency_avg_delta_ms

    def rule(name: str, change: str, limit: str, to_text: Callable[[RunSummary], str]) -> Rule:
        return Rule(
            name=name,
            baseline=to_text(aggregate.baseline_metrics),
            candidate=to_text(aggregate.candidate_metrics),
            change=change,
            limit=limit,
        )

    return [
        rule(
            "Pass rate",
            formatting.points(aggregate.pass_rate_delta),
            f"may drop by {limits['max_pass_rate_drop'] * 100:g} points",
            lambda run: formatting.share(run.pass_rate),
        ),
        rule(
            "Average score",
            formatting.signed_number(aggregate.avg_score_delta),
            f"may drop by {limits['max_avg_score_drop']:g} points",
            lambda run: formatting.number(run.avg_overall_score),
        ),
        rule(
            "Average latency",
            formatting.DASH if latency is None else f"{formatting.signed_number(latency, 0)} ms",
            f"may grow by {limits['max_latency_increase_pct'] * 100:g} %",
            lambda run: formatting.duration(run.latency_avg_ms),
        ),
    ]


def _movers(comparison: RunComparison, status: str, flips: int) -> Movers:
    """The cases that moved one way: first flips of the verdict, then the largest moves."""
    totals = comparison.aggregate
    total = totals.total_regressions if status == "regression" else totals.total_improvements
    matching_cases = (case for case in comparison.test_case_comparisons if case.status == status)
    moved_cases = sorted(matching_cases, key=_largest_first)
    return Movers(
        total=total,
        flips=flips,
        more=max(0, total - MAX_MOVED),
        shown=[
            MovedCase(
                case_id=formatting.clean_line(case.test_case_id, ID_CHARS),
                flip=_FLIPS.get((bool(case.baseline_passed), bool(case.candidate_passed)), ""),
                baseline_score=case.baseline_score,
                candidate_score=case.candidate_score,
                score_delta=case.score_delta,
                moved=_moved_metrics(case.metric_deltas),
            )
            for case in moved_cases[:MAX_MOVED]
        ],
    )


def _largest_first(case: CaseComparison) -> tuple[Any, ...]:
    flipped = case.baseline_passed != case.candidate_passed
    return (not flipped, -abs(case.score_delta or 0.0), case.test_case_id)


def _moved_metrics(deltas: Sequence[MetricDelta]) -> str:
    moved_deltas = sorted(
        (delta for delta in deltas if delta.status != "unchanged"),
        key=lambda delta: (-abs(delta.delta or 0.0), delta.metric),
    )
    shown = [
        f"{formatting.name_of(delta.metric)} {_step(delta)}"
        for delta in moved_deltas[:MAX_METRICS_OF_A_CASE]
    ]
    more = len(moved_deltas) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _step(delta: MetricDelta) -> str:
    """The values of both sides, such as `4.5 → 3`, or both labels of a binary metric."""
    if delta.is_binary:
        labels = (delta.baseline_label, delta.candidate_label)
        return " → ".join(formatting.name_of(label or formatting.DASH) for label in labels)
    sides = (delta.baseline_score, delta.candidate_score)
    return " → ".join(formatting.DASH if side is None else f"{round(side, 2):g}" for side in sides)


def _unmatched_cases(ids: Sequence[str], total: int) -> OfMany:
    shown = [formatting.clean_line(case_id, ID_CHARS) for case_id in sorted(ids)[:MAX_UNMATCHED]]
    return OfMany(total=total, shown=shown, more=max(0, total - MAX_UNMATCHED))


def _prompts(comparison: RunComparison) -> Prompts:
    return Prompts(
        note=_prompts_note(comparison),
        judges=[
            PromptChange(
                judge=formatting.name_of(diff.judge),
                # A carriage return would move the cursor; its visible sign stands for it.
                lines=[
                    formatting.clean(line.replace("\r", "\u240d"), PROMPT_LINE_CHARS)
                    for line in diff.lines
                ],
                more=diff.more,
            )
            for diff in (comparison.prompt_diff or ())[:MAX_JUDGES]
        ],
    )


def _prompts_note(comparison: RunComparison) -> str | None:
    if comparison.prompt_diff:
        return _PROMPTS_DIFFER
    if not any(setting.field.startswith(f"{FINGERPRINTS}.") for setting in comparison.config_diff):
        return None
    reason = _TEXTS_NOT_STORED if comparison.prompt_diff is None else _PROMPTS_ALIKE
    return f"{_FINGERPRINTS_DIFFER} {reason}"
