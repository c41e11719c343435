"""A run in a few lines of Markdown, for the summary page of a CI job or a chat message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from assizes.tasks.reports import formatting
from assizes.tasks.reports.markdown_text import Block, bullets, code, plain, table

CASES: Final = 5


def brief_report(data: Mapping[str, Any]) -> str:
    """Verdict, reasons, gates, and the cases to read first."""
    return "\n\n".join(_blocks(data)) + "\n"


def _blocks(data: Mapping[str, Any]) -> Iterator[Block]:
    verdict, run = data["verdict"], data["run"]
    yield f"## {verdict['word']}: {plain(run['name'])}"
    yield f"{code(run['run_id'])} · {plain(data['judged_by']['line'], 1000)}"
    reasons = [*verdict["reasons"], *(f"Warning: {one}" for one in verdict["cautions"])]
    if reasons:
        yield bullets(plain(one, 500) for one in reasons)
    yield table(
        ["Gate", "", "Value", "Needs"],
        [
            [one["name"], formatting.reached(one["passed"]), one["shown"], one["needs"]]
            for one in verdict["dimensions"]
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
    if first := data["cases"]["read_first"][:CASES]:
        yield "Read these first:"
        yield bullets(f"{code(one['case_id'])} {plain(one['summary'] or '')}" for one in first)
    yield data["counts"]["sentence"]
