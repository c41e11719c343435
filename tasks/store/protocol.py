"""The protocol of a store of evaluation rows, be it a DuckDB file or a Parquet lake."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol

import polars as pl

from assizes.tasks.store.cause_tables import CauseTables
from assizes.tasks.store.listing.tables import DerivedTables
from assizes.tasks.store.people import PeopleTables
from assizes.tasks.store.record import Counts, Frames, RunLock, RunRecord


class Store(AbstractContextManager["Store", None], Protocol):
    """Runs, their rows, their comparisons and their calibrations.

    The rows of a shard become visible together, are never lost once they are committed, and are
    stored at most once. Two stores that were given the same rows return equal frames. Every method
    raises `StoreError` when the store cannot be reached. Methods may be called from any thread.
    """

    @property
    def uri(self) -> str:
        """The URI of the store, as it was configured."""

    @property
    def many_writers(self) -> bool:
        """Whether several processes may write to the store at once."""

    @property
    def sliceable(self) -> bool:
        """Whether a slice of the frame that `scan` returns reads no more than the slice's rows."""

    def begin(self, run: RunRecord) -> RunRecord:
        """Store the configuration and the plan of a run that begins, or return the stored run.

        The plan of a stored run may cut the same input into other shards.

        Raises:
            StoreError: when the stored run of that id has another configuration or input.
        """

    def plan(self, run_id: str) -> dict[str, Any] | None:
        """The plan (input manifest) that a run began with; None where there is no such run."""

    def shard_counts(self, run_id: str) -> dict[str, dict[str, int]]:
        """The number of records by status in each committed shard, by shard id."""

    def revision(self, run_id: str) -> str:
        """A text that changes with every change of the rows of a run (full id); quick to read."""

    def row_revisions(self, run_ids: Collection[str]) -> dict[str, str]:
        """The same for some complete runs, each by its id; quick to read for thousands."""

    def commit_shard(self, run_id: str, shard_id: str, frames: Frames, counts: Counts) -> bool:
        """Store the rows of a shard in one commit; returns whether this call committed the shard.

        The first commit stands: when another process was first, the given rows are dropped.
        """

    def finish(self, run: RunRecord, run_metrics: pl.DataFrame) -> None:
        """End a run: store its final row and its metrics.

        Ending a run again with the same content changes nothing, not even `finished_at`. A run that
        ended `incomplete` or `failed` may be ended again with other content; a complete run cannot.

        Raises:
            StoreError: when the run is complete and the content is another.
        """

    def runs(self) -> pl.DataFrame:
        """Table runs, those about the newest day first; runs that have not ended are in it too."""

    def rows_of_runs(self, run_ids: Collection[str]) -> pl.DataFrame:
        """The rows of `runs` of some runs (full ids) in the same order; it reads no others."""

    def run_index(self) -> pl.DataFrame:
        """A row of `RUN_INDEX` for each run in the order of `runs`: what lists show of a run.

        It reads no setting and no summary of a run that it has read before; it is written to the
        store again where that may be written.
        """

    def run(self, run_id: str) -> RunRecord:
        """A run by its id or another of the names in `run_names`, such as `latest` or `nightly~1`.

        Raises:
            UnknownRun: when no run, or more than one, is named so.
        """

    def full_id(self, run_id: str) -> str:
        """The id of a run that is named as for `run`; quicker where the record is not needed."""

    def table(self, run_id: str, name: str) -> pl.DataFrame:
        """The rows of a run, named as for `run`, in one of `RUN_TABLES`, sorted by keys."""

    def scan(self, run_id: str, name: str) -> pl.LazyFrame:
        """The rows that `table` returns, as a lazy frame in no promised order."""

    def rows_of_cases(
        self,
        run_id: str,
        name: str,
        case_ids: Collection[str],
        columns: Sequence[str] | None = None,
    ) -> pl.DataFrame:
        """The rows of `scan` that belong to some cases, in all or some columns, in no promised order.

        It is made for the cases of a page: it reads little else.
        """

    def forgotten_cases(self, run_id: str) -> int:
        """The number of a run's rows of table cases that were committed and then deleted."""

    def forget(self, run_id: str, case_ids: Collection[str]) -> None:
        """Delete every row of some cases of a run; counts, metrics and summary stay unchanged.

        Raises:
            StoreError: when another process is rewriting the run.
        """

    def acquire_lock(self, run_id: str, until: datetime) -> None:
        """Tell other processes that this process works on a run; the lock expires at `until`.

        Calling it again before `until` extends the lock, which is advisory: others can still write.
        """

    def release_lock(self, run_id: str) -> None:
        """Remove this process's lock on a run, and every lock on it that has expired."""

    def locked_until(self, run_id: str, *, by_others: bool = False) -> datetime | None:
        """When the last lock on a run (`by_others`: of another process) expires; None without one."""

    def run_locks(self, run_id: str) -> list[RunLock]:
        """The locks of all processes on a run; those that have expired may be among them."""

    def add_comparison(self, row: Mapping[str, Any]) -> None:
        """Store a row of table comparisons, unless the same row is stored already."""

    def comparisons(self, candidates: Collection[str] | None = None) -> pl.DataFrame:
        """Table comparisons, sorted by its keys, then by its other columns.

        With `candidates` (full ids) it reads only the rows about these runs.
        """

    def add_calibration(self, row: Mapping[str, Any]) -> None:
        """Store a row of table calibrations, unless the run has the same record already."""

    def calibrations(self) -> pl.DataFrame:
        """Table calibrations in order of time; empty in a store older than that table."""

    @property
    def people(self) -> PeopleTables:
        """The tables of labels, annotations and queues, which may be written at any time."""

    @property
    def causes(self) -> CauseTables:
        """The causes of failures, which are found and written after a run."""

    @property
    def derived(self) -> DerivedTables:
        """Tables that are made of the store's rows, and can be made again."""

    def settle(self) -> None:
        """Do now what a close would have to do first; a close is then quick."""

    def close(self) -> None:
        """Release the store; closing it again does nothing."""
