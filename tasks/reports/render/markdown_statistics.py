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
        yield bullets(plain(one, 500) for one in compared["mismatches"])
    if (found := compared["statistics"]) is None:
        return
    yield f"### By the statistics: {found['word']}"
    lines = [one["line"] for one in found["measures"]]
    lines += [reason for reason in found["reasons"] if reason not in lines]
    if lines:
        yield bullets(plain(one, 500) for one in lines)
    yield plain(found["note"], 500)
    if moved := [one for one in found["exploratory"] if one["moved"]]:
        yield table(
            ["Moved (exploratory)", "Measure", "Baseline", "Candidate", "Change", "q"],
            [
                [
                    code(one["name"], 80),
                    plain(one["measure"]),
                    *(formatting.number(one[name], 1) for name in ("baseline", "candidate")),
                    formatting.signed(one["delta"], 1),
                    formatting.number(one["q_value"], 4),
                ]
                for one in moved
            ],
            numbers=4,
        )
