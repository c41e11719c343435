"""Unpacks gzip and zstd with a bound on the bytes that come out.

The readers of the standard library hand out blocks before they have checked them, and know no
bound. Here the caller learns exactly how far an object could be read.
"""

from __future__ import annotations

import sys
import zlib
from dataclasses import dataclass
from typing import IO, Final, Literal, TypeAlias

from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import DataError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Packing: TypeAlias = Literal["gzip", "zstd"]

_SUFFIXES: Final[dict[str, Packing]] = {".gz": "gzip", ".zst": "zstd"}
_MAGIC: Final[dict[bytes, Packing]] = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}

_IN_BYTES: Final = 1 << 16
_OUT_BYTES: Final = 1 << 20
_SALVAGED_BYTES: Final = 1 << 10
"""Bytes of zstd read at a time while salvaging: a call that fails returns nothing of its block."""

_GZIP: Final = 31
"""The `wbits` value with which zlib expects a gzip header and checks length and CRC at the end."""

BOMB_RATIO: Final = 200
"""The most unpacked bytes per packed byte; transcripts reach 5 to 50, deflate can reach 1030."""

BOMB_FLOOR_BYTES: Final = 64 << 20
"""The ratio is only checked above this number of unpacked bytes: below it no ratio does harm."""

_MB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class ObjectBounds:
    """How much of an object is let onto the local disk and into memory.

    Attributes:
        object_bytes: the largest unpacked object.
        document_bytes: the largest object that is parsed as a whole.
        salvage: whether to keep the whole lines before the place where a packed object breaks.
    """

    object_bytes: int = 16_384 * _MB
    document_bytes: int = 40 * _MB
    salvage: bool = False

    @classmethod
    def of(cls, config: TranscriptsConfig) -> ObjectBounds:
        """The bounds of a configuration."""
        return cls(
            round(config.max_object_mb * _MB), round(config.max_document_mb * _MB), config.salvage
        )


def packing_of(uri: str, stream: IO[bytes]) -> Packing | None:
    """How an object is packed, by its name or by its first bytes; `None` where it is plain.

    Raises:
        DataError: `gzip_corrupt` or `zstd_corrupt` for an empty object with the name of a packed
            one.
    """
    head = stream.read(4)
    stream.seek(0)
    by_name = next((kind for suffix, kind in _SUFFIXES.items() if uri.endswith(suffix)), None)
    # Without bytes a reader sees empty content; a packed file of no bytes was cut off.
    if by_name and not head:
        raise DataError(f"{by_name}_corrupt", f"{uri!r}: the file is empty")
    return by_name or next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), None)


def unpack(
    stream: IO[bytes], out: IO[bytes], packing: Packing, cap_bytes: int, *, to_last_byte: bool
) -> None:
    """Write the plain content of all gzip members or zstd frames of a stream.

    Args:
        stream: the packed bytes; read to the end.
        out: receives the plain content; holds everything that was decoded, also when this raises.
        packing: how the stream is packed.
        cap_bytes: the most plain bytes that may be written.
        to_last_byte: whether to decode a broken gzip member up to the very byte at which it breaks,
            and a zstd frame up to the block that breaks; else an earlier block may be the last.

    Raises:
        DataError: `gzip_corrupt`, `zstd_corrupt`, or `bomb` for more than `cap_bytes` or a ratio
            over `BOMB_RATIO`.
    """
    kind = _GzipUnpacker if packing == "gzip" else _ZstdUnpacker
    kind(out, cap_bytes, to_last_byte=to_last_byte).run(stream)


class _Unpacker:
    """One pass over a packed stream; counts the bytes read and the bytes written."""

    def __init__(self, out: IO[bytes], cap_bytes: int, *, to_last_byte: bool) -> None:
        self._out = out
        self._cap = cap_bytes
        self._to_last_byte = to_last_byte
        self._bytes_in = 0
        self._bytes_out = 0
        self._member_count = 0

    def run(self, stream: IO[bytes]) -> None:
        """Unpack the stream to its end."""
        raise NotImplementedError

    def _write(self, data: bytes) -> None:
        self._bytes_out += len(data)
        if self._bytes_out > self._cap:
            raise DataError(
                "bomb",
                f"unpacks to more than {self._cap} bytes; unpack it, or raise max_object_mb",
            )
        if self._bytes_out > BOMB_FLOOR_BYTES and self._bytes_out > BOMB_RATIO * self._bytes_in:
            raise DataError(
                "bomb",
                f"{self._bytes_in} bytes unpack to more than {self._bytes_out}; where that is meant, "
                "unpack it",
            )
        self._out.write(data)


class _GzipUnpacker(_Unpacker):
    """One pass over a stream of gzip members."""

    def run(self, stream: IO[bytes]) -> None:
        member = None
        while block := stream.read(_IN_BYTES):
            self._bytes_in += len(block)
            while block:
                if member is None:
                    # Tapes and block devices pad with zeros; only between members.
                    block = block.lstrip(b"\0") if self._member_count else block
                    member = zlib.decompressobj(_GZIP) if block else None
                    continue
                block = self._inflate_block(member, block)
                if member.eof:
                    self._member_count += 1
                    member = None
        if member is not None:
            self._write(member.flush())
            raise DataError("gzip_corrupt", f"cut off after {self._bytes_in} bytes")

    def _inflate_block(self, member: zlib._Decompress, block: bytes) -> bytes:
        """Decode a block; the rest of the block after the end of this member."""
        before = member.copy() if self._to_last_byte else None
        try:
            while True:
                data = member.decompress(block, _OUT_BYTES)
                self._write(data)
                if member.eof:
                    return member.unused_data
                block = member.unconsumed_tail
                if not block and len(data) < _OUT_BYTES:
                    return b""
                before = member.copy() if self._to_last_byte else None
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
    """One pass over a stream of zstd frames; a frame with a window over 128 MB is refused."""

    def run(self, stream: IO[bytes]) -> None:
        frame: zstd.ZstdDecompressor | None = None
        try:
            while block := stream.read(_SALVAGED_BYTES if self._to_last_byte else _IN_BYTES):
                self._bytes_in += len(block)
                while block:
                    frame = frame or zstd.ZstdDecompressor()
                    block = self._inflate_block(frame, block)
                    frame = None if frame.eof else frame
        except zstd.ZstdError as error:
            raise DataError("zstd_corrupt", str(error)) from error
        if frame is not None:
            raise DataError("zstd_corrupt", f"cut off after {self._bytes_in} bytes")

    def _inflate_block(self, frame: zstd.ZstdDecompressor, block: bytes) -> bytes:
        """Decode a block; the rest of the block after the end of this frame."""
        self._write(frame.decompress(block, _OUT_BYTES))
        while not (frame.eof or frame.needs_input):
            self._write(frame.decompress(b"", _OUT_BYTES))
        return frame.unused_data if frame.eof else b""
