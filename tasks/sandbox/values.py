"""The limits of a statement in the sandbox, and its result as JSON values."""

from __future__ import annotations

import datetime
import decimal
import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

State = Counter[tuple[str, str]]
"""The content of a database: how often each pair (table, row as JSON) occurs."""

EFFECT_COLUMNS = ("change", "table", "row")
"""The columns of the result of a statement that writes."""


class RefusedStatement(Exception):
    """A statement of a kind that is not run; the message says which kinds are."""


@dataclass(frozen=True, slots=True)
class Caps:
    """The limits of one statement.

    Attributes:
        time_s: seconds of wall clock.
        memory_mb: address space of the child process; the database engine gets a third of it.
        rows: rows of a result.
        cell_chars: characters of a text in a result; a longer text is cut and carries its hash.
        result_bytes: bytes of a whole result as JSON, estimated.
        statement_chars: characters of the statement itself.
    """

    time_s: float = 3.0
    memory_mb: int = 1_400
    rows: int = 10_000
    cell_chars: int = 1_000
    result_bytes: int = 2_000_000
    statement_chars: int = 100_000

    @property
    def engine_mb(self) -> int:
        """The engine's own memory limit in MB: it raises an error before the system kills it."""
        return self.memory_mb // 3


def refusal(*, writes: bool) -> RefusedStatement:
    """The error for a statement that is not run; `writes` says whether statements may write."""
    if writes:
        return RefusedStatement(
            "only one SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER or DROP is run"
        )
    return RefusedStatement("only one SELECT is run")


def result(columns: Iterable[str], rows: Iterator[Any], caps: Caps) -> dict[str, Any]:
    """The result of a query as JSON values: its columns, its rows up to the caps, `truncated`."""
    result_rows: list[list[Any]] = []
    bytes_left = caps.result_bytes
    truncated = False
    for row in rows:
        cells = [cell(value, caps.cell_chars) for value in row]
        bytes_left -= sum(len(content) + 8 if isinstance(content, str) else 16 for content in cells)
        if len(result_rows) == caps.rows or bytes_left < 0:
            truncated = True
            break
        result_rows.append(cells)
    names = [str(name)[:200] for name in columns]
    return {"columns": names, "rows": result_rows, "truncated": truncated}


def effect(before: State, after: State, caps: Caps) -> dict[str, Any]:
    """The result of a statement that writes: every row that it added or removed, sorted."""
    added = [("added", *key) for key in (after - before).elements()]
    removed = [("removed", *key) for key in (before - after).elements()]
    return result(EFFECT_COLUMNS, iter(sorted(added + removed)), caps)


def row_text(row: Iterable[Any], caps: Caps) -> str:
    """A row as JSON text; long values are cut as in a result."""
    return json.dumps([cell(value, caps.cell_chars) for value in row], ensure_ascii=False)


def cell(value: Any, chars: int) -> Any:
    """A value of a row as JSON: numbers, booleans and None stay, everything else becomes text.

    A text of more than `chars` characters is cut and carries its hash, so that different texts stay
    different.
    """
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float | decimal.Decimal):
        return _number(float(value))
    text = _text(value)
    if len(text) <= chars:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{text[:chars]}... ({len(text)} characters, sha256 {digest})"


def _number(number: float) -> float | str:
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, dict | list | tuple):
        return json.dumps(value, default=_text, ensure_ascii=False)
    return str(value)
