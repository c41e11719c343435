"""The statistical verdict as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from assizes.tasks.reports import formatting
from assizes.tasks.reports.markdown_text import Block, bullets, code, plain, table


def statistics_blocks(compared: Mapping[str, Any]) -> Iterator[Block]:
    """The statistical verdict and what moved beside it."""
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
