"""Schemas of rows, from the columns of the public tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import polars as pl

from assizes.judge.rows import CAUSE_TABLES, TABLES

Schema = dict[str, Any]

_NULL: Final = {"type": "null"}


def row_schema(
    table: str, more: Mapping[str, Any] | None = None, only: Iterable[str] | None = None
) -> Schema:
    """The schema of a row of a table; `more` are fields beside its columns, by name."""
    columns: Mapping[str, Any] = {**TABLES, **CAUSE_TABLES}[table]
    chosen = columns if only is None else {name: columns[name] for name in only}
    fields = {name: {"anyOf": [_of(kind), _NULL]} for name, kind in chosen.items()}
    return strict_object({**fields, **(more or {})})


def strict_object(fields: Mapping[str, Any], optional: Iterable[str] = ()) -> Schema:
    """The schema of an object with these fields and no others."""
    return {
        "type": "object",
        "properties": dict(fields),
        "required": sorted(fields.keys() - set(optional)),
        "additionalProperties": False,
    }


def list_of(items: Schema) -> Schema:
    """The schema of a list."""
    return {"type": "array", "items": items}


def _of(kind: Any) -> Schema:
    """The schema of a value of a Polars type; dates and times are printed as texts."""
    if isinstance(kind, pl.List):
        return list_of(_of(kind.inner))
    if kind == pl.Boolean:
        return {"type": "boolean"}
    if kind.is_integer():
        return {"type": "integer"}
    return {"type": "number"} if kind.is_float() else {"type": "string"}
