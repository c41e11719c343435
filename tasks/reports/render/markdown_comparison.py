"""Renders the comparison of a run with its baseline as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from assizes.tasks.reports import formatting
from assizes.tasks.reports.markdown_text import Block, bullets, code, plain, table

MAX_ROWS: Final = 50
"""Settings, and cases that only one run has, that are listed at most."""

MAX_MOVED: Final = 25
"""Cases that got worse, and cases that got better, that are listed at most."""

MAX_PROMPT_LINES: Final = 40
"""Lines that are listed of the differences in the prompts of one judge, at most."""


def comparison_blocks(compared: Mapping[str, Any] | None) -> Iterator[Block]:
    """The blocks of the section on the comparison; `compared` is `None` without a baseline."""
    yield "## Comparison with the baseline"
    if compared is None:
        yield "No baseline: nothing to compare with."
        return
    totals = compared["totals"]
    yield (
        f"Regression: **{'yes' if compared['regression_detected'] else 'no'}**. "
        f"Baseline {code(compared['baseline']['run_id'])}: of "
        f"{formatting.plural(totals['matched'], 'case')} in both, {totals['regressions']} worse, "
        f"{totals['improvements']} better, {totals['unchanged']} unchanged, "
        f"{totals['errors']} with an error."
    )
    yield table(
        ["Rule", "Limit", "Baseline", "Candidate", "Change"],
        [
            [rule["name"], rule["limit"], rule["baseline"], rule["candidate"], rule["change"]]
            for rule in compared["rules"]
        ],
        numbers=3,
    )
    yield compared["rules_note"]
    notes = [plain(reason, 500) for reason in compared["reasons"]]
    notes += [f"Note: {plain(warning, 500)}" for warning in compared["warnings"]]
    if notes:
        yield bullets(notes)
    yield from _statistics(compared)
    yield from _movers("worse", compared["worse"])
    yield from _movers("better", compared["better"])
    for side in ("baseline", "candidate"):
        only = compared[f"{side}_only"]
        if only["total"]:
            names = ", ".join(code(case_id) for case_id in only["shown"][:MAX_ROWS])
            yield f"Only in the {side} ({only['total']}): {names}{_more(only['more'])}"
    if compared["config_diff"]:
        yield "### What differs in the configuration"
        yield table(
            ["Setting", "Baseline", "Candidate"],
            [
                [
                    code(setting["field"]),
                    code(setting["baseline"], 80),
                    code(setting["candidate"], 80),
                ]
                for setting in compared["config_diff"][:MAX_ROWS]
            ],
        )
    yield from _prompts(compared["prompt_diff"])


def _more(amount: int) -> str:
    return f" and {amount:,} more" if amount else ""


def _movers(word: str, movers: Mapping[str, Any]) -> Iterator[Block]:
    if not movers["total"]:
        return
    shown = movers["shown"][:MAX_MOVED]
    yield f"### Cases that got {word} ({movers['total']})"
    yield table(
        ["Case", "Verdict", "Metrics that moved", "Baseline", "Candidate", "Change"],
        [
            [
                code(case["case_id"], 80),
                case["flip"],
                plain(case["moved"]) or formatting.DASH,
                formatting.number(case["baseline_score"]),
                formatting.number(case["candidate_score"]),
                formatting.signed_number(case["score_delta"]),
            ]
            for case in shown
        ],
        numbers=3,
    )
    if movers["total"] > len(shown):
        yield f"and {movers['total'] - len(shown):,} more."


def _statistics(compared: Mapping[str, Any]) -> Iterator[Block]:
    """The statistical verdict, and the exploratory changes that decide nothing."""
    if compared["mismatches"]:
        yield "### Not judged alike"
        yield bullets(plain(mismatch, 500) for mismatch in compared["mismatches"])
    if (statistics := compared["statistics"]) is None:
        return
    yield f"### By the statistics: {statistics['word']}"
    lines = [measure["line"] for measure in statistics["measures"]]
    lines += [reason for reason in statistics["reasons"] if reason not in lines]
    if lines:
        yield bullets(plain(line, 500) for line in lines)
    yield plain(statistics["note"], 500)
    if changes := [change for change in statistics["exploratory"] if change["moved"]]:
        yield table(
            ["Moved (exploratory)", "Measure", "Baseline", "Candidate", "Change", "q"],
            [
                [
                    code(change["name"], 80),
                    plain(change["measure"]),
                    *(formatting.number(change[name], 1) for name in ("baseline", "candidate")),
                    formatting.signed_number(change["delta"], 1),
                    formatting.number(change["q_value"], 4),
                ]
                for change in changes
            ],
            numbers=4,
        )


def _prompts(changes: Mapping[str, Any]) -> Iterator[Block]:
    """The lines of the judges' prompts that differ, without the lines around them."""
    if changes["note"]:
        yield plain(changes["note"], 2000)
    sides = {"-": "baseline", "+": "candidate"}
    for judge in changes["judges"]:
        lines = [line for line in judge["lines"] if line[:1] in sides]
        rows = [[sides[line[0]], plain(line[1:], 500)] for line in lines]
        yield f"Prompts of {code(judge['judge'])}:"
        yield table(["Run", "Line"], rows[:MAX_PROMPT_LINES])
        if len(rows) > MAX_PROMPT_LINES or judge["more"]:
            yield "report.html shows more lines."
