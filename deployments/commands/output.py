"""The output of commands: tables for people, one JSON document for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from assizes.deployments.terminal import json_text, printable
from assizes.judge.errors import ConfigurationError
from assizes.judge.verdicts.run_outcome import TASK_UNJUDGED, WORDS

if TYPE_CHECKING:
    from assizes.flows.outcome import RunOutcome
    from assizes.judge.comparison.compare import ComparisonVerdict, RunComparison
    from assizes.judge.comparison.statistical_verdict import StatisticalVerdict
    from assizes.judge.prompts.prompt_texts import PromptDiff
    from assizes.judge.summary.run_summary import RunSummary

MARKS = {True: "pass", False: "FAIL"}  # of gates and verdicts
GOOD = (WORDS["Passed"], "NOT WORSE")
BAD = (WORDS["GateFailed"], WORDS["Regression"], WORDS["Failed"])
STYLES = {**dict.fromkeys(GOOD, "bold green"), **dict.fromkeys(BAD, "bold red")}
"""Styles of the words in which runs and comparisons end; any other, such as `INCONCLUSIVE`, says
that nothing was decided, and is printed in bold yellow."""
MOVED = 5
"""Most exploratory measures that are listed as moved."""
NOTABLE = 20
"""Most changed cases that are listed; the report holds all of them."""
PROMPT_LINES = 12
"""Most changed lines of a judge's prompts that are printed."""


def print_json(document: Any) -> None:
    """Print one JSON document."""
    print(json_text(document, indent=2))  # noqa: T201  # the command's answer


def print_line(line: str) -> None:
    """Print one line; line ends within it become blanks, for a file name may hold line ends."""
    print(printable(line))  # noqa: T201  # the command's answer


def print_lines(lines: Iterable[str]) -> None:
    """Print each text as one line."""
    for line in lines:
        print_line(line)


def print_text(text: str) -> None:
    """Print one or more lines; control characters other than line ends become blanks."""
    print(printable(text, "\n"))  # noqa: T201  # the command's answer


def print_ending(word: str, reasons: Iterable[str]) -> None:
    """Print the word in which a run or a comparison ends, and below it the reasons."""
    Console(highlight=False).print(Text(word, STYLES.get(word, "bold yellow")))
    print_lines(f"  {reason}" for reason in reasons)


def check_separate(files: Mapping[str, Path | None], where: str) -> None:
    """Check that no file is named by two options, of which the last would overwrite the others.

    `files` holds the files by option; `where` is the command.

    Raises:
        ConfigurationError: a file is named twice.
    """
    options: dict[Path, str] = {}  # file -> the option that named it
    for option, file in files.items():
        if file is not None and (other := options.setdefault(file.resolve(), option)) != option:
            raise ConfigurationError(
                f"{where}: {option} {str(file)!r} is the file of {other} too; name another"
            )


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    width: int | None = None,  # characters; None: those of the terminal
) -> None:
    """Print a table; a heading that begins with `#` marks a right-aligned column of numbers."""
    table = Table(
        title=Text(title) if title else None,  # Text: brackets are no markup of rich
        title_justify="left",
        header_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for index, name in enumerate(columns):
        justify: Literal["left", "right"] = "right" if name.startswith("#") else "left"
        # The first column holds ids that people copy: it is never cut or broken.
        heading = Text(printable(name.removeprefix("#")))
        table.add_column(heading, justify=justify, no_wrap=index == 0, overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    Console(highlight=False, width=width).print(table)


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


def print_outcome(outcome: RunOutcome, *, as_json: bool = False) -> int:
    """Print metrics, gates, comparison, conclusion and report of a run; returns its exit code."""
    if as_json:
        print_json(outcome.model_dump(mode="json"))
        return outcome.exit_code
    summary, comparison = outcome.summary, outcome.comparison
    print_line(judge_line(outcome.judge_model))
    print_metrics(outcome.run_id, summary, comparison)
    print_published(summary)
    print_gates(summary)
    if comparison is not None:
        print_comparison(comparison, outcome.reasons)
    is_open = outcome.conclusion == "Passed" and summary.task_unjudged is not None
    print_ending(TASK_UNJUDGED if is_open else WORDS[outcome.conclusion], outcome.reasons)
    if outcome.attribution is not None and not outcome.attribution.judge_moved:
        print_line(outcome.attribution.sentence())
    if outcome.causes is not None and outcome.causes.first:
        print_line("what failed cases have in common:")
        print_lines(f"  {cause.line}" for cause in outcome.causes.first)
        print_line(f"  `assizes causes {outcome.run_id}` says more")
    print_warnings(summary.warnings)
    if rejected := summary.counts.get("quarantined"):
        print_line(f"{rejected} records rejected: `assizes rejects {outcome.run_id}` says why")
    if report := outcome.reports.get("html"):
        print_line(f"report: {report}")
    return outcome.exit_code


def print_warnings(warnings: Iterable[str]) -> None:
    """Print warnings, which a reader needs before the numbers."""
    print_lines(f"warning: {warning}" for warning in warnings)


def print_metrics(title: str, summary: RunSummary, comparison: RunComparison | None = None) -> None:
    """Print each metric's mean and coverage, and its change against the baseline."""
    measured = comparison.aggregate.per_metric_aggregate_deltas if comparison else ()
    deltas = {each.metric: each.delta for each in measured}  # metric -> change of its mean
    rows = []
    for metric in summary.metrics:
        # Of a binary metric the pass rate stands for the mean, and the change is in its points.
        bare = metric.is_binary or metric.mean_raw is None
        mean = None if bare else f"{metric.mean_raw:.2f}"
        change = None
        if (delta := deltas.get(metric.name)) is not None:
            change = f"{100 * delta:+.1f} %" if metric.is_binary else f"{delta:+.2f}"
        due = f"{metric.scored}/{metric.scored + metric.failed}"
        due += "*" if metric.skipped else ""
        passed = None if metric.pass_rate is None else f"{100 * metric.pass_rate:.1f} %"
        kind = metric.tier or metric.gate  # conversation metrics have a tier, other judges a gate
        weight = None if metric.weight is None else _weight_text(metric.weight)
        rows.append((metric.name, kind, weight, mean, passed, change, due))
    columns = ("metric", "tier or gate", "#weight", "#mean", "#passed", "#change", "#scored")
    print_table(title, columns, rows)
    if unseen := [
        f"{metric.name} {metric.skipped}" for metric in summary.metrics if metric.skipped
    ]:
        print_line(f"* cases that show nothing of it or lack ground truth: {', '.join(unseen)}")


def _weight_text(weight: float) -> str:
    """A weight with two to four decimals, as many as it needs, so that the column adds up to 1."""
    text = f"{weight:.4f}"
    return text[:-2] + text[-2:].rstrip("0")


def print_votes(summary: RunSummary) -> None:
    """Print how stable the votes of an ensemble, or of repeated asks, were for each metric."""
    rows = [
        (entry.metric, entry.judge, entry.cases, entry.flip_rate, entry.agreement, entry.escalated)
        for entry in summary.stability
    ]
    if rows:
        columns = ("metric", "judge", "#cases", "#flip rate", "#agreement", "#escalated")
        print_table("votes", columns, rows)


def print_gates(summary: RunSummary) -> None:
    """Print the two pass gates (0..100) and the coverage of a run, then its counts and costs."""
    score = _interval_text(summary, "weighted_metrics_score_pct")
    rate = _interval_text(summary, "cases_pass_rate_pct")
    gate, case_gate = summary.metrics_pass_threshold, summary.cases_pass_threshold
    coverage = None if summary.coverage is None else 100 * summary.coverage
    enough, covered = 100 * summary.min_coverage, summary.outcome != "inconclusive"
    weighted = summary.weighted_metrics_score_pct
    rows = [
        ("weighted metrics score", weighted, score, gate, summary.metrics_passed),
        ("cases pass rate %", summary.cases_pass_rate_pct, rate, case_gate, summary.cases_passed),
        ("coverage %", coverage, None, enough, covered),
    ]
    print_table("", ("gate", "#value", "#95 % CI", "#threshold", "verdict"), rows)
    counts = {name: count for name, count in summary.counts.items() if count}
    print_line(f"records: {', '.join(_counts(counts))}")
    if summary.score_counts:
        due, *parts = _counts(summary.score_counts)  # the total comes first
        print_line(f"scores: {due} = {' + '.join(parts)}")
    if summary.flags:
        print_line(f"flagged cases (docs/judges.md): {', '.join(_counts(summary.flags))}")
    if summary.root_causes:
        print_line(f"root causes of failed cases: {', '.join(_counts(summary.root_causes))}")
    _print_costs(summary)


def _print_costs(summary: RunSummary) -> None:
    cost = f"judge cost: {_dollars(summary.total_platform_cost_usd)}"
    if len(summary.judges) > 1:
        split = [f"{name} {_dollars(usage.cost_usd)}" for name, usage in summary.judges.items()]
        cost += f" ({', '.join(split)})"
    if (share := summary.cost_estimated) is not None:  # no provider reported these tokens
        cost += f", {100 * share:.1f} % of it by estimated tokens"
    print_line(cost)
    if summary.spent_usd is not None:
        line = f"paid for all model calls of this run: {_dollars(summary.spent_usd)}"
        if lost := summary.spent_outside_rows_usd:
            line += f"; {_dollars(lost)} of it for calls whose answers are in no result"
        print_line(line)


def _counts(counts: Mapping[str, int]) -> list[str]:
    return [f"{name} {count}" for name, count in counts.items()]


def _interval_text(summary: RunSummary, name: str) -> str | None:
    """The 95 % confidence interval of a number of the summary; `None` where it has no interval."""
    interval = summary.intervals.get(name)
    if interval is None or interval.low is None or interval.high is None:
        return None
    return f"{interval.low:.1f}..{interval.high:.1f}"


def _dollars(cost: float | None) -> str:
    return "unknown" if cost is None else f"{cost:.4f} USD"


def print_published(summary: RunSummary) -> None:
    """Print the numbers that judges publish under names of their own, if there are any."""
    if summary.published:
        rows = [(name, f"{value:.4f}") for name, value in summary.published.items()]
        print_table("", ("published number", "#value"), rows)


def print_comparison(comparison: RunComparison, of_ending: Sequence[str]) -> None:
    """Print what a comparison found, without the reasons `of_ending`, which are printed with it."""
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
        print_table("", ("case", "status", "#baseline", "#candidate"), changed[:NOTABLE])
    # By counts: a comparison lists at most a thousand cases of each status (decision 62).
    more = comparison.case_counts.matched - aggregate.total_unchanged - NOTABLE
    if more > 0:
        print_line(f"... and {more} more")
    print_warnings(comparison.warnings)
    print_lines(f"by the rules: {reason}" for reason in verdict.reasons if reason not in of_ending)
    if verdict.statistics is not None:
        print_statistics(verdict.statistics)
    lines = [mismatch.line for mismatch in verdict.mismatches]
    print_lines(f"judged differently: {line}" for line in lines if line not in of_ending)
    print_lines(
        f"differs, but does not matter here: {change.field}: {change.baseline} -> {change.candidate}"
        for change in comparison.config_diff
        if change.field.startswith("thresholds.")
    )
    for diff in comparison.prompt_diff or ():
        print_prompt_diff(diff)


def print_prompt_diff(diff: PromptDiff) -> None:
    """Print the lines of a judge's prompts that only one of the two runs has."""
    lines = [line for line in diff.lines if line.startswith(("-", "+"))]
    print_line(f"prompts of judge {diff.judge} (- baseline, + candidate):")
    print_lines(f"  {line[0]} {line[1:]}" for line in lines[:PROMPT_LINES])
    if len(lines) > PROMPT_LINES or diff.more:
        print_line("  ... and more; the report shows it")


def print_comparison_ending(verdict: ComparisonVerdict) -> None:
    """Print the one word in which a comparison ends, and the reasons for it."""
    from assizes.tasks.reports.data.report import COMPARISON_ENDINGS

    _, word = COMPARISON_ENDINGS[verdict.ending]
    print_ending(
        word, verdict.why or ["pass rate, average score and latency stayed within their limits"]
    )


def print_statistics(statistics: StatisticalVerdict) -> None:
    """Print the statistical verdict, its gating measures, and exploratory measures that moved."""
    from assizes.judge.comparison.statistical_verdict import SHOWN

    print_line(f"by the statistics: {SHOWN[statistics.verdict]}")
    measures = [measure.line for measure in statistics.metrics]  # reasons repeat them
    others = [reason for reason in statistics.reasons if reason not in measures]
    print_lines(f"  {line}" for line in (*measures, *others))
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
    if (noise := statistics.noise) is not None:
        print_line(
            f"  {len(noise.changed_within)} changed cases are within noise (a case moves by "
            f"{noise.threshold:.1f} points when nothing changes)"
        )
