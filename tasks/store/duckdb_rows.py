"""The tables of a DuckDB file: their definitions in SQL, and their rows, written and read."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, Final, NamedTuple

import duckdb
import polars as pl
from duckdb import DuckDBPyConnection as Connection
from polars.io.plugins import register_io_source

from assizes.judge.rows import COMPLETE, KEYS, LATER_COLUMNS, TABLES, missing_columns
from assizes.tasks.store.record import ArrowView, cases_done, newest_first

TYPES: Final[dict[Any, str]] = {  # DuckDB's name of each polars type
    pl.String: "VARCHAR",
    pl.Int32: "INTEGER",
    pl.Int64: "BIGINT",
    pl.Float64: "DOUBLE",
    pl.Boolean: "BOOLEAN",
    pl.List(pl.Int32): "INTEGER[]",
    pl.List(pl.String): "VARCHAR[]",
    pl.Datetime("us", "UTC"): "TIMESTAMPTZ",
    pl.Date: "DATE",
}

_READER_TABLES: Final = ("_meta", "_identity", "calibrations")  # a file may lack them
_BLOCK_ROWS: Final = 1 << 15  # rows that a scan reads at a time
_SMALL_ROWS: Final = 1 << 12  # rows that a scan reads once for all queries but the first
_OWN_ROWS: Final = {"cases": 1 << 15, "scores": 1 << 15}
"""The rows that a scan of the writing process reads once, by table: a summary and a report make dozens
of queries. Of other tables, such as `asks`, whose rows are ten times as long, `_SMALL_ROWS` counts."""
_ROW_GROUP: Final = 122_880  # rows in a row group of a DuckDB file


def create_statement(table: str) -> str:
    """The SQL statement that creates a public table unless it exists."""
    # No primary key: its index would cost ten times the insert, and the shard's row in `_commits`
    # keeps rows from being inserted twice.
    columns = ", ".join(f'"{name}" {TYPES[dtype]}' for name, dtype in TABLES[table].items())
    return f"create table if not exists {table} ({columns})"


def present_tables(con: Connection, *, writing: bool) -> set[str]:
    """Names of the tables in a file; for reading, only those among `_READER_TABLES`.

    Call this outside a transaction: looking at a table that is missing ends the transaction.
    """
    if writing:
        rows = con.execute("select table_name from information_schema.tables").fetchall()
        return {name for (name,) in rows}
    present = set()
    for table in _READER_TABLES:  # listing all tables takes a quarter of the time of opening
        with suppress(duckdb.CatalogException):
            con.execute(f"select 1 from {table} limit 0")
            present.add(table)
    return present


def select_list(con: Connection, table: str, columns: Iterable[str]) -> str:
    """The SELECT list for some columns of a table; one that an older file lacks reads as None."""
    absent = {}
    if table in LATER_COLUMNS:
        absent = missing_columns(table, con.sql(f"select * from {table} limit 0").columns)
    return ", ".join(
        f'null::{TYPES[absent[name]]} as "{name}"' if name in absent else f'"{name}"'
        for name in columns
    )


def insert_rows(con: Connection, table: str, rows: pl.DataFrame) -> None:
    """Append rows to a table, perhaps in another order; after an error call `restore_row_order`."""
    if rows.is_empty():
        return
    con.register("_incoming", ArrowView(rows))
    if rows.height > _ROW_GROUP:
        # Keeping the order of many rows within little memory takes DuckDB half as long again.
        con.execute("set preserve_insertion_order=false")
    con.execute(f"insert into {table} select * from _incoming")
    restore_row_order(con)
    con.unregister("_incoming")


def restore_row_order(con: Connection) -> None:
    """Have DuckDB keep the order of inserted rows again; a lost connection is no error."""
    with suppress(duckdb.Error):
        con.execute("set preserve_insertion_order=true")


def rows_of(con: Connection, table: str, run_id: str | None = None) -> pl.DataFrame:
    """All rows of a table, or the rows of one run, sorted by the table's keys."""
    query = f"select {select_list(con, table, TABLES[table])} from {table}"
    if run_id is None:
        relation = con.sql(query)
    else:
        relation = con.sql(f"{query} where run_id = $run_id", params={"run_id": run_id})
    rows = pl.DataFrame(ArrowView(relation)).cast(pl.Schema(TABLES[table]))
    return rows.sort(KEYS[table], maintain_order=True)  # rows of equal keys stay as they came


def rows_of_ids(
    con: Connection, table: str, ids: Collection[str], column: str = "run_id"
) -> pl.DataFrame:
    """The rows of a table whose `column` has one of some ids, sorted by the table's keys."""
    columns = select_list(con, table, TABLES[table])
    query = f"select {columns} from {table} where {column} in (select unnest($ids::varchar[]))"
    rows = pl.DataFrame(ArrowView(con.sql(query, params={"ids": list(ids)})))
    return rows.cast(pl.Schema(TABLES[table])).sort(KEYS[table], maintain_order=True)


def run_states(con: Connection, among: Sequence[str] | None = None) -> dict[str, str]:
    """A text for each run, or for some, that differs where its row does.

    A complete run never changes again.
    """
    times = "concat_ws(' ', status, epoch_us(started_at), epoch_us(finished_at)"
    chosen = "" if among is None else " and run_id in (select unnest($ids::varchar[]))"
    rows = con.execute(
        f"select run_id, {times}) from runs where status = $complete{chosen} "
        f"union all select run_id, {times}, hash(counts, summary)) from runs "
        f"where status <> $complete{chosen}",
        {"complete": COMPLETE, **({} if among is None else {"ids": list(among)})},
    ).fetchall()
    return dict(rows)


def names_of_runs(con: Connection) -> pl.DataFrame:
    """The columns `run_id`, `name` and `day` of table runs, those about the newest day first."""
    columns = select_list(con, "runs", ("run_id", "name", "day", "started_at"))
    names = pl.DataFrame(ArrowView(con.sql(f"select {columns} from runs")))
    undated = names.filter(pl.col("day").is_null())["run_id"]
    if undated.len():  # rows that are older than the column
        return newest_first(rows_of(con, "runs")).select("run_id", "name", "day")
    order = ("day", "started_at", "run_id")
    return names.sort(order, descending=[True, True, False]).select("run_id", "name", "day")


def rows_of_cases(
    con: Connection, table: str, run_id: str, case_ids: Collection[str], columns: Iterable[str]
) -> pl.DataFrame:
    """The rows of some cases of a run, in some columns."""
    names = list(columns)
    wanted = {"run_id": run_id, "case_ids": list(case_ids)}
    # Row ids first: DuckDB would read the texts of many other rows beside those that it looks for.
    query = "run_id = $run_id and case_id in (select unnest($case_ids))"
    rows = con.execute(f"select rowid from {table} where {query}", wanted).fetchall()
    relation = con.sql(
        f"select {select_list(con, table, names)} from {table} "
        "where rowid in (select unnest($ids::bigint[])) order by rowid",
        params={"ids": [row for (row,) in rows]},
    )
    return pl.DataFrame(ArrowView(relation)).cast({name: TABLES[table][name] for name in names})


def run_ids(con: Connection) -> list[str]:
    """The ids of all runs, those about the newest day first."""
    return names_of_runs(con)["run_id"].to_list()


def shard_counts_of(con: Connection, run_id: str) -> dict[str, dict[str, int]]:
    """The number of records by status in each committed shard of a run, by shard id."""
    query = "select shard, counts from _commits where run_id = ? order by shard"
    rows = con.execute(query, [run_id]).fetchall()
    return {shard: json.loads(counts) for shard, counts in rows}


def revision_of(con: Connection, run_id: str) -> str:
    """The number of a run's committed shards, and a hash of their digests, in any order."""
    query = "select count(*), coalesce(bit_xor(hash(shard, sha)), 0) from _commits where run_id = ?"
    ((shards, digest),) = con.execute(query, [run_id]).fetchall()
    return f"{shards}-{digest}"


def revisions_of(con: Connection, run_ids: Collection[str]) -> dict[str, str]:
    """The same for some runs, each by its id."""
    query = (
        "select run_id, count(*), coalesce(bit_xor(hash(shard, sha)), 0) from _commits "
        "where run_id in (select unnest($ids::varchar[])) group by run_id"
    )
    rows = con.execute(query, {"ids": list(run_ids)}).fetchall()
    revisions = {run_id: f"{shards}-{digest}" for run_id, shards, digest in rows}
    return {run_id: revisions.get(run_id, "0-0") for run_id in run_ids}


def forgotten_cases_of(con: Connection, run_id: str) -> int:
    """The cases that the shards of a run count and table cases has not; 0 without a deletion.

    A deletion makes the digest of each shard longer, by an id.
    """
    deleted = "select count(*) from _commits where run_id = ? and length(sha) > 64"
    if con.execute(deleted, [run_id]).fetchall() == [(0,)]:
        return 0
    ((rows,),) = con.execute("select count(*) from cases where run_id = ?", [run_id]).fetchall()
    return cases_done(shard_counts_of(con, run_id)) - int(rows)


def plan_of(con: Connection, run_id: str) -> dict[str, Any] | None:
    """The plan that a run began with; None where there is no such run."""
    rows = con.execute("select plan from _plans where run_id = ?", [run_id]).fetchall()
    return dict(json.loads(rows[0][0])) if rows else None


def row_span(con: Connection, table: str, run_id: str) -> range:
    """The row ids from the first row of a run to its last; rows of other runs may lie between."""
    query = f"select min(rowid), max(rowid) from {table} where run_id = ?"
    ((first, last),) = con.execute(query, [run_id]).fetchall()
    return range(0) if first is None else range(first, last + 1)


def lazy_rows(
    connect: Callable[[], AbstractContextManager[Connection]],
    table: str,
    run_id: str,
    span: range,
    *,
    by_writer: bool = False,
) -> pl.LazyFrame:
    """A lazy frame of the rows of a run whose row ids lie in a span.

    A query reads only its own columns, block by block, each in a transaction of `connect`. Of a
    short span, the second query reads all rows, and the frame keeps them for those after it. A span
    of the process that writes the run (`by_writer`) may be longer and still be short.
    """
    small = _OWN_ROWS.get(table, _SMALL_ROWS) if by_writer else _SMALL_ROWS
    queries = 0
    kept: pl.DataFrame | None = None

    def of_short_span(columns: list[str], predicate: pl.Expr | None) -> pl.DataFrame:
        nonlocal queries, kept
        queries += 1
        if kept is None:
            with connect() as con:
                rows = _RowRange(con, table, run_id, span.start, span.stop)
                if queries == 1:
                    return rows.matches(columns, predicate)
                kept = rows.read(list(TABLES[table]))
        return (kept if predicate is None else kept.filter(predicate)).select(columns)

    def blocks(
        columns: list[str] | None, predicate: pl.Expr | None, limit: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:  # polars passes columns, filter, row limit, batch size
        left = len(span) if limit is None else limit
        if 0 < len(span) <= small:
            yield of_short_span(columns or list(TABLES[table]), predicate).head(left)
            return
        for start in span[::_BLOCK_ROWS]:
            with connect() as con:
                stop = min(start + _BLOCK_ROWS, span.stop)
                rows = _RowRange(con, table, run_id, start, stop)
                block = rows.matches(columns or list(TABLES[table]), predicate)
            block = block.head(left)
            left -= block.height
            yield block
            if not left:
                return

    return register_io_source(blocks, schema=TABLES[table], is_pure=True)


class _RowRange(NamedTuple):
    """The rows of a run among the row ids from `start` up to `stop`."""

    con: Connection
    table: str
    run_id: str
    start: int  # first row id
    stop: int  # row id behind the last

    def matches(self, columns: list[str], predicate: pl.Expr | None) -> pl.DataFrame:
        """The rows that meet a condition, in some columns; without a condition, all rows."""
        if predicate is None:
            return self.read(columns)
        # Only the columns of the condition are read, not the texts of thousands of other cases.
        names = list(dict.fromkeys(predicate.meta.root_names()))
        ids = self.read(names, "rowid").filter(predicate)["rowid"]
        first, last = ids.min(), ids.max()
        if not isinstance(first, int) or not isinstance(last, int):
            return pl.DataFrame(schema={name: TABLES[self.table][name] for name in columns})
        rows = self._replace(start=first, stop=last + 1)
        if len(ids) <= (rows.stop - rows.start) // 8:
            return rows.read(columns, ids=ids.to_list())
        return rows.read(columns).filter(predicate)

    def read(
        self, columns: list[str], *extra: str, ids: Sequence[int] | None = None
    ) -> pl.DataFrame:
        """The rows of the range, in some columns of the table behind the extra ones.

        With `ids`, only the rows with these row ids.
        """
        names = [*extra, *([select_list(self.con, self.table, columns)] if columns else [])]
        query = (
            f"select {', '.join(names)} from {self.table} "
            "where rowid >= $start and rowid < $stop and run_id = $run_id"
        )
        bounds: dict[str, Any] = {"start": self.start, "stop": self.stop, "run_id": self.run_id}
        if ids is not None:
            query += " and rowid in (select unnest($ids)) order by rowid"
            bounds["ids"] = ids
        rows = pl.DataFrame(ArrowView(self.con.sql(query, params=bounds)))
        return rows.cast({name: TABLES[self.table][name] for name in columns})
