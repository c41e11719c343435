"""Rows that people write: labels, annotations, queues of cases to label.

They are durable when a call returns, also while a run writes to the same store. A DuckDB file is
locked by the process that writes a run, so these rows never go into it: they are lines of
`<file>.people` beside it. A lake has an object for each call. Both hold the same lines: eight hex
digits of a CRC, a blank, and JSON with the table and the row. No line is ever changed. A line that a
killed writer left unfinished is passed over, and the next one begins on a line of its own. Any other
line without its CRC is damage, and so is an object of a lake that is not what its name says.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import re
import threading
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

import polars as pl

from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import StoreError
from assizes.judge.rows import PEOPLE_KEYS, PEOPLE_TABLES, as_json
from assizes.tasks.store.bucket import objects_at
from assizes.tasks.store.objects import Objects, other_bytes, sync_folder

MAX_ROW_BYTES: Final = 64 * 1024
"""The most bytes of one row as JSON; a note of 4,000 characters takes a fourth of it."""

_SUFFIX: Final = ".people"
_CUT_LINE: Final = re.compile(rb"[0-9a-f]{0,8}|[0-9a-f]{8} (\{.*)?", re.DOTALL)
"""How a line begins; all whole lines end with `}`."""
IN_MEMORY: Final = Path(":memory:")  # the path of a store that is in memory only
_DUCKDB: Final = "duckdb:///"


class PeopleTables(Protocol):
    """The tables `PEOPLE_TABLES` of one store; methods raise `StoreError` where it is unreachable."""

    def add(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Store rows, which are durable when this returns.

        Of rows with the same key the oldest stays, so that a call may be repeated.

        Raises:
            StoreError: when a row is larger than `MAX_ROW_BYTES`.
        """

    def add_new(self, table: str, row: Mapping[str, Any]) -> dict[str, Any] | None:
        """Store a row, unless the table holds one with its key; returns the one that it holds.

        Of several calls at once with one key a single one stores its row, and gets `None`. In a lake
        that holds for the calls of one process.

        Raises:
            StoreError: when the row is larger than `MAX_ROW_BYTES`.
        """

    def rows(self, table: str) -> pl.DataFrame:
        """Every row of a table in order of time; empty where nobody wrote any."""

    def forget(self, run_id: str, case_ids: Collection[str]) -> None:
        """Delete every row about some cases of a run."""


class FilePeople:
    """The tables beside a DuckDB file; several processes may write at once."""

    def __init__(self, store_file: Path) -> None:
        self.path = store_file.with_name(f"{store_file.name}{_SUFFIX}")
        self._in_memory = store_file == IN_MEMORY  # which keeps no rows of people

    def add(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append the rows as lines, and sync them to disk."""
        if block := _encode(table, rows):
            with self._writable_file() as file:
                self._append(file, block)

    def add_new(self, table: str, row: Mapping[str, Any]) -> dict[str, Any] | None:
        """Look for the key and append the line while no other process can append one."""
        block = _encode(table, [row])
        with self._writable_file() as file:
            file.seek(0)
            held = _held_row(table, row, {str(self.path): file.read()})
            if held is None:
                self._append(file, block)
            return held

    @contextmanager
    def _writable_file(self) -> Iterator[BinaryIO]:
        if self._in_memory:
            raise StoreError("a store in memory keeps no labels; give [store] uri a file")
        with _converted_errors("write", self.path), _locked_file(self.path) as file:
            yield file

    def _append(self, file: BinaryIO, block: bytes) -> None:
        is_new = not file.seek(0, os.SEEK_END)
        # A line that a killed writer left unfinished must not run into the next one.
        is_cut = not is_new and file.seek(-1, os.SEEK_END) >= 0 and file.read(1) != b"\n"
        file.write(b"\n" + block if is_cut else block)
        file.flush()
        os.fsync(file.fileno())
        if is_new:  # the name of the file must survive a power cut as well
            sync_folder(self.path.parent)

    def rows(self, table: str) -> pl.DataFrame:
        """The rows of all whole lines."""
        with _converted_errors("read", self.path), suppress(FileNotFoundError):
            return _decode(table, {str(self.path): self.path.read_bytes()})
        return _decode(table, {})

    def forget(self, run_id: str, case_ids: Collection[str]) -> None:
        """Write the other lines to a new file, then rename it over the old one."""
        if not self.path.exists():
            return
        draft = self.path.with_name(f"{self.path.name}.draft")
        with _converted_errors("write", self.path), _locked_file(self.path) as file:
            file.seek(0)
            kept = _without_cases(str(self.path), file.read(), run_id, case_ids)
            with draft.open("wb") as new:
                new.write(kept)
                new.flush()
                os.fsync(new.fileno())
            draft.replace(self.path)  # atomic: readers see the old lines or the new ones
            sync_folder(self.path.parent)


class ObjectPeople:
    """The tables of a lake: an object for each call, named by its content and created once."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._lock = threading.Lock()

    def add(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Create an object with the rows."""
        if block := _encode(table, rows):
            self._objects.create(_object_name(table, block), block)

    def add_new(self, table: str, row: Mapping[str, Any]) -> dict[str, Any] | None:
        """Look for the key and create the object while no other thread can create one."""
        with self._lock:
            held = _held_row(table, row, self._blocks(table))
            if held is None:
                self.add(table, [row])
            return held

    def rows(self, table: str) -> pl.DataFrame:
        """The rows of all objects of a table."""
        return _decode(table, self._blocks(table))

    def forget(self, run_id: str, case_ids: Collection[str]) -> None:
        """Create objects with the other rows, then remove those that held rows of the cases."""
        for table in PEOPLE_TABLES:
            for name, block in self._blocks(table).items():
                kept = _without_cases(name, block, run_id, case_ids)
                if kept == block:
                    continue
                if kept:
                    self._objects.create(_object_name(table, kept), kept)
                self._objects.remove([name])

    def _blocks(self, table: str) -> dict[str, bytes]:
        blocks = self._objects.read([f"{table}/{name}" for name in self._objects.names(table)])
        for name, block in blocks.items():
            if name != _object_name(table, block):
                raise other_bytes(self._objects.where, name)
        return blocks


def people_tables(config: StoreConfig) -> PeopleTables:
    """The tables of people of a store, whether or not another process is writing a run to it."""
    if config.uri.startswith(_DUCKDB):
        return FilePeople(Path(config.uri.removeprefix(_DUCKDB)).expanduser())
    return ObjectPeople(objects_at(config.uri, config.storage_options))


def _object_name(table: str, block: bytes) -> str:
    return f"{table}/{hashlib.sha256(block).hexdigest()[:32]}.lines"


def _encode(table: str, rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Rows as lines; an unknown column is a `StoreError`, as nobody would ever read it."""
    lines = []
    for row in rows:
        _check_row(table, row)
        plain = {
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in row.items()
        }
        body = as_json({"table": table, "row": plain}).encode()
        if len(body) > MAX_ROW_BYTES:
            raise StoreError(
                f"a row of table {table} has {len(body):,} bytes; at most {MAX_ROW_BYTES:,}"
            )
        lines.append(b"%08x %b\n" % (zlib.crc32(body), body))
    return b"".join(lines)


def _check_row(table: str, row: Mapping[str, Any]) -> None:
    """Refuse a row that could not be read back: one bad row would hide all others of its table."""
    columns = PEOPLE_TABLES[table]
    if unknown := row.keys() - columns.keys():
        raise StoreError(f"table {table} has no column {', '.join(sorted(unknown))}")
    for name in (*PEOPLE_KEYS[table], "run_id", "case_id", "at"):
        if row.get(name) is None:
            raise StoreError(f"a row of table {table} has no {name}")
    if not isinstance(row["at"], datetime) or row["at"].tzinfo is None:
        raise StoreError(f"table {table}: `at` is a time with its zone, not {row['at']!r}")
    numbers = [value for value in row.values() if isinstance(value, float)]
    if not all(map(math.isfinite, numbers)) or not 0 <= (row.get("probability") or 0) <= 1:
        raise StoreError(f"table {table}: numbers are finite, and a probability is 0 to 1")
    try:
        pl.DataFrame([dict(row)], schema=columns, orient="row", strict=True)
    except (TypeError, pl.exceptions.PolarsError) as error:
        reason = str(error).split("\n", 1)[0][:200]
        raise StoreError(f"a row of table {table} cannot be stored: {reason}") from error


def _entries(name: str, block: bytes) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """The whole lines of a block, each with its line end, and what they hold.

    Raises:
        StoreError: when a line was altered; `name` is where the block is from.
    """
    for number, line in enumerate(block.split(b"\n"), start=1):
        crc, _, body = line.partition(b" ")
        if body and b"%08x" % zlib.crc32(body) == crc:
            yield line + b"\n", json.loads(body)
        elif not _is_cut(line.rstrip(b"\0")):  # zeros are left by a power cut
            where = f"line {number} is not what was written (its CRC differs)"
            raise StoreError(
                f"{name} is damaged: {where}; restore the file from a copy, or delete the line"
            )


def _is_cut(line: bytes) -> bool:
    """Whether a line without its CRC is the beginning of a line, or nothing, rather than altered."""
    crc, _, body = line.partition(b" ")
    # An altered line ends with } but where the } itself, or the line end behind it, is altered.
    ends = {b"%08x" % zlib.crc32(whole) for whole in (body[:-1], body[:-1] + b"}")}
    return bool(_CUT_LINE.fullmatch(line)) and not line.endswith(b"}") and crc not in ends


def _decode(table: str, blocks: Mapping[str, bytes]) -> pl.DataFrame:
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for name, block in blocks.items():
        for _, entry in _entries(name, block):
            if entry["table"] == table:
                row = entry["row"] | {"at": datetime.fromisoformat(entry["row"]["at"])}
                key = tuple(row[name] for name in PEOPLE_KEYS[table])
                # The oldest row of a key stays, whatever the order of the objects of a lake.
                if key not in rows or row["at"] < rows[key]["at"]:
                    rows[key] = row
    frame = pl.DataFrame(list(rows.values()), schema=PEOPLE_TABLES[table], orient="row")
    return frame.sort("at", *PEOPLE_KEYS[table])


def _held_row(
    table: str, row: Mapping[str, Any], blocks: Mapping[str, bytes]
) -> dict[str, Any] | None:
    """The row of some blocks that has the key of another row; `None` where none has."""
    keys = PEOPLE_KEYS[table]
    # Most keys are new: bytes are searched much faster than lines are read.
    written = as_json(row[keys[0]]).encode()
    blocks = {name: block for name, block in blocks.items() if written in block}
    same = _decode(table, blocks).filter(*(pl.col(name) == row[name] for name in keys))
    return next(same.iter_rows(named=True), None)


def _without_cases(name: str, block: bytes, run_id: str, case_ids: Collection[str]) -> bytes:
    return b"".join(
        line
        for line, entry in _entries(name, block)
        if entry["row"]["run_id"] != run_id or entry["row"]["case_id"] not in case_ids
    )


@contextmanager
def _locked_file(path: Path) -> Iterator[BinaryIO]:
    """The file, open for reading and appending, and locked against other processes."""
    while True:
        with path.open("ab+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # it ends with the file, also when it is killed
            if _is_still_at(path, file):  # `forget` may have put another file in its place
                yield file
                return


def _is_still_at(path: Path, file: BinaryIO) -> bool:
    with suppress(FileNotFoundError):
        return path.stat().st_ino == os.fstat(file.fileno()).st_ino
    return False


@contextmanager
def _converted_errors(act: str, path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        if act == "read":
            raise
        raise StoreError(f"{path}: cannot {act}: its folder does not exist") from None
    except OSError as error:
        raise StoreError(f"{path}: cannot {act}: {error.strerror or error}") from error
