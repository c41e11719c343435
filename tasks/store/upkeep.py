"""Maintenance of a store: delete the rows of a data subject, collect garbage, compact a run.

Garbage is what nobody reads in a lake. Writers leave it when they die or when another writer was
faster, and rewriting a run replaces its parts. An object younger than the longest attempt is never
garbage, since its mark may still come.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import polars as pl

from assizes.judge.errors import StoreBusy, StoreError
from assizes.judge.rows import PEOPLE_TABLES
from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.store.bucket import PROBES
from assizes.tasks.store.lake import ParquetStore
from assizes.tasks.store.manifest import Manifest
from assizes.tasks.store.objects import Objects
from assizes.tasks.store.protocol import Store
from assizes.tasks.store.record import CASE_TABLES
from assizes.tasks.store.rewrite import CompactionResult
from assizes.tasks.store.search_files import delete_index, unused_indexes

LONGEST_ATTEMPT: Final = timedelta(hours=24)  # of a writer, from its first part to its commit mark
_DELETION_LOCK: Final = timedelta(seconds=90)  # on a run; a killed deletion leaves it for so long
_FOLDERS: Final = ("parts", "commits", "generations", "holds")  # of a run, where drafts may be left


@dataclass(frozen=True, slots=True)
class Garbage:
    """An object that nobody reads."""

    name: str  # below the root of the lake; of a search index its path
    size: int  # in bytes
    kind: str  # `part`, `draft`, `probe` or `search index`


def list_garbage(
    objects: Objects, manifest: Manifest, now: datetime, older_than: timedelta = LONGEST_ATTEMPT
) -> list[Garbage]:
    """The objects that may be removed: parts that no mark names, drafts of killed writers, probes.

    Objects that are younger than `older_than` at the aware time `now` are left out. The age of a
    part that a generation replaced counts from when that generation was published, since a reader
    may still read the part.

    Raises:
        StoreError: when a complete run lacks commit marks: then its parts must not be removed.
    """
    limit = now - older_than
    folders = ["", "runs", "comparisons", "calibrations", *PEOPLE_TABLES]
    folders += [f"deliveries/{run_id}" for run_id in objects.names("deliveries")]
    items = list(_drafts(objects, folders, limit))
    items += [
        Garbage(f"{PROBES}/{entry.name}", entry.size, "probe")
        for entry in objects.entries(PROBES)
        if entry.modified < limit
    ]
    for run_id in objects.names("runs"):
        items += _garbage_of_run(objects, manifest, run_id, limit)
    return items


def remove_garbage(objects: Objects, items: Sequence[Garbage]) -> None:
    """Delete garbage, one object after the other."""
    failpoint("gc.listed")
    for item in items:
        failpoint("gc.remove.before")
        objects.remove([item.name])
        failpoint("gc.remove.after")


def _garbage_of_run(
    objects: Objects, manifest: Manifest, run_id: str, limit: datetime
) -> Iterator[Garbage]:
    """The drafts and the unnamed parts of a run that were written before `limit`."""
    folder = f"runs/{run_id}"
    yield from _drafts(objects, [folder, *(f"{folder}/{name}" for name in _FOLDERS)], limit)
    # Parts are listed before the marks that may name them: a mark created in between counts.
    if not (old := _old_objects(objects, f"{folder}/parts", limit)):
        return
    generations = _old_objects(objects, f"{folder}/generations", limit)
    # Generations are numbered from 1; every reader has seen those of before the limit.
    settled_number = max((int(name.partition(".")[0]) for name in generations), default=0)
    referenced_names = manifest.referenced_part_names(run_id, settled_number)
    for name, size in old.items():
        if name not in referenced_names:
            yield Garbage(f"{folder}/parts/{name}", size, "part")


def _drafts(objects: Objects, folders: Sequence[str], limit: datetime) -> Iterator[Garbage]:
    for folder in folders:
        for name, size in _old_objects(objects, folder, limit, drafts=True).items():
            yield Garbage(f"{folder}/{name}".lstrip("/"), size, "draft")


def _old_objects(
    objects: Objects, folder: str, limit: datetime, *, drafts: bool = False
) -> dict[str, int]:
    """The sizes of the objects (or of the drafts) that were last written before `limit`, by name."""
    return {
        entry.name: entry.size
        for entry in objects.entries(folder)
        if entry.modified < limit and entry.name.startswith(".") is drafts
    }


@dataclass(frozen=True, slots=True)
class DataSubject:
    """Somebody whose rows are to be found: one case id, or every case with all of some tags."""

    case_id: str | None  # None when the tags alone decide
    tags: Mapping[str, str]  # values by name

    def __post_init__(self) -> None:
        if self.case_id is None and not self.tags:  # every case would match
            raise StoreError("no case is named; give a case id or --tag key=value")

    def cases(self, store: Store, run_id: str) -> list[str]:
        """Ids of the subject's cases in a run, sorted."""
        rows = store.scan(run_id, "cases").select("case_id", "tags")
        if self.case_id is not None:
            rows = rows.filter(pl.col("case_id") == self.case_id)
        matches = {
            case_id
            for case_id, tags in rows.collect().iter_rows()
            if self.tags.items() <= json.loads(tags or "{}").items()
        }
        return sorted(matches)


@dataclass(frozen=True, slots=True)
class SubjectRows:
    """The cases of a subject in one run."""

    run_id: str
    case_ids: list[str]
    rows: dict[str, int]  # their number by table


def find_subject(
    store: Store, subject: DataSubject, run_id: str | None = None
) -> list[SubjectRows]:
    """The runs in which a subject has rows, newest first; only `run_id` if it is given."""
    runs = (
        [store.run(run_id).run_id] if run_id is not None else store.run_index()["run_id"].to_list()
    )
    subject_rows = []
    for stored_run_id in runs:
        if case_ids := subject.cases(store, stored_run_id):
            matches = pl.col("case_id").is_in(case_ids)
            rows = {}
            for table in CASE_TABLES:
                count = store.scan(stored_run_id, table).filter(matches).select(pl.len())
                rows[table] = int(count.collect().item())
            for table in PEOPLE_TABLES:
                of_run = store.people.rows(table).filter(pl.col("run_id") == stored_run_id)
                rows[table] = of_run.filter(matches).height
            if any(rows.values()):
                subject_rows.append(SubjectRows(stored_run_id, case_ids, rows))
    return subject_rows


def forget_subject(
    store: Store, subject_rows: list[SubjectRows], before: Callable[[], object] | None = None
) -> None:
    """Delete the rows that `find_subject` found, and the search indexes of their runs.

    `before` is called once the runs are locked; where it raises, nothing was deleted.

    Raises:
        StoreBusy: when another process works on one of the runs; then nothing was deleted.
    """
    with ExitStack() as locks:
        for run_rows in subject_rows:
            locks.enter_context(_locked_run(store, run_rows.run_id))
        if before is not None:
            before()
        for run_rows in subject_rows:
            store.forget(run_rows.run_id, run_rows.case_ids)
            delete_index(store.uri, run_rows.run_id)  # last: one that is built meanwhile goes, too


@contextmanager
def _locked_run(store: Store, run_id: str) -> Iterator[None]:
    """The lock of a run for a deletion; a process that wants to go on with the run waits for it."""
    store.acquire_lock(run_id, datetime.now(UTC) + _DELETION_LOCK)
    try:
        now = datetime.now(UTC)
        if (until := store.locked_until(run_id, by_others=True)) is not None and until > now:
            holder = next(lock.holder for lock in store.run_locks(run_id) if lock.until == until)
            raise StoreBusy(
                f"run {run_id} is worked on by {holder} (its lock ends at {until:%H:%M:%S} UTC unless "
                f"it is renewed); nothing was deleted: --wait waits, `assizes stop {run_id}` stops it"
            )
        yield
    finally:
        store.release_lock(run_id)


def collect_garbage(
    store: Store, *, older_than: timedelta = LONGEST_ATTEMPT, removing: bool
) -> list[Garbage]:
    """The garbage of a store, which is deleted too with `removing`.

    A lake has objects that nobody reads, and every store may have search indexes that nobody used
    for `older_than`, or of runs that are gone.
    """
    now = datetime.now(UTC)
    items: list[Garbage] = []
    if isinstance(store, ParquetStore):
        items = list_garbage(store.objects, store.manifest, now, older_than)
        if removing:
            remove_garbage(store.objects, items)
    run_ids = set(store.run_index()["run_id"])
    for index in list(unused_indexes(store.uri, run_ids, now - older_than)):
        items.append(Garbage(str(index.path), index.size, "search index"))
        if removing:
            delete_index(store.uri, index.run_id)
    return items


def compact_run(store: Store, run_id: str) -> CompactionResult:
    """Merge the small Parquet parts of a complete run.

    Raises:
        StoreError: when the store is a DuckDB file, the run is not complete, or another process is
            rewriting the run.
    """
    if not isinstance(store, ParquetStore):
        raise StoreError(
            f"{store.uri} is a DuckDB file; only Parquet stores need `assizes store compact`"
        )
    return store.compact(store.run(run_id).run_id)
