"""The rows of a query as a frame: values that Polars cannot hold or Python cannot show are text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import polars as pl
from duckdb import DuckDBPyConnection as Connection

from assizes.tasks.store.record import ArrowView

_TEXTS: Final = frozenset(
    {
        "bignum",
        "bit",
        "geometry",
        "interval",
        "time with time zone",
        "time_ns",
        "union",
        "variant",
    }
)
"""Types, by DuckDB's ids, that Polars refuses, or of which it loses a part or the meaning."""

_DAYS: Final = r"infinity|\d{5}-\d\d-\d\d|\(BC\)"
"""Text of a day that Python does not have: its years are 1 to 9999."""

_SOMETIMES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("date", "timestamp", "timestamp with time zone"), _DAYS),
    **dict.fromkeys(("timestamp_s", "timestamp_ms", "timestamp_ns"), _DAYS),
    "time": "24:00:00",  # Polars makes null of it
    **dict.fromkeys(("hugeint", "uhugeint"), r"\d{39}"),  # Arrow's decimals have 38 digits
}
"""Types of which some values do not fit, and a pattern that the text of such a value has."""

_WIDE: Final[Mapping[str, type[pl.DataType]]] = {"hugeint": pl.Int128, "uhugeint": pl.UInt128}
"""Types whose text is made a number again: Polars holds it, but Arrow does not pass it on."""


def frame_of(con: Connection, table: str) -> pl.DataFrame:
    """The rows of a table of the connection; a column has text only where it must.

    In lists, structs and maps only the values within are made text; keys of a map always are.
    """
    relation = con.table(table)
    kinds = dict(zip(relation.columns, relation.types, strict=True))
    unfit = _unfit_types(con, table, kinds)
    casts = {}
    for name, kind in kinds.items():
        wanted = _type_in_sql(kind, _TEXTS | unfit[name])
        if wanted != str(kind):  # or only quotes names of a struct's fields, which changes nothing
            casts[name] = f"{_quoted(name)}::{wanted} as {_quoted(name)}"
    shown = f" replace ({', '.join(casts.values())})" if casts else ""
    frame = pl.DataFrame(ArrowView(con.sql(f"select *{shown} from {table}")))
    wide = [pl.col(name).cast(_WIDE[kinds[name].id]) for name in casts if kinds[name].id in _WIDE]
    return frame.with_columns(wide)


def _unfit_types(
    con: Connection, table: str, kinds: Mapping[str, Any]
) -> dict[str, frozenset[str]]:
    """By column the types in it that have a value which does not fit."""
    asked = [(name, kind) for name in kinds for kind in _ids(kinds[name]) & _SOMETIMES.keys()]
    found: dict[str, frozenset[str]] = dict.fromkeys(kinds, frozenset())
    if asked:
        tests = [
            f"bool_or(regexp_matches({_quoted(name)}::varchar, '{_SOMETIMES[kind]}'))"
            for name, kind in asked
        ]
        (answers,) = con.execute(f"select {', '.join(tests)} from {table}").fetchall()
        for (name, kind), does_not_fit in zip(asked, answers, strict=True):
            found[name] |= {kind} if does_not_fit else set()
    return found


def _type_in_sql(kind: Any, texts: frozenset[str]) -> str:
    """A type of DuckDB as SQL writes it, with text in place of each type within that is in `texts`."""
    if kind.id in texts:
        return "VARCHAR"
    inner = [_type_in_sql(each, texts) for each in _inner_types(kind)]
    if kind.id == "list":
        return f"{inner[0]}[]"
    if kind.id == "array":
        return f"{inner[0]}[{dict(kind.children)['size']}]"
    if kind.id == "map":  # its keys become keys of a dict and of JSON
        return f"MAP(VARCHAR, {inner[1]})"
    if kind.id == "struct":
        names = [_quoted(name) for name, _ in kind.children]
        inner = [f"{name} {each}" for name, each in zip(names, inner, strict=True)]
    return f"{kind.id.upper()}({', '.join(inner)})" if inner else str(kind)


def _inner_types(kind: Any) -> list[Any]:
    if kind.id not in ("list", "array", "map", "struct", "tuple"):
        return []
    return [each for name, each in kind.children if (kind.id, name) != ("array", "size")]


def _ids(kind: Any) -> set[str]:
    """The ids of a type and of all types within it."""
    return {str(kind.id)}.union(*(_ids(each) for each in _inner_types(kind)))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
