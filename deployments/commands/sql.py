"""`assizes sql`: the rows of one SELECT statement over a store, or over one run of it."""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import polars as pl
from rich.cells import cell_len

from assizes.deployments.commands.output import print_json, print_line, print_table
from assizes.deployments.commands.stores import opened_store, store_config
from assizes.deployments.terminal import json_text, printable
from assizes.judge.config.run import StoreConfig
from assizes.judge.labels.cell_text import cell_text
from assizes.judge.summary.wide_table import results_frame
from assizes.tasks.publishing.deliveries import deliveries_of_query
from assizes.tasks.runs.corrected_rows import metrics_of_query
from assizes.tasks.store import query_store
from assizes.tasks.store.record import STORE_MARK


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A header and rows as CSV. Numbers stay numbers, `None` is an empty cell, a list is JSON."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    # CSV injection (CWE-1236): a spreadsheet runs a cell such as =HYPERLINK(...) when the file is
    # opened, and an agent's user can put one into a transcript. Only this module writes CSV.
    writer.writerow([cell_text(name) for name in columns])
    writer.writerows([_csv_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _csv_cell(value: Any) -> Any:
    if isinstance(value, bool):  # asked first: a bool is an int
        return str(value).lower()
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return (
            value if math.isfinite(value) else cell_text(str(value))
        )  # "-inf" begins as a formula
    if isinstance(value, list | dict):
        return cell_text(json_text(value))
    return cell_text(str(value))


Shape: TypeAlias = Literal["table", "records", "json", "csv"]
"""`records`: each row as lines, one a column, however many columns there are."""


def query_and_print(
    target: str,
    statement: str,
    source: tuple[Path | None, str | None],
    shape: Shape,
    limits: tuple[float, int],
    *,
    verify: bool,
) -> None:
    """Print the rows of a statement; a table says which columns it has no room for.

    The target is a run, or a store as `--store` takes it. `source` is a configuration file and the
    store that has the run, where the target is a run; `None`: as configured. `limits` are the
    seconds and the megabytes (10^6 bytes) that the query may take. With `verify` the files of a
    Parquet store are hashed first.
    """
    from assizes.tasks.store.queries.query_limits import QueryLimits  # imports duckdb

    file, uri = source
    store = _store_uri(target)
    config = store_config(file, store or uri)
    run_id = None if store else target  # None: all runs
    bounds = QueryLimits(*limits)
    more = {
        "run_metrics": metrics_of_query,
        "deliveries": lambda store, run: deliveries_of_query(config, store, run),
    }
    rows = query_store(config, statement, run_id, more, limits=bounds, verify=verify)
    _print_rows(rows, shape)


def print_results(run_id: str, file: Path | None, uri: str | None, shape: Shape) -> None:
    """Print the wide table of a run: a row for each case, a column for each assessment.

    Raises:
        UnknownRun: the store has no such run.
    """
    with opened_store(file, uri) as store:
        cases, scores = (
            store.table(store.run(run_id).run_id, name) for name in ("cases", "scores")
        )
    whole = table = results_frame(cases, scores)
    if shape != "table":
        _print_rows(table, shape)
        return
    if len(table.columns) == len(("request_id", "repetition")):
        print_line("no judge of this run says yes or no; `assizes show` lists its metrics")
        return
    # A terminal has room for the ratings, under the names of the judges.
    table = table.select(pl.exclude("^.*/(ratings|rationales?|error_messages?)$"))
    stems = [re.sub("/(rating|precision)$", "", name) for name in table.columns]
    _print_rows(table, shape, [stem.rpartition("/")[2] for stem in stems])
    if left_out := len(whole.columns) - len(table.columns):
        print_line(
            f"not shown: {left_out} columns with the judges' reasons, errors and ratings of single "
            f"passages; {_ELSEWHERE}"
        )


def _print_rows(rows: pl.DataFrame, shape: Shape, headings: Sequence[str] = ()) -> None:
    if shape == "json":
        dicts = rows.to_dicts()
        print_json([{name: _plain_value(row[name]) for name in row} for row in dicts])
        return
    values = [[_plain_value(value) for value in row] for row in rows.rows()]
    if shape == "csv":
        sys.stdout.write(csv_text(rows.columns, values))
        return
    names = list(headings or rows.columns)
    cells = [[_cell(value) for value in row] for row in values]
    if shape == "records":
        _print_records(names, cells)
        return
    columns = [
        f"#{name}" if kind.is_numeric() else name
        for name, kind in zip(names, rows.dtypes, strict=True)
    ]
    _print_fitting(columns, cells)


_ELSEWHERE: Final = "--all prints every column, and so do --csv and --json"
_READABLE: Final = 12
"""Characters to which a column of longer cells may be folded in a table."""
_GAP: Final = 2
"""Characters between two columns of a table."""


def _print_fitting(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print as many columns, from the first on, as a terminal has room for, and name the others.

    Output that goes to no terminal, and no `COLUMNS` in the environment, has room for all.
    """
    texts = [[name.removeprefix("#") for name in columns], *rows]
    widths = [max(map(cell_len, column)) for column in zip(*texts, strict=True)]
    room = shutil.get_terminal_size(fallback=(0, 0)).columns
    # The first column holds ids, which `print_table` never folds.
    needs = [width if at == 0 else min(width, _READABLE) for at, width in enumerate(widths)]
    ends = list(itertools.accumulate(need + _GAP for need in needs))
    fitting = sum(end <= room for end in ends) or 1 if room else len(columns)
    width = max(room, ends[0]) if room else sum(widths) + _GAP * len(widths)
    print_table("", columns[:fitting], [row[:fitting] for row in rows], width=width)
    if left_out := [name.removeprefix("#") for name in columns[fitting:]]:
        print_line(
            f"{len(left_out)} of {len(columns)} columns have no room in {room} characters and are "
            f"not shown: {', '.join(left_out)}; {_ELSEWHERE}"
        )


def _print_records(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print each row as lines, one a column: its name and its value."""
    width = max(map(cell_len, names), default=0)
    for number, row in enumerate(rows, start=1):
        print_line(f"row {number} of {len(rows)}")
        for name, value in zip(names, row, strict=True):
            print_line(f"  {name}{' ' * (width - cell_len(name))}  {value}")


def _store_uri(target: str) -> str | None:
    """The store that a target names; `None` when it is a run."""
    is_uri = "/" in target or target.startswith("duckdb:")  # no name of a run has a slash
    is_file = StoreConfig(uri=target).uri != target  # by its suffix a DuckDB file
    return target if is_uri or is_file or Path(target, STORE_MARK).is_file() else None


def _cell(value: Any) -> str:
    """A value as SQL prints it: `print_table` would make verdicts of booleans and round 0.0002."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.15g}" if isinstance(value, float) else printable(str(value))


def _plain_value(value: Any) -> Any:
    """A value without polars types and decimals; DuckDB returns sums of integers as decimals."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, pl.Series | list):
        return [_plain_value(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain_value(each) for name, each in value.items()}
    return value
