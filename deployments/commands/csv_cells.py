"""Rows as CSV whose cells no spreadsheet takes for formulas; the only place CSV is written."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

from assizes.deployments.terminal import printable

FORMULA: Final = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""How a formula begins, also in full width; a tab or a line end in front of it is passed over."""


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A head and rows. Numbers stay numbers, null is an empty cell, lists are JSON."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([as_text(name) for name in columns])
    writer.writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def as_text(text: str) -> str:
    """A text as a cell: printable, and behind a quote where it would be a formula."""
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
