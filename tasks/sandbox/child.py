"""The sandbox's child process: runs one statement at a time on a copy of a database.

The child imports the standard library, DuckDB and this package, never the rest of the project. A
frame is its length in 4 bytes (big endian) and that many bytes of JSON:

    {"open": {"path": ..., "engine": "sqlite" or "duckdb", "writes": bool}}  ->  {"error": ...}
    {"run": "SELECT ..."}  ->  {"columns", "rows", "truncated", "digests", "error", "spent"}

`spent` asks the parent to end this process, which may hold memory that it cannot free.
"""

from __future__ import annotations

import datetime
import decimal
import hashlib
import importlib
import json
import math
import operator
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol, cast

State = Counter[tuple[str, str]]
"""The content of a database: how often each pair (table, row as JSON) occurs."""

_TIMER_GRACE_S = 0.5
"""Seconds after a statement's time at which the timers of this process kill it."""

_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}  # JSON has no such numbers


class RefusedStatement(Exception):
    """A statement of a kind that is not run; the message says which kinds are."""


@dataclass(frozen=True, slots=True)
class Caps:
    """The limits of one statement."""

    time_s: float = 3.0  # seconds of wall clock
    memory_mb: int = 1_400  # address space of the child process; the engine gets a third of it
    rows: int = 10_000  # rows of a result
    cell_chars: int = 1_000  # of a text in a result; a longer text is cut and carries its hash
    result_bytes: int = 2_000_000  # bytes of a whole result as JSON, estimated
    statement_chars: int = 100_000  # characters of the statement itself

    @property
    def engine_mb(self) -> int:
        """The engine's own memory limit in MB: it raises an error before the system kills it."""
        return self.memory_mb // 3


def refusal(*, writes: bool) -> RefusedStatement:
    """The error for a statement that is not run; `writes` says whether statements may write."""
    changes = ", INSERT, UPDATE, DELETE, CREATE, ALTER or DROP" if writes else ""
    return RefusedStatement(f"only one SELECT{changes} is run")


def result(columns: Iterable[str], rows: Iterator[Any], caps: Caps) -> dict[str, Any]:
    """The result of a query as JSON values: its columns, its rows up to the caps, `truncated`.

    A result that is cut carries `digests` of all its rows, where there is time to read them.
    """
    answer: dict[str, Any] = {"columns": [str(name)[:200] for name in columns], "rows": []}
    bytes_left = caps.result_bytes
    every = ([cell(value, caps.cell_chars) for value in row] for row in rows)
    for cells in every:
        # Estimated: 8 for quotes, comma and some escapes, 16 for the digits of a number.
        bytes_left -= sum(len(content) + 8 if isinstance(content, str) else 16 for content in cells)
        if len(answer["rows"]) == caps.rows or bytes_left < 0:
            digests = bag_digests(chain(answer["rows"], [cells], every))
            return answer | {"truncated": True, "digests": digests}
        answer["rows"].append(cells)
    return answer | {"truncated": False, "digests": []}


def bag_digests(rows: Iterable[Sequence[Any]]) -> list[str]:
    """Two hashes of a bag of rows: with the columns as selected, and with columns in any order.

    Empty where reading the rows takes more than half of the statement's remaining time.
    """
    deadline = time.monotonic() + (signal.getitimer(signal.ITIMER_REAL)[0] - _TIMER_GRACE_S) / 2
    count = as_selected = in_any_order = 0
    columns: list[int] = []
    for row in rows:
        if time.monotonic() > deadline:
            return []
        texts = [_digest_text(content) for content in row]
        digests = [_digest(text) for text in texts]
        # Sums, as the order of rows does not count.
        columns = list(map(operator.add, columns, digests)) if columns else digests
        as_selected += _digest(repr(texts))
        in_any_order += _digest(repr(sorted(texts)))
        count += 1
    return [f"{count}:{as_selected:x}", f"{count}:{in_any_order:x}:{sorted(columns)}"]


def _digest(text: str) -> int:
    data = text.encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=16).digest())


def _digest_text(content: Any) -> str:
    """A cell as text: a number by its value, to seven digits where it is not whole."""
    if content is None or isinstance(content, str):
        return repr(content)
    is_whole = abs(content) < 2**53 and content == int(content)
    return str(int(content)) if is_whole else f"{content:.7g}"


def effect(before: State, after: State, caps: Caps) -> dict[str, Any]:
    """The result of a statement that writes: every row that it added or removed, sorted."""
    added = [("added", *key) for key in (after - before).elements()]
    removed = [("removed", *key) for key in (before - after).elements()]
    return result(("change", "table", "row"), iter(sorted(added + removed)), caps)


def row_text(row: Iterable[Any], caps: Caps) -> str:
    """A row as JSON text; long values are cut as in a result."""
    return json.dumps([cell(value, caps.cell_chars) for value in row], ensure_ascii=False)


def cell(value: Any, chars: int) -> Any:
    """A value as JSON: number, boolean or None; else text, cut after `chars` and with a hash."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float | decimal.Decimal):
        return _NOT_FINITE.get(str(float(value)), float(value))
    text = _text(value)
    if len(text) <= chars:
        return text
    # The hash keeps different texts different; a text may hold a lone surrogate.
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{text[:chars]}... ({len(text)} characters, sha256 {digest})"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, dict | list | tuple):
        return json.dumps(_with_plain_keys(value), default=_text, ensure_ascii=False)
    return str(value)


def _with_plain_keys(value: Any) -> Any:
    """A value whose maps, at any depth, have only keys that JSON can write."""
    if isinstance(value, list | tuple):
        return [_with_plain_keys(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key if key is None or isinstance(key, str | int | float) else _text(key): (
            _with_plain_keys(item)
        )
        for key, item in value.items()
    }


_DESCRIPTORS = 32  # file descriptors that this process may have open between statements

_ENGINES = {
    "sqlite": ("SQLiteDatabase", "assizes.tasks.sandbox.sqlite"),
    "duckdb": ("DuckDBDatabase", "assizes.tasks.sandbox.duck"),
}


class Database(Protocol):
    """An open database of either engine."""

    faults: tuple[type[Exception], ...]

    def run(self, sql: str) -> dict[str, Any]:
        """The result of one statement: `columns`, `rows` and `truncated`.

        Raises:
            RefusedStatement: when the statement is of a kind that is not run.
            Exception: one of `faults`, when the statement fails.
        """

    def fault(self, error: Exception) -> tuple[str, bool]:
        """The message for an error of `faults`, and whether this process must be ended."""

    def close(self) -> None:
        """Close the file."""


class UnreadableDatabase(Exception):
    """A database file that cannot be opened; the message is the engine's."""


def open_database(path: str, engine: str, *, writes: bool, caps: Caps) -> Database:
    """Open a database with its engine, which is imported when it is first needed.

    With `writes` the database is copied into memory, where statements may write.

    Raises:
        UnreadableDatabase: when the engine is not installed, or cannot read the file.
    """
    try:
        name, module = _ENGINES[engine]
        kind = getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise UnreadableDatabase(str(error)) from error
    try:
        return cast("Database", kind(path, writes=writes, caps=caps))
    except kind.faults as error:
        raise UnreadableDatabase(str(error)) from error


def confine_process(caps: Caps) -> None:
    """Limit this process for good: its memory, no byte into any file, few file descriptors."""
    memory = caps.memory_mb * 1_000_000
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # writing a byte to a file fails
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold the data
    resource.setrlimit(resource.RLIMIT_NOFILE, (_DESCRIPTORS, _DESCRIPTORS))


@contextmanager
def limit_statement(caps: Caps) -> Iterator[None]:
    """While one SQL statement runs, refuse new files and sockets, and let timers kill this process.

    There are two timers: one of CPU time and one of the wall clock.
    """
    # The signals of both timers kill this process even when its parent is gone.
    used = resource.getrusage(resource.RUSAGE_SELF)
    # RLIMIT_CPU counts from the start of the process.
    seconds = math.ceil(used.ru_utime + used.ru_stime + caps.time_s + _TIMER_GRACE_S)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
    signal.setitimer(signal.ITIMER_REAL, caps.time_s + _TIMER_GRACE_S)
    # Neither a file nor a socket can be opened, whatever an engine allows.
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, _DESCRIPTORS))  # the soft limit can rise again
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_DESCRIPTORS, _DESCRIPTORS))
        signal.setitimer(signal.ITIMER_REAL, 0)


class Child:
    """Answers requests about at most one open database, in a confined process."""

    def __init__(self, caps: Caps) -> None:
        confine_process(caps)
        self._caps = caps
        self._database: Database | None = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request; the error of a statement is part of its answer."""
        database = self._database
        if "open" in request:
            if database is not None:
                database.close()
                self._database = None
            try:
                self._database = open_database(**request["open"], caps=self._caps)
            except UnreadableDatabase as error:
                return {"error": str(error)[:500] or type(error).__name__}
            return {"error": None}
        if database is None:
            return {"error": "no database is open", "spent": True}
        try:
            with limit_statement(self._caps):
                return {**database.run(request["run"]), "error": None, "spent": False}
        except RefusedStatement as refusal:
            return {"error": str(refusal), "spent": False}
        except database.faults as error:
            text, spent = database.fault(error)
            return {"error": text[:500] or type(error).__name__, "spent": spent}


def _read(count: int) -> bytes:
    """Read `count` bytes from the parent; end this process when the parent has closed its pipe."""
    parts = bytearray()
    while len(parts) < count:
        part = os.read(0, count - len(parts))
        if not part:
            sys.exit(0)
        parts += part
    return bytes(parts)


def main() -> None:
    """Answer requests until the parent closes its pipe."""
    pipe = os.dup(1)
    os.dup2(2, 1)  # what a library prints must not get into the frames
    child = Child(Caps(**json.loads(sys.argv[1])))
    while True:
        request = json.loads(_read(int.from_bytes(_read(4), "big")))
        body = json.dumps(child.answer(request), allow_nan=False).encode()
        rest = memoryview(len(body).to_bytes(4, "big") + body)
        while rest:
            rest = rest[os.write(pipe, rest) :]  # a pipe may take a part at a time
