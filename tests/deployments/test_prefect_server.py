"""A failed SQLite statement of the Prefect server does not stop the thread that frees it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from sqlalchemy import Engine, NullPool, create_engine, event, text
from sqlalchemy.exc import IntegrityError

from assizes.deployments.prefect_server import connect

WAITS_S = 5.0
"""Seconds that a connection waits for the write lock; Prefect sets 60."""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = create_engine(
        f"sqlite:///{tmp_path / 'one.db'}",
        poolclass=NullPool,
        connect_args={"timeout": WAITS_S, "check_same_thread": False, "isolation_level": None},
    )
    event.listen(made, "do_connect", connect)
    with made.begin() as connection:
        connection.execute(text("create table flows (id integer unique)"))
        connection.execute(text("insert into flows values (1)"))
    yield made
    made.dispose()


def insert_one(cursor: sqlite3.Cursor) -> None:
    cursor.execute("insert into flows values (1)")


def insert_many(cursor: sqlite3.Cursor) -> None:
    cursor.executemany("insert into flows values (?)", [(2,), (1,)])


def failed_cursor(
    connection: sqlite3.Connection, how: Callable[[sqlite3.Cursor], None]
) -> sqlite3.Cursor:
    """A cursor whose statement failed."""
    cursor = connection.cursor()
    with pytest.raises(sqlite3.IntegrityError):
        how(cursor)
    return cursor


@pytest.mark.parametrize("how", [insert_one, insert_many])
def test_a_failed_statement_is_forgotten_while_its_connection_waits_for_the_lock(
    engine: Engine, how: Callable[[sqlite3.Cursor], None]
):
    holder, waiter = engine.raw_connection(), engine.raw_connection()
    assert isinstance(waiter.driver_connection, sqlite3.Connection)
    kept = [failed_cursor(waiter.driver_connection, how)]
    begun = Event()
    waiter.driver_connection.set_trace_callback(lambda _: begun.set())
    holder.cursor().execute("begin immediate")
    with ThreadPoolExecutor(1) as beside:
        began = beside.submit(waiter.cursor().execute, "begin immediate")
        assert begun.wait(WAITS_S)
        kept.clear()  # as a collection does, on the thread of the event loop
        holder.cursor().execute("commit")  # which goes on, so that the other's wait ends
        began.result()
    waiter.close()
    holder.close()


def test_a_session_goes_on_after_an_error(engine: Engine):
    with engine.connect() as connection:
        with pytest.raises(IntegrityError, match="UNIQUE"):
            connection.execute(text("insert into flows values (1)"))
        connection.rollback()
        connection.execute(text("insert into flows values (2)"))
        assert connection.scalar(text("select count(*) from flows")) == 2


def test_other_databases_are_connected_as_they_were():
    named: dict[str, object] = {}
    other = create_engine("postgresql+asyncpg://127.0.0.1/prefect")
    connect(other.dialect, None, (), named)
    assert named == {}
