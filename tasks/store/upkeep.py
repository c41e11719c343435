"""Acts on a whole store: find a subject and forget it, collect garbage, compact a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import polars as pl

from assizes.judge.errors import StoreError
from assizes.tasks.store.lake.garbage import LONGEST_ATTEMPT, Garbage, garbage, remove
from assizes.tasks.store.lake.lake import Lake
from assizes.tasks.store.lake.rewrite import Compacted
from assizes.tasks.store.protocol import Store
from assizes.tasks.store.record import OF_CASES


@dataclass(frozen=True, slots=True)
class Subject:
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
class Found:
    """The rows of a subject in one run, by table."""

    run_id: str
    case_ids: list[str]
    rows: dict[str, int]


def find(store: Store, subject: Subject, run_id: str | None = None) -> list[Found]:
    """Where a subject has rows, in one run or in all of them, the newest first."""
    runs = [store.run(run_id).run_id] if run_id is not None else store.runs()["run_id"].to_list()
    found = []
    for one in runs:
        case_ids = subject.cases(store, one)
        meant = pl.col("case_id").is_in(case_ids)
        rows = {
            table: int(store.scan(one, table).filter(meant).select(pl.len()).collect().item())
            for table in OF_CASES
            if case_ids
        }
        if sum(rows.values()):
            found.append(Found(one, case_ids, rows))
    return found


def forget(store: Store, found: list[Found]) -> None:
    """Delete what was found."""
    for one in found:
        store.forget(one.run_id, one.case_ids)


def collected(
    store: Store, *, older_than: timedelta = LONGEST_ATTEMPT, removing: bool
) -> list[Garbage]:
    """What nobody reads any more; taken away when `removing`. A DuckDB file holds nothing such."""
    if not isinstance(store, Lake):
        return []
    found = garbage(store.objects, store.manifest, datetime.now(UTC), older_than)
    if removing:
        remove(store.objects, found)
    return found


def compacted(store: Store, run_id: str) -> Compacted:
    """Merge the small parts of a run.

    Raises:
        StoreError: for a DuckDB file, a run that is not complete, or one rewritten by another.
    """
    if not isinstance(store, Lake):
        raise StoreError(f"{store.uri} is a DuckDB file; it has no parts to merge")
    return store.compact(store.run(run_id).run_id)
