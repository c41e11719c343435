"""`assizes sql`: the rows of one SELECT statement over a store, or over one run of it."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import sys
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import polars as pl

from assizes.deployments.commands.output import print_json, print_table
from assizes.deployments.commands.stores import opened_store, store_config
from assizes.deployments.terminal import printable
from assizes.judge.config.run import StoreConfig
from assizes.judge.summary.wide_table import results_frame
from assizes.tasks.store import query_store
from assizes.tasks.store.record import STORE_MARK

FORMULA: Final = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters of a formula, full-width forms included; spreadsheets skip white space before."""


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A header and rows as CSV. Numbers stay numbers, `None` is an empty cell, a list is JSON."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([as_text(name) for name in columns])
    writer.writerows([_csv_cell(value) for value in row] for row in rows)
    return out.getvalue()


def as_text(text: str) -> str:
    """A text as a cell: printable, and with a leading `'` where it would be a formula."""
    # CSV injection (CWE-1236): a spreadsheet runs a cell such as =HYPERLINK(...) when the file is
    # opened, and an agent's user can put one into a transcript. Only this module writes CSV.
    shown = printable(text, "\n\t")
    begins = shown.lstrip().startswith(FORMULA) or shown.startswith(("\n", "\t"))
    return f"'{shown}" if begins else shown


def _csv_cell(value: Any) -> Any:
    if isinstance(value, bool):  # asked first: a bool is an int
        return str(value).lower()
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else as_text(str(value))  # "-inf" begins as a formula
    if isinstance(value, list | dict):
        return as_text(json.dumps(value, ensure_ascii=False, default=str))
    return as_text(str(value))


Shape: TypeAlias = Literal["table", "json", "csv"]


def query_and_print(
    target: str, statement: str, file: Path | None, uri: str | None, shape: Shape
) -> None:
    """Print the rows of a statement as a table, as a JSON list of objects, or as CSV.

    The target is a run, or a store as `--store` takes it. `uri` is the store that has the run, where
    the target is a run; `None`: as configured.
    """
    store = _store_uri(target)
    config = store_config(file, store or uri)
    _print_rows(query_store(config, statement, None if store else target), shape)  # None: all runs


def print_results(run_id: str, file: Path | None, uri: str | None, shape: Shape) -> None:
    """Print the wide table of a run (seed 004): a row for each case, a column for each assessment.

    Raises:
        UnknownRun: the store has no such run.
    """
    with opened_store(file, uri) as store:
        cases, scores = (
            store.table(store.run(run_id).run_id, name) for name in ("cases", "scores")
        )
    table = results_frame(cases, scores)
    if shape == "table":  # a terminal has room for the ratings, under the names of the judges
        table = table.select(pl.exclude("^.*/(ratings|rationales?|error_messages?)$"))
    stems = [re.sub("/(rating|precision)$", "", name) for name in table.columns]
    _print_rows(table, shape, [stem.rpartition("/")[2] for stem in stems])


def _print_rows(rows: pl.DataFrame, shape: Shape, headings: Sequence[str] = ()) -> None:
    if shape == "json":
        dicts = rows.to_dicts()
        print_json([{name: _plain_value(row[name]) for name in row} for row in dicts])
        return
    values = [[_plain_value(value) for value in row] for row in rows.rows()]
    if shape == "csv":
        sys.stdout.write(csv_text(rows.columns, values))
        return
    pairs = zip(headings or rows.columns, rows.dtypes, strict=True)
    columns = [f"#{name}" if kind.is_numeric() else name for name, kind in pairs]
    print_table("", columns, [[_cell(value) for value in row] for row in values])


def _store_uri(target: str) -> str | None:
    """The store that a target names; `None` when it is a run."""
    is_uri = "/" in target or target.startswith("duckdb:")  # no name of a run has a slash
    is_file = StoreConfig(uri=target).uri != target  # by its suffix a DuckDB file
    return target if is_uri or is_file or Path(target, STORE_MARK).is_file() else None


def _cell(value: Any) -> Any:
    """A value as SQL prints it: `print_table` would make verdicts of booleans and round 0.0002."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.15g}" if isinstance(value, float) else value


def _plain_value(value: Any) -> Any:
    """A value without polars types and decimals; DuckDB returns sums of integers as decimals."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value.to_list() if isinstance(value, pl.Series) else value
