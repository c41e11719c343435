"""What a case is filed under: its agent, its agent's version, its tags, the tools it called."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

import polars as pl

from assizes.judge.comparison.measures import TOOL_SEPARATOR

FIELDS: Final = ("agent", "agent_version")
MAX_VALUES: Final = 20
"""A label with more values is an id, not a slice; of more tools those that most cases called."""

TOOL: Final = "tool"
"""The slice of the cases that called a tool; it wins over a tag of the name."""


def case_labels(table: pl.DataFrame, field: str) -> pl.DataFrame:
    """`case_id` and `label`: the value of a field or tag, null where a case has none."""
    if field in FIELDS:
        return table.select("case_id", label=pl.col(field).cast(pl.String))
    known = {text: json.loads(text).get(field) for text in table["tags"].unique() if text}
    if not known:
        return table.select("case_id", label=pl.lit(None, dtype=pl.String))
    label = (
        pl.col("tags").cast(pl.String).replace_strict(known, default=None, return_dtype=pl.String)
    )
    return table.select("case_id", label=label)


def by_tool(
    tables: tuple[pl.DataFrame, pl.DataFrame], *, paired: bool
) -> Iterator[tuple[str, list[pl.DataFrame]]]:
    """Each of the tools that most cases called, with the `case_id`s of both runs that called it.

    Of paired cases the tools of both runs count, and only cases whose tools both runs tell: cases
    picked by what the agent did in one run would look better in the other by that alone.
    """
    tool_sets = [_tool_sets(table) for table in tables]
    counts = pl.concat(tool_sets).explode("names").group_by("names").agg(pl.col("cases").sum())
    ranked = counts.sort("cases", "names", descending=[True, False]).head(MAX_VALUES)
    unknown = pl.col("tools").is_null()
    unknown_ids = pl.concat([table.filter(unknown).select("case_id") for table in tables])
    for name in sorted(ranked["names"]):
        ids = [_calling_cases(name, *side) for side in zip(tool_sets, tables, strict=True)]
        if paired:
            both = pl.concat(ids).unique().join(unknown_ids, on="case_id", how="anti")
            ids = [both, both]
        yield name, ids


def _tool_sets(table: pl.DataFrame) -> pl.DataFrame:
    """The sets of tools that cases called, their `names`, and how many `cases` called them."""
    text = pl.col("tools").cast(pl.String)
    sets = table.drop_nulls("tools").group_by("tools").agg(cases=pl.len())
    return sets.filter(text != "").with_columns(names=text.str.split(TOOL_SEPARATOR))


def _calling_cases(name: str, tool_sets: pl.DataFrame, table: pl.DataFrame) -> pl.DataFrame:
    sets = tool_sets.filter(pl.col("names").list.contains(name))
    return table.join(sets, on="tools", how="semi").select("case_id")


def fields_of(table: pl.DataFrame) -> list[str]:
    """The fields and tags that cut the cases into 2 to `MAX_VALUES` parts; the tools, if any."""
    tags = {name for text in table["tags"].unique() if text for name in json.loads(text)}
    fields = [
        field
        for field in (*FIELDS, *sorted(tags - {TOOL}))
        if 2 <= case_labels(table, field)["label"].drop_nulls().n_unique() <= MAX_VALUES
    ]
    return [*fields, TOOL] if _tool_sets(table).height else fields
