"""Rebuilds a damaged DuckDB file, from a Parquet copy or from what can still be read of the file.

The damaged file is never deleted: it is renamed to `<file>.damaged-<n>`, and so are its write-ahead
log and its journal. The new file is built beside it as `<file>.rebuilt` and renamed when it is
whole. So the next rebuild starts an interrupted one again, or does the renames that are missing.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import duckdb
import polars as pl
from duckdb import DuckDBPyConnection as Connection

from assizes.judge.errors import SchemaVersion, StoreBusy, StoreError
from assizes.judge.rows import PEOPLE_TABLES, SHARD_TABLES
from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.store.duckdb_file import (
    first_line,
    is_damage,
    open_connection,
    statement_error,
)
from assizes.tasks.store.duckdb_rows import plan_of, present_tables, rows_of
from assizes.tasks.store.lake import ParquetStore
from assizes.tasks.store.objects import sync_folder
from assizes.tasks.store.people import FilePeople
from assizes.tasks.store.record import RUN_TABLES, RunRecord
from assizes.tasks.store.warehouse import DuckDBStore

_FILE_SUFFIXES: Final = ("", ".wal", ".commits")  # of a DuckDB file, its log and its journal
_PIECE_ROWS: Final = 100_000  # rows of a Parquet copy that are inserted together, at least
_READ_ERRORS: Final = (duckdb.Error, pl.exceptions.PolarsError)


@dataclass(slots=True)
class RebuildResult:
    """The runs in the new file, and the reasons why others are lost."""

    kept_run_ids: list[str] = field(default_factory=list)
    # Reasons by run id, or under `every run`, `every comparison` or `every calibration`.
    losses: dict[str, str] = field(default_factory=dict)
    old_file: Path | None = None  # where the damaged file is now, if there was one


def rebuild(uri: str, path: Path, copy: ParquetStore | None) -> RebuildResult:
    """Build the DuckDB file of a store again; see `assizes.tasks.store.rebuild_store`.

    Raises:
        StoreBusy: when another process has the file open.
        SchemaVersion: when the file has the schema of another version of this program.
        StoreError: when there is nothing to rebuild.
    """
    scratch = path.with_name(f"{path.name}.rebuilt")
    result = RebuildResult()
    # A scratch file without the old one: an interrupted rebuild lacks only its last renames.
    if path.exists() or not scratch.exists():
        _check_needed(uri, path, copy)
        for leftover in _store_files(scratch):  # of a rebuild that was interrupted earlier
            leftover.unlink(missing_ok=True)
        failpoint("rebuild.before")
        with DuckDBStore(f"{uri} (rebuilt)", scratch, writing=True) as store:
            if copy is None:
                _salvage(path, store, result)
            else:
                _copy_runs(copy, store, result)
    if copy is not None:  # beside the file, where the rows of people of the old one stay as well
        for table in PEOPLE_TABLES:
            FilePeople(path).add(table, copy.people.rows(table).to_dicts())
    result.old_file = _swap_files(path, scratch)
    failpoint("rebuild.after")
    if not result.kept_run_ids:  # copied by an earlier rebuild, if at all
        with DuckDBStore(uri, path, writing=False) as store:
            result.kept_run_ids = store.runs()["run_id"].to_list()
    return result


def _check_needed(uri: str, path: Path, copy: ParquetStore | None) -> None:
    """Refuse to rebuild a file that can be read to its end, unless a copy is to replace it."""
    try:
        DuckDBStore(uri, path, writing=False).close()
    except (StoreBusy, SchemaVersion):
        raise
    except StoreError:
        if not any(file.exists() for file in _store_files(path)) and copy is None:
            raise
        return  # damaged, or replaced by the copy
    if copy is None and _can_be_read(uri, path):
        raise StoreError(f"{uri} is whole: nothing to rebuild")


def _can_be_read(uri: str, path: Path) -> bool:
    """Whether every value of every table can be read; opening a file reads few of its blocks.

    Raises:
        StoreBusy: when another process has the file open.
        StoreError: when reading fails for another reason than damage.
    """
    with open_connection(uri, path, writing=False) as con:
        try:
            for table in sorted(present_tables(con, writing=True)):
                con.execute(f'select bit_xor(hash(held)) from "{table}" as held').fetchall()
        except duckdb.Error as error:
            if is_damage(error):
                return False
            raise statement_error(uri, error) from error
    return True


def _copy_runs(copy: ParquetStore, store: DuckDBStore, result: RebuildResult) -> None:
    for run_id in reversed(copy.runs()["run_id"].to_list()):  # the oldest first
        run = copy.run(run_id)
        store.adopt_run(run, _rows(copy, run_id), copy.shard_counts(run_id))
        result.kept_run_ids.append(run_id)
        failpoint("rebuild.half")
    for row in copy.comparisons().rows(named=True):
        store.add_comparison(row)
    for row in copy.calibrations().rows(named=True):
        store.add_calibration(row)


def _rows(copy: ParquetStore, run_id: str) -> Iterator[tuple[str, pl.DataFrame]]:
    """The rows of a run by table, in pieces of at least `_PIECE_ROWS`, but for the last."""
    for table in SHARD_TABLES:
        piece: list[pl.DataFrame] = []
        for rows in copy.manifest.frames(table, copy.manifest.snapshot(run_id).parts(table)):
            piece.append(rows)
            # Small inserts are slow in DuckDB.
            if sum(frame.height for frame in piece) >= _PIECE_ROWS:
                yield table, pl.concat(piece)
                piece = []
        if piece:
            yield table, pl.concat(piece)
    yield "run_metrics", copy.table(run_id, "run_metrics")


def _salvage(path: Path, store: DuckDBStore, result: RebuildResult) -> None:
    """Copy each run that can be read whole into the new file."""
    bare = path.with_name(f"{path.name}.bare")
    bare.unlink(missing_ok=True)  # left by a rebuild that was killed
    if not path.exists():
        result.losses["every run"] = f"{path.name} is not there"
        return
    bare.hardlink_to(path)  # a name beside which DuckDB finds no write-ahead log
    try:
        # First with the write-ahead log, which holds the newest runs; without it where that fails.
        if not any(_salvage_runs(source, store, result) for source in (path, bare)):
            result.losses.setdefault("every run", "the file cannot be read")
    finally:
        bare.unlink(missing_ok=True)


def _salvage_runs(source: Path, store: DuckDBStore, result: RebuildResult) -> bool:
    """Copy the runs of a file one by one; returns False when its runs cannot even be listed."""
    with ExitStack() as opened:
        try:
            con = opened.enter_context(duckdb.connect(source, read_only=True))
            con.execute("set TimeZone='UTC'")
            runs = rows_of(con, "runs").unique("run_id", maintain_order=True)  # no unique index
        except _READ_ERRORS as error:
            result.losses["every run"] = first_line(error)
            return False
        for row in runs.sort("started_at", "run_id").rows(named=True):
            _salvage_run(con, row, store, result)
            failpoint("rebuild.half")
        _salvage_comparisons(con, store, result)
    result.losses.pop("every run", None)  # noted by the first try
    return True


def _salvage_comparisons(con: Connection, store: DuckDBStore, result: RebuildResult) -> None:
    """Copy comparisons and calibrations; a table that cannot be read costs no run."""
    kinds = {"comparison": store.add_comparison, "calibration": store.add_calibration}
    for kind, add in kinds.items():
        rows: list[dict[str, Any]] = []
        try:
            # A file may be older than table calibrations.
            if kind == "comparison" or "calibrations" in present_tables(con, writing=True):
                rows = rows_of(con, f"{kind}s").rows(named=True)
        except _READ_ERRORS as error:
            result.losses[f"every {kind}"] = first_line(error)
        for row in rows:
            add(row)


def _salvage_run(
    con: Connection, row: Mapping[str, Any], store: DuckDBStore, result: RebuildResult
) -> None:
    """Copy one run with all its tables, or note why it is lost; `row` is its row of table runs."""
    run_id = row["run_id"]
    shards = "select shard, counts from _commits where run_id = ?"
    try:
        frames = [(table, rows_of(con, table, run_id)) for table in RUN_TABLES]
        commits = {s: json.loads(c) for s, c in con.execute(shards, [run_id]).fetchall()}
        run = RunRecord.of_row(row, plan_of(con, run_id) or {})
    except (*_READ_ERRORS, ValueError) as error:
        result.losses[run_id] = first_line(error)
        return
    store.adopt_run(run, frames, commits)
    result.kept_run_ids.append(run_id)


def _store_files(path: Path) -> list[Path]:
    """The DuckDB file at a path, its write-ahead log and its journal, whether they exist or not."""
    return [path.with_name(path.name + suffix) for suffix in _FILE_SUFFIXES]


def _swap_files(path: Path, scratch: Path) -> Path | None:
    """Rename old files, then new ones into their place; returns the old file's new path, if any."""
    # The first free name, or the name that an interrupted rebuild gave the damaged file already.
    names = (path.with_name(f"{path.name}.damaged-{number}") for number in itertools.count(1))
    old_path = last = next(names)
    while any(file.exists() for file in _store_files(old_path)):
        old_path, last = next(names), old_path
    if not path.exists():
        old_path = last  # its renames had begun: go on under the same name
    # A triple of current, new and old path for the DuckDB file, its log and its journal each.
    paths = list(zip(*map(_store_files, (path, scratch, old_path)), strict=True))
    journal = paths[-1][0]
    for current, new, old in paths:
        # Once the new journal has taken the place of the old one, it must stay there.
        if current.exists() and (current != journal or new.exists()):
            current.rename(old)
        failpoint("rebuild.aside")
    for current, new, _ in reversed(paths):  # the DuckDB file last: with it the rebuild is done
        if new.exists():
            new.rename(current)
    sync_folder(path.parent)
    return old_path if any(old.exists() for _, _, old in paths) else None
