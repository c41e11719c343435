"""Tables that are made of a store's rows, and can be made again at any time.

Each is one Parquet file below `index/` in a lake, in the folder `<file>.index` beside a DuckDB file. It
says what the rows said when it was written, and is never the authority: whoever reads one checks
which of its rows still hold. So a missing, an older or a damaged file costs time and nothing else,
and where the store cannot be written, the table is kept in the memory of the process.
"""

from __future__ import annotations

import hashlib
import io
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import polars as pl

from assizes.judge.errors import StoreError
from assizes.tasks.store.listing.memory import MemoryFiles
from assizes.tasks.store.listing.sealed import has_seal, is_as_written, sealed_parquet
from assizes.tasks.store.objects import Folder

log = logging.getLogger(__name__)

FOLDER: Final = "index"
"""The folder of the tables below the root of a lake."""

SUFFIX: Final = ".index"
"""The end of the name of the folder beside a DuckDB file."""

_MAX_REMEMBERED: Final = 32  # tables in the memory of this process


class _Remembered(NamedTuple):
    """A table as this process read or wrote it last."""

    digest: str  # of the bytes of its file; empty where there was none
    rows: pl.DataFrame


_remembered: Final[dict[tuple[str, str], _Remembered]] = {}  # by place and name


class DerivedFiles(Protocol):
    """Where the tables lie: the part of `Objects` that they need."""

    @property
    def where(self) -> str:
        """The place, as text for messages."""

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        """The bytes of the named files, by name; a file that is not there is left out."""

    def replace(self, name: str, data: bytes) -> None:
        """Write a file, over the one that is there if there is one."""


class DerivedTables:
    """The derived tables of one store; reading and writing never fail."""

    def __init__(self, files: DerivedFiles) -> None:
        self._files = files
        is_shared = not isinstance(files, MemoryFiles)  # several stores in memory have one place
        self._remembered = _remembered if is_shared else {}

    @classmethod
    def beside(cls, store_file: Path, *, in_memory: bool) -> DerivedTables:
        """The tables in the folder beside a DuckDB file, or in memory for a store in memory."""
        if in_memory:
            return cls(MemoryFiles())
        return cls(Folder(store_file.with_name(f"{store_file.name}{SUFFIX}")))

    @property
    def where(self) -> str:
        """The place of the tables; stores in memory share one."""
        return self._files.where

    def read(self, name: str, schema: Mapping[str, Any]) -> pl.DataFrame:
        """The rows of a table; empty where it is missing, damaged, or has other columns."""
        path = f"{FOLDER}/{name}.parquet"
        data = self._bytes(path)
        digest, key = _digest(data), (self._files.where, name)
        known = self._remembered.get(key)
        if known is not None and known.digest == digest and known.rows.schema == pl.Schema(schema):
            return known.rows
        rows = self._parsed(path, data) if data else None
        if rows is None or rows.schema != pl.Schema(schema):
            return pl.DataFrame(schema=schema)
        self._remember(key, _Remembered(digest, rows))
        return rows

    def write(self, name: str, rows: pl.DataFrame) -> None:
        """Keep a table for other processes, or for this one alone where the store is read only."""
        path, data = f"{FOLDER}/{name}.parquet", sealed_parquet(rows)
        try:
            self._files.replace(path, data)
        except StoreError as error:
            log.debug("%s is kept in memory: %s", path, error)
            data = self._bytes(path)
        self._remember((self._files.where, name), _Remembered(_digest(data), rows))

    def _bytes(self, path: str) -> bytes:
        try:
            return self._files.read([path]).get(path, b"")
        except StoreError:  # whoever may read a store need not be allowed to read every file
            return b""

    def _parsed(self, path: str, data: bytes) -> pl.DataFrame | None:
        if has_seal(data) and is_as_written(data):
            try:
                return pl.read_parquet(io.BytesIO(data))
            except pl.exceptions.PolarsError:  # written by another version of polars
                return None
        log.warning(
            "%s: %s is damaged (its hash differs); it is derived, and is made again",
            self._files.where,
            path,
        )
        return None

    def _remember(self, key: tuple[str, str], table: _Remembered) -> None:
        self._remembered.pop(key, None)
        while len(self._remembered) >= _MAX_REMEMBERED:
            self._remembered.pop(next(iter(self._remembered)))
        self._remembered[key] = table


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest() if data else ""
