"""Prefect's own server command, with two faults of it worked around.

SQLite cursors close as soon as a statement fails, and automations do not wait for minutes for an
event that never comes.
"""

from __future__ import annotations

import runpy
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final, Self

from sqlalchemy import Dialect, Engine, event

from assizes.tasks.runtime.own_process import collect_seldom


# Works around a standstill, seen with Prefect 3.8.8 and several flow runs at once (decision 108).
# CPython 3.11 keeps a failed statement alive with its cursor, and the error's traceback keeps the
# cursor until the garbage collector runs. Freeing the statement waits for its connection. If that
# is by then given to a session that waits for the write lock, and the collector runs on the event
# loop's thread, the loop stops, and with it the session that holds the lock, for 60 s.
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
            self.close()  # here and now, in the thread of its connection
            raise


class _Connection(sqlite3.Connection):
    def cursor(self, factory: Any = _Cursor) -> Any:
        return super().cursor(factory)


def connect(dialect: Dialect, record: Any, positional: Any, named: dict[str, Any]) -> None:
    """Handle SQLAlchemy's event `do_connect`: SQLite connections get the cursors of this module."""
    if dialect.name == "sqlite":
        named["factory"] = _Connection  # an argument of sqlite3.connect


LEADER_WAIT: Final = timedelta(seconds=10)
"""Time that automations wait for an event which another one says it follows."""


# Works around alarms that come after 15 minutes, seen with Prefect 3.8.8. The event of a flow run's
# state names the event of the state before, if that is younger than 5 minutes, and automations wait
# for it. The scheduler emits no event for a run that it schedules, so of a run that began within 5
# minutes after it was scheduled every event waits, its crash too, until Prefect's patience ends.
def shorten_patience() -> None:
    """Have the automations of this server wait for an earlier event for `LEADER_WAIT`."""
    from prefect.server.events.ordering import db, memory

    for ordering in (memory, db):
        ordering.PRECEDING_EVENT_LOOKBACK = LEADER_WAIT  # type: ignore[attr-defined]


if __name__ == "__main__":
    collect_seldom()
    event.listen(Engine, "do_connect", connect)  # of every engine, before Prefect makes its own
    shorten_patience()
    runpy.run_module("prefect", run_name="__main__", alter_sys=True)  # python -m prefect
