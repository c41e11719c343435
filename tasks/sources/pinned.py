"""One transcript object, pinned by its content; and how it is said that it is no longer there."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from assizes.judge.errors import DataError

_PLAIN: Final = (".jsonl", ".json", ".ndjson")
_WHOLE: Final = (".parquet", ".eval")

SUFFIXES: Final = (
    *(plain + packed for packed in ("", ".gz", ".zst") for plain in _PLAIN),
    *_WHOLE,
)
"""Endings by which transcripts are known in a folder; a file named by itself may have any."""

SUFFIXES_TEXT: Final = (
    f"{', '.join(f'*{plain}' for plain in _PLAIN)}, each also with .gz or .zst, "
    f"{', '.join(f'*{whole}' for whole in _WHOLE)}"
)
"""The same for people."""

BOM: Final = b"\xef\xbb\xbf"
"""The UTF-8 mark some writers put at the start of a file; never part of a record."""


@dataclass(frozen=True)
class TranscriptSource:
    """One transcript object, pinned by its content.

    Attributes:
        uri: a posix path as the configuration gives it (not made absolute), or `s3://bucket/key`.
        etag: on S3 the store's own, without quotes; locally the BLAKE2b of the content, 32 hex.
        size: bytes as stored, so before decompression.
        modified: when it was last written, as listed; null where that is not known. It is no part
            of what the object is known by.
    """

    uri: str
    etag: str
    size: int
    modified: datetime | None = field(default=None, compare=False)


def changed_error(source: TranscriptSource) -> DataError:
    """The object holds other bytes than when it was listed."""
    return DataError("changed", f"{source.uri!r} is no longer as it was listed ({source.etag})")


def vanished_error(source: TranscriptSource) -> DataError:
    """The object is gone since it was listed."""
    return DataError("vanished", f"{source.uri!r} was listed and is gone")


def parts_before_pattern(parts: Iterable[str]) -> Iterator[str]:
    """The parts of a path before the first that is a pattern."""
    for part in parts:
        if glob.has_magic(part):
            return
        yield part
