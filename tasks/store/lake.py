"""A store of Parquet files in a folder or a bucket: many writers, no server.

    _assizes.json                                   the schema version
    runs/<run>/input.json                           the plan, created once
    runs/<run>/run.json                             the run as it began, created once
    runs/<run>/parts/<table>-<shard>-<attempt>.parquet  never overwritten
    runs/<run>/commits/<shard>.json                 created once: THE commit point of a shard
    runs/<run>/generations/<number>.json            parts that replace those of shards; created once
    runs/<run>/holds/<process>.json                 a process's lock on the run: when it expires
    runs/<run>/STOPPED.json                         the end of a run that may be resumed
    runs/<run>/SUCCESS.json                         the end of a complete run; created once, last
    comparisons/<baseline>..<candidate>-<hash>.json
    calibrations/<fingerprint>-<hash>.json          the hash is of its record; created once
    labels/, annotations/, queues/, cause_edits/<hash>.lines    rows of people; created once
    causes/<table>/<run>.parquet                    causes of a run; found again at any time
    index/<table>.parquet                           derived, so that lists read little; made again

Readers open only parts that a commit mark or a generation names, and check the parts against it. So
they never see what a writer left behind that crashed or came second.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import polars as pl

from assizes.judge.errors import NoStore, StoreError, UnknownRun
from assizes.judge.rows import COMPLETE, KEYS, TABLES, as_json, frame
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.runtime.process import Closing
from assizes.tasks.store import record
from assizes.tasks.store.cause_tables import CauseTables
from assizes.tasks.store.listing.lake_comparisons import LakeComparisons, row_with_iso_times
from assizes.tasks.store.listing.lake_runs import BEGUN, ENDS, LakeRuns
from assizes.tasks.store.listing.run_index import RunIndex
from assizes.tasks.store.listing.tables import DerivedTables
from assizes.tasks.store.manifest import (
    Documents,
    Manifest,
    Snapshot,
    encode_document,
    parts_with,
    scan_parts,
    seal,
)
from assizes.tasks.store.objects import Objects
from assizes.tasks.store.people import ObjectPeople
from assizes.tasks.store.record import (
    CASE_TABLES,
    RUN_TABLES,
    STORE_MARK,
    Counts,
    Frames,
    RunLock,
    RunRecord,
    checked_id,
)
from assizes.tasks.store.rewrite import CompactionResult, Rewriter
from assizes.tasks.store.run_names import resolve_run, run_names

_READ_WHOLE: Final = 8 * 1024 * 1024
"""Bytes of compressed parts up to which `rows_of_cases` reads all rows, and then leaves most out."""


class ParquetStore(Closing):
    """The Parquet store; see `assizes.tasks.store.protocol.Store` for what its methods promise."""

    sliceable: Final = True

    def __init__(self, uri: str, objects: Objects, *, writing: bool) -> None:
        self.uri = uri
        self.objects = objects
        self.people = ObjectPeople(objects)
        self.causes = CauseTables(objects)
        self._documents = Documents(uri, objects)
        self.manifest = Manifest(objects, self._documents)  # names the parts of each run's rows
        self.derived = DerivedTables(objects)
        self._comparisons = LakeComparisons(objects, self._documents)
        self._runs = LakeRuns(objects, self._documents)
        self._index = RunIndex(self.derived, self._runs)
        self._known_run_ids: set[str] = set()  # seen in the store, so not looked for again
        self._lock_owner = uuid.uuid4().hex  # names this process's locks
        self._begun_locks: dict[str, dict[str, Any]] = {}  # `since` and `done` of its locks, by run
        if writing:
            objects.create(STORE_MARK, encode_document())  # no effect where it is there already
        if not self._documents.read_documents([STORE_MARK]):
            raise NoStore.at(uri)

    @property
    def many_writers(self) -> bool:
        """Whether creating an object fails where it exists, so that several writers are safe."""
        return self.objects.creates_once()

    def begin(self, run: RunRecord) -> RunRecord:
        """Store a run that begins, or return the stored run."""
        failpoint("lake.begin.before")
        checked_id(run.run_id, "run id")
        if self._stored_run(run.run_id) is None:
            # The plan is created before the run, so that every run that can be seen has a plan.
            name = f"runs/{run.run_id}/input.json"
            if not self.objects.create(name, seal(as_json(run.plan).encode())):
                # The plan of another process, or of one that was killed here, stands.
                planned = replace(run, plan=self.plan(run.run_id) or {})
                record.resumable_run(planned, run, self.uri)
            failpoint("lake.begin.planned")
            begun = encode_document(run=row_with_iso_times(run.row()))
            if self.objects.create(f"runs/{run.run_id}/{BEGUN}", begun):
                self._index.drop(run.run_id)
            failpoint("lake.begin.after")
        return record.resumable_run(self._known_run(run.run_id), run, self.uri)

    def plan(self, run_id: str) -> dict[str, Any] | None:
        """The plan that a run began with; None where there is no such run."""
        name = f"runs/{run_id}/input.json"
        is_id = record.ID_PATTERN.fullmatch(run_id)  # any other text could lead out of the store
        data = self.objects.read([name]).get(name) if is_id else None
        return None if data is None else self._documents.parse(name, data)

    def shard_counts(self, run_id: str) -> dict[str, dict[str, int]]:
        """The number of records by status in each committed shard, from the commit marks."""
        self._check_known(run_id)
        return {shard: dict(mark["counts"]) for shard, mark in self.manifest.marks(run_id).items()}

    def revision(self, run_id: str) -> str:
        """The number of the newest generation, and the digest of the commit marks."""
        number = self.manifest.snapshot(checked_id(run_id, "run id")).number
        return f"{number}-{self.manifest.digest(run_id)['sha256']}"

    def row_revisions(self, run_ids: Collection[str]) -> dict[str, str]:
        """The end of each run and its newest generation, as no commit mark follows the end."""
        ended = dict(self.run_index().select("run_id", "finished_at").iter_rows())
        newest = self._runs.newest_generations(run_ids)
        return {run_id: f"{newest[run_id]} {ended[run_id]}" for run_id in run_ids}

    def commit_shard(self, run_id: str, shard_id: str, frames: Frames, counts: Counts) -> bool:
        """Write the parts, then create the commit mark that names them."""
        checked_id(shard_id, "shard id")
        tables = record.checked_frames(run_id, frames)
        self._check_known(run_id)
        name = f"runs/{run_id}/commits/{shard_id}.json"
        if self.objects.read([name]):
            return False
        attempt = uuid.uuid4().hex
        parts = {
            table: self.manifest.write_part(run_id, f"{table}-{shard_id}-{attempt}", rows)
            for table, rows in tables.items()
            if rows.height
        }
        mark = encode_document(
            run_id=run_id,
            shard=shard_id,
            attempt=attempt,
            counts=dict(counts),
            parts={table: asdict(part) for table, part in parts.items()},
        )
        failpoint("lake.mark.before")
        winner = self._create_mark(name, mark, attempt)
        failpoint("lake.mark.after")
        # Another writer was faster, and its rows stay. A put of this call that was retried, because
        # its acknowledgement came late, finds its own attempt id in the mark.
        if winner != attempt:
            self.objects.remove(f"runs/{run_id}/parts/{part.name}" for part in parts.values())
        return winner == attempt

    def finish(self, run: RunRecord, run_metrics: pl.DataFrame) -> None:
        """Write the document that ends the run, with its final row, metrics and commit digest."""
        metrics = record.checked_metrics(run.run_id, run_metrics)
        if (final := self._final_run(run, metrics)) is None:
            return
        end = encode_document(
            run=row_with_iso_times(final.row()),
            run_metrics=metrics.select("name", "value").to_dicts(),
            commits=self.manifest.digest(run.run_id),  # shows readers a mark that is lost later
        )
        success, stopped = (f"runs/{run.run_id}/{name}" for name in ENDS)
        failpoint("lake.finish.before")
        if final.status != COMPLETE:
            self.objects.replace(stopped, end)  # such a run may go on, and end again
        elif not self.objects.create(success, end):
            self._final_run(run, metrics)  # raises where the other process ended it otherwise
        failpoint("lake.finish.after")

    def runs(self) -> pl.DataFrame:
        """Table runs, those about the newest day first."""
        return self._runs.rows()

    def rows_of_runs(self, run_ids: Collection[str]) -> pl.DataFrame:
        """The rows of table runs of some runs (full ids)."""
        return record.newest_first(self._runs.rows_of_runs(run_ids))

    def run_index(self) -> pl.DataFrame:
        """What lists show of each run, those about the newest day first."""
        return self._index.rows()

    def run(self, run_id: str) -> RunRecord:
        """A run by its id or another name of it."""
        if stored := self._stored_run(run_id):
            return stored
        return self._known_run(resolve_run(run_id, run_names(self.run_index()), self.uri))

    def full_id(self, run_id: str) -> str:
        """The id of a run by its id or another name of it."""
        if run_id not in self._known_run_ids:
            run_id = self.run(run_id).run_id
            self._known_run_ids.add(run_id)
        return run_id

    def table(self, run_id: str, name: str) -> pl.DataFrame:
        """A table of one run, its parts checked against their SHA-256."""
        record.check_table(name, RUN_TABLES)
        run_id = self.full_id(run_id)
        if name == "run_metrics":
            return self._metrics(run_id)
        frames = self.manifest.read_consistently(
            run_id, lambda now: list(self.manifest.frames(name, now.parts(name)))
        )
        rows = pl.concat([frame(name, []), *frames], rechunk=True)
        return rows.sort(KEYS[name], maintain_order=True)  # rows of equal keys stay as they came

    def scan(self, run_id: str, name: str) -> pl.LazyFrame:
        """The committed parts as one lazy frame."""
        record.check_table(name, RUN_TABLES)
        run_id = self.full_id(run_id)
        if name == "run_metrics":
            return self._metrics(run_id).lazy()
        if not (sources := self.sources(run_id, name)):
            return frame(name, []).lazy()
        return scan_parts(sources, name)

    def rows_of_cases(
        self,
        run_id: str,
        name: str,
        case_ids: Collection[str],
        columns: Sequence[str] | None = None,
    ) -> pl.DataFrame:
        """The rows of some cases; of parts without any of the cases, only the ids are read."""
        record.check_table(name, CASE_TABLES)
        names, of_cases = columns or list(TABLES[name]), pl.col("case_id").is_in(list(case_ids))

        def read(now: Snapshot) -> pl.DataFrame:
            parts = now.parts(name)
            sizes = [part.bytes for part in parts.values()]
            sources = self.manifest.sources(now, name)
            heights = [part.rows for part in parts.values()]
            chosen = parts_with(of_cases, sources, heights, name)
            if not chosen:
                return frame(name, []).select(names)
            rows = scan_parts([sources[n] for n in chosen], name, use_statistics=False)
            # polars reads whole parts in a seventh of the time of a condition on many ids.
            if sum(sizes[n] for n in chosen) <= _READ_WHOLE:
                whole = collect_rows(rows.select(*dict.fromkeys([*names, "case_id"])))
                return whole.filter(of_cases).select(names)
            return collect_rows(rows.filter(of_cases).select(names))

        return self.manifest.read_consistently(self.full_id(run_id), read)

    def sources(self, run_id: str, name: str, *, hashed: bool = True) -> list[Path] | list[bytes]:
        """What polars or DuckDB can scan for a table; see `Manifest.sources`."""
        return self.manifest.read_consistently(
            run_id, lambda now: self.manifest.sources(now, name, hashed=hashed)
        )

    def forgotten_cases(self, run_id: str) -> int:
        """The rows of cases that the commit marks count and the newest generation has not."""
        return self.manifest.snapshot(checked_id(run_id, "run id")).removed_rows("cases")

    def forget(self, run_id: str, case_ids: Collection[str]) -> None:
        """Publish a generation without these cases, then remove the parts that held them."""
        self._check_known(run_id)
        self.people.forget(run_id, case_ids)
        self.causes.forget(run_id, case_ids)
        Rewriter(self.objects, self.manifest, run_id).forget(case_ids)

    def compact(self, run_id: str) -> CompactionResult:
        """Merge the small parts of a complete run; see `Rewriter.compact`."""
        return Rewriter(self.objects, self.manifest, run_id).compact(self._known_run(run_id))

    def acquire_lock(self, run_id: str, until: datetime) -> None:
        """Write the document of this process's lock on a run."""
        if run_id not in self._begun_locks:
            marks = self.manifest.marks(checked_id(run_id, "run id"))
            done = record.cases_done({shard: mark["counts"] for shard, mark in marks.items()})
            self._begun_locks[run_id] = record.begun_lock(done)
        document = encode_document(until=until.isoformat(), **self._begun_locks[run_id])
        self.objects.replace(self._own_lock(run_id), document)

    def release_lock(self, run_id: str) -> None:
        """Delete this process's lock on a run, and the expired locks of others on the same run."""
        now = datetime.now(UTC)
        self._begun_locks.pop(run_id, None)
        expired = [name for name, lock in self._locks(run_id).items() if lock.until < now]
        self.objects.remove([self._own_lock(run_id), *expired])

    def locked_until(self, run_id: str, *, by_others: bool = False) -> datetime | None:
        """The time at which the last lock on a run expires; None without one."""
        own = self._own_lock(run_id) if by_others else None
        times = [lock.until for name, lock in self._locks(run_id).items() if name != own]
        return max(times, default=None)

    def run_locks(self, run_id: str) -> list[RunLock]:
        """The locks on a run, of this process and of others; expired ones too."""
        return list(self._locks(run_id).values())

    def _own_lock(self, run_id: str) -> str:
        return f"runs/{checked_id(run_id, 'run id')}/holds/{self._lock_owner}.json"

    def _locks(self, run_id: str) -> dict[str, RunLock]:
        """The locks on a run, by object name."""
        folder = f"runs/{checked_id(run_id, 'run id')}/holds"
        names = [f"{folder}/{name}" for name in self.objects.names(folder)]
        return {
            name: RunLock.of_document(document.content)
            for name, document in self._documents.read_documents(names).items()
        }

    def add_comparison(self, row: Mapping[str, Any]) -> None:
        """Store a row of table comparisons, unless the same row is stored already."""
        self._comparisons.add_comparison(row)

    def comparisons(self, candidates: Collection[str] | None = None) -> pl.DataFrame:
        """Table comparisons sorted by all columns, or its rows about some candidates."""
        return self._comparisons.comparisons(candidates)

    def add_calibration(self, row: Mapping[str, Any]) -> None:
        """Store a row of table calibrations, unless the run has the same record already."""
        self._comparisons.add_calibration(row)

    def calibrations(self) -> pl.DataFrame:
        """Table calibrations in order of time."""
        return self._comparisons.calibrations()

    def settle(self) -> None:
        """Do nothing: a lake keeps nothing back."""

    def close(self) -> None:
        """Do nothing: a lake keeps nothing open."""

    def _create_mark(self, name: str, mark: bytes, attempt: str) -> str:
        """Create a commit mark unless it exists; returns the attempt that created the mark."""
        fault: StoreError | None = None
        try:
            if self.objects.create(name, mark):
                return attempt
        except StoreError as error:
            fault = error  # the write may have arrived all the same: the mark tells
        document = self._documents.read_lasting([name]).get(name)
        if document is None:
            raise fault or StoreError(f"{self.objects.where}: {name} was there and is gone")
        return str(document.content.get("attempt"))

    def _final_run(self, run: RunRecord, metrics: pl.DataFrame) -> RunRecord | None:
        """The record of a run that ends, or None when the store holds the same end already."""
        stored = self._known_run(run.run_id)
        same = self._metrics(run.run_id).equals(metrics)
        return record.final_record(stored, run, self.uri, same_metrics=same)

    def _metrics(self, run_id: str) -> pl.DataFrame:
        end = self._end_document(run_id)
        rows = [] if end is None else end["run_metrics"]
        return frame("run_metrics", ({"run_id": run_id, **row} for row in rows))

    def _end_document(self, run_id: str) -> Mapping[str, Any] | None:
        names = [f"runs/{run_id}/{name}" for name in ENDS]
        documents = self._documents.read_documents(names)
        return next((documents[name].content for name in names if name in documents), None)

    def _stored_run(self, run_id: str) -> RunRecord | None:
        name = f"runs/{run_id}/{BEGUN}"
        is_id = record.ID_PATTERN.fullmatch(run_id)
        if not (is_id and (begun := self._documents.read_documents([name]))):
            return None
        latest = self._end_document(run_id) or begun[name].content
        return RunRecord.of_row(latest["run"], self.plan(run_id) or {})

    def _known_run(self, run_id: str) -> RunRecord:
        if (stored := self._stored_run(run_id)) is None:
            raise UnknownRun.in_store(run_id, self.uri, self.run_index()["run_id"])
        self._known_run_ids.add(run_id)
        return stored

    def _check_known(self, run_id: str) -> None:
        if run_id not in self._known_run_ids:
            self._known_run(run_id)
