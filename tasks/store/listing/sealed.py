"""Parquet files with a hash of their own bytes: a damaged file is told from a whole one.

Among the metadata of a file is the SHA-256 of its bytes, as they are with zeros in the place of the
hash; a file of an older version has none.
"""

from __future__ import annotations

import hashlib
import io
from typing import Final

import polars as pl

_SEAL: Final = b"assizes-sha256:"  # stands before the hash
_NO_HASH: Final = b"0" * 64


def sealed_parquet(rows: pl.DataFrame) -> bytes:
    """The bytes of a Parquet file of the rows, with their hash."""
    file = io.BytesIO()
    rows.write_parquet(file, metadata={"hash": (_SEAL + _NO_HASH).decode()})
    data = file.getvalue()
    before, _, after = data.rpartition(_SEAL + _NO_HASH)
    return before + _SEAL + hashlib.sha256(data).hexdigest().encode() + after


def has_seal(data: bytes) -> bool:
    """Whether a file has a hash at all."""
    return _SEAL in data


def is_as_written(data: bytes) -> bool:
    """Whether a file has the bytes that its hash is of, or is of a version that wrote none."""
    before, seal, rest = data.rpartition(_SEAL)
    written, after = rest[: len(_NO_HASH)], rest[len(_NO_HASH) :]
    zeroed = before + _SEAL + _NO_HASH + after
    return not seal or hashlib.sha256(zeroed).hexdigest().encode() == written
