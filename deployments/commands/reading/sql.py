"""`assizes sql`: one SELECT over a store, or over one run of it."""

from __future__ import annotations

import sys
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypeAlias

import polars as pl

from assizes.deployments.commands.csv_cells import csv_text
from assizes.deployments.commands.output import print_json, print_table
from assizes.deployments.commands.stores import store_config
from assizes.tasks.store import query_store

Shape: TypeAlias = Literal["table", "json", "csv"]


def ask_and_print(
    target: str, statement: str, file: Path | None, uri: str | None, shape: Shape
) -> int:
    """Print the rows of a statement as a table, as a JSON list of objects, or as CSV.

    Args:
        target: a run id, or a store as `--store` takes it; a `.duckdb` file may be named bare.
        statement: one SELECT over the public tables.
        file: the configuration.
        uri: the store a run id is looked up in.
        shape: what is printed.

    Returns:
        0.
    """
    store = _as_store(target)
    config = store_config(file, store or uri)
    rows = query_store(config, statement, None if store else target)
    if shape == "json":
        print_json(
            [{name: _plain(value) for name, value in row.items()} for row in rows.to_dicts()]
        )
        return 0
    values = [[_plain(value) for value in row] for row in rows.rows()]
    if shape == "csv":
        sys.stdout.write(csv_text(rows.columns, values))
        return 0
    columns = [f"#{name}" if kind.is_numeric() else name for name, kind in rows.schema.items()]
    print_table("", columns, [[_cell(value) for value in row] for row in values])
    return 0


def _as_store(target: str) -> str | None:
    """The store a target names; null when it can only be a run id, which holds no slash."""
    if "://" in target or target.startswith("duckdb:"):
        return target
    if target.endswith((".duckdb", ".db")):
        return f"duckdb:///{target}"
    return target if "/" in target or Path(target).is_dir() else None


def _cell(value: Any) -> Any:
    """As SQL has it: a truth is no verdict, and a cost of 0.0002 is not 0.00."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.15g}" if isinstance(value, float) else value


def _plain(value: Any) -> Any:
    """Sums of integers come as decimals."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value.to_list() if isinstance(value, pl.Series) else value
