"""The sandbox's child process: runs one statement at a time on a copy of a database.

The child imports the standard library, DuckDB and this package, never the rest of the project. A
frame is its length in 4 bytes (big endian) and that many bytes of JSON:

    {"open": {"path": ..., "engine": "sqlite" or "duckdb", "writes": bool}}  ->  {"error": ...}
    {"run": "SELECT ..."}  ->  {"columns", "rows", "truncated", "error", "spent"}

`spent` asks the parent to end this process, which may hold memory that it cannot free.
While a statement runs, no file descriptor can be opened (RLIMIT_NOFILE 0), so that neither a file
nor a socket can be opened whatever an engine allows. Writing a byte to a file fails
(RLIMIT_FSIZE 0).
"""

from __future__ import annotations

import importlib
import json
import math
import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, cast

from assizes.tasks.sandbox.values import Caps, RefusedStatement

_DESCRIPTORS = 32
"""File descriptors that this process may have open between statements."""

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

    Args:
        path: the file.
        engine: `sqlite` or `duckdb`.
        writes: copy the database into memory, where statements may write.
        caps: the limits of a statement.

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
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_DESCRIPTORS, _DESCRIPTORS))


@contextmanager
def limit_statement(caps: Caps) -> Iterator[None]:
    """For the length of the block, allow no new file descriptor, and set timers on this process.

    The timers (processor time, wall clock) kill this process even when its parent is gone.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = math.ceil(used.ru_utime + used.ru_stime + caps.time_s + 0.5)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
    signal.setitimer(signal.ITIMER_REAL, caps.time_s + 0.5)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, _DESCRIPTORS))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_DESCRIPTORS, _DESCRIPTORS))
        signal.setitimer(signal.ITIMER_REAL, 0)


class Child:
    """Answers requests about at most one open database, in a confined process."""

    def __init__(self, caps: Caps) -> None:
        """Confine this process for good."""
        confine_process(caps)
        self._caps = caps
        self._database: Database | None = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request; the error of a statement is part of its answer."""
        if "open" in request:
            return self._answer_open(request["open"])
        if self._database is None:
            return {"error": "no database is open", "spent": True}
        return self._answer_run(self._database, request["run"])

    def _answer_open(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._database is not None:
            self._database.close()
            self._database = None
        try:
            self._database = open_database(**request, caps=self._caps)
        except UnreadableDatabase as error:
            return {"error": _error_text(str(error), error)}
        return {"error": None}

    def _answer_run(self, database: Database, sql: str) -> dict[str, Any]:
        try:
            with limit_statement(self._caps):
                return {**database.run(sql), "error": None, "spent": False}
        except RefusedStatement as refusal:
            return {"error": str(refusal), "spent": False}
        except database.faults as error:
            text, spent = database.fault(error)
            return {"error": _error_text(text, error), "spent": spent}


def _error_text(text: str, error: Exception) -> str:
    return text[:500] or type(error).__name__


def _read(count: int) -> bytes:
    """Read `count` bytes from the parent; end this process when the parent has closed its pipe."""
    parts = bytearray()
    while len(parts) < count:
        part = os.read(0, count - len(parts))
        if not part:
            sys.exit(0)
        parts += part
    return bytes(parts)


def _write(pipe: int, frame: bytes) -> None:
    rest = memoryview(frame)
    while rest:
        rest = rest[os.write(pipe, rest) :]


def main() -> None:
    """Answer requests until the parent closes its pipe."""
    pipe = os.dup(1)
    os.dup2(2, 1)  # what a library prints must not get into the frames
    child = Child(Caps(**json.loads(sys.argv[1])))
    while True:
        request = json.loads(_read(int.from_bytes(_read(4), "big")))
        body = json.dumps(child.answer(request), allow_nan=False).encode()
        _write(pipe, len(body).to_bytes(4, "big") + body)
