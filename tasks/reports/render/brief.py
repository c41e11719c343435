"""Renders a run in a few lines of Markdown, for the summary of a CI job or for a chat message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from assizes.tasks.reports import formatting
from assizes.tasks.reports.markdown_text import Block, bullets, code, plain, table

MAX_CASES: Final = 5


def brief_report(data: Mapping[str, Any]) -> str:
    """The verdict of a run, its reasons and gates, and up to five cases to read first."""
    return "\n\n".join(_blocks(data)) + "\n"


def _blocks(data: Mapping[str, Any]) -> Iterator[Block]:
    verdict, run = data["verdict"], data["run"]
    yield f"## {verdict['word']}: {plain(run['name'])}"
    yield f"{code(run['run_id'])} · {plain(data['judged_by']['line'], 1000)}"
    reasons = [*verdict["reasons"], *(f"Warning: {caution}" for caution in verdict["cautions"])]
    if reasons:
        yield bullets(plain(reason, 500) for reason in reasons)
    yield table(
        ["Gate", "", "Value", "Needs"],
        [
            [
                dimension["name"],
                formatting.gate_mark(dimension["passed"]),
                dimension["shown"],
                dimension["needs"],
            ]
            for dimension in verdict["dimensions"]
        ],
        numbers=2,
    )
    if (compared := data["comparison"]) is not None:
        totals = compared["totals"]
        yield (
            f"Against {code(compared['baseline']['run_id'])}: {totals['regressions']} worse, "
            f"{totals['improvements']} better, {totals['unchanged']} unchanged of "
            f"{formatting.plural(totals['matched'], 'case')} in both."
        )
    if first := data["cases"]["read_first"][:MAX_CASES]:
        yield "Read these first:"
        yield bullets(f"{code(case['case_id'])} {plain(case['summary'] or '')}" for case in first)
    yield data["counts"]["sentence"]
