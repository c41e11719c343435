"""One SELECT over the public tables of a store, whichever way it keeps them."""

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
    """The rows a statement gives.

    Args:
        store: an open store.
        file: the DuckDB file of the store; null for a Parquet store.
        statement: one SELECT (or EXPLAIN) over the public tables.
        run_id: a run whose rows alone are to be seen; null for all.

    Raises:
        ConfigurationError: for a statement that is another, or that DuckDB refuses.
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
    """The public tables a statement reads, once it is seen to read only."""
    statements = con.extract_statements(statement)  # by DuckDB's own parser
    kinds = [str(parsed_statement.type).rpartition(".")[2] for parsed_statement in statements]
    if len(kinds) != 1 or kinds[0] not in _READ_STATEMENTS:
        raise ConfigurationError(
            f"the query holds {', '.join(kinds) or 'no statement'}; accepted: one SELECT"
        )
    # One that is only spoken of is shown in vain; DuckDB's own get_table_names fails on USING.
    return set(TABLES) & set(_WORD.findall(statement.lower()))


def _show_file(con: duckdb.DuckDBPyConnection, tables: Iterable[str], run: str | None) -> None:
    """Views before the tables of the file: of one run, and with the columns an older file lacks."""
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
    return f"where {own} = '{run}'"  # an id of the store: letters, digits, . _ -


def _show_lake(
    con: duckdb.DuckDBPyConnection, lake: ParquetStore, tables: Iterable[str], run: str | None
) -> None:
    runs = [run] if run else lake.runs()["run_id"].to_list()
    for table in tables:
        if table in SHARD_TABLES:
            _show_parts(con, lake, table, runs)
            continue
        rows = _small_table(lake, table, runs)
        con.register("_incoming", ArrowView(rows))
        condition = _run_condition(table, run) if run else ""
        con.execute(f"create temp table {table} as select * from _incoming {condition}")
        con.unregister("_incoming")


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
    """Local files are scanned where they are; objects of a bucket are fetched first."""
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
    con.register("_incoming", ArrowView(pl.concat(frames)))
    con.execute(f"create temp table {table} as select * from _incoming")
    con.unregister("_incoming")


def _escape_path(path: Path) -> str:
    return "".join(f"[{char}]" if char in "[*?" else char for char in str(path))
