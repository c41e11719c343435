"""Unpacks gzip and zstd with a bound on the bytes that come out, and archives into lines of JSON.

The readers of the standard library hand out blocks before they have checked them, and know no
bound. Here the caller learns exactly how far an object could be read.

Foreign Parquet is read in a process of its own, so that a file made to crash its reader costs one
object only. The rows are streamed; a row group may take as much memory as that process is given.
The samples of an inspect_ai archive are copied block by block; only the header is held in memory.
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
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Literal, TypeAlias

from assizes.judge.errors import DataError
from assizes.judge.formats.shared.parsing import strict_json

if sys.version_info >= (3, 14):
    import zipfile

    from compression import zstd
else:
    from backports import zstd
    from backports.zstd import zipfile

Packing: TypeAlias = Literal["gzip", "zstd"]

_MB: Final = 1 << 20

BOMB_RATIO: Final = 200
"""The most unpacked bytes per packed byte; transcripts reach 5 to 50, deflate can reach 1030."""

BOMB_FLOOR_BYTES: Final = 64 << 20
"""The ratio is only checked above this number of unpacked bytes: below it no ratio does harm."""

_IN_BYTES: Final = 1 << 16  # packed bytes read at a time
_OUT_BYTES: Final = 1 << 20  # most bytes that one call unpacks: the bounds are checked after each
_SALVAGED_BYTES: Final = 1 << 10
"""Bytes of zstd read at a time while salvaging: a call that fails returns nothing of its block."""

_GZIP: Final = 31
"""The `wbits` value with which zlib expects a gzip header and checks length and CRC at the end."""

_MESSAGE_CHARS: Final = 200  # of what a library says about a broken file

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

_TOO_MANY_ROWS: Final = 77  # exit code of the child

ROWS_FLOOR: Final = 10_000
"""Rows that a Parquet file of any size may hold; a larger file may hold a row for each byte."""

_TO_LINES: Final = """
import resource, sys
most, memory, most_rows = map(int, sys.argv[3:6])
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL: this process ends with its parent
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
table = pl.scan_parquet(sys.argv[1], glob=False, hive_partitioning=False)
if table.select(pl.len()).collect().item() > most_rows:  # by the file's own summary, unread
    sys.exit(__TOO_MANY__)
table.head(most_rows + 1).sink_ndjson(raw)
with open(raw, "rb") as lines, open(sys.argv[2], "wb") as out:
    for line in lines:
        out.write(orjson.dumps(without_nulls(orjson.loads(line))) + b"\\n")
""".replace("__TOO_MANY__", str(_TOO_MANY_ROWS))
"""The program of the process that reads Parquet.

Every row of a table has every column, so a `null` means that the record lacks the field: it is left
out."""


@dataclass(frozen=True, slots=True)
class ObjectBounds:
    """How much of an object is let onto the local disk and into memory."""

    object_bytes: int = 16_384 * _MB  # of an unpacked object
    document_bytes: int = 40 * _MB  # of an object that is parsed as a whole
    salvage: bool = False  # keep the whole lines before the place where a packed object breaks
    salvage_pieces: bool = False  # also of lines that are pieces of conversations


def unpack(
    stream: IO[bytes], out: IO[bytes], packing: Packing, cap_bytes: int, *, to_last_byte: bool
) -> None:
    """Write the plain content of all gzip members or zstd frames of a stream.

    `out` gets at most `cap_bytes`, and holds everything that was decoded also when this raises.
    With `to_last_byte` a broken gzip member is decoded up to the very byte at which it breaks, and
    a zstd frame up to the block that breaks; else an earlier block may be the last.

    Raises:
        DataError: `gzip_corrupt`, `zstd_corrupt` (also for a frame with a window over 128 MB), or
            `bomb` for more than `cap_bytes` or a ratio over `BOMB_RATIO`.
    """
    if packing == "gzip":
        _GzipUnpacker(out, cap_bytes, to_last_byte).run(stream)
    else:
        _ZstdUnpacker(out, cap_bytes, to_last_byte).run(stream)


@dataclass
class _Unpacker:
    """One pass over a packed stream; counts the bytes read and the bytes written."""

    out: IO[bytes]
    cap: int  # of unpacked bytes
    to_last_byte: bool
    bytes_in: int = 0
    bytes_out: int = 0

    def _write(self, data: bytes) -> None:
        self.bytes_out += len(data)
        if self.bytes_out > self.cap:
            raise DataError(
                "bomb", f"unpacks to more than {self.cap} bytes; unpack it, or raise max_object_mb"
            )
        # A bomb: a small object that fills the disk. Over the bytes read so far, so it ends early.
        if self.bytes_out > max(BOMB_FLOOR_BYTES, BOMB_RATIO * self.bytes_in):
            raise _ratio_error(self.bytes_in, self.bytes_out)
        self.out.write(data)


class _GzipUnpacker(_Unpacker):
    def run(self, stream: IO[bytes]) -> None:
        member, is_behind_member = None, False
        while block := stream.read(_IN_BYTES):
            self.bytes_in += len(block)
            while block:
                if member is None:
                    # Tapes and block devices pad with zeros; only between members.
                    block = block.lstrip(b"\0") if is_behind_member else block
                    member = zlib.decompressobj(_GZIP) if block else None
                    continue
                block = self._inflate_block(member, block)
                if member.eof:
                    member, is_behind_member = None, True
        if member is not None:  # the stream ends within a member
            self._write(member.flush())
            raise DataError("gzip_corrupt", f"cut off after {self.bytes_in} bytes")

    def _inflate_block(self, member: zlib._Decompress, block: bytes) -> bytes:
        """Decode a block; the rest of the block after the end of this member."""
        before = None
        try:
            while True:
                # A call that fails loses what it had decoded: the state before it is decoded again.
                before = member.copy() if self.to_last_byte else None
                data = member.decompress(block, _OUT_BYTES)
                self._write(data)
                if member.eof:
                    return member.unused_data
                block = member.unconsumed_tail
                if not block and len(data) < _OUT_BYTES:  # nothing is left, neither in nor out
                    return b""
        except zlib.error as error:
            if before is not None:
                self._salvage_block(before, block)
            raise DataError("gzip_corrupt", str(error)) from error

    def _salvage_block(self, member: zlib._Decompress, block: bytes) -> None:
        """Decode a block that breaks somewhere, byte by byte up to there."""
        try:
            for place in range(len(block)):
                self._write(member.decompress(block[place : place + 1]))
        except zlib.error:
            return


class _ZstdUnpacker(_Unpacker):
    def run(self, stream: IO[bytes]) -> None:
        frame: zstd.ZstdDecompressor | None = None
        try:
            while block := stream.read(_SALVAGED_BYTES if self.to_last_byte else _IN_BYTES):
                self.bytes_in += len(block)
                while block:
                    frame = frame or zstd.ZstdDecompressor()
                    self._write(frame.decompress(block, _OUT_BYTES))
                    while not (frame.eof or frame.needs_input):  # more output of the same input
                        self._write(frame.decompress(b"", _OUT_BYTES))
                    block = frame.unused_data if frame.eof else b""
                    frame = None if frame.eof else frame
        except zstd.ZstdError as error:
            raise DataError("zstd_corrupt", str(error)) from error
        if frame is not None:
            raise DataError("zstd_corrupt", f"cut off after {self.bytes_in} bytes")


def archive_to_lines(path: Path, target: Path, bounds: ObjectBounds) -> None:
    """Write the records of an archive, which its first bytes tell, as lines of JSON to `target`.

    Raises:
        DataError: `parquet` or `archive` for a file that cannot be read, `bomb` for too many bytes.
        OSError: the disk is full, or fails.
    """
    with path.open("rb") as stream:
        convert = CONVERTERS[stream.read(MAGIC_BYTES)]
    convert(path, target, bounds)


def parquet_to_lines(path: Path, target: Path, bounds: ObjectBounds) -> None:
    """Write the rows of a Parquet file as lines; a file that crashes its reader crashes a child.

    Raises:
        DataError: `parquet` for a file that cannot be read, `bomb` for too many bytes.
        OSError: the disk is full, or fails.
    """
    size, raw = path.stat().st_size, target.with_name(f"{target.name}.raw")
    most = max(BOMB_FLOOR_BYTES, BOMB_RATIO * size)  # as for gzip
    cap_bytes, most_rows = min(bounds.object_bytes, most), max(ROWS_FLOOR, size)
    memory = _CHILD_BYTES + size  # the file is mapped into memory
    arguments = [str(path), str(target), *map(str, (cap_bytes, memory, most_rows))]
    try:
        done = subprocess.run(
            # -I: neither the working folder nor PYTHON* variables choose what is imported.
            [sys.executable, "-I", "-c", _TO_LINES, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_TIME_S,
            check=False,
        )
        # At the limit of file size the child ends by an error or a signal; the sizes tell why.
        too_much = any(
            output.exists() and output.stat().st_size >= cap_bytes for output in (raw, target)
        )
    except subprocess.TimeoutExpired:
        raise DataError("parquet", f"cannot be read as Parquet within {_TIME_S} s") from None
    finally:
        raw.unlink(missing_ok=True)
    if done.returncode == 0:
        return
    if done.returncode == _TOO_MANY_ROWS:
        raise DataError("bomb", f"{size} bytes hold more than {most_rows} rows; split the table")
    if too_much:
        raise _ratio_error(size, cap_bytes) if cap_bytes == most else _too_much(cap_bytes)
    error_text = done.stderr.decode("utf-8", "replace").strip()
    # The child can only say it in words; the caller looks at the code of the error.
    if any(message in error_text for message in _DISK_FULL_MESSAGES):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
    why = error_text.rpartition("\n")[2][:_MESSAGE_CHARS]  # the last line of a traceback
    why = why or f"the reader ended with code {done.returncode}"
    raise DataError("parquet", f"cannot be read as Parquet: {why}")


def _inspect_log_to_lines(path: Path, target: Path, bounds: ObjectBounds) -> None:
    """Write each sample of an `.eval` log as a line that also holds the header of the log."""
    try:
        with zipfile.ZipFile(path) as archive, target.open("wb") as out:
            written = 0
            for block in _InspectLog(archive, path.stat().st_size, bounds).lines():
                written += out.write(block)
                if written > bounds.object_bytes:
                    raise _too_much(bounds.object_bytes)
    except (*_BROKEN, OSError) as error:
        if isinstance(error, OSError) and error.errno not in _BROKEN_CODES:
            raise  # the disk, not the archive
        raise DataError(
            "archive", f"cannot be read as an inspect_ai log: {str(error)[:_MESSAGE_CHARS]}"
        ) from error


class _InspectLog:
    """An open `.eval` log; unpacking ends at a bound that follows from the size of the archive."""

    def __init__(self, archive: zipfile.ZipFile, size: int, bounds: ObjectBounds) -> None:
        self._archive, self._size, self._bounds = archive, size, bounds
        self._unpacked = 0  # bytes, over all members

    def lines(self) -> Iterator[bytes]:
        """The lines of the samples, cut into blocks of bytes."""
        names = self._archive.namelist()
        if "header.json" not in names:
            raise DataError(
                "archive",
                "a zip archive without header.json, so no inspect_ai log; save a spreadsheet as CSV, "
                "unpack other archives",
            )
        header = strict_json(self._header())
        log = json.dumps(header.get("eval") if isinstance(header, dict) else None).encode()
        for name in names:
            if name.startswith("samples/") and name.endswith(".json"):
                # Put together as bytes: a sample may be larger than memory, and is parsed later.
                yield b'{"eval":' + log + b',"sample":'
                # A line end in JSON is always white space between tokens, never part of a string.
                for block in self._blocks(name):
                    yield block.replace(b"\r", b" ").replace(b"\n", b" ")
                yield b"}\n"

    def _header(self) -> bytes:
        content, max_bytes = bytearray(), self._bounds.document_bytes
        for block in self._blocks("header.json"):
            content += block
            if len(content) > self._bounds.object_bytes:
                raise _too_much(self._bounds.object_bytes)
            if len(content) > max_bytes:
                raise DataError(
                    "too_large",
                    f"header.json is over {max_bytes} bytes; [transcripts] max_document_mb allows "
                    "fewer",
                )
        return bytes(content)

    def _blocks(self, name: str) -> Iterator[bytes]:
        # Members may overlap on purpose, so the ratio is taken over the size of the whole archive.
        with self._archive.open(name) as stream:
            while block := stream.read(_OUT_BYTES):
                self._unpacked += len(block)
                if self._unpacked > max(BOMB_FLOOR_BYTES, BOMB_RATIO * self._size):
                    raise _ratio_error(self._size, self._unpacked)
                yield block


def _ratio_error(packed_bytes: int, plain_bytes: int) -> DataError:
    return DataError(
        "bomb",
        f"{packed_bytes} bytes unpack to more than {plain_bytes}; where that is meant, unpack it",
    )


def _too_much(cap_bytes: int) -> DataError:
    return DataError("bomb", f"unpacks to more than {cap_bytes} bytes; raise max_object_mb")


MAGIC_BYTES: Final = 4
CONVERTERS: Final[dict[bytes, Callable[[Path, Path, ObjectBounds], None]]] = {
    b"PAR1": parquet_to_lines,
    b"PK\x03\x04": _inspect_log_to_lines,
}
"""What turns an archive into lines, by its first four bytes."""
