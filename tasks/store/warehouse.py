"""A store in one DuckDB file: the public tables, ready for SQL; one writer at a time.

A shard's rows and its mark in `_commits` enter in one transaction. No table has a primary key:
the index would cost ten times the insert (and one mark a shard already keeps rows unique).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import duckdb
import polars as pl
from polars.io.plugins import register_io_source

from judge.errors import SchemaVersion, StoreBusy, StoreError, UnknownRun
from judge.rows import KEYS, SCHEMA_VERSION, TABLES, as_json, frame
from tasks.store.arrow import ArrowView
from tasks.store.record import (
    RUN_TABLES,
    RunRecord,
    checked_frames,
    checked_id,
    checked_metrics,
    checked_table,
    ending,
    full_id,
    newest_first,
    parquet,
    resumed,
)

_TYPES: Final[dict[Any, str]] = {
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

_BLOCK_ROWS: Final = 1 << 15
"""Rows that a scan holds at a time."""

MEMORY: Final = Path(":memory:")


class Warehouse:
    """The DuckDB store; see `tasks.store.protocol.Store` for what its methods promise."""

    def __init__(self, uri: str, path: Path, *, writing: bool) -> None:
        self.uri = uri
        self._lock = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = _connection(
            uri, path, writing=writing or path == MEMORY
        )
        with ExitStack() as undo:
            undo.callback(self.close)
            with self._transaction() as con:
                con.execute("set TimeZone='UTC'")
                # Merging row groups at a checkpoint takes memory by the hundred MB, the more the
                # longer the table; files stay about the same without it, and queries as fast.
                con.execute("set max_vacuum_tasks=0")
                _check_schema(con, uri, writing=writing or path == MEMORY)
            undo.pop_all()

    def begin(self, run: RunRecord) -> RunRecord:
        """Freeze a run, or return the one already there."""
        checked_id(run.run_id, "run id")
        with self._transaction() as con:
            if self._stored(con, run.run_id) is None:
                _insert(con, "runs", frame("runs", [run.row()]))
                con.execute("insert into _plans values (?, ?)", [run.run_id, as_json(run.plan)])
            return resumed(self._known(con, run.run_id), run, self.uri)

    def plan(self, run_id: str) -> dict[str, Any] | None:
        """The input manifest a run was frozen with."""
        with self._transaction() as con:
            return _plan(con, run_id)

    def committed(self, run_id: str) -> dict[str, dict[str, int]]:
        """The counts of each committed shard."""
        with self._transaction() as con:
            self._known(con, run_id)
            rows = con.execute(
                "select shard, counts from _commits where run_id = ? order by shard", [run_id]
            ).fetchall()
        return {shard: json.loads(counts) for shard, counts in rows}

    def commit_shard(
        self,
        run_id: str,
        shard_id: str,
        frames: Mapping[str, pl.DataFrame],
        counts: Mapping[str, int],
    ) -> bool:
        """Insert a shard's rows and its mark in one transaction."""
        checked_id(shard_id, "shard id")
        tables = checked_frames(run_id, frames)
        digest, rows = _digest(tables), sum(rows.height for rows in tables.values())
        with self._transaction() as con:
            self._check_begun(con, run_id)
            mark = "select 1 from _commits where run_id = ? and shard = ?"
            if con.execute(mark, [run_id, shard_id]).fetchall():
                return False
            for table, found in tables.items():
                _insert(con, table, found)
            con.execute(
                "insert into _commits values (?, ?, ?, ?, ?)",
                [run_id, shard_id, digest, as_json(dict(counts)), rows],
            )
        return True

    def finish(self, run: RunRecord, run_metrics: pl.DataFrame) -> None:
        """Replace the run's row by its final one, and write its metrics."""
        metrics = checked_metrics(run.run_id, run_metrics)
        with self._transaction() as con:
            stored = self._known(con, run.run_id)
            held = _rows(con, "run_metrics", run.run_id)
            final = ending(stored, run, self.uri, same_metrics=held.equals(metrics))
            if final is None:
                return
            for table, rows in (("runs", frame("runs", [final.row()])), ("run_metrics", metrics)):
                con.execute(f"delete from {table} where run_id = ?", [run.run_id])
                _insert(con, table, rows)

    def runs(self) -> pl.DataFrame:
        """Table runs, newest first."""
        with self._transaction() as con:
            return newest_first(_rows(con, "runs"))

    def run(self, run_id: str) -> RunRecord:
        """A run by its id or a unique beginning of it."""
        with self._transaction() as con:
            return self._known(con, full_id(run_id, _run_ids(con), self.uri))

    def table(self, run_id: str, name: str) -> pl.DataFrame:
        """A table of one run, sorted by its keys."""
        checked_table(name, RUN_TABLES)
        with self._transaction() as con:
            self._known(con, run_id)
            return _rows(con, name, run_id)

    def scan(self, run_id: str, name: str) -> pl.LazyFrame:
        """The table as a lazy frame: a query reads its columns only, a block of rows at a time."""
        checked_table(name, RUN_TABLES)
        with self._transaction() as con:
            self._check_begun(con, run_id)
            end = _end(con, name, run_id)

        def blocks(
            columns: list[str] | None, predicate: pl.Expr | None, most: int | None, _: int | None
        ) -> Iterator[pl.DataFrame]:
            left = end if most is None else most
            for start in range(0, end, _BLOCK_ROWS):
                with self._transaction() as con:
                    found = _block(con, name, run_id, columns or list(TABLES[name]), start)
                found = _meeting(predicate, found).head(left)
                left -= found.height
                yield found
                if not left:
                    return

        return register_io_source(blocks, schema=TABLES[name], is_pure=True)

    def add_comparison(self, row: Mapping[str, Any]) -> None:
        """Keep a row of table comparisons, once."""
        added = frame("comparisons", [row])
        with self._transaction() as con:
            if added.row(0) not in _rows(con, "comparisons").rows():
                _insert(con, "comparisons", added)

    def comparisons(self) -> pl.DataFrame:
        """Table comparisons, sorted by its keys, then by what was found."""
        with self._transaction() as con:
            found = _rows(con, "comparisons")
        return found.sort(found.columns)

    def add_calibration(self, row: Mapping[str, Any]) -> None:
        """Keep a row of table calibrations, unless its record is there."""
        added = frame("calibrations", [row])
        with self._transaction() as con:
            con.execute(_create("calibrations"))
            kept = _rows(con, "calibrations").select("run_id", "record")
            if added.select("run_id", "record").row(0) not in kept.rows():
                _insert(con, "calibrations", added)

    def calibrations(self) -> pl.DataFrame:
        """Table calibrations in order of time."""
        with self._transaction() as con:
            if "calibrations" not in _tables(con):
                return frame("calibrations", [])
            return _rows(con, "calibrations")

    def close(self) -> None:
        """Close the file, so that another process may write to it.

        The connection is let go of as well: held until the interpreter ends (Prefect keeps what
        its last tasks were given), it makes DuckDB print a report of leaked objects.
        """
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @contextmanager
    def _transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """The connection, alone, in a transaction that leaving by an error undoes."""
        with self._lock:
            con = self._connection
            if con is None:
                raise StoreError(f"{self.uri} is closed")
            try:
                con.begin()
                with ExitStack() as undo:
                    undo.callback(con.rollback)
                    yield con
                    undo.pop_all()
                con.commit()
            except duckdb.Error as error:
                raise StoreError(f"{self.uri}: {_first_line(error)}") from error

    def _stored(self, con: duckdb.DuckDBPyConnection, run_id: str) -> RunRecord | None:
        found = _rows(con, "runs", run_id)
        if found.is_empty():
            return None
        return RunRecord.of_row(found.row(0, named=True), _plan(con, run_id) or {})

    def _check_begun(self, con: duckdb.DuckDBPyConnection, run_id: str) -> None:
        # Once a shard: reading the run with its plan, which lists all shards, would be quadratic.
        if not con.execute("select 1 from runs where run_id = ?", [run_id]).fetchall():
            raise UnknownRun.named(run_id, self.uri, _run_ids(con))

    def _known(self, con: duckdb.DuckDBPyConnection, run_id: str) -> RunRecord:
        stored = self._stored(con, run_id)
        if stored is None:
            raise UnknownRun.named(run_id, self.uri, _run_ids(con))
        return stored


def _connection(uri: str, path: Path, *, writing: bool) -> duckdb.DuckDBPyConnection:
    try:
        if writing:
            path.parent.mkdir(parents=True, exist_ok=True)
        elif not path.exists():
            raise StoreError(f"no store at {uri}: run `assizes run` first")
        return duckdb.connect(path, read_only=not writing)
    except OSError as error:
        raise StoreError(f"{uri}: cannot make its folder: {error.strerror or error}") from error
    except duckdb.Error as error:
        raise _refusal(uri, str(error)) from error


def _refusal(uri: str, message: str) -> StoreError:
    """What DuckDB's refusal to open a file means, and what to do."""
    if "Conflicting lock" in message:
        owner = re.search(r"PID \d+", message)
        holder = owner.group().replace("PID", "process") if owner else "another process"
        return StoreBusy(
            f"{uri} is in use by {holder}; wait until it ends or stop it, "
            "or point [store] uri to a folder, which takes several writers"
        )
    if "different configuration" in message:
        return StoreBusy(
            f"{uri} is open in this process (process {os.getpid()}) the other way, for reading or "
            "for writing; close it there first"
        )
    if "not a valid DuckDB database" in message:
        return StoreError(f"{uri} is not a DuckDB file; point [store] uri to another one")
    return StoreError(f"{uri}: {_first_line(message)}")


def _first_line(error: object) -> str:
    return str(error).strip().split("\n", 1)[0]


def _check_schema(con: duckdb.DuckDBPyConnection, uri: str, *, writing: bool) -> None:
    """See that the file holds the tables of this version; make them in a new one."""
    present = _tables(con)
    if "_meta" in present:
        found = con.execute("select max(schema_version) from _meta").fetchall()[0][0]
        if found != SCHEMA_VERSION:
            raise SchemaVersion.mismatch(uri, found, SCHEMA_VERSION)
        return
    if not writing:
        raise StoreError(f"no store at {uri}, a DuckDB file without one: run `assizes run` first")
    taken = sorted(present & TABLES.keys())
    if taken:
        raise StoreError(
            f"{uri} holds other tables named {', '.join(taken)}; point [store] uri to a new file"
        )
    for statement in (*(_create(table) for table in TABLES), *_OWN_TABLES):
        con.execute(statement)
    con.execute("insert into _meta values (?)", [SCHEMA_VERSION])


def _tables(con: duckdb.DuckDBPyConnection) -> set[str]:
    found = con.execute("select table_name from information_schema.tables").fetchall()
    return {name for (name,) in found}


def _create(table: str) -> str:
    columns = ", ".join(f'"{name}" {_TYPES[dtype]}' for name, dtype in TABLES[table].items())
    return f"create table if not exists {table} ({columns})"


def _insert(con: duckdb.DuckDBPyConnection, table: str, rows: pl.DataFrame) -> None:
    if rows.is_empty():
        return
    con.register("_incoming", ArrowView(rows))
    con.execute(f"insert into {table} select * from _incoming")
    con.unregister("_incoming")


def _rows(con: duckdb.DuckDBPyConnection, table: str, run_id: str | None = None) -> pl.DataFrame:
    """All rows of a table, or those of one run, sorted by the table's keys."""
    query = f"select * from {table}"
    if run_id is None:
        relation = con.sql(query)
    else:
        relation = con.sql(f"{query} where run_id = $run_id", params={"run_id": run_id})
    found = pl.DataFrame(ArrowView(relation)).cast(pl.Schema(TABLES[table]))
    return found.sort(KEYS[table], maintain_order=True)


def _end(con: duckdb.DuckDBPyConnection, table: str, run_id: str) -> int:
    """The row id after the last row of a run; rows are only ever added behind it."""
    query = f"select coalesce(max(rowid) + 1, 0) from {table} where run_id = ?"
    return int(con.execute(query, [run_id]).fetchall()[0][0])


def _block(
    con: duckdb.DuckDBPyConnection, table: str, run_id: str, columns: list[str], start: int
) -> pl.DataFrame:
    """Some columns of a run's rows among the `_BLOCK_ROWS` row ids from `start` on."""
    names = ", ".join(f'"{name}"' for name in columns)
    query = (
        f"select {names} from {table} where rowid >= $start and rowid < $stop and run_id = $run_id"
    )
    bounds = {"start": start, "stop": start + _BLOCK_ROWS, "run_id": run_id}
    found = pl.DataFrame(ArrowView(con.sql(query, params=bounds)))
    return found.cast(pl.Schema({name: TABLES[table][name] for name in columns}))


def _meeting(predicate: pl.Expr | None, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows that meet a condition, if there is one."""
    if predicate is None:
        return rows
    found = rows.filter(predicate)
    if found.height > rows.height // 8:
        return found
    # polars would keep all the text of a block alive for a few rows of it: they are copied.
    return pl.DataFrame(found.rows(), schema=found.schema, orient="row")


def _run_ids(con: duckdb.DuckDBPyConnection) -> list[str]:
    return newest_first(_rows(con, "runs"))["run_id"].to_list()


def _plan(con: duckdb.DuckDBPyConnection, run_id: str) -> dict[str, Any] | None:
    found = con.execute("select plan from _plans where run_id = ?", [run_id]).fetchall()
    return dict(json.loads(found[0][0])) if found else None


def _digest(tables: Mapping[str, pl.DataFrame]) -> str:
    """SHA-256 over the Parquet form of a shard's tables, one after the other."""
    digest = hashlib.sha256()
    for rows in tables.values():
        digest.update(parquet(rows))
    return digest.hexdigest()
