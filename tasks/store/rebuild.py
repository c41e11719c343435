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
from assizes.tasks.store.duckdb.file import first_line, tables_in
from assizes.tasks.store.duckdb.rows import plan_of, rows_of
from assizes.tasks.store.duckdb.warehouse import Warehouse
from assizes.tasks.store.lake.lake import Lake
from assizes.tasks.store.objects.folder import sync_folder
from assizes.tasks.store.record import RUN_TABLES, RunRecord

_JOURNAL: Final = ".commits"
_BESIDE: Final = ("", ".wal", _JOURNAL)
_PIECE: Final = 100_000


@dataclass(slots=True)
class Rebuilt:
    """What a rebuild came to.

    Attributes:
        kept: ids of the runs that are there.
        lost: why others are not, by id; or `every run`, `every comparison`, `every calibration`.
        aside: where the old file is; null where there was none.
    """

    kept: list[str] = field(default_factory=list)
    lost: dict[str, str] = field(default_factory=dict)
    aside: Path | None = None


def rebuild(uri: str, path: Path, copy: Lake | None) -> Rebuilt:
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
    done = Rebuilt()
    if not (scratch.exists() and not path.exists()):
        _check_needed(uri, path, copy)
        _discard(scratch)
        failpoint("rebuild.before")
        _build(uri, path, scratch, copy, done)
    done.aside = _swapped(path, scratch)
    failpoint("rebuild.after")
    if not done.kept:
        with Warehouse(uri, path, writing=False) as store:
            done.kept = store.runs()["run_id"].to_list()
    return done


def _check_needed(uri: str, path: Path, copy: Lake | None) -> None:
    try:
        Warehouse(uri, path, writing=False).close()
    except (StoreBusy, SchemaVersion):
        raise
    except StoreError:
        wal, journal = (path.with_name(path.name + end) for end in _BESIDE[1:])
        if not any(one.exists() for one in (path, wal, journal)) and copy is None:
            raise
        return
    if copy is None:
        raise StoreError(f"{uri} is whole: nothing to rebuild")


def _build(uri: str, path: Path, scratch: Path, copy: Lake | None, done: Rebuilt) -> None:
    with Warehouse(f"{uri} (rebuilt)", scratch, writing=True) as store:
        if copy is not None:
            for run_id in reversed(copy.runs()["run_id"].to_list()):
                run = copy.run(run_id)
                store.adopt(run, _rows(copy, run_id), copy.committed(run_id))
                done.kept.append(run_id)
                failpoint("rebuild.half")
            for row in copy.comparisons().rows(named=True):
                store.add_comparison(row)
            for row in copy.calibrations().rows(named=True):
                store.add_calibration(row)
        else:
            _salvage(path, store, done)


def _rows(copy: Lake, run_id: str) -> Iterator[tuple[str, pl.DataFrame]]:
    """The rows of a run by table, in pieces large enough to be inserted quickly."""
    for table in SHARD_TABLES:
        piece: list[pl.DataFrame] = []
        for rows in copy.manifest.frames(table, copy.manifest.parts(run_id, table)):
            piece.append(rows)
            if sum(one.height for one in piece) >= _PIECE:
                yield table, pl.concat(piece)
                piece = []
        if piece:
            yield table, pl.concat(piece)
    yield "run_metrics", copy.table(run_id, "run_metrics")


def _salvage(path: Path, store: Warehouse, done: Rebuilt) -> None:
    """Take over each run that can be read whole; first with the log, then without it."""
    bare = path.with_name(f"{path.name}.bare")
    bare.unlink(missing_ok=True)
    if not path.exists():
        done.lost["every run"] = f"{path.name} is not there"
        return
    bare.hardlink_to(path)
    try:
        if not any(_taken_over(source, store, done) for source in (path, bare)):
            done.lost.setdefault("every run", "the file cannot be read")
    finally:
        bare.unlink(missing_ok=True)


def _taken_over(source: Path, store: Warehouse, done: Rebuilt) -> bool:
    """Whether the runs of the file can be listed; then each is kept or lost by itself."""
    with ExitStack() as opened:
        try:
            con = opened.enter_context(duckdb.connect(source, read_only=True))
            con.execute("set TimeZone='UTC'")
            runs = rows_of(con, "runs").unique("run_id", maintain_order=True)
        except (duckdb.Error, pl.exceptions.PolarsError) as error:
            done.lost["every run"] = first_line(error)
            return False
        for row in runs.sort("started_at", "run_id").rows(named=True):
            _take_over(con, row, store, done)
            failpoint("rebuild.half")
        _take_over_findings(con, store, done)
    done.lost.pop("every run", None)
    return True


def _take_over_findings(con: duckdb.DuckDBPyConnection, store: Warehouse, done: Rebuilt) -> None:
    """Comparisons and calibrations; where a table cannot be read, no run is lost for it."""
    for kind, add in {
        "comparison": store.add_comparison,
        "calibration": store.add_calibration,
    }.items():
        try:
            if kind == "calibration" and "calibrations" not in tables_in(con):
                continue  # the file is older than the table
            rows = rows_of(con, f"{kind}s").rows(named=True)
        except (duckdb.Error, pl.exceptions.PolarsError) as error:
            done.lost[f"every {kind}"] = first_line(error)
            continue
        for row in rows:
            add(row)


def _take_over(
    con: duckdb.DuckDBPyConnection, row: Mapping[str, Any], store: Warehouse, done: Rebuilt
) -> None:
    run_id = row["run_id"]
    shards = "select shard, counts from _commits where run_id = ?"
    try:
        frames = [(table, rows_of(con, table, run_id)) for table in RUN_TABLES]
        commits = {s: json.loads(c) for s, c in con.execute(shards, [run_id]).fetchall()}
        run = RunRecord.of_row(row, plan_of(con, run_id) or {})
    except (duckdb.Error, pl.exceptions.PolarsError, ValueError) as error:
        done.lost[run_id] = first_line(error)
        return
    store.adopt(run, frames, commits)
    done.kept.append(run_id)


def _discard(scratch: Path) -> None:
    for end in _BESIDE:
        scratch.with_name(scratch.name + end).unlink(missing_ok=True)


def _swapped(path: Path, scratch: Path) -> Path | None:
    """Put the old files aside and the new ones in their place; the new file last of all."""
    aside = _aside(path)
    for end in _BESIDE:
        old = path.with_name(path.name + end)
        # Once the new journal has taken the place of the old one, it is not to be put aside.
        if old.exists() and (end != _JOURNAL or scratch.with_name(scratch.name + end).exists()):
            old.rename(aside.with_name(aside.name + end))
        failpoint("rebuild.aside")
    for end in reversed(_BESIDE):
        new = scratch.with_name(scratch.name + end)
        if new.exists():
            new.rename(path.with_name(path.name + end))
    sync_folder(path.parent)
    return aside if any(aside.with_name(aside.name + end).exists() for end in _BESIDE) else None


def _aside(path: Path) -> Path:
    """A free name for the old file; where that is aside already, its name."""
    last = None
    for number in itertools.count(1):
        one = path.with_name(f"{path.name}.damaged-{number}")
        if not any(one.with_name(one.name + end).exists() for end in _BESIDE):
            return one if path.exists() or last is None else last
        last = one
    raise AssertionError("numbers do not end")
