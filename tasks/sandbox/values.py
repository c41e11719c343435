"""What the sandbox's child may spend, and how it says what a database answered."""

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
"""What a database holds: how often each (table, row as JSON) occurs."""

EFFECT_COLUMNS = ("change", "table", "row")
"""The columns of the table that says what a writing statement did."""


class RefusedStatement(Exception):
    """A statement that is not run; the text says what would be."""


@dataclass(frozen=True, slots=True)
class Caps:
    """What one statement may take.

    Args:
        time_s: seconds of wall clock.
        memory_mb: address space of the child; its engine gets a third of it.
        rows: rows of a result.
        cell_chars: characters of a text; a longer one is cut and carries its hash.
        result_bytes: about the bytes of a whole result as JSON.
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
        """An engine refuses politely well before the operating system does."""
        return self.memory_mb // 3


def refusal(*, writes: bool) -> RefusedStatement:
    """Why a statement, or several in one text, is not run."""
    if writes:
        return RefusedStatement(
            "only one SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER or DROP is run"
        )
    return RefusedStatement("only one SELECT is run")


def result(columns: Iterable[str], rows: Iterator[Any], caps: Caps) -> dict[str, Any]:
    """The rows up to the caps, as an answer."""
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
    """What a statement did: every row it added or removed, sorted."""
    added = [("added", *key) for key in (after - before).elements()]
    removed = [("removed", *key) for key in (before - after).elements()]
    return result(EFFECT_COLUMNS, iter(sorted(added + removed)), caps)


def row_text(row: Iterable[Any], caps: Caps) -> str:
    """A row as JSON text."""
    return json.dumps([cell(value, caps.cell_chars) for value in row], ensure_ascii=False)


def cell(value: Any, chars: int) -> Any:
    """A value as JSON holds it: numbers stay numbers, all else is text.

    A cut text carries its hash, so that equal texts stay equal and others do not become so.
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
