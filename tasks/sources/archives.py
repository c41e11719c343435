"""Turns Parquet files and inspect_ai archives into lines of JSON, which every format can read.

Foreign Parquet is read in a process of its own, so that a file made to crash its reader costs one
object only. The rows are streamed; a row group may take as much memory as that process is given.
The samples of an archive are copied block by block; only the header of the archive is held in
memory.
"""

from __future__ import annotations

import errno
import json
import lzma
import os
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from assizes.judge.errors import DataError
from assizes.judge.formats.shared.parsing import strict_json
from assizes.tasks.sources.unpacking import BOMB_FLOOR_BYTES, BOMB_RATIO, ObjectBounds

if sys.version_info >= (3, 14):
    import zipfile

    from compression import zstd
else:
    from backports import zstd
    from backports.zstd import zipfile

_COPY_BYTES: Final = 1 << 20
_MESSAGE_CHARS: Final = 200
_MAGIC_BYTES: Final = 4

_TIME_S: Final = 3600
"""Seconds that reading one Parquet file may take."""

_CHILD_BYTES: Final = 8 << 30
"""Bytes of address space of the process that reads Parquet, beside the file itself.

A reader that has just started reserves one or two GiB, mostly untouched. With a tighter bound its
threads cannot start, and it hangs.
"""

_BROKEN: Final = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, zstd.ZstdError),
    *(NotImplementedError, ValueError, EOFError, RuntimeError),
)
"""The errors that a damaged archive causes; which of them depends on how its members are packed."""

_BROKEN_CODES: Final = (None, errno.EINVAL)
"""The codes of an `OSError` that mean a damaged archive: bzip2 gives no code, and an offset before
the beginning of the file is invalid."""

_DISK_FULL_MESSAGES: Final = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))

_TO_LINES: Final = """
import resource, sys
most, memory = int(sys.argv[3]), int(sys.argv[4])
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
import orjson
import polars as pl

def without_nulls(value):
    if isinstance(value, dict):
        return {name: without_nulls(v) for name, v in value.items() if v is not None}
    return [without_nulls(v) for v in value] if isinstance(value, list) else value

raw = sys.argv[2] + ".raw"
pl.scan_parquet(sys.argv[1], glob=False, hive_partitioning=False).sink_ndjson(raw)
with open(raw, "rb") as lines, open(sys.argv[2], "wb") as out:
    for line in lines:
        out.write(orjson.dumps(without_nulls(orjson.loads(line))) + b"\\n")
"""
"""The program of the process that reads Parquet.

Every row of a table has every column, so a `null` means that the record lacks the field: it is left
out."""


def is_archive(path: Path) -> bool:
    """Whether a file is Parquet, or a zip archive."""
    with path.open("rb") as stream:
        return stream.read(_MAGIC_BYTES) in _CONVERTERS


def archive_to_lines(path: Path, target: Path, bounds: ObjectBounds) -> None:
    """Write the records of an archive (`is_archive`) to `target`, one line of JSON each.

    Raises:
        DataError: `parquet` or `archive` for a file that cannot be read, `bomb` for too many bytes.
        OSError: the disk is full, or fails.
    """
    with path.open("rb") as stream:
        convert = _CONVERTERS[stream.read(_MAGIC_BYTES)]
    convert(path, target, bounds)


def parquet_to_lines(path: Path, target: Path, bounds: ObjectBounds) -> None:
    """Write the rows of a Parquet file as lines; a file that crashes its reader crashes a child.

    Raises:
        DataError: `parquet` for a file that cannot be read, `bomb` for too many bytes.
        OSError: the disk is full, or fails.
    """
    cap_bytes, raw = bounds.object_bytes, target.with_name(f"{target.name}.raw")
    memory = _CHILD_BYTES + path.stat().st_size
    arguments = [str(path), str(target), str(cap_bytes), str(memory)]
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _TO_LINES, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_TIME_S,
            check=False,
        )
        too_much = any(
            output_file.exists() and output_file.stat().st_size >= cap_bytes
            for output_file in (raw, target)
        )
    except subprocess.TimeoutExpired:
        raise DataError("parquet", f"cannot be read as Parquet within {_TIME_S} s") from None
    finally:
        raw.unlink(missing_ok=True)
    if done.returncode == 0:
        return
    if too_much:
        raise _too_much(cap_bytes)
    error_text = done.stderr.decode("utf-8", "replace").strip()
    if any(message in error_text for message in _DISK_FULL_MESSAGES):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
    why = error_text.rpartition("\n")[2][:_MESSAGE_CHARS]
    why = why or f"the reader ended with code {done.returncode}"
    raise DataError("parquet", f"cannot be read as Parquet: {why}")


def _inspect_log_to_lines(path: Path, target: Path, bounds: ObjectBounds) -> None:
    """Write each sample of an `.eval` log as a line that also holds the header of the log."""
    try:
        with zipfile.ZipFile(path) as archive, target.open("wb") as out:
            members = _Members(archive, path.stat().st_size, bounds.object_bytes)
            for block in _lines(members, bounds.document_bytes):
                members.count(out.write(block))
    except _BROKEN as error:
        raise _broken(error) from error
    except OSError as error:
        if error.errno not in _BROKEN_CODES:
            raise
        raise _broken(error) from error


def _broken(error: Exception) -> DataError:
    return DataError(
        "archive", f"cannot be read as an inspect_ai log: {str(error)[:_MESSAGE_CHARS]}"
    )


def _lines(members: _Members, header_bytes: int) -> Iterator[bytes]:
    """The lines of the samples, cut into blocks of bytes."""
    names = members.names
    if "header.json" not in names:
        raise DataError("archive", "a zip archive without header.json; no inspect_ai log")
    header = strict_json(members.read_member("header.json", header_bytes))
    log = json.dumps(header.get("eval") if isinstance(header, dict) else None).encode()
    for name in names:
        if name.startswith("samples/") and name.endswith(".json"):
            yield b'{"eval":' + log + b',"sample":'
            # A line end in JSON is always white space between tokens, never part of a string.
            for block in members.blocks(name):
                yield block.replace(b"\r", b" ").replace(b"\n", b" ")
            yield b"}\n"


class _Members:
    """The members of an archive; unpacking ends at a bound that follows from the archive's size."""

    def __init__(self, archive: zipfile.ZipFile, size: int, cap_bytes: int) -> None:
        self._archive = archive
        self._size = size
        self._cap = cap_bytes
        self._unpacked = self._written = 0

    @property
    def names(self) -> list[str]:
        return self._archive.namelist()

    def count(self, written: int) -> None:
        """Count bytes that were written for the archive, and refuse too many."""
        self._written += written
        if self._written > self._cap:
            raise _too_much(self._cap)

    def read_member(self, name: str, max_bytes: int) -> bytes:
        """The content of a member, held in memory."""
        content = bytearray()
        for block in self.blocks(name):
            content += block
            if len(content) > self._cap:
                raise _too_much(self._cap)
            if len(content) > max_bytes:
                raise DataError(
                    "too_large",
                    f"{name} is over {max_bytes} bytes; [transcripts] max_document_mb allows fewer",
                )
        return bytes(content)

    def blocks(self, name: str) -> Iterator[bytes]:
        """A member in blocks of 1 MiB.

        Members may overlap on purpose, so the ratio is taken over the size of the whole archive.
        """
        with self._archive.open(name) as stream:
            while block := stream.read(_COPY_BYTES):
                self._unpacked += len(block)
                if self._unpacked > max(BOMB_FLOOR_BYTES, BOMB_RATIO * self._size):
                    raise DataError(
                        "bomb",
                        f"{self._size} bytes unpack to more than {self._unpacked}; where that is "
                        "meant, unpack it",
                    )
                yield block


def _too_much(cap_bytes: int) -> DataError:
    return DataError("bomb", f"unpacks to more than {cap_bytes} bytes; raise max_object_mb")


_CONVERTERS: Final[dict[bytes, Callable[[Path, Path, ObjectBounds], None]]] = {
    b"PAR1": parquet_to_lines,
    b"PK\x03\x04": _inspect_log_to_lines,
}
