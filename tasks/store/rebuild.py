"""A damaged DuckDB file made anew: from a Parquet copy, or from what can still be read of it.

The damaged files are never deleted: they are put aside as `<file>.damaged-<n>` with their log and
their journal. The new file is built beside them as `<file>.rebuilt` and renamed when it is whole,
so that a rebuild that was interrupted is begun again or ended by the next one.
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

from assizes.judge.errors import SchemaVersion, StoreBusy, StoreError
from assizes.judge.rows import SHARD_TABLES
from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.store.duckdb.file import first_line, table_names
from assizes.tasks.store.duckdb.rows import plan_of, rows_of
from assizes.tasks.store.duckdb.warehouse import DuckDBStore
from assizes.tasks.store.lake.lake import ParquetStore
from assizes.tasks.store.objects.folder import sync_folder
from assizes.tasks.store.record import RUN_TABLES, RunRecord

_JOURNAL: Final = ".commits"
_FILE_SUFFIXES: Final = ("", ".wal", _JOURNAL)
_PIECE_ROWS: Final = 100_000


@dataclass(slots=True)
class RebuildResult:
    """What a rebuild came to.

    Attributes:
        kept: ids of the runs that are there.
        lost: why others are not, by id; or `every run`, `every comparison`, `every calibration`.
        aside: where the old file is; null where there was none.
    """

    kept_run_ids: list[str] = field(default_factory=list)
    losses: dict[str, str] = field(default_factory=dict)
    old_file: Path | None = None


def rebuild(uri: str, path: Path, copy: ParquetStore | None) -> RebuildResult:
    """Make the DuckDB file of a store anew.

    Args:
        uri: the store, as configured.
        path: its file.
        copy: a Parquet store that holds the same runs; null to keep what can be read of the file.

    Raises:
        StoreBusy: when another process holds the file.
        SchemaVersion: when another version wrote it.
        StoreError: when there is nothing to rebuild.
    """
    scratch = path.with_name(f"{path.name}.rebuilt")
    result = RebuildResult()
    if not (scratch.exists() and not path.exists()):
        _check_needed(uri, path, copy)
        _discard(scratch)
        failpoint("rebuild.before")
        _build(uri, path, scratch, copy, result)
    result.old_file = _swap_files(path, scratch)
    failpoint("rebuild.after")
    if not result.kept_run_ids:
        with DuckDBStore(uri, path, writing=False) as store:
            result.kept_run_ids = store.runs()["run_id"].to_list()
    return result


def _check_needed(uri: str, path: Path, copy: ParquetStore | None) -> None:
    try:
        DuckDBStore(uri, path, writing=False).close()
    except (StoreBusy, SchemaVersion):
        raise
    except StoreError:
        wal, journal = (path.with_name(path.name + end) for end in _FILE_SUFFIXES[1:])
        if not any(file.exists() for file in (path, wal, journal)) and copy is None:
            raise
        return
    if copy is None:
        raise StoreError(f"{uri} is whole: nothing to rebuild")


def _build(
    uri: str, path: Path, scratch: Path, copy: ParquetStore | None, result: RebuildResult
) -> None:
    with DuckDBStore(f"{uri} (rebuilt)", scratch, writing=True) as store:
        if copy is not None:
            for run_id in reversed(copy.runs()["run_id"].to_list()):
                run = copy.run(run_id)
                store.adopt_run(run, _rows(copy, run_id), copy.shard_counts(run_id))
                result.kept_run_ids.append(run_id)
                failpoint("rebuild.half")
            for row in copy.comparisons().rows(named=True):
                store.add_comparison(row)
            for row in copy.calibrations().rows(named=True):
                store.add_calibration(row)
        else:
            _salvage(path, store, result)


def _rows(copy: ParquetStore, run_id: str) -> Iterator[tuple[str, pl.DataFrame]]:
    """The rows of a run by table, in pieces large enough to be inserted quickly."""
    for table in SHARD_TABLES:
        piece: list[pl.DataFrame] = []
        for rows in copy.manifest.frames(table, copy.manifest.parts(run_id, table)):
            piece.append(rows)
            if sum(frame.height for frame in piece) >= _PIECE_ROWS:
                yield table, pl.concat(piece)
                piece = []
        if piece:
            yield table, pl.concat(piece)
    yield "run_metrics", copy.table(run_id, "run_metrics")


def _salvage(path: Path, store: DuckDBStore, result: RebuildResult) -> None:
    """Take over each run that can be read whole; first with the log, then without it."""
    bare = path.with_name(f"{path.name}.bare")
    bare.unlink(missing_ok=True)
    if not path.exists():
        result.losses["every run"] = f"{path.name} is not there"
        return
    bare.hardlink_to(path)
    try:
        if not any(_salvage_runs(source, store, result) for source in (path, bare)):
            result.losses.setdefault("every run", "the file cannot be read")
    finally:
        bare.unlink(missing_ok=True)


def _salvage_runs(source: Path, store: DuckDBStore, result: RebuildResult) -> bool:
    """Whether the runs of the file can be listed; then each is kept or lost by itself."""
    with ExitStack() as opened:
        try:
            con = opened.enter_context(duckdb.connect(source, read_only=True))
            con.execute("set TimeZone='UTC'")
            runs = rows_of(con, "runs").unique("run_id", maintain_order=True)
        except (duckdb.Error, pl.exceptions.PolarsError) as error:
            result.losses["every run"] = first_line(error)
            return False
        for row in runs.sort("started_at", "run_id").rows(named=True):
            _salvage_run(con, row, store, result)
            failpoint("rebuild.half")
        _salvage_findings(con, store, result)
    result.losses.pop("every run", None)
    return True


def _salvage_findings(
    con: duckdb.DuckDBPyConnection, store: DuckDBStore, result: RebuildResult
) -> None:
    """Comparisons and calibrations; where a table cannot be read, no run is lost for it."""
    for kind, add in {
        "comparison": store.add_comparison,
        "calibration": store.add_calibration,
    }.items():
        try:
            if kind == "calibration" and "calibrations" not in table_names(con):
                continue  # the file is older than the table
            rows = rows_of(con, f"{kind}s").rows(named=True)
        except (duckdb.Error, pl.exceptions.PolarsError) as error:
            result.losses[f"every {kind}"] = first_line(error)
            continue
        for row in rows:
            add(row)


def _salvage_run(
    con: duckdb.DuckDBPyConnection,
    row: Mapping[str, Any],
    store: DuckDBStore,
    result: RebuildResult,
) -> None:
    run_id = row["run_id"]
    shards = "select shard, counts from _commits where run_id = ?"
    try:
        frames = [(table, rows_of(con, table, run_id)) for table in RUN_TABLES]
        commits = {s: json.loads(c) for s, c in con.execute(shards, [run_id]).fetchall()}
        run = RunRecord.of_row(row, plan_of(con, run_id) or {})
    except (duckdb.Error, pl.exceptions.PolarsError, ValueError) as error:
        result.losses[run_id] = first_line(error)
        return
    store.adopt_run(run, frames, commits)
    result.kept_run_ids.append(run_id)


def _discard(scratch: Path) -> None:
    for end in _FILE_SUFFIXES:
        scratch.with_name(scratch.name + end).unlink(missing_ok=True)


def _swap_files(path: Path, scratch: Path) -> Path | None:
    """Put the old files aside and the new ones in their place; the new file last of all."""
    aside = _aside_path(path)
    for end in _FILE_SUFFIXES:
        old = path.with_name(path.name + end)
        # Once the new journal has taken the place of the old one, it is not to be put aside.
        if old.exists() and (end != _JOURNAL or scratch.with_name(scratch.name + end).exists()):
            old.rename(aside.with_name(aside.name + end))
        failpoint("rebuild.aside")
    for end in reversed(_FILE_SUFFIXES):
        new = scratch.with_name(scratch.name + end)
        if new.exists():
            new.rename(path.with_name(path.name + end))
    sync_folder(path.parent)
    return (
        aside if any(aside.with_name(aside.name + end).exists() for end in _FILE_SUFFIXES) else None
    )


def _aside_path(path: Path) -> Path:
    """A free name for the old file; where that is aside already, its name."""
    last = None
    for number in itertools.count(1):
        candidate = path.with_name(f"{path.name}.damaged-{number}")
        if not any(candidate.with_name(candidate.name + end).exists() for end in _FILE_SUFFIXES):
            return candidate if path.exists() or last is None else last
        last = candidate
    raise AssertionError("numbers do not end")
