"""Tables that others wrote, as plain rows: Parquet is read in a process of its own."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from typing import Any, Final

from assizes.judge.formats.shared.parsing import strict_json
from assizes.tasks.sources.archives import parquet_to_lines
from assizes.tasks.sources.bounds import ObjectBounds
from assizes.tasks.sources.unpacking import unpack

MAX_BYTES: Final = 1 << 30
"""Of a table once unpacked; labels and ground truth are held in memory."""


def parquet_rows(data: bytes) -> list[dict[str, Any]]:
    """The rows of a Parquet file; a column without any value is in none of them.

    Raises:
        DataError: `parquet` for one that cannot be read, `bomb` for too much.
    """
    with tempfile.TemporaryDirectory(prefix="assizes-") as folder:
        source, lines = Path(folder, "table"), Path(folder, "lines")
        source.write_bytes(data)
        parquet_to_lines(source, lines, ObjectBounds(object_bytes=MAX_BYTES))
        with lines.open("rb") as stream:
            rows = [strict_json(line) for line in stream]
    names = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name) for name in names} for row in rows]


def decompress_gzip(data: bytes) -> bytes:
    """The plain content of gzip members.

    Raises:
        DataError: `gzip_corrupt`, or `bomb` for too much, or too much of too little.
    """
    out = io.BytesIO()
    unpack(io.BytesIO(data), out, "gzip", MAX_BYTES, to_last_byte=False)
    return out.getvalue()
