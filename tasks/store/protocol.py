"""What a store of evaluation rows can do, whichever way it keeps them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Protocol, Self

import polars as pl

from assizes.tasks.store.record import RunRecord


class Store(Protocol):
    """Runs, their rows and their comparisons.

    A shard's rows are visible all or none, are never lost once committed, and are there at most
    once. Two stores that were given the same rows return equal frames. Every method raises
    `StoreError` when the store cannot be reached. Methods may be called from any thread.
    """

    @property
    def uri(self) -> str:
        """Where the store is, as it was configured."""
        ...

    @property
    def many_writers(self) -> bool:
        """Whether several processes may write to it at once."""
        ...

    @property
    def sliceable(self) -> bool:
        """Whether a slice of what `scan` gives costs no more than its rows."""
        ...

    def begin(self, run: RunRecord) -> RunRecord:
        """Freeze a run, or return the one already there: the same configuration and input.

        Its plan is then the stored one, which may cut the input into other shards.

        Raises:
            StoreError: when a run of that id has another configuration or input.
        """
        ...

    def plan(self, run_id: str) -> dict[str, Any] | None:
        """The input manifest a run was frozen with; null where there is no such run."""
        ...

    def shard_counts(self, run_id: str) -> dict[str, dict[str, int]]:
        """The counts of each committed shard, by shard id."""
        ...

    def commit_shard(
        self,
        run_id: str,
        shard_id: str,
        frames: Mapping[str, pl.DataFrame],
        counts: Mapping[str, int],
    ) -> bool:
        """Store a shard's rows, all or none; false when the shard is already committed.

        The first commit of a shard stands: where it was another's, its rows are read and these
        are dropped.
        """
        ...

    def finish(self, run: RunRecord, run_metrics: pl.DataFrame) -> None:
        """End a run: its final row and its metrics.

        Ending it again with the same content changes nothing, not even `finished_at`. A run that
        ended incomplete or failed may be ended anew; a complete one is frozen.
        """
        ...

    def runs(self) -> pl.DataFrame:
        """Table runs, newest first, with those still running."""
        ...

    def run(self, run_id: str) -> RunRecord:
        """A run by its id or the beginning of it, where only one begins so.

        Raises:
            UnknownRun: when there is none.
        """
        ...

    def table(self, run_id: str, name: str) -> pl.DataFrame:
        """A table of one run: scores, asks, cases, rejects or run_metrics, sorted by its keys."""
        ...

    def scan(self, run_id: str, name: str) -> pl.LazyFrame:
        """The same rows lazily, in no promised order."""
        ...

    def forget(self, run_id: str, case_ids: Collection[str]) -> None:
        """Delete every row of some cases of a run; counts, metrics and summary stay as they were.

        Raises:
            StoreError: when another process rewrites the run.
        """
        ...

    def acquire_lock(self, run_id: str, until: datetime) -> None:
        """Say that this process is at work on a run, and will have said so again before `until`."""
        ...

    def release_lock(self, run_id: str) -> None:
        """Say that it is no more, and clear up after those who said so and are gone."""
        ...

    def locked_until(self, run_id: str, *, by_others: bool = False) -> datetime | None:
        """Until when some process, or some other one, said that it is at work on a run; null where
        none did.
        """
        ...

    def add_comparison(self, row: Mapping[str, Any]) -> None:
        """Keep a row of table comparisons; the same row twice is kept once."""
        ...

    def comparisons(self) -> pl.DataFrame:
        """Table comparisons, sorted by its keys."""
        ...

    def add_calibration(self, row: Mapping[str, Any]) -> None:
        """Keep a row of table calibrations; the same record again changes nothing, not its time."""
        ...

    def calibrations(self) -> pl.DataFrame:
        """Table calibrations in order of time; empty in a store older than the table."""
        ...

    def close(self) -> None:
        """Let go of the store; closing again does nothing."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
