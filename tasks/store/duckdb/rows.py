"""Writes rows of the public tables into a DuckDB file, and reads them back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from typing import Any, Final, NamedTuple

import duckdb
import polars as pl
from polars.io.plugins import register_io_source

from assizes.judge.rows import KEYS, TABLES
from assizes.tasks.store.arrow import ArrowView
from assizes.tasks.store.duckdb.file import select_list
from assizes.tasks.store.record import newest_first

_BLOCK_ROWS: Final = 1 << 15
"""Rows that a scan reads at a time."""

_ROW_GROUP: Final = 122_880
"""Rows in a row group of a DuckDB file."""


def insert_rows(con: duckdb.DuckDBPyConnection, table: str, rows: pl.DataFrame) -> None:
    """Append rows to a table.

    More rows than one row group may be stored in another order: keeping their order within little
    memory takes DuckDB half as long again. After an error call `restore_row_order`.
    """
    if rows.is_empty():
        return
    con.register("_incoming", ArrowView(rows))
    if rows.height > _ROW_GROUP:
        con.execute("set preserve_insertion_order=false")
    con.execute(f"insert into {table} select * from _incoming")
    restore_row_order(con)
    con.unregister("_incoming")


def restore_row_order(con: duckdb.DuckDBPyConnection) -> None:
    """Have DuckDB keep the order of inserted rows again; a lost connection is no error."""
    with suppress(duckdb.Error):
        con.execute("set preserve_insertion_order=true")


def rows_of(con: duckdb.DuckDBPyConnection, table: str, run_id: str | None = None) -> pl.DataFrame:
    """All rows of a table, or the rows of one run, sorted by the table's keys."""
    query = f"select {select_list(con, table, TABLES[table])} from {table}"
    if run_id is None:
        relation = con.sql(query)
    else:
        relation = con.sql(f"{query} where run_id = $run_id", params={"run_id": run_id})
    rows = pl.DataFrame(ArrowView(relation)).cast(pl.Schema(TABLES[table]))
    return rows.sort(KEYS[table], maintain_order=True)


def run_ids(con: duckdb.DuckDBPyConnection) -> list[str]:
    """The ids of all runs, newest first."""
    return newest_first(rows_of(con, "runs"))["run_id"].to_list()


def plan_of(con: duckdb.DuckDBPyConnection, run_id: str) -> dict[str, Any] | None:
    """The plan that a run began with; None where there is no such run."""
    rows = con.execute("select plan from _plans where run_id = ?", [run_id]).fetchall()
    return dict(json.loads(rows[0][0])) if rows else None


def end_row_id(con: duckdb.DuckDBPyConnection, table: str, run_id: str) -> int:
    """The row id after the last row of a run in a table; new rows get higher row ids."""
    query = f"select coalesce(max(rowid) + 1, 0) from {table} where run_id = ?"
    return int(con.execute(query, [run_id]).fetchall()[0][0])


def lazy_rows(
    connect: Callable[[], AbstractContextManager[duckdb.DuckDBPyConnection]],
    table: str,
    run_id: str,
    end: int,
) -> pl.LazyFrame:
    """A lazy frame of a run's rows, which a query reads block by block and only in its columns.

    Args:
        connect: gives the connection for the length of a block, in a transaction.
        table: the table.
        run_id: the run.
        end: the row id before which the rows lie.
    """

    def blocks(
        columns: list[str] | None, predicate: pl.Expr | None, limit: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        left = end if limit is None else limit
        for start in range(0, end, _BLOCK_ROWS):
            with connect() as con:
                rows = _RowRange(con, table, run_id, start, start + _BLOCK_ROWS).narrow_range(
                    predicate
                )
                block = rows.read(columns or list(TABLES[table]))
            block = _matching_rows(predicate, block).head(left)
            left -= block.height
            yield block
            if not left:
                return

    return register_io_source(blocks, schema=TABLES[table], is_pure=True)


class _RowRange(NamedTuple):
    """The rows of a run among the row ids from `start` up to `stop`."""

    con: duckdb.DuckDBPyConnection
    table: str
    run_id: str
    start: int
    stop: int

    def narrow_range(self, predicate: pl.Expr | None) -> _RowRange:
        """The range from the first row that meets a condition to the last.

        Only the columns of the condition are read. So one case among thousands is found without
        reading the texts of the others.
        """
        if predicate is None:
            return self
        names = dict.fromkeys(predicate.meta.root_names())
        ids = self._select_rows("rowid", list(names)).filter(predicate)["rowid"]
        first, last = ids.min(), ids.max()
        if not isinstance(first, int) or not isinstance(last, int):
            return self._replace(stop=self.start)
        return self._replace(start=first, stop=last + 1)

    def read(self, columns: list[str]) -> pl.DataFrame:
        """The rows of the range, in some columns."""
        return self._select_rows(None, columns)

    def _select_rows(self, extra_column: str | None, columns: list[str]) -> pl.DataFrame:
        names = [select_list(self.con, self.table, columns)] if columns else []
        query = (
            f"select {', '.join([*([extra_column] if extra_column else []), *names])} from {self.table} "
            "where rowid >= $start and rowid < $stop and run_id = $run_id"
        )
        bounds = {"start": self.start, "stop": self.stop, "run_id": self.run_id}
        rows = pl.DataFrame(ArrowView(self.con.sql(query, params=bounds)))
        return rows.cast({name: TABLES[self.table][name] for name in columns})


def _matching_rows(predicate: pl.Expr | None, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows that meet a condition; all rows without one."""
    if predicate is None:
        return rows
    matches = rows.filter(predicate)
    if matches.height > rows.height // 8:
        return matches
    # A few filtered rows would keep all the text of their block in memory: so copy them.
    return pl.DataFrame(matches.rows(), schema=matches.schema, orient="row")
