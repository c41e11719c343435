"""Maintenance of a store: delete the rows of a data subject, collect garbage, compact a run."""

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
    """Somebody whose rows are to be found: one case id, or every case with all of some tags.

    Attributes:
        case_id: the case; None when the tags alone decide.
        tags: tag values by tag name; a case must have all of them.
    """

    case_id: str | None
    tags: Mapping[str, str]

    def __post_init__(self) -> None:
        """Refuse a subject without a case id and without tags: every case would match.

        Raises:
            StoreError: when neither a case id nor a tag is given.
        """
        if self.case_id is None and not self.tags:
            raise StoreError("nobody to forget; give a case id or --tag key=value")

    def cases(self, store: Store, run_id: str) -> list[str]:
        """Ids of the subject's cases in a run, sorted."""
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
    """What a subject has in one run.

    Attributes:
        run_id: the run.
        case_ids: the subject's cases.
        rows: the number of their rows, by table.
    """

    run_id: str
    case_ids: list[str]
    rows: dict[str, int]


def find_subject(
    store: Store, subject: DataSubject, run_id: str | None = None
) -> list[SubjectRows]:
    """The runs in which a subject has rows, newest first.

    Args:
        store: the store.
        subject: whose rows.
        run_id: the only run to look at (a unique prefix will do); None for all runs.
    """
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
    """Delete the rows that `find_subject` found."""
    for run_rows in subject_rows:
        store.forget(run_rows.run_id, run_rows.case_ids)


def collect_garbage(
    store: Store, *, older_than: timedelta = LONGEST_ATTEMPT, removing: bool
) -> list[Garbage]:
    """The objects of a lake that nobody reads any more; a DuckDB file has none.

    Args:
        store: the store.
        older_than: younger objects are left out: a writer may still need them.
        removing: delete the objects too.
    """
    if not isinstance(store, ParquetStore):
        return []
    items = list_garbage(store.objects, store.manifest, datetime.now(UTC), older_than)
    if removing:
        remove_garbage(store.objects, items)
    return items


def compact_run(store: Store, run_id: str) -> CompactionResult:
    """Merge the small Parquet parts of a complete run.

    Raises:
        StoreError: when the store is a DuckDB file, the run is not complete, or another process is
            rewriting the run.
    """
    if not isinstance(store, ParquetStore):
        raise StoreError(f"{store.uri} is a DuckDB file; it has no parts to merge")
    return store.compact(store.run(run_id).run_id)
