"""The lines of a file, one record each, read in bounded memory however long one is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from assizes.judge.errors import DataError
from assizes.tasks.sources.pinned import BOM

_BLOCK_BYTES: Final = 1 << 20
_EXCERPT_BYTES: Final = 1 << 10


class RawRecord(NamedTuple):
    """A record as it stands in its object.

    Attributes:
        position: its number in the object, from 0, blank lines not counted.
        offset: its first byte in the unpacked object; null in a document of many records.
        body: the bytes of a line without its end, or a parsed value; of a record that was not
            taken in, how it begins.
        fault: why it was not taken in.
        sha256: of a record that was not taken in, where it has bytes.
    """

    position: int
    offset: int | None
    body: Any
    fault: DataError | None = None
    sha256: str | None = None


def sha256_of(raw: RawRecord) -> str | None:
    """SHA-256 of a record's bytes, 64 hex digits; of a parsed one over its canonical JSON."""
    if raw.fault is not None:
        return raw.sha256
    body = raw.body
    return hashlib.sha256(body if isinstance(body, bytes) else canonical_json(body)).hexdigest()


def canonical_json(value: Any) -> bytes:
    """A parsed record as bytes: JSON with sorted keys, no spaces; 1e999 is `Infinity`."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def line_records(path: Path, position: int, offset: int, cap_bytes: int) -> Iterator[RawRecord]:
    """Records from a place on; one of more than `cap_bytes` is passed over as `too_large`."""
    with path.open("rb") as stream:
        stream.seek(offset)
        while line := stream.readline(cap_bytes + 1):
            begins, offset = offset, offset + len(line)
            if len(line) > cap_bytes and not line.endswith(b"\n"):
                raw = _skip_long_line(
                    stream, line, RawRecord(position, begins, line[:_EXCERPT_BYTES])
                )
                offset = stream.tell()
            else:
                body = line if begins else line.removeprefix(BOM)
                blank = not body or body.isspace()
                raw = None if blank else RawRecord(position, begins, body.rstrip(b"\r\n"))
            if raw is not None:
                yield raw
                position += 1


def _skip_long_line(stream: IO[bytes], line: bytes, raw: RawRecord) -> RawRecord | None:
    """Read on to the end of a line that is too long; null where it is blank throughout."""
    size, blank, hasher, pending = len(line), line.isspace(), hashlib.sha256(), line
    while not pending.endswith(b"\n") and (block := stream.readline(_BLOCK_BYTES)):
        size, blank = size + len(block), blank and block.isspace()
        # The last bytes may be half of a line end.
        hasher.update(pending[:-1])
        pending = pending[-1:] + block
    if blank:
        return None
    hasher.update(pending.rstrip(b"\r\n"))
    fault = DataError(
        "too_large", f"a record of {size} bytes; [transcripts] max_record_mb allows fewer"
    )
    return raw._replace(fault=fault, sha256=hasher.hexdigest())
