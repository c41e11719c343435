"""One SELECT over the public tables of a store, be it a DuckDB file or a Parquet lake."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import duckdb
import polars as pl
from duckdb import DuckDBPyConnection as Connection

from assizes.judge import rows
from assizes.judge.causes.edits import current_edits
from assizes.judge.errors import ConfigurationError
from assizes.tasks.store.duckdb_file import DAMAGE_PATTERN, damage_error, first_line
from assizes.tasks.store.duckdb_rows import TYPES, present_tables
from assizes.tasks.store.lake import ParquetStore
from assizes.tasks.store.protocol import Store
from assizes.tasks.store.queries.query_limits import (
    QueryLimits,
    checked_query,
    lock_connection,
    run_within,
)
from assizes.tasks.store.record import ArrowView
from assizes.tasks.store.warehouse import DuckDBStore

_DAMAGE: Final = (duckdb.IOException, duckdb.FatalException, duckdb.InternalException)
_WORD: Final = re.compile(r"\w+")  # what may be the name of a table


class StoreQuery(NamedTuple):
    """A statement over the tables of a store, and what it may take and see."""

    statement: str
    limits: QueryLimits = QueryLimits()
    more: Mapping[str, pl.DataFrame] = MappingProxyType({})
    """Rows of tables that are kept elsewhere; those of run_metrics stand beside the stored ones."""

    verify: bool = False
    """Whether the parts of a lake are hashed before they are read."""


def run_query(store: Store, query: StoreQuery, run_id: str | None = None) -> pl.DataFrame:
    """The rows that a statement, one SELECT (or EXPLAIN) over the public tables, returns.

    The tables show the rows of the run `run_id` (its id or another name), or those of all runs. The
    statement can read nothing but the store and write nothing at all, within the time and the memory
    of `limits`. A DuckDB file goes back to a writer that waits for it, as with every reader.

    Raises:
        ConfigurationError: when the statement is no SELECT, DuckDB refuses it, or it takes more than
            its limits.
        StoreBusy: when the statement kept a writer of the DuckDB file waiting for too long.
        StoreError: when the rows cannot be read.
    """
    run = store.run(run_id).run_id if run_id is not None else None
    with store.query_connection() if isinstance(store, DuckDBStore) else duckdb.connect() as con:
        try:
            return _rows_of_query(con, store, query, run)
        except duckdb.Error as error:
            if isinstance(error, _DAMAGE) and DAMAGE_PATTERN.search(line := first_line(error)):
                raise damage_error(store.uri, line) from error
            # Behind the first line stand the names that are near; behind an empty one the query.
            why = " ".join(str(error).split("\n\n")[0].split())
            raise ConfigurationError(f"the query cannot be run: {why}") from error


def _rows_of_query(
    con: Connection, store: Store, query: StoreQuery, run: str | None
) -> pl.DataFrame:
    con.execute("set TimeZone='UTC'")  # else times come back in the zone of this machine
    con.execute("set enable_progress_bar=false")
    con.execute("set autoinstall_known_extensions=false")  # nothing from the network
    statement = checked_query(con, query.statement)
    # A name in a string costs a needless view; DuckDB's get_table_names fails on USING.
    words = set(_WORD.findall(statement.lower()))
    tables = rows.TABLES.keys() & words
    for table in rows.PEOPLE_TABLES.keys() & words:
        _load_table(con, table, store.people.rows(table), run)
    for table in rows.CAUSE_TABLES.keys() & words:
        of_runs = [run] if run else store.run_index()["run_id"].to_list()
        _load_table(con, table, _cause_rows(store, table, of_runs), run)
    files: list[str] = []  # those of a local lake, which the statement reads itself
    if isinstance(store, ParquetStore):
        for table in tables:
            files += _show_lake_table(con, store, table, run, hashed=query.verify)
    else:
        _show_file(con, tables, run)
    for table in query.more.keys() - {"run_metrics"}:
        _load_table(con, table, query.more[table], run)
    more = query.more.get("run_metrics")
    if more is not None and "run_metrics" in tables and more.height:
        _add_metrics(con, more, run, is_file=not isinstance(store, ParquetStore))
    lock_connection(con, query.limits, files)
    return run_within(con, statement, query.limits)


def _cause_rows(store: Store, table: str, run_ids: Iterable[str]) -> pl.DataFrame:
    """Rows of a table of causes, with the names, sentences, owners and silence of edits."""
    found = store.causes.rows(table, run_ids)
    if table != "causes":
        return found
    return current_edits(store.people.rows("cause_edits")).labelled(found)


def _show_file(con: Connection, tables: Iterable[str], run: str | None) -> None:
    """Make temporary views (of one run, with all columns) that hide the file's own tables."""
    # The file's name in SQL: below, the view hides the table of the same name.
    ((name,),) = con.execute("select current_database()").fetchall()
    for table in tables:
        columns = "*"
        if table == "calibrations" and table not in present_tables(con, writing=False):
            con.register(table, ArrowView(rows.frame(table, [])))  # the file is older
            continue
        if table in rows.LATER_COLUMNS:
            columns = _all_columns(table, con.sql(f"select * from {table} limit 0").columns)
        if run is not None or columns != "*":
            shown = f'select {columns} from "{name}".main.{table} {_run_condition(table, run)}'
            con.execute(f"create temp view {table} as {shown}")


def _add_metrics(con: Connection, more: pl.DataFrame, run: str | None, *, is_file: bool) -> None:
    """Show more rows in table run_metrics, which is in the connection or in its file."""
    con.register("_incoming", ArrowView(more))
    if not is_file:
        con.execute("insert into run_metrics select * from _incoming")
        return
    con.execute("create temp table _more_metrics as select * from _incoming")
    ((name,),) = con.execute("select current_database()").fetchall()
    stored = f'select * from "{name}".main.run_metrics {_run_condition("run_metrics", run)}'
    both = f"{stored} union all select * from _more_metrics"
    con.execute(f"create or replace temp view run_metrics as {both}")


def _all_columns(table: str, held: Iterable[str]) -> str:
    """The SELECT list of a table that has the columns `held`: those that it lacks are None."""
    lacking = rows.missing_columns(table, held).items()
    return ", ".join(["*", *(f'null::{TYPES[dtype]} as "{name}"' for name, dtype in lacking)])


def _run_condition(table: str, run: str | None) -> str:
    own = "candidate" if table == "comparisons" else "run_id"
    # A stored id has only letters, digits, . _ - and can stand in a statement.
    return "" if run is None else f"where {own} = '{run}'"


def _show_lake_table(
    con: Connection, lake: ParquetStore, table: str, run: str | None, *, hashed: bool
) -> list[str]:
    """Load a table of a lake into the connection, or make a view over its local files.

    Returns the names of the files that the view reads when it is queried, and their patterns.
    """
    runs = [run] if run else lake.run_index()["run_id"].to_list()
    whole = {"runs": lake.runs, "comparisons": lake.comparisons, "calibrations": lake.calibrations}
    if table in whole:
        frames = [whole[table]()]
    elif table not in rows.SHARD_TABLES:
        frames = [rows.frame(table, []), *(lake.table(run_id, table) for run_id in runs)]
    else:
        sources: list[Any] = []
        for run_id in runs:
            sources += lake.sources(run_id, table, hashed=hashed)
        if sources and isinstance(sources[0], Path):
            # A relation reads names as they are; in SQL text a name with [ or * is a pattern.
            names = [re.sub(r"[\[*?]", r"[\g<0>]", str(path)) for path in sources]
            files = con.read_parquet(names, union_by_name=True)
            files.project(_all_columns(table, files.columns)).create_view(table)
            return [*map(str, sources), *names]  # DuckDB asks for a pattern, then for its file
        parts = (rows.add_later_columns(table, pl.read_parquet(data)) for data in sources)
        frames = [rows.frame(table, []), *parts]  # an empty frame first: there may be no part
    _load_table(con, table, pl.concat(frames), run)
    return []


def _load_table(con: Connection, table: str, loaded: pl.DataFrame, run: str | None) -> None:
    """Load rows into the connection as a temporary table, those of one run where it is given."""
    con.register("_incoming", ArrowView(loaded))
    condition = _run_condition(table, run)
    con.execute(f"create temp table {table} as select * from _incoming {condition}")
    con.unregister("_incoming")
