"""Prefect's own server command, over SQLite connections whose failed statements let go at once.

CPython 3.11 leaves a statement that failed with its cursor, and that stays with the traceback of the
error until the cycle is collected. To free it is to wait for its connection. When that connection has
meanwhile been given to a session that waits for the write lock, a collection on the event loop's
thread stops the loop, and with it the session that holds the lock: the server answers nobody until
the wait ends after 60 s (seen with Prefect 3.8.8 and several flow runs at once).
"""

from __future__ import annotations

import runpy
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from sqlalchemy import Dialect, Engine, event


class _Cursor(sqlite3.Cursor):
    """One that is closed when it fails, in the thread of its connection."""

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
    """SQLAlchemy's event `do_connect`: connections to SQLite have cursors that let go at once."""
    if dialect.name == "sqlite":
        named["factory"] = _Connection


if __name__ == "__main__":
    event.listen(Engine, "do_connect", connect)
    runpy.run_module("prefect", run_name="__main__", alter_sys=True)
