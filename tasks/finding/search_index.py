"""The search index of one run: an SQLite file (FTS5) beside the store, which can be built again.

A case has two texts: what was judged (its id, tags, summary, reasons, codes) and what was said (its
conversation). Their row ids are 2n and 2n + 1, where n numbers the cases, so that a term may stand
in either. A builder commits as it goes, and readers see what is committed.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import polars as pl

from assizes.judge.errors import StoreError
from assizes.judge.verdicts.executions import CASE
from assizes.tasks.finding.search_query import SEPARATOR, SearchTerm, indexed_text

VERSION: Final = 2
"""The version of the tables; an index of another version is built anew."""

TEXT_CHARS: Final = 200_000
"""Characters of one text of a case that are indexed, at most."""

MAX_BYTES: Final = 8 << 30
"""Bytes of the file of an index, at most; conversations that have no room are not indexed."""

EXCERPT_WORDS: Final = 24
"""Words of an excerpt, at most."""

MARK_BEGIN, MARK_END = "\x02", "\x03"
"""Stand around what was searched for in an excerpt; no text that is shown has them."""

_TOKENS: Final = 'tokenize="unicode61 remove_diacritics 2"'
_TABLES: Final = f"""
create table meta (version integer, revision integer, born text);
insert into meta values ({VERSION}, 0, hex(randomblob(8)));
create table cases (
    n integer primary key, case_id text, repetition integer, hash text,
    judged integer default 0, said integer default 0
);
create table texts (n integer primary key, body blob);
create virtual table words using fts5(body, content='', {_TOKENS});
"""
_UNREADABLE: Final = (sqlite3.Error, UnicodeDecodeError)
"""Errors over a damaged file; the second comes where SQLite's own words quote its bytes."""

_NEW_REVISION: Final = "update meta set revision = revision + 1"
_KEYS: Final = {
    "n": pl.Int64,
    "case_id": pl.String,
    "repetition": pl.Int32,
    "hash": pl.String,
    "judged": pl.Int64,
    "said": pl.Int64,
}
NOT_READ, READ, UNREADABLE = 0, 1, 2
"""What became of a text of a case: columns `judged` and `said`."""


class CaseText(NamedTuple):
    """One text of a case, to be indexed."""

    n: int  # number of the case in the index
    text: str
    is_said: bool  # what was said; else what was judged
    state: int = READ


class SearchIndex:
    """An index that is open; methods raise `StoreError` where the file cannot be used."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection

    def keys(self) -> pl.DataFrame:
        """The cases: `n`, `case_id`, `repetition`, `hash` of the transcript, and two states."""
        with explained_errors(self.path):
            rows = self._connection.execute("select * from cases").fetchall()
        return pl.DataFrame(rows, schema=_KEYS, orient="row")

    def numbers(self) -> pl.DataFrame:
        """The cases, without hashes and states: `n`, `case_id`, `repetition`."""
        names = ("n", *CASE)
        arrays = ", ".join(f"json_group_array({name})" for name in names)
        with explained_errors(self.path):
            (texts,) = self._connection.execute(f"select {arrays} from cases").fetchall()
        columns = dict(zip(names, map(json.loads, texts), strict=True))
        return pl.DataFrame(columns, schema={name: _KEYS[name] for name in names})

    def states(self) -> list[tuple[int, int, int]]:
        """What became of the texts: `judged` and `said`, and how many cases have these states."""
        query = "select judged, said, count(*) from cases group by 1, 2"
        with explained_errors(self.path):
            return self._connection.execute(query).fetchall()

    def revision(self) -> tuple[str, int]:
        """What changes with every commit, and with a new file."""
        with explained_errors(self.path):
            # A file of its own has a mark of its own: a new file may get the inode of a deleted one.
            ((born, revision),) = self._connection.execute(
                "select born, revision from meta"
            ).fetchall()
            return str(born), int(revision)

    def matches(self, terms: Sequence[SearchTerm]) -> pl.Series:
        """The numbers of the cases that hold every term, in one of their texts or the other."""
        # As one text: a row of SQLite for each case would take most of the time of a search.
        query = "select json_group_array(rowid >> 1) from words where words match ?"
        found: pl.Series | None = None
        for term in terms:
            with explained_errors(self.path):
                ((text,),) = self._connection.execute(query, [term.expression()]).fetchall()
            numbers = pl.Series(json.loads(text), dtype=pl.Int64).unique()
            found = numbers if found is None else found.filter(found.is_in(numbers.implode()))
        return pl.Series(dtype=pl.Int64) if found is None else found

    def excerpts(self, numbers: Iterable[int], terms: Sequence[SearchTerm]) -> dict[int, str]:
        """The place in a text of each case that shows most of the terms, between marks."""
        wanted = [row for n in numbers for row in (2 * n, 2 * n + 1)]
        marks = ",".join("?" * len(wanted))
        with explained_errors(self.path):
            rows = self._connection.execute(
                f"select n, body from texts where n in ({marks})", wanted
            ).fetchall()
            with closing(sqlite3.connect(":memory:")) as shown:
                # The tokenizer of the index itself finds the words again, in a few texts only.
                shown.execute(f"create virtual table words using fts5(body, {_TOKENS})")
                texts = [(row, zlib.decompress(body).decode()) for row, body in rows]
                shown.executemany("insert into words(rowid, body) values (?, ?)", texts)
                any_term = " OR ".join(term.expression() for term in terms)
                hits = shown.execute(
                    "select rowid >> 1, snippet(words, 0, char(2), char(3), '…', ?) from words "
                    "where words match ? order by rank, rowid",
                    [EXCERPT_WORDS, any_term],
                ).fetchall()
        found: dict[int, str] = {}
        for n, text in hits:
            found.setdefault(n, " ".join(text.replace(SEPARATOR, "").split()))
        return found

    def add_cases(self, rows: Iterable[tuple[str, int, str]]) -> None:
        """Number further cases: their ids, repetitions and hashes of transcripts."""
        with explained_errors(self.path), self._connection as con:
            con.executemany("insert into cases(case_id, repetition, hash) values (?, ?, ?)", rows)
            con.execute(_NEW_REVISION)

    def add_texts(self, texts: Iterable[CaseText]) -> None:
        """Index texts in one commit."""
        with explained_errors(self.path), self._connection as con:
            for text in texts:
                row = 2 * text.n + text.is_said
                body = indexed_text(text.text[:TEXT_CHARS])
                packed = zlib.compress(body.encode("utf-8", "replace"), 1)
                con.execute("insert or ignore into texts values (?, ?)", [row, packed])
                # A text is indexed once: a killed builder left either both rows or none.
                con.execute("insert into words(rowid, body) values (?, ?)", [row, body])
                column = "said" if text.is_said else "judged"
                con.execute(f"update cases set {column} = ? where n = ?", [text.state, text.n])
            con.execute(_NEW_REVISION)

    def size(self) -> int:
        """Bytes of the file."""
        return self.path.stat().st_size


@contextmanager
def explained_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and of the disk into a `StoreError` of one line."""
    try:
        yield
    except _UNREADABLE as error:
        raise StoreError(f"search index {path}: {error}; delete it, it is built again") from error
    except OSError as error:
        reason = error.strerror or error
        raise StoreError(f"search index {path}: {reason}; it needs a folder to write to") from error


@contextmanager
def opened_index(path: Path) -> Iterator[SearchIndex | None]:
    """The index in a file, to be searched; `None` where there is none of this version."""
    if not path.exists():
        yield None
        return
    with explained_errors(path), closing(_connect(path)) as connection:
        with suppress(OSError):
            os.utime(path)  # `assizes store clean` removes what nobody uses
        # One that is damaged counts as none: a builder replaces it.
        yield SearchIndex(path, connection) if _is_current(connection) else None


@contextmanager
def building_index(path: Path) -> Iterator[SearchIndex | None]:
    """The index in a file, to be built; `None` while another process builds it."""
    with explained_errors(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(path.with_name(f"{path.name}.lock"), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        with explained_errors(path):
            connection = _prepared(path)
        with closing(connection):
            yield SearchIndex(path, connection)
    finally:
        os.close(lock)


def _prepared(path: Path) -> sqlite3.Connection:
    """A connection to an index with its tables; one of another version, or damaged, is replaced."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connection = _connect(path)
    if _is_current(connection):
        connection.execute("pragma synchronous=off")
        return connection
    connection.close()
    for part in ("", "-wal", "-shm"):
        path.with_name(f"{path.name}{part}").unlink(missing_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_EXCL, 0o600))
    connection = _connect(path)
    connection.execute("pragma journal_mode=wal")  # readers see commits while one process builds
    connection.execute("pragma synchronous=off")  # what a power cut damages is built again
    connection.executescript(_TABLES)
    return connection


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=10)  # seconds that it waits for a lock


def _is_current(connection: sqlite3.Connection) -> bool:
    try:
        rows = connection.execute("select version from meta").fetchall()
    except _UNREADABLE:  # damaged, or its builder was killed at the beginning
        return False
    return bool(rows == [(VERSION,)])
