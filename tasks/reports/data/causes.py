"""The part of a report about what the failures of its run have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import polars as pl

from assizes.judge.causes.described import MERGED
from assizes.tasks.reports.formatting import line_of, name_of, plural, writer_of
from assizes.tasks.reports.schema.causes import CauseLine, Causes

MAX_FIRST: Final = 5  # causes that the first screen names, at most
MAX_SHOWN: Final = 100  # causes that the report lists, at most

_CHANGED: Final = ("new", "worse", "gone", "better")
"""The states that are no chance, in the order in which the first screen names them."""
_WORDS: Final = {"first_seen": "seen for the first time", "not_seen": "not seen this time"}


def causes_part(causes: pl.DataFrame, unexplained: int) -> Causes | None:
    """The causes of a run as a part of its report; `None` for a run without any.

    Args:
        causes: rows of table causes of one run, those first that take most points.
        unexplained: the number of failed cases without a cause.
    """
    rows = causes.filter(pl.col("state") != MERGED)
    lines = [_cause_line(row) for row in rows.iter_rows(named=True)]
    if not lines:
        return None
    return Causes(
        baseline=rows["baseline"].first(),
        first=list(_first(lines))[:MAX_FIRST],
        shown=lines[:MAX_SHOWN],
        unexplained=unexplained,
    )


def _first(lines: list[CauseLine]) -> Iterator[CauseLine]:
    """First what surely changed, then what takes most points now; nothing that people muted."""
    lines = [line for line in lines if not line.muted]
    for state in _CHANGED:
        yield from (line for line in lines if line.state == state)
    yield from (line for line in lines if line.state not in _CHANGED and line.cases)


def _cause_line(row: Mapping[str, Any]) -> CauseLine:
    fields = {name: row[name] for name in CauseLine.model_fields if name in row}
    texts = {
        "name": name_of(row["name"]),
        "sentence": line_of(row["sentence"] or ""),
        "described_by": writer_of(row["described_by"]),
        "examples": list(row["examples"] or ()),
        "word": _WORDS.get(row["state"], row["state"]) + (", muted" if row["muted"] else ""),
        "shown": _numbers(row),
    }
    # A cause that the run does not show has no share in its row.
    share = {"share": row["share"] or 0.0, "low": row["share_low"], "high": row["share_high"]}
    return CauseLine(**fields | share | texts)


def _numbers(row: Mapping[str, Any]) -> str:
    """In how many cases a cause is, how sure its share is, what it costs, and what it was before."""
    before = row["baseline_share"]
    was = "" if before is None else f"{100 * before:.1f} % in the run before"
    if not row["cases"]:
        return f"in no case; {was}"
    share = f"{100 * row['share']:.1f} %"
    if row["share_low"] is not None:
        share += f", 95 % interval {100 * row['share_low']:.1f} to {100 * row['share_high']:.1f}"
    points = f"; takes {row['points']:.1f} points from the average score" if row["points"] else ""
    since = f"; {was}" if before else ""
    return f"in {plural(row['cases'], 'case')} ({share}){points}{since}"
