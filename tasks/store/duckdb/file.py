"""Opens a DuckDB file as a store: makes its tables, and checks it against its journal."""

from __future__ import annotations

import logging
import os
import re
import socket
import uuid
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, Final

import duckdb
import polars as pl
from tenacity import retry, retry_if_exception_message, stop_after_delay, wait_fixed

from assizes.judge.errors import NoStore, SchemaVersion, StoreBusy, StoreError
from assizes.judge.rows import LATER_COLUMNS, SCHEMA_VERSION, TABLES, missing_columns
from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.store.duckdb.journal import CommitState, Journal, missing_commits

log = logging.getLogger(__name__)

TYPES: Final[dict[Any, str]] = {  # DuckDB's name of each polars type
    pl.String: "VARCHAR",
    pl.Int32: "INTEGER",
    pl.Int64: "BIGINT",
    pl.Float64: "DOUBLE",
    pl.Boolean: "BOOLEAN",
    pl.List(pl.Int32): "INTEGER[]",
    pl.List(pl.String): "VARCHAR[]",
    pl.Datetime("us", "UTC"): "TIMESTAMPTZ",
}

_OWN_TABLES: Final = (
    "create table _commits (run_id VARCHAR, shard VARCHAR, sha VARCHAR, counts VARCHAR, rows BIGINT)",
    "create table _plans (run_id VARCHAR, plan VARCHAR)",
    "create table _meta (schema_version INTEGER)",
)

_READER_TABLES: Final = ("_meta", "_identity", "calibrations")
"""Tables that a file may lack and that a reader asks for."""

_IDENTITY: Final = "create table if not exists _identity (store VARCHAR)"

IN_MEMORY: Final = Path(":memory:")
"""The path of a store that is in memory only."""

_LOCK_MESSAGE: Final = "Conflicting lock"
"""What DuckDB's error says when another process has the file open."""

_MAGIC: Final = slice(8, 12)
"""The bytes of a DuckDB file that read `DUCK`."""

_DAMAGE_PATTERN: Final = re.compile(
    r"corrupt|checksum|INTERNAL|FATAL|serializ|WAL|beyond the end|could not read", re.IGNORECASE
)

LOCK_WAIT_S: Final = 3.0
"""Seconds that a writer waits for a file that another process has open; readers close it soon."""


def open_connection(uri: str, path: Path, *, writing: bool) -> duckdb.DuckDBPyConnection:
    """Open a connection to the DuckDB file of a store.

    Args:
        uri: the store, for messages.
        path: the file; opening for writing makes it.
        writing: whether the file may be written; then wait `LOCK_WAIT_S` for other processes.

    Raises:
        StoreBusy: when another process has the file open.
        NoStore: when there is no file to read.
        StoreError: when the file is damaged, or no DuckDB file.
    """
    try:
        if writing:
            path.parent.mkdir(parents=True, exist_ok=True)
        elif not path.exists():
            raise NoStore.at(uri)
        return _prepare_connection(
            _connect_for_writing(path) if writing else duckdb.connect(path, read_only=True)
        )
    except OSError as error:
        raise StoreError(f"{uri}: cannot make its folder: {error.strerror or error}") from error
    except duckdb.Error as error:
        raise _open_error(uri, path, str(error)) from error


@retry(
    retry=retry_if_exception_message(match=rf"(?s).*{_LOCK_MESSAGE}"),
    stop=stop_after_delay(LOCK_WAIT_S),
    wait=wait_fixed(0.05),
    reraise=True,
)
def _connect_for_writing(path: Path) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(path)


def _prepare_connection(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Set what must hold before the file was checked against its journal."""
    # A checkpoint would write what is left of a damaged log into the file.
    con.execute("pragma disable_checkpoint_on_shutdown")
    # DuckDB would fetch missing extensions over the network.
    con.execute("set autoinstall_known_extensions=false")
    return con


def prepare_tables(
    con: duckdb.DuckDBPyConnection,
    uri: str,
    journal: Journal,
    present: Collection[str],
    *,
    writing: bool,
) -> None:
    """Check that a file has the schema of this version and all that its journal lists.

    In a new file the tables are made.

    Args:
        con: the open file.
        uri: of the store, for messages.
        journal: of the file.
        present: names of the file's tables, as `present_tables` returns them.
        writing: whether the file may be written.

    Raises:
        SchemaVersion: when the file has another schema version.
        NoStore: when the file has no tables and may not be written.
        StoreError: when the file lacks what its journal lists, or has foreign tables of our names.
    """
    journal_state = journal.read()
    if "_meta" in present:
        version = con.execute("select max(schema_version) from _meta").fetchall()[0][0]
        if version != SCHEMA_VERSION:
            raise SchemaVersion.mismatch(uri, version, SCHEMA_VERSION)
        _check_complete(con, uri, journal_state, has_identity="_identity" in present)
        return
    if journal_state.store is not None and not journal_state.is_empty:
        raise damage_error(
            uri, "it is empty, and its journal lists " + _contents_text(journal_state)
        )
    if not writing:
        raise NoStore.at(uri, ", a DuckDB file without one")
    foreign_tables = sorted(TABLES.keys() & present)
    if foreign_tables:
        raise StoreError(
            f"{uri} holds other tables named {', '.join(foreign_tables)}; point [store] uri to a new file"
        )
    for statement in (*(create_statement(table) for table in TABLES), *_OWN_TABLES):
        con.execute(statement)
        failpoint("warehouse.open.half")
    con.execute("insert into _meta values (?)", [SCHEMA_VERSION])


def assign_identity(con: duckdb.DuckDBPyConnection) -> None:
    """Make a checked file ready for writing: later tables and columns, and an id for its journal."""
    con.execute("pragma enable_checkpoint_on_shutdown")
    con.execute(create_statement("calibrations"))
    add_later_columns(con)
    con.execute(_IDENTITY)
    if not con.execute("select store from _identity").fetchall():
        con.execute("insert into _identity values (?)", [uuid.uuid4().hex])


def read_commit_state(con: duckdb.DuckDBPyConnection) -> CommitState:
    """The shards and the ended runs that a file holds."""
    (identity,) = con.execute("select max(store) from _identity").fetchall()
    commits = con.execute("select run_id, shard, sha from _commits").fetchall()
    ended = "select run_id, status from runs where finished_at is not null"
    return CommitState(
        store=identity[0],
        shards={(run_id, shard_id): [sha] for run_id, shard_id, sha in commits},
        endings=dict(con.execute(ended).fetchall()),
    )


def set_aside_old_journal(uri: str, path: Path, journal: Journal) -> None:
    """Rename the journal of a DuckDB file that somebody has removed, with a warning.

    Raises:
        StoreError: when the file's write-ahead log is still there, so that it was lost rather than
            removed, or when a rebuild of the file was interrupted.
    """
    if path.exists() or path == IN_MEMORY:
        return
    journal_state = journal.read()
    wal = path.with_name(f"{path.name}.wal")
    if path.with_name(f"{path.name}.rebuilt").exists():
        raise StoreError(f"{uri} is being rebuilt, or was; run `assizes rebuild` to end that")
    if wal.exists():
        raise damage_error(uri, f"{path.name} is gone and {wal.name} is still there")
    if not journal_state.is_empty and (aside := journal.set_aside(journal_state.store or "old")):
        log.warning(
            "%s is gone and is made anew; it held %s (%s)",
            uri,
            _contents_text(journal_state),
            aside,
        )


def damage_error(uri: str, what: str) -> StoreError:
    """The error for a damaged file: what is wrong with it, and what the user can do."""
    return StoreError(
        f"{uri} is damaged: {what}. Nothing was changed. Put back the file with its .wal from a "
        "copy, or run `assizes rebuild`: it moves them aside and keeps what can be read; then run "
        "what is lost again, kept replies are not paid for twice"
    )


def is_damage_message(message: str) -> bool:
    """Whether an error message of DuckDB means a damaged file."""
    return _DAMAGE_PATTERN.search(message) is not None


def first_line(error: object) -> str:
    """The first line of an error's message."""
    return str(error).strip().split("\n", 1)[0]


def _check_complete(
    con: duckdb.DuckDBPyConnection, uri: str, journal_state: CommitState, *, has_identity: bool
) -> None:
    """Raise `StoreError` when a file lacks what the journal of the same store lists."""
    if not has_identity or journal_state.store is None:
        return
    file_state = read_commit_state(con)
    if file_state.store == journal_state.store and (
        missing := missing_commits(journal_state, file_state)
    ):
        raise damage_error(uri, f"its journal lists {', '.join(missing)}, and they are not there")


def _contents_text(state: CommitState) -> str:
    runs = {run for run, _ in state.shards} | state.endings.keys()
    return f"{len(state.shards)} shards of {len(runs)} runs"


def _open_error(uri: str, path: Path, message: str) -> StoreError:
    """The error for a file that DuckDB cannot open: what is wrong, and what the user can do."""
    if _LOCK_MESSAGE in message:
        owner = re.search(r"PID (\d+)", message)
        holder = f"process {owner[1]} on {socket.gethostname()}" if owner else "another process"
        return StoreBusy(
            f"{uri} is in use by {holder}; wait until it ends or stop it, "
            "or point [store] uri to a folder, which takes several writers"
        )
    if "different configuration" in message:
        return StoreBusy(
            f"{uri} is open in this process (process {os.getpid()}) the other way, for reading or "
            "for writing; close it there first"
        )
    line = first_line(message)
    if _is_store_file(path) and is_damage_message(message):
        return damage_error(uri, line)
    if "not a valid DuckDB database" in message:
        if _is_store_file(path):
            return damage_error(uri, line)
        return StoreError(f"{uri} is not a DuckDB file; point [store] uri to another one")
    return StoreError(f"{uri}: {line}")


def _is_store_file(path: Path) -> bool:
    """Whether a file that DuckDB refuses was a store: it has a journal or DuckDB's magic bytes."""
    journal = Journal(path).path
    if journal is not None and journal.exists():
        return True
    try:
        with path.open("rb") as file:
            return file.read(_MAGIC.stop)[_MAGIC] == b"DUCK"
    except OSError:
        return False


def present_tables(con: duckdb.DuckDBPyConnection, *, writing: bool) -> set[str]:
    """Names of the tables in a file; for reading, only those among `_READER_TABLES`.

    Listing all tables would take a quarter of the time of opening. Call this outside a transaction:
    looking at a table that is missing would end the transaction.
    """
    return (
        table_names(con)
        if writing
        else {table for table in _READER_TABLES if _has_table(con, table)}
    )


def _has_table(con: duckdb.DuckDBPyConnection, table: str) -> bool:
    try:
        con.execute(f"select 1 from {table} limit 0")
    except duckdb.CatalogException:
        return False
    return True


def table_names(con: duckdb.DuckDBPyConnection) -> set[str]:
    """Names of all tables in a file."""
    rows = con.execute("select table_name from information_schema.tables").fetchall()
    return {name for (name,) in rows}


def column_names(con: duckdb.DuckDBPyConnection, table: str) -> list[str]:
    """Names of the columns that a table has in a file."""
    return con.sql(f"select * from {table} limit 0").columns


def add_later_columns(con: duckdb.DuckDBPyConnection) -> None:
    """Add the columns that an older file lacks; they are `null` in its rows."""
    for table in LATER_COLUMNS:
        for name, dtype in missing_columns(table, column_names(con, table)).items():
            con.execute(f'alter table {table} add column "{name}" {TYPES[dtype]}')


def select_list(con: duckdb.DuckDBPyConnection, table: str, columns: Iterable[str]) -> str:
    """The SELECT list for some columns of a table; a column that an older file lacks is `null`."""
    absent = missing_columns(table, column_names(con, table)) if table in LATER_COLUMNS else {}
    return ", ".join(
        f'null::{TYPES[absent[name]]} as "{name}"' if name in absent else f'"{name}"'
        for name in columns
    )


def create_statement(table: str) -> str:
    """The SQL statement that creates a public table unless it exists."""
    columns = ", ".join(f'"{name}" {TYPES[dtype]}' for name, dtype in TABLES[table].items())
    return f"create table if not exists {table} ({columns})"
