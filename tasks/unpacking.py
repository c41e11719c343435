"""Gzip to plain bytes, with a bound on what comes out and nothing taken on trust.

The standard library's reader hands out blocks before it has checked them, and knows no bound. Here
whoever asks is told exactly how far an object could be read.
"""

from __future__ import annotations

import zlib
from typing import IO, Final

from judge.errors import DataError

_IN_BYTES: Final = 1 << 16
_OUT_BYTES: Final = 1 << 20
_GZIP: Final = 31
"""What tells zlib to expect a gzip header, and to check length and CRC at the end."""

BOMB_RATIO: Final = 200
"""Real transcripts pack 5 to 50 times; deflate can reach 1030."""

BOMB_FLOOR_BYTES: Final = 64 << 20
"""Below so many unpacked bytes no ratio does harm."""


def unpack(stream: IO[bytes], out: IO[bytes], cap_bytes: int, *, to_the_last: bool) -> None:
    """Write the plain content of all gzip members of a stream.

    Args:
        stream: read to its end.
        out: holds everything that was decoded, also when this raises.
        cap_bytes: the most that may come out.
        to_the_last: decode up to the very byte at which a member breaks; else up to a block before.

    Raises:
        DataError: `gzip_corrupt`, or `bomb` for too much, or too much of too little.
    """
    _Unpacking(out, cap_bytes, to_the_last=to_the_last).run(stream)


class _Unpacking:
    """One pass over a stream of gzip members."""

    def __init__(self, out: IO[bytes], cap_bytes: int, *, to_the_last: bool) -> None:
        self._out = out
        self._cap = cap_bytes
        self._to_the_last = to_the_last
        self._taken = 0
        self._given = 0
        self._members = 0

    def run(self, stream: IO[bytes]) -> None:
        member = None
        while block := stream.read(_IN_BYTES):
            self._taken += len(block)
            while block:
                if member is None:
                    # Tapes and block devices pad with zeros; only between members.
                    block = block.lstrip(b"\0") if self._members else block
                    member = zlib.decompressobj(_GZIP) if block else None
                    continue
                block = self._inflated(member, block)
                if member.eof:
                    self._members += 1
                    member = None
        if member is not None:
            self._write(member.flush())
            raise DataError("gzip_corrupt", f"cut off after {self._taken} bytes")

    def _inflated(self, member: zlib._Decompress, block: bytes) -> bytes:
        """What is left of the block after this member."""
        before = member.copy() if self._to_the_last else None
        try:
            while True:
                data = member.decompress(block, _OUT_BYTES)
                self._write(data)
                if member.eof:
                    return member.unused_data
                block = member.unconsumed_tail
                if not block and len(data) < _OUT_BYTES:
                    return b""
                before = member.copy() if self._to_the_last else None
        except zlib.error as error:
            if before is not None:
                self._to_the_fault(before, block)
            raise DataError("gzip_corrupt", str(error)) from error

    def _to_the_fault(self, member: zlib._Decompress, block: bytes) -> None:
        """Decode a block that breaks somewhere, byte by byte up to there."""
        try:
            for place in range(len(block)):
                self._write(member.decompress(block[place : place + 1]))
        except zlib.error:
            return

    def _write(self, data: bytes) -> None:
        self._given += len(data)
        if self._given > self._cap:
            raise DataError(
                "bomb",
                f"unpacks to more than {self._cap} bytes; unpack it, or raise max_object_mb",
            )
        if self._given > BOMB_FLOOR_BYTES and self._given > BOMB_RATIO * self._taken:
            raise DataError(
                "bomb",
                f"{self._taken} bytes unpack to more than {self._given}; where that is meant, "
                "unpack it",
            )
        self._out.write(data)
