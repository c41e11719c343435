"""Fixture databases: finds the file that a case names, and lends private copies of it."""

from __future__ import annotations

import shutil
import stat
import tempfile
from collections import Counter, OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Literal

EngineName = Literal["sqlite", "duckdb"]

_MAX_COPIES = 8
"""Copies kept on disk: more than there are child processes, few enough for any disk."""


_Key = tuple[str, int, int]
"""The file of which a copy was made: its path, its time of change in nanoseconds, its bytes."""


class NoFixture(Exception):
    """A database that cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Fixture:
    """A database file: the name that a case gives it, its path, and the engine that reads it."""

    name: str
    path: Path
    engine: EngineName


def find_fixture(database: str, base: Path | None, own_files: Collection[Path] = ()) -> Fixture:
    """Find the database file that a case names.

    A transcript is not trusted: it must not reach files outside a folder, hidden files, or the
    files of a run.

    Args:
        database: a path, relative to `base`.
        base: the folder in which the file must lie. None: a relative path is in the current folder,
            an absolute path may be anywhere, and neither may be a link to another folder.
        own_files: resolved paths of files of this program, which no case may read.

    Raises:
        NoFixture: when there is no such file, it lies elsewhere, or is no database.
    """
    if "\x00" in database or not database:
        raise NoFixture(f"database {database!r} is no path")
    full_path = (base or Path.cwd()) / database
    inside = base or (full_path.parent if Path(database).is_absolute() else Path.cwd())
    try:
        path = full_path.resolve(strict=True)
        mode = path.stat().st_mode
    except (OSError, RuntimeError) as error:
        raise NoFixture(f"database {database!r} is not there") from error
    if not path.is_relative_to(inside.resolve()):
        raise NoFixture(
            f"database {database!r} leads out of its folder; [transcripts] databases names one"
        )
    parts = path.relative_to(inside.resolve()).parts
    if path in own_files or any(part.startswith(".") for part in parts):
        raise NoFixture(f"database {database!r} is hidden, or a file of a run")
    if not stat.S_ISREG(mode):
        raise NoFixture(f"database {database!r} is not a file")
    return Fixture(database, path, _engine(path, database))


def _engine(path: Path, database: str) -> EngineName:
    """The engine of a database file by its magic bytes; DuckDB's follow an 8-byte checksum."""
    try:
        with path.open("rb") as file:
            head = file.read(16)
    except OSError as error:
        raise NoFixture(f"database {database!r} cannot be read") from error
    if head == b"SQLite format 3\x00":
        engine: EngineName = "sqlite"
    elif head[8:12] == b"DUCK":
        engine = "duckdb"
    else:
        raise NoFixture(f"database {database!r} is neither a SQLite nor a DuckDB file")
    for log in (f"{path}-wal", f"{path}-journal", f"{path}.wal"):
        if Path(log).exists() and Path(log).stat().st_size:
            raise NoFixture(
                f"database {database!r} is being written: {Path(log).name} is not empty"
            )
    return engine


class FixtureCopies:
    """Private copies of database files in one folder; the least recently used are deleted first.

    A file whose time or size has changed is copied again. Threads may call the methods at once.
    """

    def __init__(self) -> None:
        """Make a folder that only this user can read, with an empty folder in it."""
        self._folder = Path(tempfile.mkdtemp(prefix="assizes-sql-"))
        self.empty = self._folder / "empty"
        self.empty.mkdir()
        self._copies: OrderedDict[_Key, Path] = OrderedDict()
        self._lent_counts: Counter[Path] = Counter()
        self._lock = Lock()
        self._copy_count = 0

    def lend_copy(self, fixture: Fixture) -> Fixture:
        """Lend a copy of a file, made when there is none; it is kept until `return_copy`.

        Raises:
            NoFixture: when the file cannot be copied.
        """
        try:
            status = fixture.path.stat()
            key = (str(fixture.path), status.st_mtime_ns, status.st_size)
            if (copy := self._lend_existing(key)) is None:
                copy = self._lend_new(key, fixture.path)
        except OSError as error:
            raise NoFixture(f"database {fixture.name!r} cannot be copied: {error}") from error
        return Fixture(fixture.name, copy, fixture.engine)

    def return_copy(self, copy: Fixture) -> None:
        """Take back a lent copy, and delete the oldest unused copies when there are too many."""
        with self._lock:
            self._lent_counts[copy.path] -= 1
            unused = [key for key, path in self._copies.items() if not self._lent_counts[path]]
            for key in unused[: max(0, len(self._copies) - _MAX_COPIES)]:
                self._copies.pop(key).unlink(missing_ok=True)

    def close(self) -> None:
        """Delete the folder with all copies."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _lend_existing(self, key: _Key) -> Path | None:
        """Lend the copy of a file that exists already; None where there is none."""
        with self._lock:
            copy = self._copies.get(key)
            if copy is not None:
                self._copies.move_to_end(key)
                self._lent_counts[copy] += 1
            return copy

    def _lend_new(self, key: _Key, path: Path) -> Path:
        """Make a copy and lend it; the lock is free meanwhile, so that no thread waits for the disk."""
        with self._lock:
            self._copy_count += 1
            copy = self._folder / f"{self._copy_count}.db"
        shutil.copyfile(path, copy)
        with self._lock:
            lent = self._copies.setdefault(key, copy)
            self._lent_counts[lent] += 1
        if lent != copy:  # another thread was faster
            copy.unlink()
        return lent
