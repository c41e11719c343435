"""Acts on a whole store: find a subject and forget it, collect garbage, compact a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import polars as pl

from assizes.judge.errors import StoreError
from assizes.tasks.store.lake.garbage import LONGEST_ATTEMPT, Garbage, list_garbage, remove_garbage
from assizes.tasks.store.lake.lake import ParquetStore
from assizes.tasks.store.lake.rewrite import CompactionResult
from assizes.tasks.store.protocol import Store
from assizes.tasks.store.record import CASE_TABLES


@dataclass(frozen=True, slots=True)
class DataSubject:
    """Whose rows are meant: a case id, or every case with all of these tags."""

    case_id: str | None
    tags: Mapping[str, str]

    def __post_init__(self) -> None:
        """Refuse one that would mean everybody.

        Raises:
            StoreError: when neither a case id nor a tag is given.
        """
        if self.case_id is None and not self.tags:
            raise StoreError("nobody to forget; give a case id or --tag key=value")

    def cases(self, store: Store, run_id: str) -> list[str]:
        """Ids of the cases of a run that are meant."""
        rows = store.scan(run_id, "cases").select("case_id", "tags")
        if self.case_id is not None:
            rows = rows.filter(pl.col("case_id") == self.case_id)
        wanted = self.tags.items()
        return sorted(
            {
                case_id
                for case_id, tags in rows.collect().iter_rows()
                if wanted <= (json.loads(tags) if tags else {}).items()
            }
        )


@dataclass(frozen=True, slots=True)
class SubjectRows:
    """The rows of a subject in one run, by table."""

    run_id: str
    case_ids: list[str]
    rows: dict[str, int]


def find_subject(
    store: Store, subject: DataSubject, run_id: str | None = None
) -> list[SubjectRows]:
    """Where a subject has rows, in one run or in all of them, the newest first."""
    runs = [store.run(run_id).run_id] if run_id is not None else store.runs()["run_id"].to_list()
    subject_rows = []
    for stored_run_id in runs:
        case_ids = subject.cases(store, stored_run_id)
        is_of_subject = pl.col("case_id").is_in(case_ids)
        rows = {
            table: int(
                store.scan(stored_run_id, table)
                .filter(is_of_subject)
                .select(pl.len())
                .collect()
                .item()
            )
            for table in CASE_TABLES
            if case_ids
        }
        if sum(rows.values()):
            subject_rows.append(SubjectRows(stored_run_id, case_ids, rows))
    return subject_rows


def forget_subject(store: Store, subject_rows: list[SubjectRows]) -> None:
    """Delete what was found."""
    for run_rows in subject_rows:
        store.forget(run_rows.run_id, run_rows.case_ids)


def collect_garbage(
    store: Store, *, older_than: timedelta = LONGEST_ATTEMPT, removing: bool
) -> list[Garbage]:
    """What nobody reads any more; taken away when `removing`. A DuckDB file holds nothing such."""
    if not isinstance(store, ParquetStore):
        return []
    items = list_garbage(store.objects, store.manifest, datetime.now(UTC), older_than)
    if removing:
        remove_garbage(store.objects, items)
    return items


def compact_run(store: Store, run_id: str) -> CompactionResult:
    """Merge the small parts of a run.

    Raises:
        StoreError: for a DuckDB file, a run that is not complete, or one rewritten by another.
    """
    if not isinstance(store, ParquetStore):
        raise StoreError(f"{store.uri} is a DuckDB file; it has no parts to merge")
    return store.compact(store.run(run_id).run_id)
