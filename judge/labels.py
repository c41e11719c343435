"""What a case is filed under: its agent, its agent's version, its tags, the tools it called."""

from __future__ import annotations

import json
from typing import Final

import polars as pl

from judge.measures import BETWEEN

FIELDS: Final = ("agent", "agent_version")
MAX_VALUES: Final = 20
"""A label with more values is an id, not a slice; of more tools those that most cases called."""

TOOL: Final = "tool"
"""The slice of the cases that called a tool; it wins over a tag of the name."""


def labelled(table: pl.DataFrame, field: str) -> pl.DataFrame:
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


def tools_called(tables: tuple[pl.DataFrame, pl.DataFrame], *, paired: bool) -> list[pl.DataFrame]:
    """`case_id` and `label` of both runs: a row for each tool that a case called.

    Of paired cases the tools of both runs count, and only cases whose tools both runs tell: cases
    picked by what the agent did in one run would look better in the other by that alone.
    """
    sides = [table.select("case_id", "tools").drop_nulls() for table in tables]
    labels = [_one_each(side) for side in sides]
    if paired:
        known = sides[0].join(sides[1], on="case_id", how="semi").select("case_id")
        both = pl.concat(labels).unique().join(known, on="case_id", how="semi")
        labels = [both, both]
    counts = (
        pl.concat(labels).group_by("label").len().sort("len", "label", descending=[True, False])
    )
    most = counts["label"].head(MAX_VALUES)
    return [side.filter(pl.col("label").is_in(most.implode())).sort("case_id") for side in labels]


def _one_each(side: pl.DataFrame) -> pl.DataFrame:
    told = side["tools"].unique().cast(pl.String)
    pairs = [(text, name) for text in told for name in text.split(BETWEEN) if name]
    names = pl.DataFrame(pairs, schema={"text": pl.String, "label": pl.String}, orient="row")
    rows = side.with_columns(text=pl.col("tools").cast(pl.String))
    return rows.join(names, on="text", how="inner").select("case_id", "label")


def fields_of(table: pl.DataFrame) -> list[str]:
    """The fields and tags that cut the cases into 2 to `MAX_VALUES` parts, and the tools."""
    tags = {name for text in table["tags"].unique() if text for name in json.loads(text)}
    found = [
        field
        for field in (*FIELDS, *sorted(tags - {TOOL}))
        if 2 <= labelled(table, field)["label"].drop_nulls().n_unique() <= MAX_VALUES
    ]
    return [*found, TOOL]
