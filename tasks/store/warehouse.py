"""A store in one DuckDB file: the public tables, ready for SQL, for one writer at a time.

The rows of a shard and its row in `_commits` are inserted in one transaction.
"""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from datetime import datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

import polars as pl
from duckdb import DuckDBPyConnection as Connection

from assizes.judge.errors import StoreError, UnknownRun
from assizes.judge.rows import TABLES, as_json, frame
from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.runtime.process import Closing
from assizes.tasks.store import duckdb_file, duckdb_rows, record
from assizes.tasks.store.cause_tables import CauseTables
from assizes.tasks.store.duckdb_lending import LentConnection, set_up, set_up_file
from assizes.tasks.store.listing.checked_files import file_mark, is_checked, keep_checked
from assizes.tasks.store.listing.run_index import RunIndex
from assizes.tasks.store.listing.tables import DerivedTables
from assizes.tasks.store.people import IN_MEMORY, FilePeople
from assizes.tasks.store.record import Counts, Frames, RunLock, RunRecord, checked_id
from assizes.tasks.store.run_names import resolve_run, run_names

_FIND_RUN: Final = "select 1 from runs where run_id = ?"
_OWN_FRAMES: Final = 4  # frames that the scans of a writer share: cases, scores, asks, one more


class DuckDBStore(Closing):
    """The DuckDB store; see `assizes.tasks.store.protocol.Store` for what its methods promise."""

    sliceable: Final = False
    many_writers: Final = False  # DuckDB lets only one process have a file open for writing

    def __init__(self, uri: str, path: Path, *, writing: bool) -> None:
        self.uri = uri
        self._path = path
        self.people = FilePeople(path)
        self.causes = CauseTables.beside(path)
        in_memory = path == IN_MEMORY
        self.derived = DerivedTables.beside(path, in_memory=in_memory)
        self._index = RunIndex(self.derived, self)
        journal = None if in_memory else path.with_name(f"{path.name}.commits")
        self._journal = duckdb_file.Journal(journal)
        self._journal_lock = threading.Lock()
        # Runs that a reading found; no run is ever removed from a file, but one may fail to begin.
        self._known_ids: set[str] = set()
        writing = writing or in_memory
        # Scans of a writer share their frames, which keep rows: nobody else changes the file.
        rows = partial(duckdb_rows.lazy_rows, self._transaction, by_writer=writing)
        self._frame_of = lru_cache(maxsize=_OWN_FRAMES if writing else 0)(rows)
        if writing:
            duckdb_file.set_aside_old_journal(uri, path, self._journal)
        self._file = LentConnection(
            uri, path, writing=writing, prepare=set_up if in_memory else set_up_file
        )
        failpoint("warehouse.open.connected")
        with ExitStack() as undo:
            undo.callback(self.close)  # after an error below: another process may need the file
            with self._file.exclusive() as con:
                present = duckdb_rows.present_tables(con, writing=writing)
            self._has_calibrations = writing or "calibrations" in present
            mark = None if writing else file_mark(path)  # no writer has the file now
            known = is_checked(self.derived, mark)
            with self._transaction() as con:
                duckdb_file.prepare_tables(
                    con, uri, self._journal, present, writing=writing, is_checked=known
                )
                if writing:
                    duckdb_file.make_writable(con)
            if writing:
                with self._transaction() as con:
                    self._journal.catch_up(duckdb_file.read_commit_state(con))
            if not known:
                keep_checked(self.derived, mark)
            self._file.allow_lending()
            failpoint("warehouse.open.after")
            undo.pop_all()

    def begin(self, run: RunRecord) -> RunRecord:
        """Store a run that begins, or return the stored run."""
        checked_id(run.run_id, "run id")
        with self._transaction() as con:
            if not con.execute(_FIND_RUN, [run.run_id]).fetchall():
                duckdb_rows.insert_rows(con, "runs", frame("runs", [run.row()]))
                con.execute("insert into _plans values (?, ?)", [run.run_id, as_json(run.plan)])
                failpoint("warehouse.begin.inside")
            begun = record.resumable_run(self._known_run(con, run.run_id), run, self.uri)
        failpoint("warehouse.begin.after")
        return begun

    def plan(self, run_id: str) -> dict[str, Any] | None:
        """The plan that a run began with; None where there is no such run."""
        with self._transaction() as con:
            return duckdb_rows.plan_of(con, run_id)

    def shard_counts(self, run_id: str) -> dict[str, dict[str, int]]:
        """The number of records by status in each committed shard, by shard id."""
        with self._transaction() as con:
            self._check_known(con, run_id)
            return duckdb_rows.shard_counts_of(con, run_id)

    def revision(self, run_id: str) -> str:
        """The number of the committed shards, and a hash of their digests."""
        with self._transaction() as con:
            self._check_known(con, run_id)
            return duckdb_rows.revision_of(con, run_id)

    def row_revisions(self, run_ids: Collection[str]) -> dict[str, str]:
        """The number of the committed shards, and a hash of their digests, of each run."""
        with self._transaction() as con:
            return duckdb_rows.revisions_of(con, run_ids)

    def commit_shard(self, run_id: str, shard_id: str, frames: Frames, counts: Counts) -> bool:
        """Insert the rows of a shard and its row in `_commits`, then append it to the journal."""
        checked_id(shard_id, "shard id")
        tables = record.checked_frames(run_id, frames)
        # Over polars' 64-bit hashes of all rows: fast, and no proof of equality.
        digest = hashlib.sha256()
        for rows in tables.values():
            digest.update(rows.hash_rows().to_numpy().tobytes())
        sha = digest.hexdigest()
        height = sum(rows.height for rows in tables.values())
        with self._transaction() as con:
            self._check_known(con, run_id)
            mark = "select 1 from _commits where run_id = ? and shard = ?"
            if con.execute(mark, [run_id, shard_id]).fetchall():
                return False
            for table, rows in tables.items():
                duckdb_rows.insert_rows(con, table, rows)
            failpoint("warehouse.commit.rows")
            row = [run_id, shard_id, sha, as_json(dict(counts)), height]
            con.execute("insert into _commits values (?, ?, ?, ?, ?)", row)
            failpoint("warehouse.commit.marked")
        failpoint("warehouse.commit.after")
        self._append_to_journal(run=run_id, shard=shard_id, sha=sha)
        return True

    def finish(self, run: RunRecord, run_metrics: pl.DataFrame) -> None:
        """Replace the run's row by its final row, and write its metrics."""
        metrics = record.checked_metrics(run.run_id, run_metrics)
        with self._transaction() as con:
            stored = self._known_run(con, run.run_id)
            same = duckdb_rows.rows_of(con, "run_metrics", run.run_id).equals(metrics)
            if (final := record.final_record(stored, run, self.uri, same_metrics=same)) is None:
                return
            for table, rows in (("runs", frame("runs", [final.row()])), ("run_metrics", metrics)):
                con.execute(f"delete from {table} where run_id = ?", [run.run_id])
                failpoint("warehouse.finish.deleted")
                duckdb_rows.insert_rows(con, table, rows)
            failpoint("warehouse.finish.inserted")
        failpoint("warehouse.finish.after")
        self._append_to_journal(run=run.run_id, ended=final.status)

    def adopt_run(
        self,
        run: RunRecord,
        frames: Iterable[tuple[str, pl.DataFrame]],
        commits: Mapping[str, Counts],
    ) -> None:
        """Copy a whole run of another store into this one, in one transaction.

        `frames` are pairs of a table and some of the run's rows; a table may come several times.
        `commits` holds the number of records by status in each shard, by shard id.
        """
        with self._transaction() as con:
            duckdb_rows.insert_rows(con, "runs", frame("runs", [run.row()]))
            con.execute("insert into _plans values (?, ?)", [run.run_id, as_json(run.plan)])
            for table, rows in frames:
                duckdb_rows.insert_rows(con, table, rows.select(list(TABLES[table])))
            for shard_id, counts in commits.items():
                # Any new text will do: the rows come in pieces, and no digest is computed again.
                sha = f"adopted {uuid.uuid4().hex}"
                row = [run.run_id, shard_id, sha, as_json(dict(counts)), None]
                con.execute("insert into _commits values (?, ?, ?, ?, ?)", row)
        with self._transaction() as con:
            self._journal.catch_up(duckdb_file.read_commit_state(con))

    def runs(self) -> pl.DataFrame:
        """Table runs, those about the newest day first."""
        with self._transaction() as con:
            return record.newest_first(duckdb_rows.rows_of(con, "runs"))

    def rows_of_runs(self, run_ids: Collection[str]) -> pl.DataFrame:
        """The rows of table runs of some runs (full ids)."""
        with self._transaction() as con:
            return record.newest_first(duckdb_rows.rows_of_ids(con, "runs", run_ids))

    def run_index(self) -> pl.DataFrame:
        """What lists show of each run, those about the newest day first."""
        return self._index.rows()

    def runs_mark(self) -> str | None:
        """The state of the file, with whatever changed in it."""
        return None if self._journal.path is None else file_mark(self._path)

    def run_states(
        self, _known: Mapping[str, str], among: Sequence[str] | None = None
    ) -> dict[str, str]:
        """The status and the times of each run, or of some, by run id."""
        if among is not None and not among:
            return {}
        with self._transaction() as con:
            return duckdb_rows.run_states(con, among)

    def settled_state(self, _row: Mapping[str, Any], state: str) -> str:
        """The state that was asked for."""
        return state

    def run(self, run_id: str) -> RunRecord:
        """A run by its id or another name of it."""
        with self._transaction() as con:
            return self._known_run(con, self._full_id(con, run_id))

    def full_id(self, run_id: str) -> str:
        """The id of a run by its id or another name of it."""
        with self._transaction() as con:
            return self._full_id(con, run_id)

    def table(self, run_id: str, name: str) -> pl.DataFrame:
        """A table of one run, sorted by its keys."""
        record.check_table(name, record.RUN_TABLES)
        with self._transaction() as con:
            return duckdb_rows.rows_of(con, name, self._full_id(con, run_id))

    def scan(self, run_id: str, name: str) -> pl.LazyFrame:
        """The table as a lazy frame; a query reads only its own columns, a block of rows at a time."""
        record.check_table(name, record.RUN_TABLES)
        with self._transaction() as con:
            run_id = self._full_id(con, run_id)
            # New rows get higher row ids: the frame shows the rows of now, whenever it is collected.
            span = duckdb_rows.row_span(con, name, run_id)
        return self._frame_of(name, run_id, span)

    def rows_of_cases(
        self,
        run_id: str,
        name: str,
        case_ids: Collection[str],
        columns: Sequence[str] | None = None,
    ) -> pl.DataFrame:
        """The rows of some cases, in one transaction."""
        record.check_table(name, record.RUN_TABLES)
        with self._transaction() as con:
            run_id = self._full_id(con, run_id)
            return duckdb_rows.rows_of_cases(con, name, run_id, case_ids, columns or TABLES[name])

    def forgotten_cases(self, run_id: str) -> int:
        """The cases that the shards count and the table has not, in a run with a deletion."""
        with self._transaction() as con:
            self._check_known(con, run_id)
            return duckdb_rows.forgotten_cases_of(con, run_id)

    def forget(self, run_id: str, case_ids: Collection[str]) -> None:
        """Delete the rows in one transaction, and change the digest of every shard of the run."""
        self.people.forget(run_id, case_ids)
        self.causes.forget(run_id, case_ids)
        with self._transaction() as con:
            self._check_known(con, run_id)
            for table in record.CASE_TABLES:
                matches = "run_id = ? and list_contains(?, case_id)"
                con.execute(f"delete from {table} where {matches}", [run_id, list(case_ids)])
                failpoint("warehouse.forget.deleted")
            # The journal lists the new digests: a file that lost this transaction looks damaged.
            statement = "update _commits set sha = sha[:64] || ' ' || ? where run_id = ?"
            con.execute(statement, [uuid.uuid4().hex, run_id])
        failpoint("warehouse.forget.after")
        self._frame_of.cache_clear()
        with self._transaction() as con:
            self._journal.catch_up(duckdb_file.read_commit_state(con))
        self._file.checkpoint()  # so that the write-ahead log does not keep the rows

    def acquire_lock(self, run_id: str, until: datetime) -> None:
        """Say in the mark of the writer that this process works on a run."""
        if (mark := self._file.mark) is None:
            return  # a store in memory, or one open for reading
        lock = mark.runs.get(run_id)
        begun = record.begun_lock(done=0)
        if lock is None:
            with self._transaction() as con:
                begun["done"] = record.cases_done(duckdb_rows.shard_counts_of(con, run_id))
        try:
            mark.put_run(run_id, {**(lock or begun), "until": until.isoformat()})
        except OSError as error:
            reason = error.strerror or error
            raise StoreError(f"{mark.path}: cannot be written: {reason}") from error

    def release_lock(self, run_id: str) -> None:
        """Take a run from the mark of the writer."""
        if (mark := self._file.mark) is not None:
            mark.put_run(run_id, None)

    def locked_until(self, run_id: str, *, by_others: bool = False) -> datetime | None:
        """When the lock expires; None also where the writer has died, which the system knows."""
        if by_others and self._file.mark is not None:
            return None  # DuckDB files have one writer
        locks = self.run_locks(run_id)
        return max((lock.until for lock in locks), default=None)

    def run_locks(self, run_id: str) -> list[RunLock]:
        """The lock of the living writer on a run, if it works on the run."""
        return [RunLock.of_document(lock)] if (lock := self._file.run_mark(run_id)) else []

    def query_connection(self) -> AbstractContextManager[Connection]:
        """A connection to the file for one query, with temporary tables of its own."""
        return self._file.query_connection()

    def add_comparison(self, row: Mapping[str, Any]) -> None:
        """Store a row of table comparisons, unless the same row is stored already."""
        added = frame("comparisons", [row])
        with self._transaction() as con:
            candidates = added["candidate"].to_list()
            stored = duckdb_rows.rows_of_ids(con, "comparisons", candidates, "candidate")
            if added.row(0) not in stored.rows():
                duckdb_rows.insert_rows(con, "comparisons", added)

    def comparisons(self, candidates: Collection[str] | None = None) -> pl.DataFrame:
        """Table comparisons sorted by all columns, or its rows about some candidates."""
        with self._transaction() as con:
            if candidates is None:
                rows = duckdb_rows.rows_of(con, "comparisons")
            else:
                rows = duckdb_rows.rows_of_ids(con, "comparisons", candidates, "candidate")
        return rows.sort(rows.columns)

    def add_calibration(self, row: Mapping[str, Any]) -> None:
        """Store a row of table calibrations, unless the run has the same record already."""
        added = frame("calibrations", [row])
        with self._transaction() as con:
            stored_rows = duckdb_rows.rows_of(con, "calibrations").select("run_id", "record")
            if added.select("run_id", "record").row(0) not in stored_rows.rows():
                duckdb_rows.insert_rows(con, "calibrations", added)

    def calibrations(self) -> pl.DataFrame:
        """Table calibrations in order of time; empty in a file older than that table."""
        if not self._has_calibrations:
            return frame("calibrations", [])
        with self._transaction() as con:
            return duckdb_rows.rows_of(con, "calibrations")

    def settle(self) -> None:
        """Write the log into the file; a log that cannot be written stays beside it."""
        with suppress(StoreError):
            self._file.checkpoint()

    def close(self) -> None:
        """Close the file, so that another process may write to it."""
        failpoint("warehouse.close.before")
        self._frame_of.cache_clear()
        self._file.close()
        failpoint("warehouse.close.after")

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """The connection for this thread alone, in a transaction that an error rolls back."""
        with self._file.exclusive() as con:
            con.begin()
            with ExitStack() as undo:
                undo.callback(duckdb_rows.restore_row_order, con)  # runs after the rollback
                undo.callback(con.rollback)
                yield con
                undo.pop_all()
            con.commit()

    def _append_to_journal(self, **entry: str) -> None:
        with self._journal_lock:
            try:
                self._journal.append([entry])
            except OSError as error:
                reason = error.strerror or error
                raise StoreError(f"{self._journal.path}: cannot be written: {reason}") from error

    def _full_id(self, con: Connection, run_id: str) -> str:
        if run_id in self._known_ids or con.execute(_FIND_RUN, [run_id]).fetchall():
            self._known_ids.add(run_id)
            return run_id
        return resolve_run(run_id, run_names(duckdb_rows.names_of_runs(con)), self.uri)

    def _check_known(self, con: Connection, run_id: str) -> None:
        # Every shard calls this: reading the plan, which lists all shards, would be quadratic.
        if run_id in self._known_ids:
            return
        if not con.execute(_FIND_RUN, [run_id]).fetchall():
            raise UnknownRun.in_store(run_id, self.uri, duckdb_rows.run_ids(con))

    def _known_run(self, con: Connection, run_id: str) -> RunRecord:
        self._check_known(con, run_id)
        row = duckdb_rows.rows_of(con, "runs", run_id).row(0, named=True)
        return RunRecord.of_row(row, duckdb_rows.plan_of(con, run_id) or {})
