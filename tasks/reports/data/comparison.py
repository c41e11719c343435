"""The comparison of a run with its baseline, by rules and by statistics, as a report shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from assizes.judge.comparison.cases import MetricDelta
from assizes.judge.comparison.compare import ComparisonVerdict, RunComparison
from assizes.judge.comparison.runs import TOOL
from assizes.judge.comparison.statistical import Exploratory
from assizes.judge.comparison.statistical_verdict import LABELS, SHOWN
from assizes.judge.config.run import FINGERPRINTS
from assizes.judge.prompts.prompt_texts import PromptDiff
from assizes.judge.rows import as_json
from assizes.tasks.reports import formatting
from assizes.tasks.reports.data.metric_rows import MAX_METRICS
from assizes.tasks.reports.data.read_first import FLIPS
from assizes.tasks.reports.formatting import (
    DASH,
    filter_value,
    line_of,
    name_of,
    plural,
    signed_number,
)
from assizes.tasks.reports.schema import parts

MAX_MOVED: Final = 100  # cases that got worse, and cases that got better, that are listed at most
MAX_IDS: Final = 50  # cases of one run only, or moved only within noise, that are listed, at most
MAX_SETTINGS: Final = 100  # settings that differ that are listed, at most
MAX_METRICS_OF_A_CASE: Final = 6  # metrics that are named for a case that moved, at most
MAX_JUDGES: Final = 25  # judges whose prompts are compared, at most
MAX_EXPLORATORY: Final = 25  # exploratory changes that are listed, at most
MAX_MISMATCHES: Final = 50  # differences in how the runs were judged that are listed, at most
PROMPT_LINE_CHARS: Final = 2000  # characters of a line of a prompt, at most

_PROMPTS_DIFFER: Final = "The judges are not the same: below is what differs in their prompts."
_FINGERPRINTS_DIFFER: Final = (
    "The judges are not the same: each fingerprint that differs is another rubric, prompt or "
    "version."
)
_TEXTS_NOT_STORED: Final = (
    "A run of an earlier version kept a hash of its prompts, not their text. To see what changed, "
    "compare the rubrics of both versions."
)
_PROMPTS_ALIKE: Final = "The prompts of both runs are the same, so something else changed."


def comparison_part(comparison: RunComparison | None) -> parts.Comparison | None:
    """The comparison as a part of the report; `None` without a baseline."""
    if comparison is None:
        return None
    verdict, counts, aggregate = comparison.verdict, comparison.case_counts, comparison.aggregate
    fields = ("run_id", "run_name", "agent_version")
    baseline, candidate = (
        parts.Side(run_id=run_id, name=name, agent_version=version and filter_value(version))
        for run_id, name, version in (
            [getattr(comparison, f"{side}_{field}") for field in fields]
            for side in ("baseline", "candidate")
        )
    )
    return parts.Comparison(
        baseline=baseline,
        candidate=candidate,
        **verdict.model_dump(include={"regression_detected", "ending", "mode"}),
        reasons=[line_of(reason) for reason in verdict.reasons],
        why=[line_of(reason) for reason in verdict.why],
        # One line for each difference in how the two runs were judged.
        mismatches=[line_of(mismatch.line) for mismatch in verdict.mismatches[:MAX_MISMATCHES]],
        statistics=_statistics(verdict),
        thresholds_used=dict(sorted(verdict.thresholds_used.items())),
        rules=_rules(comparison),
        rules_note="Values are those of each whole run; changes are over the cases in both.",
        totals=parts.Totals(
            matched=counts.matched,
            regressions=aggregate.total_regressions,
            improvements=aggregate.total_improvements,
            unchanged=aggregate.total_unchanged,
            errors=aggregate.total_errors,
        ),
        worse=_movers(comparison, "regression", counts.flipped_regressions),
        better=_movers(comparison, "improvement", counts.flipped_improvements),
        metrics=_metrics(comparison),
        baseline_only=_ids(sorted(comparison.baseline_only_test_cases), counts.baseline_only),
        candidate_only=_ids(sorted(comparison.candidate_only_test_cases), counts.candidate_only),
        config_diff=_settings(comparison),
        prompt_diff=_prompts(comparison),
        warnings=[line_of(warning) for warning in comparison.warnings],
    )


def _ids(ids: Sequence[str], total: int) -> parts.OfMany:
    return parts.OfMany(total=total, shown=list(ids[:MAX_IDS]), more=max(0, total - MAX_IDS))


def _metrics(comparison: RunComparison) -> list[parts.MetricChange]:
    return [
        parts.MetricChange(
            **metric.model_dump(exclude={"metric"}),
            metric=name_of(metric.metric),
            unit="share passed" if metric.is_binary else "mean",
        )
        for metric in comparison.aggregate.per_metric_aggregate_deltas[:MAX_METRICS]
    ]


def _settings(comparison: RunComparison) -> list[parts.Setting]:
    return [
        parts.Setting(
            field=name_of(setting.field),
            baseline=_setting_text(setting.baseline),
            candidate=_setting_text(setting.candidate),
        )
        for setting in comparison.config_diff[:MAX_SETTINGS]
    ]


def _setting_text(value: Any) -> str:
    if value is None:
        return "not set"
    return line_of(value if isinstance(value, str) else as_json(value))


def _rules(comparison: RunComparison) -> list[parts.Rule]:
    """The values of both whole runs under the three rules, and the change that each rule limits."""
    aggregate, limits = comparison.aggregate, comparison.verdict.thresholds_used
    latency = aggregate.latency_avg_delta_ms
    runs = (aggregate.baseline_metrics, aggregate.candidate_metrics)
    rules = {
        "Pass rate": (
            formatting.points(aggregate.pass_rate_delta),
            f"may drop by {limits['max_pass_rate_drop'] * 100:g} points",
            *(formatting.share(run.pass_rate) for run in runs),
        ),
        "Average score": (
            signed_number(aggregate.avg_score_delta),
            f"may drop by {limits['max_avg_score_drop']:g} points",
            *(formatting.number(run.avg_overall_score) for run in runs),
        ),
        "Average latency": (
            _latency_change(latency, aggregate.baseline_metrics.latency_avg_ms),
            f"may grow by {limits['max_latency_increase_pct'] * 100:g} %",
            *(formatting.duration(run.latency_avg_ms) for run in runs),
        ),
    }
    return [
        parts.Rule(name=name, baseline=before, candidate=after, change=change, limit=limit)
        for name, (change, limit, before, after) in rules.items()
    ]


def _latency_change(change_ms: float | None, baseline_ms: float | None) -> str:
    if change_ms is None:
        return DASH
    growth = f" ({signed_number(100 * change_ms / baseline_ms, 1)} %)" if baseline_ms else ""
    seconds = change_ms / 1000
    change = (
        f"{signed_number(change_ms, 0)} ms" if abs(seconds) < 1 else f"{signed_number(seconds)} s"
    )
    return change + growth


def _movers(comparison: RunComparison, status: str, flips: int) -> parts.Movers:
    """The cases that moved one way: first flips of the verdict, then the largest moves."""
    totals = comparison.aggregate
    total = totals.total_regressions if status == "regression" else totals.total_improvements
    moved_cases = sorted(
        (case for case in comparison.test_case_comparisons if case.status == status),
        key=lambda case: (
            {case.baseline_passed, case.candidate_passed} != {False, True},  # a flip sorts first
            -abs(case.score_delta or 0.0),
            case.test_case_id,  # equal moves in a defined order
        ),
    )
    return parts.Movers(
        total=total,
        flips=flips,
        more=max(0, total - MAX_MOVED),
        shown=[
            parts.MovedCase(
                case_id=case.test_case_id,
                flip=FLIPS.get((case.baseline_passed, case.candidate_passed), ""),
                baseline_score=case.baseline_score,
                candidate_score=case.candidate_score,
                score_delta=case.score_delta,
                moved=_moved_metrics(case.metric_deltas),
            )
            for case in moved_cases[:MAX_MOVED]
        ],
    )


def _moved_metrics(deltas: Sequence[MetricDelta]) -> str:
    """The metrics of a case that moved, as in `relevance 4.5 → 3`; of binary ones, the labels."""
    moved_deltas = sorted(
        (delta for delta in deltas if delta.status != "unchanged"),
        key=lambda delta: (-abs(delta.delta or 0.0), delta.metric),
    )
    shown = []
    for delta in moved_deltas[:MAX_METRICS_OF_A_CASE]:
        labels = (delta.baseline_label, delta.candidate_label)
        scores = (delta.baseline_score, delta.candidate_score)
        sides = [DASH if score is None else f"{round(score, 2):g}" for score in scores]
        if delta.is_binary:
            sides = [name_of(label or DASH) for label in labels]
        shown.append(f"{name_of(delta.metric)} {' → '.join(sides)}")
    more = len(moved_deltas) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _prompts(comparison: RunComparison) -> parts.Prompts:
    note = None
    if comparison.prompt_diff:
        note = _PROMPTS_DIFFER
    elif any(item.field.startswith(f"{FINGERPRINTS}.") for item in comparison.config_diff):
        # `None`: a run of before prompts were stored; empty: stored on both sides, and alike.
        reason = _TEXTS_NOT_STORED if comparison.prompt_diff is None else _PROMPTS_ALIKE
        note = f"{_FINGERPRINTS_DIFFER} {reason}"
    return parts.Prompts(
        note=note,
        judges=prompt_changes(comparison.prompt_diff or ()),
    )


def prompt_changes(diffs: Sequence[PromptDiff]) -> list[parts.PromptChange]:
    """What differs in the prompts of judges, as pages show it."""
    return [
        parts.PromptChange(
            judge=name_of(diff.judge),
            lines=[prompt_line(line) for line in diff.lines],
            more=diff.more,
        )
        for diff in diffs[:MAX_JUDGES]
    ]


def prompt_line(line: str) -> str:
    """One line of a difference of prompts, for display."""
    # A carriage return would move the cursor; its visible sign stands for it.
    return formatting.clean(line.replace("\r", "\u240d"), PROMPT_LINE_CHARS)


def _statistics(verdict: ComparisonVerdict) -> parts.Statistics | None:
    """The statistics of a comparison; `None` where the comparison goes by the rules only."""
    result = verdict.statistics
    if result is None:
        return None
    noise = result.noise and parts.Within(
        **result.noise.model_dump(include={"repeat_sd", "threshold"}),
        **_ids(result.noise.changed_within, len(result.noise.changed_within)).model_dump(),
    )
    measures = [
        parts.Measure(
            **metric.model_dump(exclude={"measure", "line"}),
            measure=name_of(metric.measure),
            name=name_of(LABELS.get(metric.measure, metric.measure)),
            word=SHOWN[metric.verdict],
            span=_span(metric.low, metric.high),
            rests_on=(
                f"{'paired' if metric.paired else 'unpaired'}, {plural(metric.cases, 'case')}, "
                f"{plural(metric.clusters, 'cluster')}"
            ),
            line=line_of(metric.line),
        )
        for metric in result.metrics
    ]
    return parts.Statistics(
        **result.model_dump(include={"verdict", "margin", "alpha"}),
        word=SHOWN[result.verdict],
        reasons=[line_of(reason) for reason in result.reasons],
        note=(
            f"All values are points of 100. A measure has regressed if its whole interval is below "
            f"0 and it fell by {result.margin:g} points or more. It is not worse if its whole "
            f"interval is above {signed_number(-result.margin, 1)} points. Otherwise the data "
            f"cannot tell. All measures together raise a false alarm in at most "
            f"{result.alpha:.1%} of comparisons."
        ),
        measures=measures,
        mix=[mix.model_copy(update={"by": name_of(mix.by)}) for mix in result.mix],
        moved=sum(change.moved for change in result.exploratory),
        explored=len(result.exploratory),
        by_tool=any(change.name.startswith(f"{TOOL}=") for change in result.exploratory),
        exploratory=[_explored(change) for change in result.exploratory[:MAX_EXPLORATORY]],
        noise=noise,
    )


def _span(low: float | None, high: float | None) -> str:
    """The interval of a change; a dash where a bound is missing."""
    if low is None or high is None:
        return DASH
    return f"{signed_number(low, 1)} .. {signed_number(high, 1)}"


def _explored(change: Exploratory) -> parts.Explored:
    return parts.Explored(
        **change.model_dump(exclude={"name", "measure", "kind"}),
        name=filter_value(change.name),
        measure=name_of(LABELS.get(change.measure, change.measure)),
        kind=change.kind.replace("_", " "),
        span=_span(change.low, change.high),
    )
