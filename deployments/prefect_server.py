"""Prefect's own server command, with SQLite cursors that are closed as soon as a statement fails.

This works around a standstill of the server. CPython 3.11 keeps a failed statement alive with its
cursor, and the traceback of the error keeps the cursor alive until the garbage collector runs. Freeing
the statement waits for its connection. If that connection has by then been given to a session that
waits for the write lock, and the collector runs on the thread of the event loop, the loop stops, and
with it the session that holds the lock: the server answers no request until the wait ends after 60 s
(seen with Prefect 3.8.8 and several flow runs at once).
"""

from __future__ import annotations

import runpy
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from sqlalchemy import Dialect, Engine, event


class _Cursor(sqlite3.Cursor):
    """A cursor that closes itself, in the thread of its connection, when a statement fails."""

    def execute(self, sql: str, parameters: Any = (), /) -> Self:
        with self._closed_by_errors():
            return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Self:
        with self._closed_by_errors():
            return super().executemany(sql, parameters)

    @contextmanager
    def _closed_by_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error:
            self.close()
            raise


class _Connection(sqlite3.Connection):
    def cursor(self, factory: Any = _Cursor) -> Any:
        return super().cursor(factory)


def connect(dialect: Dialect, record: Any, positional: Any, named: dict[str, Any]) -> None:
    """Handle SQLAlchemy's event `do_connect`: give SQLite connections the cursors of this module."""
    if dialect.name == "sqlite":
        named["factory"] = _Connection


if __name__ == "__main__":
    event.listen(Engine, "do_connect", connect)
    runpy.run_module("prefect", run_name="__main__", alter_sys=True)
