"""One SELECT over the public tables of a store, be it a DuckDB file or a Parquet lake."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import duckdb
import polars as pl

from assizes.judge.errors import ConfigurationError
from assizes.judge.rows import (
    LATER_COLUMNS,
    SHARD_TABLES,
    TABLES,
    add_later_columns,
    frame,
    missing_columns,
)
from assizes.tasks.store.arrow import ArrowView
from assizes.tasks.store.duckdb.file import TYPES, column_names, first_line, select_list
from assizes.tasks.store.lake.lake import ParquetStore
from assizes.tasks.store.protocol import Store

_WORD: Final = re.compile(r"\w+")
_READ_STATEMENTS: Final = frozenset({"SELECT", "EXPLAIN"})


def run_query(
    store: Store, file: Path | None, statement: str, run_id: str | None = None
) -> pl.DataFrame:
    """The rows that a statement returns.

    Args:
        store: an open store.
        file: the DuckDB file of the store; None for a Parquet store.
        statement: one SELECT (or EXPLAIN) over the public tables.
        run_id: the run (a unique prefix will do) whose rows the tables show; None for all runs.

    Raises:
        ConfigurationError: when the statement is no SELECT, or DuckDB refuses it.
        StoreError: when the rows cannot be read.
    """
    run = store.run(run_id).run_id if run_id is not None else None
    con = duckdb.connect() if file is None else duckdb.connect(file, read_only=True)
    try:
        con.execute("set TimeZone='UTC'")
        con.execute("set enable_progress_bar=false")
        con.execute("set autoinstall_known_extensions=false")
        tables = _tables(con, statement)
        if isinstance(store, ParquetStore):
            _show_lake(con, store, tables, run)
        else:
            _show_file(con, tables, run)
        return pl.DataFrame(ArrowView(con.sql(statement)))
    except duckdb.Error as error:
        raise ConfigurationError(f"the query cannot be run: {first_line(error)}") from error
    finally:
        con.close()


def _tables(con: duckdb.DuckDBPyConnection, statement: str) -> set[str]:
    """The public tables whose names stand in a statement.

    Raises:
        ConfigurationError: when there is not exactly one statement, or it does more than read.
    """
    statements = con.extract_statements(statement)  # by DuckDB's own parser
    kinds = [str(parsed.type).rpartition(".")[2] for parsed in statements]
    if len(kinds) != 1 or kinds[0] not in _READ_STATEMENTS:
        raise ConfigurationError(
            f"the query holds {', '.join(kinds) or 'no statement'}; accepted: one SELECT"
        )
    # A name in a comment or a string costs a needless view; DuckDB's get_table_names fails on USING.
    return set(TABLES) & set(_WORD.findall(statement.lower()))


def _show_file(con: duckdb.DuckDBPyConnection, tables: Iterable[str], run: str | None) -> None:
    """Make temporary views that hide the file's own tables of the same names.

    A view shows the rows of one run, and adds columns that a file of an older version lacks.
    """
    ((name,),) = con.execute("select current_database()").fetchall()
    for table in tables:
        older = table in LATER_COLUMNS and missing_columns(table, column_names(con, table))
        if run is None and not older:
            continue
        shown = select_list(con, table, TABLES[table]) if older else "*"
        rows = (
            f'select {shown} from "{name}".main.{table} {_run_condition(table, run) if run else ""}'
        )
        con.execute(f"create temp view {table} as {rows}")


def _run_condition(table: str, run: str) -> str:
    own = "candidate" if table == "comparisons" else "run_id"
    return f"where {own} = '{run}'"  # safe: a stored id has only letters, digits, . _ -


def _show_lake(
    con: duckdb.DuckDBPyConnection, lake: ParquetStore, tables: Iterable[str], run: str | None
) -> None:
    """Load the tables of a lake into the connection, or make views over its files."""
    runs = [run] if run else lake.runs()["run_id"].to_list()
    for table in tables:
        if table in SHARD_TABLES:
            _show_parts(con, lake, table, runs)
            continue
        _load_table(con, table, _small_table(lake, table, runs), run)


def _small_table(lake: ParquetStore, table: str, runs: list[str]) -> pl.DataFrame:
    if table == "runs":
        return lake.runs()
    if table == "comparisons":
        return lake.comparisons()
    if table == "calibrations":
        return lake.calibrations()
    return pl.concat([frame(table, []), *(lake.table(run_id, table) for run_id in runs)])


def _show_parts(
    con: duckdb.DuckDBPyConnection, lake: ParquetStore, table: str, runs: list[str]
) -> None:
    """Make a view over the local files of a table; the objects of a bucket are fetched first."""
    sources: list[Any] = []
    for run_id in runs:
        sources += lake.sources(run_id, table)
    if sources and isinstance(sources[0], Path):
        # A relation reads names as they are; in SQL text a name with [ or * would be a pattern.
        files = con.read_parquet([_escape_path(path) for path in sources], union_by_name=True)
        nulls = [
            f'null::{TYPES[dtype]} as "{column}"'
            for column, dtype in missing_columns(table, files.columns).items()
        ]
        files.project(", ".join(["*", *nulls])).create_view(table)
        return
    frames = [
        frame(table, []),
        *(add_later_columns(table, pl.read_parquet(data)) for data in sources),
    ]
    _load_table(con, table, pl.concat(frames))


def _load_table(
    con: duckdb.DuckDBPyConnection, table: str, rows: pl.DataFrame, run: str | None = None
) -> None:
    """Make a temporary table of rows, or of those that belong to one run."""
    con.register("_incoming", ArrowView(rows))
    condition = _run_condition(table, run) if run else ""
    con.execute(f"create temp table {table} as select * from _incoming {condition}")
    con.unregister("_incoming")


def _escape_path(path: Path) -> str:
    return "".join(f"[{char}]" if char in "[*?" else char for char in str(path))
