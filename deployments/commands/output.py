"""How commands answer: rich tables for people, one JSON document for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from assizes.deployments.terminal import json_text, printable

if TYPE_CHECKING:
    from assizes.flows.outcome import RunOutcome
    from assizes.judge.comparison.compare import ComparisonVerdict, RunComparison
    from assizes.judge.comparison.statistical_verdict import StatisticalVerdict
    from assizes.judge.prompts.prompt_texts import PromptDiff
    from assizes.judge.summary.headlines import MetricSummary
    from assizes.judge.summary.run_summary import RunSummary

MARKS = {True: "pass", False: "FAIL"}
STYLES = {
    "Passed": "bold green",
    **dict.fromkeys(
        ("Inconclusive", "Incomplete", "OverBudget", "Halted", "NoData"), "bold yellow"
    ),
}
"""Of conclusions; those that are not here are faults."""
MOVED = 5
"""So many measures that moved beside the gating ones are listed."""
NOTABLE = 20
"""So many changed cases are listed; the report holds them all."""
PROMPT_LINES = 12
"""So many lines of a judge's prompts that differ are shown."""


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """How a command answers."""

    as_json: bool = False
    verbose: bool = False


def console() -> Console:
    """Stdout; colour only on a terminal."""
    return Console(highlight=False, soft_wrap=False)


def print_json(document: Any) -> None:
    """One JSON document on stdout."""
    print(json_text(document, indent=2))  # noqa: T201  # the command's answer


def print_line(line: str) -> None:
    """One plain line on stdout, whatever names stand in it: a file may be called by several lines."""
    print(printable(line))  # noqa: T201  # the command's answer


def print_text(text: str) -> None:
    """Lines on stdout; other control characters of a transcript do not reach the terminal."""
    print(printable(text, "\n"))  # noqa: T201  # the command's answer


def print_conclusion(conclusion: str) -> None:
    """The name of a run's end, in its colour on a terminal."""
    console().print(Text(conclusion.upper(), STYLES.get(conclusion, "bold red")))


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table; cells are text as it is, never markup. Columns named `#...` are numbers.

    The first column holds what a person copies: it is never cut or broken.
    """
    table = Table(
        title=Text(title) if title else None,
        title_justify="left",
        header_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for place, name in enumerate(columns):
        justify: Literal["left", "right"] = "right" if name.startswith("#") else "left"
        heading = name.removeprefix("#")
        table.add_column(
            Text(printable(heading)), justify=justify, no_wrap=place == 0, overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    console().print(table)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return MARKS[value]
    if isinstance(value, float):
        return f"{value:.2f}"
    return printable(str(value))


def judged_by(model: str) -> str:
    """Who judged, plainly when it was no language model."""
    if model == "offline/lexical":
        return "Judged by the offline baseline (offline/lexical): text rules, no language model."
    return f"Judged by {model}."


def print_outcome(outcome: RunOutcome) -> None:
    """A run at its end: conclusion, gates, metrics beside the baseline, where the report is."""
    summary, comparison = outcome.summary, outcome.comparison
    print_line(judged_by(outcome.judge_model))
    print_metrics(outcome.run_id, summary, comparison)
    print_published(summary)
    print_gates(summary)
    if comparison is not None:
        print_comparison(comparison)
    print_conclusion(outcome.conclusion)
    known_reasons = set(comparison.verdict.reasons) if comparison else set()
    for reason in outcome.reasons:
        if reason not in known_reasons:
            print_line(reason)
    if outcome.attribution is not None and not outcome.attribution.judge_moved:
        print_line(outcome.attribution.sentence())
    print_warnings(summary)
    if report := outcome.reports.get("html"):
        print_line(f"report: {report}")


def print_warnings(summary: RunSummary) -> None:
    """What to know before believing the numbers."""
    for warning in summary.warnings:
        print_line(f"warning: {warning}")


def print_metrics(title: str, summary: RunSummary, comparison: RunComparison | None = None) -> None:
    """Each metric's mean and coverage, with the change against the baseline."""
    deltas = {
        delta.metric: delta for delta in _metric_deltas(comparison) if delta.delta is not None
    }
    rows = []
    for metric in summary.metrics:
        delta = deltas.get(metric.name)
        change = _change(metric, delta.delta) if delta else "-"
        due = f"{metric.scored}/{metric.scored + metric.failed}"
        passed = None if metric.pass_rate is None else f"{100 * metric.pass_rate:.1f} %"
        kind = metric.tier or metric.gate
        rows.append((metric.name, kind, metric.weight, _level(metric), passed, change, due))
    columns = ("metric", "tier or gate", "#weight", "#mean", "#passed", "#change", "#scored")
    print_table(title, columns, rows)


def print_votes(summary: RunSummary) -> None:
    """How steady the metrics are that a panel or repeats voted on."""
    if not summary.stability:
        return
    rows = [
        (entry.metric, entry.judge, entry.cases, entry.flip_rate, entry.agreement, entry.escalated)
        for entry in summary.stability
    ]
    columns = ("metric", "judge", "#cases", "#flip rate", "#agreement", "#escalated")
    print_table("votes", columns, rows)


def _change(metric: MetricSummary, delta: float) -> str:
    """Levels move by levels, shares by points of a hundred."""
    return f"{100 * delta:+.1f} %" if metric.is_binary else f"{delta:+.2f}"


def _metric_deltas(comparison: RunComparison | None) -> Sequence[Any]:
    return comparison.aggregate.per_metric_aggregate_deltas if comparison else ()


def _level(metric: MetricSummary) -> str | None:
    """The mean in the metric's own unit; of pass or fail, and of yes or no, the share says it."""
    bare = metric.is_binary or metric.mean_raw is None
    return None if bare else f"{metric.mean_raw:.2f}"


def print_gates(summary: RunSummary) -> None:
    """The two pass dimensions, coverage, counts and money of a run."""
    score, rate = summary.weighted_metrics_score_pct, summary.cases_pass_rate_pct
    cost = summary.total_platform_cost_usd
    rows = [
        (
            "weighted metrics score",
            score,
            _span(summary, "weighted_metrics_score_pct"),
            summary.metrics_pass_threshold,
            summary.metrics_passed,
        ),
        (
            "cases pass rate %",
            rate,
            _span(summary, "cases_pass_rate_pct"),
            summary.cases_pass_threshold,
            summary.cases_passed,
        ),
        (
            "coverage %",
            None if summary.coverage is None else 100 * summary.coverage,
            None,
            100 * summary.min_coverage,
            summary.outcome != "inconclusive",
        ),
    ]
    print_table("", ("gate", "#value", "#95 % CI", "#threshold", "verdict"), rows)
    counts = ", ".join(f"{name} {count}" for name, count in summary.counts.items() if count)
    print_line(f"records: {counts}")
    if summary.score_counts:
        due, *parts = (f"{name} {count}" for name, count in summary.score_counts.items())
        print_line(f"scores: {due} = {' + '.join(parts)}")
    if summary.flags:
        flagged = ", ".join(f"{name} {count}" for name, count in summary.flags.items())
        print_line(f"flagged cases (docs/judges.md): {flagged}")
    if summary.root_causes:
        causes = ", ".join(f"{name} {count}" for name, count in summary.root_causes.items())
        print_line(f"root causes of failed cases: {causes}")
    print_line(f"judge cost: {_dollars(cost)}{_by_judge(summary)}{_estimated_share(summary)}")
    if summary.spent_usd is not None:
        outside = f"{_dollars(summary.spent_outside_rows_usd)} of it in no row of this run"
        print_line(f"spent by the ledger: {_dollars(summary.spent_usd)}, {outside}")


def _span(summary: RunSummary, name: str) -> str | None:
    """The interval of a number; a dash where there is none."""
    interval = summary.intervals.get(name)
    if interval is None or interval.low is None or interval.high is None:
        return None
    return f"{interval.low:.1f}..{interval.high:.1f}"


def _estimated_share(summary: RunSummary) -> str:
    """The share of the cost that nobody metered."""
    share = summary.cost_estimated
    return "" if share is None else f", {100 * share:.1f} % of it by estimated tokens"


def _by_judge(summary: RunSummary) -> str:
    """The split of the cost, where more than one judge asked."""
    split = [f"{name} {_dollars(usage.cost_usd)}" for name, usage in summary.judges.items()]
    return f" ({', '.join(split)})" if len(split) > 1 else ""


def _dollars(cost: float | None) -> str:
    return "unknown" if cost is None else f"{cost:.4f} USD"


def print_published(summary: RunSummary) -> None:
    """The numbers that judges publish under names of their own; nothing where there are none."""
    if summary.published:
        rows = [(name, f"{value:.4f}") for name, value in summary.published.items()]
        print_table("", ("published number", "#value"), rows)


def print_comparison(comparison: RunComparison) -> None:
    """The rule verdict, its reasons, and the cases that changed."""
    aggregate, verdict = comparison.aggregate, comparison.verdict
    print_line(
        f"{comparison.candidate_run_id} against {comparison.baseline_run_id}: "
        f"{aggregate.total_regressions} cases worse, {aggregate.total_improvements} better, "
        f"{aggregate.total_unchanged} unchanged, {aggregate.total_errors} with errors"
    )
    changed = [
        (case.test_case_id, case.status, case.baseline_score, case.candidate_score)
        for case in comparison.test_case_comparisons
        if case.status != "unchanged"
    ]
    if changed:
        columns = ("case", "status", "#baseline", "#candidate")
        print_table("", columns, changed[:NOTABLE])
    more = comparison.case_counts.matched - aggregate.total_unchanged - NOTABLE
    if more > 0:
        print_line(f"... and {more} more")
    for warning in comparison.warnings:
        print_line(f"warning: {warning}")
    for reason in verdict.reasons:
        print_line(f"REGRESSION: {reason}")
    if not verdict.regression_detected:
        print_line("no regression by the documents' rules")
    if verdict.statistics is not None:
        print_statistics(verdict.statistics)
    print_mismatches(verdict)
    for diff in comparison.prompt_diff or ():
        print_prompt_diff(diff)


def print_prompt_diff(diff: PromptDiff) -> None:
    """What a judge was told otherwise, without the lines that both runs share."""
    lines = [line for line in diff.lines if line[:1] in {"-", "+"}]
    print_line(f"prompts of judge {diff.judge} (- baseline, + candidate):")
    for line in lines[:PROMPT_LINES]:
        print_line(f"  {line[0]} {line[1:]}")
    if len(lines) > PROMPT_LINES or diff.more:
        print_line("  ... and more; the report shows it")


def print_mismatches(verdict: ComparisonVerdict) -> None:
    """What was not alike, and what to do about it."""
    refused = verdict.ending == "not_comparable"
    for mismatch in verdict.mismatches:
        print_line(f"{'NOT COMPARABLE' if refused else 'judged differently'}: {mismatch.line}")
    if refused:
        print_line("a change need not be the agent's; --allow compares all the same")


def print_statistics(statistics: StatisticalVerdict) -> None:
    """The statistical verdict, a line for each gating measure, and what moved beside them."""
    from assizes.judge.comparison.statistical_verdict import SHOWN

    print_line(f"by the statistics: {SHOWN[statistics.verdict].upper()}")
    for measure in statistics.metrics:
        print_line(f"  {measure.line}")
    for reason in statistics.reasons:
        if all(reason != measure.line for measure in statistics.metrics):
            print_line(f"  {reason}")
    for part in statistics.mix:
        print_line(
            f"  {part.measure}: {part.total:+.1f} in all = {part.quality:+.1f} by what the agent did "
            f"{part.mix:+.1f} by another mix of {part.by}"
        )
    moved = [change for change in statistics.exploratory if change.moved]
    for change in moved[:MOVED]:
        print_line(
            f"  moved (exploratory): {change.name}, {change.measure} {change.baseline:.1f} -> "
            f"{change.candidate:.1f} ({change.delta:+.1f}; q {change.q_value:.2g})"
        )
    if statistics.noise is not None:
        print_line(
            f"  {len(statistics.noise.changed_within)} changed cases are within noise (a case moves by "
            f"{statistics.noise.threshold:.1f} points when nothing changes)"
        )
