"""A store of Parquet files in a folder or a bucket: many writers, no server.

    _assizes.json                                   the schema version
    runs/<run>/input.json                           the plan, created once
    runs/<run>/run.json                             the run as it began, created once
    runs/<run>/parts/<table>-<shard>-<hash>.parquet named by content, never overwritten
    runs/<run>/commits/<shard>.json                 created once: THE commit point of a shard
    runs/<run>/STOPPED.json                         how a run ended that may be resumed
    runs/<run>/SUCCESS.json                         how it ended complete; created once, last
    comparisons/<baseline>..<candidate>-<hash>.json
    calibrations/<fingerprint>-<hash>.json          named by its record, created once

Readers open only parts that a commit mark names and check them against it, so that what a crashed
or slower writer left behind is never seen.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self

import polars as pl

from judge.errors import SchemaVersion, StoreError, UnknownRun
from judge.rows import KEYS, SCHEMA_VERSION, TABLES, as_json, frame
from tasks.store.objects import Objects, size_error
from tasks.store.record import (
    COMPLETE,
    RUN_TABLES,
    RunRecord,
    check_input,
    checked_frames,
    checked_id,
    checked_metrics,
    checked_table,
    ending,
    full_id,
    is_id,
    newest_first,
    parquet,
    resumed,
)

_META: Final = "_assizes.json"
_ENDS: Final = ("SUCCESS.json", "STOPPED.json")


class Lake:
    """The Parquet store; see `tasks.store.protocol.Store` for what its methods promise."""

    def __init__(self, uri: str, objects: Objects, *, writing: bool) -> None:
        self.uri = uri
        self._objects = objects
        self._begun: set[str] = set()
        if writing:
            objects.create(_META, _encoded())
        if self._document(_META) is None:
            raise StoreError(f"no store at {uri}: run `assizes run` first")

    def begin(self, run: RunRecord) -> RunRecord:
        """Freeze a run, or return the one already there.

        The plan is created before the run: a run that can be seen has its plan.
        """
        checked_id(run.run_id, "run id")
        if self._stored(run.run_id) is None:
            name = f"runs/{run.run_id}/input.json"
            if not self._objects.create(name, as_json(run.plan).encode()):
                check_input(self.plan(run.run_id) or {}, run, self.uri)
            self._objects.create(
                f"runs/{run.run_id}/run.json",
                _encoded(run=_timed(run.row())),
            )
        return resumed(self._known(run.run_id), run, self.uri)

    def plan(self, run_id: str) -> dict[str, Any] | None:
        """The input manifest a run was frozen with."""
        name = f"runs/{run_id}/input.json"
        data = self._objects.read([name]).get(name) if is_id(run_id) else None
        return None if data is None else self._parsed(name, data)

    def committed(self, run_id: str) -> dict[str, dict[str, int]]:
        """The counts of each committed shard, from the commit marks."""
        self._check_begun(run_id)
        return {shard: dict(mark["counts"]) for shard, mark in self._marks(run_id).items()}

    def commit_shard(
        self,
        run_id: str,
        shard_id: str,
        frames: Mapping[str, pl.DataFrame],
        counts: Mapping[str, int],
    ) -> bool:
        """Write the parts, then create the commit mark that names them.

        Where the mark is there at the end but was not at the start, either another writer was
        faster, or this very write was acknowledged late and repeated; the content tells.
        """
        checked_id(shard_id, "shard id")
        tables = checked_frames(run_id, frames)
        self._check_begun(run_id)
        name = f"runs/{run_id}/commits/{shard_id}.json"
        if self._objects.read([name]):
            return False
        parts = {
            table: self._write_part(run_id, f"{table}-{shard_id}", rows)
            for table, rows in tables.items()
            if rows.height
        }
        mark = _encoded(
            run_id=run_id,
            shard=shard_id,
            counts=dict(counts),
            parts=parts,
        )
        return self._objects.create(name, mark) or self._objects.read([name]).get(name) == mark

    def finish(self, run: RunRecord, run_metrics: pl.DataFrame) -> None:
        """Write the run's final row and metrics, last of all."""
        metrics = checked_metrics(run.run_id, run_metrics)
        final = self._ending(run, metrics)
        if final is None:
            return
        end = _encoded(
            run=_timed(final.row()),
            run_metrics=metrics.select("name", "value").to_dicts(),
        )
        success, stopped = (f"runs/{run.run_id}/{name}" for name in _ENDS)
        if final.status != COMPLETE:
            self._objects.replace(stopped, end)
        elif not self._objects.create(success, end):
            self._ending(run, metrics)

    def runs(self) -> pl.DataFrame:
        """Table runs, newest first."""
        ids = self._objects.names("runs")
        kinds = ("run.json", *reversed(_ENDS))
        names = [f"runs/{run_id}/{kind}" for run_id in ids for kind in kinds]
        found = self._documents(names)
        latest = {name.split("/")[1]: found[name]["run"] for name in names if name in found}
        rows = [RunRecord.of_row(row, {}).row() for row in latest.values()]
        return newest_first(frame("runs", rows))

    def run(self, run_id: str) -> RunRecord:
        """A run by its id or a unique beginning of it."""
        return self._stored(run_id) or self._known(full_id(run_id, self.runs()["run_id"], self.uri))

    def table(self, run_id: str, name: str) -> pl.DataFrame:
        """A table of one run, its parts checked against their SHA-256."""
        checked_table(name, RUN_TABLES)
        self._check_begun(run_id)
        if name == "run_metrics":
            return self._metrics(run_id)
        parts = self._parts(run_id, name)
        found = self._objects.read(list(parts))
        frames = [frame(name, [])]
        for path, part in parts.items():
            data = found.get(path)
            if data is None or len(data) != part["bytes"]:
                size = None if data is None else len(data)
                raise size_error(self._objects.where, path, size, part["bytes"])
            if hashlib.sha256(data).hexdigest() != part["sha256"]:
                raise StoreError(
                    f"{self._objects.where}: {path} is not what was committed (SHA-256 differs); "
                    "restore the file"
                )
            frames.append(pl.read_parquet(io.BytesIO(data)))
        return pl.concat(frames, rechunk=True).sort(KEYS[name], maintain_order=True)

    def scan(self, run_id: str, name: str) -> pl.LazyFrame:
        """The committed parts as one lazy frame."""
        checked_table(name, RUN_TABLES)
        self._check_begun(run_id)
        if name == "run_metrics":
            return self._metrics(run_id).lazy()
        parts = self._parts(run_id, name)
        if not parts:
            return frame(name, []).lazy()
        sources = self._objects.sources({path: part["bytes"] for path, part in parts.items()})
        return pl.scan_parquet(sources, glob=False, hive_partitioning=False)

    def add_comparison(self, row: Mapping[str, Any]) -> None:
        """Keep a row of table comparisons under a name made from its content."""
        added = _timed(frame("comparisons", [row]).row(0, named=True))
        data = _encoded(comparison=added)
        pair = "..".join(checked_id(added[side], "run id") for side in ("baseline", "candidate"))
        self._objects.create(f"comparisons/{pair}-{_short_hash(data)}.json", data)

    def comparisons(self) -> pl.DataFrame:
        """Table comparisons, sorted by its keys, then by what was found."""
        found = self._kept("comparisons")
        return found.sort(found.columns)

    def add_calibration(self, row: Mapping[str, Any]) -> None:
        """Keep a row of table calibrations under a name made from its record, not its time."""
        added = _timed(frame("calibrations", [row]).row(0, named=True))
        about = _encoded(run_id=added["run_id"], record=added["record"])
        name = f"{checked_id(added['fingerprint'], 'fingerprint')}-{_short_hash(about)}"
        self._objects.create(f"calibrations/{name}.json", _encoded(calibration=added))

    def calibrations(self) -> pl.DataFrame:
        """Table calibrations in order of time."""
        return self._kept("calibrations").sort(KEYS["calibrations"], maintain_order=True)

    def close(self) -> None:
        """Nothing is held open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _write_part(self, run_id: str, stem: str, rows: pl.DataFrame) -> dict[str, Any]:
        data = parquet(rows)
        digest = hashlib.sha256(data).hexdigest()
        name = f"{stem}-{digest[:16]}.parquet"
        self._objects.create(f"runs/{run_id}/parts/{name}", data)
        return {"name": name, "bytes": len(data), "sha256": digest, "rows": rows.height}

    def _parts(self, run_id: str, table: str) -> dict[str, dict[str, Any]]:
        """The parts of a table that commit marks name, by object name, in order of shard."""
        parts = [m["parts"][table] for m in self._marks(run_id).values() if table in m["parts"]]
        return {f"runs/{run_id}/parts/{part['name']}": part for part in parts}

    def _marks(self, run_id: str) -> dict[str, dict[str, Any]]:
        folder = f"runs/{run_id}/commits"
        names = [f"{folder}/{name}" for name in self._objects.names(folder)]
        return {mark["shard"]: mark for mark in self._documents(names).values()}

    def _kept(self, table: str) -> pl.DataFrame:
        """A table whose rows are one document each: `comparisons` holds `comparison`s."""
        names = [f"{table}/{name}" for name in self._objects.names(table)]
        rows = [document[table[:-1]] for document in self._documents(names).values()]
        texts = pl.DataFrame(rows, schema={**TABLES[table], "at": pl.String}, orient="row")
        times = pl.col("at").str.to_datetime(time_unit="us", time_zone="UTC")
        return texts.with_columns(times)

    def _ending(self, run: RunRecord, metrics: pl.DataFrame) -> RunRecord | None:
        """The final form of a run, or null when it is what the store holds now."""
        stored = self._known(run.run_id)
        same = self._metrics(run.run_id).equals(metrics)
        return ending(stored, run, self.uri, same_metrics=same)

    def _metrics(self, run_id: str) -> pl.DataFrame:
        end = self._end(run_id)
        rows = [] if end is None else end["run_metrics"]
        return frame("run_metrics", [{"run_id": run_id, **row} for row in rows])

    def _end(self, run_id: str) -> dict[str, Any] | None:
        names = [f"runs/{run_id}/{name}" for name in _ENDS]
        found = self._documents(names)
        return next((found[name] for name in names if name in found), None)

    def _stored(self, run_id: str) -> RunRecord | None:
        began = self._document(f"runs/{run_id}/run.json") if is_id(run_id) else None
        if began is None:
            return None
        latest = self._end(run_id) or began
        return RunRecord.of_row(latest["run"], self.plan(run_id) or {})

    def _known(self, run_id: str) -> RunRecord:
        stored = self._stored(run_id)
        if stored is None:
            raise UnknownRun.named(run_id, self.uri, self.runs()["run_id"])
        self._begun.add(run_id)
        return stored

    def _check_begun(self, run_id: str) -> None:
        if run_id not in self._begun:
            self._known(run_id)

    def _document(self, name: str) -> dict[str, Any] | None:
        return self._documents([name]).get(name)

    def _documents(self, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Those documents that are there, each written by this version."""
        found = {name: self._parsed(name, data) for name, data in self._objects.read(names).items()}
        for document in found.values():
            version = document.get("schema_version")
            if version != SCHEMA_VERSION:
                raise SchemaVersion.mismatch(self.uri, version, SCHEMA_VERSION)
        return found

    def _parsed(self, name: str, data: bytes) -> dict[str, Any]:
        try:
            document: dict[str, Any] = json.loads(data)
        except ValueError as error:
            raise StoreError(f"{self._objects.where}: {name} is not JSON: {error}") from error
        return document


def _short_hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _encoded(**content: Any) -> bytes:
    return as_json({"schema_version": SCHEMA_VERSION, **content}).encode()


def _timed(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with its times as ISO 8601 text."""
    return {k: v.isoformat() if isinstance(v, datetime) else v for k, v in row.items()}
