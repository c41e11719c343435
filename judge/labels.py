"""What a case is filed under: its agent, its agent's version, its tags."""

from __future__ import annotations

import json
from typing import Final

import polars as pl

FIELDS: Final = ("agent", "agent_version")
MAX_VALUES: Final = 20
"""A label with more values is an id, not a slice."""


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


def fields_of(table: pl.DataFrame) -> list[str]:
    """The fields and tags that cut the cases into 2 to `MAX_VALUES` parts."""
    tags = {name for text in table["tags"].unique() if text for name in json.loads(text)}
    return [
        field
        for field in (*FIELDS, *sorted(tags))
        if 2 <= labelled(table, field)["label"].drop_nulls().n_unique() <= MAX_VALUES
    ]
