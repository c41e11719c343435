"""The output of commands: tables for people, one JSON document for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
"""Styles of conclusions; a conclusion without a style is a fault and printed in bold red."""
MOVED = 5
"""Most exploratory measures that are listed as moved."""
NOTABLE = 20
"""Most changed cases that are listed; the report holds all of them."""
PROMPT_LINES = 12
"""Most changed lines of a judge's prompts that are printed."""


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """The output of a command.

    Attributes:
        as_json: print one JSON document instead of tables.
        verbose: show Prefect's log.
    """

    as_json: bool = False
    verbose: bool = False


def console() -> Console:
    """A rich console on stdout; it has colour only on a terminal."""
    return Console(highlight=False, soft_wrap=False)


def print_json(document: Any) -> None:
    """Print one JSON document."""
    print(json_text(document, indent=2))  # noqa: T201  # the command's answer


def print_line(line: str) -> None:
    """Print one line; line ends within it become blanks, for a file name may hold line ends."""
    print(printable(line))  # noqa: T201  # the command's answer


def print_text(text: str) -> None:
    """Print one or more lines; control characters other than line ends become blanks."""
    print(printable(text, "\n"))  # noqa: T201  # the command's answer


def print_conclusion(conclusion: str) -> None:
    """Print the conclusion of a run in capitals, in its colour on a terminal."""
    console().print(Text(conclusion.upper(), STYLES.get(conclusion, "bold red")))


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table.

    Args:
        title: heading of the table; empty: none.
        columns: headings; one that begins with `#` marks a right-aligned column of numbers.
        rows: cells; a text is printed as it is, never as markup of rich. The first column holds the
            ids that people copy, so it is never cut or broken.
    """
    table = Table(
        title=Text(title) if title else None,
        title_justify="left",
        header_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for index, name in enumerate(columns):
        justify: Literal["left", "right"] = "right" if name.startswith("#") else "left"
        heading = Text(printable(name.removeprefix("#")))
        table.add_column(heading, justify=justify, no_wrap=index == 0, overflow="fold")
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


def judge_line(model: str) -> str:
    """The sentence that names the judge's model, and says so when it is no language model."""
    if model == "offline/lexical":
        return "Judged by the offline baseline (offline/lexical): text rules, no language model."
    return f"Judged by {model}."


def print_outcome(outcome: RunOutcome) -> None:
    """Print a finished run: metrics beside the baseline, gates, comparison, conclusion, report."""
    summary, comparison = outcome.summary, outcome.comparison
    print_line(judge_line(outcome.judge_model))
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
    """Print the warnings of a summary, which a reader needs before the numbers."""
    for warning in summary.warnings:
        print_line(f"warning: {warning}")


def print_metrics(title: str, summary: RunSummary, comparison: RunComparison | None = None) -> None:
    """Print each metric's mean and coverage, and its change against the baseline."""
    measured = comparison.aggregate.per_metric_aggregate_deltas if comparison else ()
    deltas = {delta.metric: delta.delta for delta in measured if delta.delta is not None}
    rows = []
    for metric in summary.metrics:
        delta = deltas.get(metric.name)
        change = "-" if delta is None else _change_text(metric, delta)
        due = f"{metric.scored}/{metric.scored + metric.failed}"
        passed = None if metric.pass_rate is None else f"{100 * metric.pass_rate:.1f} %"
        kind = metric.tier or metric.gate
        rows.append((metric.name, kind, metric.weight, _mean_text(metric), passed, change, due))
    columns = ("metric", "tier or gate", "#weight", "#mean", "#passed", "#change", "#scored")
    print_table(title, columns, rows)


def print_votes(summary: RunSummary) -> None:
    """Print how stable the votes of an ensemble, or of repeated asks, were for each metric."""
    if not summary.stability:
        return
    rows = [
        (entry.metric, entry.judge, entry.cases, entry.flip_rate, entry.agreement, entry.escalated)
        for entry in summary.stability
    ]
    columns = ("metric", "judge", "#cases", "#flip rate", "#agreement", "#escalated")
    print_table("votes", columns, rows)


def _change_text(metric: MetricSummary, delta: float) -> str:
    """A change in percentage points for a binary metric, else in the metric's own unit."""
    return f"{100 * delta:+.1f} %" if metric.is_binary else f"{delta:+.2f}"


def _mean_text(metric: MetricSummary) -> str | None:
    """The mean in the metric's own unit; `None` for a binary metric, whose pass rate says it."""
    bare = metric.is_binary or metric.mean_raw is None
    return None if bare else f"{metric.mean_raw:.2f}"


def print_gates(summary: RunSummary) -> None:
    """Print the two pass gates (0..100) and the coverage of a run, then its counts and costs."""
    rows = [
        (
            "weighted metrics score",
            summary.weighted_metrics_score_pct,
            _interval_text(summary, "weighted_metrics_score_pct"),
            summary.metrics_pass_threshold,
            summary.metrics_passed,
        ),
        (
            "cases pass rate %",
            summary.cases_pass_rate_pct,
            _interval_text(summary, "cases_pass_rate_pct"),
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
    counts = {name: count for name, count in summary.counts.items() if count}
    print_line(f"records: {', '.join(_counts(counts))}")
    if summary.score_counts:
        due, *parts = _counts(summary.score_counts)
        print_line(f"scores: {due} = {' + '.join(parts)}")
    if summary.flags:
        print_line(f"flagged cases (docs/judges.md): {', '.join(_counts(summary.flags))}")
    if summary.root_causes:
        print_line(f"root causes of failed cases: {', '.join(_counts(summary.root_causes))}")
    cost = _dollars(summary.total_platform_cost_usd)
    print_line(f"judge cost: {cost}{_cost_by_judge(summary)}{_estimated_share(summary)}")
    if summary.spent_usd is not None:
        outside = f"{_dollars(summary.spent_outside_rows_usd)} of it in no row of this run"
        print_line(f"spent by the ledger: {_dollars(summary.spent_usd)}, {outside}")


def _counts(counts: Mapping[str, int]) -> list[str]:
    return [f"{name} {count}" for name, count in counts.items()]


def _interval_text(summary: RunSummary, name: str) -> str | None:
    """The 95 % confidence interval of a number of the summary; `None` where it has no interval."""
    interval = summary.intervals.get(name)
    if interval is None or interval.low is None or interval.high is None:
        return None
    return f"{interval.low:.1f}..{interval.high:.1f}"


def _estimated_share(summary: RunSummary) -> str:
    """The share of the cost whose tokens no provider reported, as the end of a sentence."""
    share = summary.cost_estimated
    return "" if share is None else f", {100 * share:.1f} % of it by estimated tokens"


def _cost_by_judge(summary: RunSummary) -> str:
    """The cost of each judge in parentheses; empty where only one judge asked."""
    split = [f"{name} {_dollars(usage.cost_usd)}" for name, usage in summary.judges.items()]
    return f" ({', '.join(split)})" if len(split) > 1 else ""


def _dollars(cost: float | None) -> str:
    return "unknown" if cost is None else f"{cost:.4f} USD"


def print_published(summary: RunSummary) -> None:
    """Print the numbers that judges publish under names of their own, if there are any."""
    if summary.published:
        rows = [(name, f"{value:.4f}") for name, value in summary.published.items()]
        print_table("", ("published number", "#value"), rows)


def print_comparison(comparison: RunComparison) -> None:
    """Print the changed cases of a comparison, its verdict by rules and by statistics, its warnings."""
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
    """Print the lines of a judge's prompts that only one of the two runs has."""
    lines = [line for line in diff.lines if line[:1] in {"-", "+"}]
    print_line(f"prompts of judge {diff.judge} (- baseline, + candidate):")
    for line in lines[:PROMPT_LINES]:
        print_line(f"  {line[0]} {line[1:]}")
    if len(lines) > PROMPT_LINES or diff.more:
        print_line("  ... and more; the report shows it")


def print_mismatches(verdict: ComparisonVerdict) -> None:
    """Print how the judging of the two runs differed, and how to compare them all the same."""
    refused = verdict.ending == "not_comparable"
    for mismatch in verdict.mismatches:
        print_line(f"{'NOT COMPARABLE' if refused else 'judged differently'}: {mismatch.line}")
    if refused:
        print_line("a change need not be the agent's; --allow compares all the same")


def print_statistics(statistics: StatisticalVerdict) -> None:
    """Print the statistical verdict, its gating measures, and exploratory measures that moved."""
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
