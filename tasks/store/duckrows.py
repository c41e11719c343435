"""Rows of the public tables into a DuckDB file and out of it."""

from __future__ import annotations

import json
from typing import Any

import duckdb
import polars as pl

from judge.rows import KEYS, TABLES
from tasks.store.arrow import ArrowView
from tasks.store.record import newest_first


def insert(con: duckdb.DuckDBPyConnection, table: str, rows: pl.DataFrame) -> None:
    """Append rows to a table."""
    if rows.is_empty():
        return
    con.register("_incoming", ArrowView(rows))
    con.execute(f"insert into {table} select * from _incoming")
    con.unregister("_incoming")


def rows_of(con: duckdb.DuckDBPyConnection, table: str, run_id: str | None = None) -> pl.DataFrame:
    """All rows of a table, or those of one run, sorted by the table's keys."""
    query = f"select * from {table}"
    if run_id is None:
        relation = con.sql(query)
    else:
        relation = con.sql(f"{query} where run_id = $run_id", params={"run_id": run_id})
    found = pl.DataFrame(ArrowView(relation)).cast(pl.Schema(TABLES[table]))
    return found.sort(KEYS[table], maintain_order=True)


def run_ids(con: duckdb.DuckDBPyConnection) -> list[str]:
    """Every run id, newest first."""
    return newest_first(rows_of(con, "runs"))["run_id"].to_list()


def plan_of(con: duckdb.DuckDBPyConnection, run_id: str) -> dict[str, Any] | None:
    """The plan a run was frozen with; null where there is no such run."""
    found = con.execute("select plan from _plans where run_id = ?", [run_id]).fetchall()
    return dict(json.loads(found[0][0])) if found else None
