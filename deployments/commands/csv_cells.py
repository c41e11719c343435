"""CSV in which no cell is a formula; the only module that writes CSV.

Spreadsheets run a cell such as `=HYPERLINK(...)` when somebody opens the file, and an agent's user can
put such a text into a transcript (CSV injection, CWE-1236).
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

from assizes.deployments.terminal import printable

FORMULA: Final = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters of a formula, full-width forms included; spreadsheets skip white space before."""


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A header and rows as CSV. Numbers stay numbers, `None` is an empty cell, a list is JSON."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([as_text(name) for name in columns])
    writer.writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def as_text(text: str) -> str:
    """A text as a cell: printable, and with a leading `'` where it would be a formula."""
    shown = printable(text, "\n\t")
    begins = shown.lstrip().startswith(FORMULA) or shown.startswith(("\n", "\t"))
    return f"'{shown}" if begins else shown


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else as_text(str(value))
    if isinstance(value, list | dict):
        return as_text(json.dumps(value, ensure_ascii=False, default=str))
    return as_text(str(value))
