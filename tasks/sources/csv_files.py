"""Turns CSV and TSV files into lines of JSON, an object for each row.

A row that the file does not hold as one becomes a line with the reason in place of the object, so
that it costs no other row.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from assizes.judge.errors import DataError
from assizes.tasks.sources.unpacking import ObjectBounds

CSV_SUFFIXES: Final = (".csv", ".tsv")

_SEPARATORS: Final = ",;\t|"
_QUOTED: Final = re.compile(r'"(?:[^"]|"")*"')
_WIDE_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")  # of UTF-16, as Excel's "Unicode text" has it


def is_csv(uri: str) -> bool:
    """Whether an object is CSV or TSV by its name, packed or not."""
    return uri.lower().removesuffix(".gz").removesuffix(".zst").endswith(CSV_SUFFIXES)


def csv_to_lines(path: Path, target: Path, bounds: ObjectBounds) -> None:
    """Write the rows as lines, each cell as text; empty cells are left out.

    Raises:
        DataError: `csv` for a file without column names, or with one name twice; `too_large` for
            more bytes than an object may have.
        OSError: the disk is full, or fails.
    """
    with path.open("rb") as head:
        encoding = "utf-16" if head.read(2) in _WIDE_MARKS else "utf-8-sig"
    with (
        _cells_of_any_size(),
        # Bytes that are no text come back as they are: the reader of the lines rejects their row.
        path.open(encoding=encoding, errors="surrogateescape", newline="") as text,
        target.open("wb") as out,
    ):
        for row in _rows(text):
            line = json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogateescape")
            out.write(line + b"\n")
            if out.tell() > bounds.object_bytes:
                raise DataError("too_large", "[transcripts] max_object_mb allows fewer bytes")


@contextmanager
def _cells_of_any_size() -> Iterator[None]:
    """Lift the limit on the size of a cell, 128 kB: a conversation may stand in one."""
    before = csv.field_size_limit((1 << 31) - 1)  # the most that a C long holds on every system
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _rows(text: IO[str]) -> Iterator[dict[str, str] | str]:
    """The rows as objects, or why a row is none; blank rows are left out."""
    separator = _separator(text)
    names: list[str] | None = None
    for line, cells in _parsed_rows(text, separator):
        if isinstance(cells, csv.Error):
            why = f"line {line}: {cells}; quote the cells, and double the quotes in them"
            if names is None:
                raise DataError("csv", why)
            yield why
        elif names is None:
            names = _checked_names(cells)
        elif any(cells[len(names) :]):
            yield (
                f"line {line}: {len(cells)} cells under {len(names)} column names; quote cells that "
                f"hold {separator!r}"
            )
        else:
            # A column without a name is the index that pandas writes.
            named = zip(names, cells, strict=False)
            yield {name: cell for name, cell in named if name and cell.strip()}


def _separator(text: IO[str]) -> str:
    """What separates the column names, by their line; the stream is left at its beginning."""
    header = text.readline()
    while header and not header.strip():
        header = text.readline()
    text.seek(0)
    counts = {mark: _QUOTED.sub("", header).count(mark) for mark in _SEPARATORS}
    return max(counts, key=counts.__getitem__)


def _parsed_rows(text: IO[str], separator: str) -> Iterator[tuple[int, list[str] | csv.Error]]:
    """The cells of each row that is not blank, or its fault, after the number of its last line."""
    rows = csv.reader(text, delimiter=separator, strict=True)
    while True:
        try:
            cells = next(rows, None)
        except csv.Error as error:  # the reader goes on with the next line
            yield rows.line_num, error
            continue
        if cells is None:
            return
        if any(cell.strip() for cell in cells):
            yield rows.line_num, cells


def _checked_names(cells: list[str]) -> list[str]:
    names = [cell.strip() for cell in cells]
    for name in names:
        if name and names.count(name) > 1:
            raise DataError("csv", f"two columns are called {name[:60]!r}; rename one of them")
    return names
