"""Looks for planted secrets in everything a run wrote, packed or encoded as it may be."""

from __future__ import annotations

import base64
import gzip
import io
import sqlite3
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

import duckdb
import polars as pl
from backports import zstd

DEEPEST = 4


def forms(secret: str) -> frozenset[bytes]:
    """How a text may stand in bytes: plain, in other encodings, or within something in base64."""
    plain = secret.encode()
    found = {plain, secret.encode("utf-16-le"), plain.hex().encode(), quote(secret, "").encode()}
    for before in range(3):
        packed = base64.b64encode(b"x" * before + plain)
        whole = packed[(before * 8 + 5) // 6 : len(packed) - 4]
        found |= {whole, whole.replace(b"+", b"-").replace(b"/", b"_")}
    return frozenset(found)


def hits(secrets: Mapping[str, str], written: Mapping[str, bytes]) -> list[tuple[str, str]]:
    """Which secret stands in what, by their names."""
    return [
        (name, place)
        for name, secret in secrets.items()
        for place, data in written.items()
        if any(form in data for form in forms(secret))
    ]


def bytes_below(folder: Path, *, without: tuple[str, ...] = ()) -> dict[str, bytes]:
    """Every file of a folder and its folders, with what is packed in it beside it."""
    return {
        str(path.relative_to(folder)): b"\n".join((b"", *opened(path.read_bytes()), rows(path)))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not set(without) & {*path.relative_to(folder).parts, path.name}
    }


def opened(data: bytes, depth: int = 0) -> Iterator[bytes]:
    """The bytes, and what they hold packed."""
    yield data
    if depth == DEEPEST:
        return
    if data.startswith(b"\x1f\x8b"):
        yield from opened(gzip.decompress(data), depth + 1)
    elif data.startswith(b"\x28\xb5\x2f\xfd"):
        yield from opened(zstd.decompress(data), depth + 1)
    elif data[:2] in (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda"):
        yield from opened(zlib.decompressobj().decompress(data), depth + 1)
    elif data.startswith(b"PK\x03\x04"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name in archive.namelist():
                yield from opened(archive.read(name), depth + 1)
    elif data.startswith(b"PAR1"):
        yield str(pl.read_parquet(io.BytesIO(data)).rows()).encode()


def rows(path: Path) -> bytes:
    """All rows of a database file, as text; values that are packed, unpacked."""
    with path.open("rb") as file:
        head = file.read(16)
    if head.startswith(b"SQLite format 3"):
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
            names = database.execute("select name from sqlite_master where type = 'table'")
            tables = [database.execute(f'select * from "{name}"') for (name,) in names.fetchall()]
            return b"\n".join(value for table in tables for row in table for value in told(row))
    if head[8:12] == b"DUCK":
        with duckdb.connect(str(path), read_only=True) as store:
            names = store.execute("select table_name from information_schema.tables").fetchall()
            found = [store.execute(f'select * from "{name}"').fetchall() for (name,) in names]
            return b"\n".join(value for table in found for row in table for value in told(row))
    return b""


def told(row: tuple[object, ...]) -> Iterator[bytes]:
    for value in row:
        yield from opened(value) if isinstance(value, bytes) else [str(value).encode()]
