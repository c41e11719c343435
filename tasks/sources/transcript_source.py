"""A transcript object pinned by its content, and the names by which transcripts are known."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Iterator
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
"""Endings by which transcripts are known in a folder; a file that the user names may have any."""

SUFFIXES_TEXT: Final = (
    f"{', '.join(f'*{plain}' for plain in _PLAIN)}, each also with .gz or .zst, "
    f"{', '.join(f'*{whole}' for whole in _WHOLE)}"
)
"""The same endings as a text for error messages."""

BOM: Final = b"\xef\xbb\xbf"
"""The UTF-8 mark that some writers put at the start of a file; it is never part of a record."""

_STORE_MARK: Final = "_assizes.json"
_STORE_FOLDERS: Final = ("runs", "comparisons")
_REPORT: Final = ("report.json", "report.html", "report.md")


@dataclass(frozen=True)
class TranscriptSource:
    """One transcript object, pinned by its content.

    Attributes:
        uri: a posix path as the configuration gives it (not made absolute), or `s3://bucket/key`.
        etag: on S3 the etag of the store, without quotes; locally the BLAKE2b of the content as 32
            hex digits.
        size: bytes as stored, so before decompression.
        modified: when the object was last written, as the listing says; `None` where that is not
            known. Two sources that differ only in `modified` are equal.
    """

    uri: str
    etag: str
    size: int
    modified: datetime | None = field(default=None, compare=False)


def changed_error(source: TranscriptSource) -> DataError:
    """The error for an object that holds other bytes than when it was listed."""
    return DataError("changed", f"{source.uri!r} is no longer as it was listed ({source.etag})")


def vanished_error(source: TranscriptSource) -> DataError:
    """The error for an object that was listed and is gone."""
    return DataError("vanished", f"{source.uri!r} was listed and is gone")


def parts_before_pattern(parts: Iterable[str]) -> Iterator[str]:
    """The parts of a path before the first part with a glob pattern."""
    for part in parts:
        if glob.has_magic(part):
            return
        yield part


def is_own_output(path: str, exists: Callable[[str], bool]) -> bool:
    """Whether an object was written by this program: a part of a Parquet store, or of a report.

    Such an object is recognised by the objects beside it, and never taken for a transcript.

    Args:
        path: slash-separated, with or without a bucket.
        exists: whether there is an object of that path; called for few paths, often for the same.
    """
    *folders, name = path.split("/")
    if name == _STORE_MARK:
        return True
    if name in _REPORT and all(
        exists("/".join([*folders, report_name])) for report_name in _REPORT
    ):
        return True
    return any(
        folder in _STORE_FOLDERS and exists("/".join([*folders[:place], _STORE_MARK]))
        for place, folder in enumerate(folders)
    )
