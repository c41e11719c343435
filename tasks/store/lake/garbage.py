"""Garbage in a lake: objects that nobody reads.

Writers leave garbage when they die or when another writer was faster, and rewriting a run replaces
its parts. Parts are listed before the commit marks that may name them, so that a part is not taken
for garbage whose mark is created in between. An object younger than the longest attempt is never
garbage, since its mark may still come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.store.lake.manifest import Manifest
from assizes.tasks.store.objects.bucket import PROBES
from assizes.tasks.store.objects.protocol import Entry, Objects

LONGEST_ATTEMPT: Final = timedelta(hours=24)
"""The longest time that a writer may take from its first part to its commit mark."""

_FOLDERS: Final = ("parts", "commits", "generations", "holds")
"""Folders of a run in which writers may leave drafts."""


@dataclass(frozen=True, slots=True)
class Garbage:
    """An object that nobody reads.

    Attributes:
        name: of the object, below the root of the lake.
        size: bytes.
        kind: `part`, `draft` or `probe`.
    """

    name: str
    size: int
    kind: str


def list_garbage(
    objects: Objects, manifest: Manifest, now: datetime, older_than: timedelta = LONGEST_ATTEMPT
) -> list[Garbage]:
    """The objects that may be removed: parts that no mark names, drafts of killed writers, probes.

    Args:
        objects: the objects of the lake.
        manifest: the parts that the runs of the lake name.
        now: the time, aware.
        older_than: younger objects are left out. The age of a part that a generation replaced
            counts from when that generation was published, since a reader may still read the part.

    Raises:
        StoreError: when a complete run lacks commit marks: then its parts must not be removed.
    """
    limit = now - older_than
    items = list(_drafts(objects, ["", "runs", "comparisons", "calibrations"], limit))
    items += [
        Garbage(f"{PROBES}/{entry.name}", entry.size, "probe")
        for entry in _old_entries(objects, PROBES, limit)
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
    old = [
        entry for entry in _old_entries(objects, f"{folder}/parts", limit) if not _is_draft(entry)
    ]
    if not old:
        return
    published = [
        entry
        for entry in _old_entries(objects, f"{folder}/generations", limit)
        if not _is_draft(entry)
    ]
    settled_number = max((int(entry.name.partition(".")[0]) for entry in published), default=0)
    referenced_names = manifest.referenced_part_names(run_id, settled_number)
    for entry in old:
        if entry.name not in referenced_names:
            yield Garbage(f"{folder}/parts/{entry.name}", entry.size, "part")


def _drafts(objects: Objects, folders: Sequence[str], limit: datetime) -> Iterator[Garbage]:
    for folder in folders:
        for entry in _old_entries(objects, folder, limit):
            if _is_draft(entry):
                yield Garbage(f"{folder}/{entry.name}".lstrip("/"), entry.size, "draft")


def _old_entries(objects: Objects, folder: str, limit: datetime) -> list[Entry]:
    return [entry for entry in objects.entries(folder) if entry.modified < limit]


def _is_draft(entry: Entry) -> bool:
    return entry.name.startswith(".")
