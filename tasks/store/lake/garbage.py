"""What lies in a lake and is read by nobody: left by writers that died or lost, or were replaced.

Parts are listed before the marks that may name them: a part whose mark comes in between is seen as
named. What is younger than the longest attempt is never taken, since its mark may still come.
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
"""No writer takes longer from its first part to its mark."""

_FOLDERS: Final = ("parts", "commits", "generations", "holds")
"""Of a run, below which drafts are written."""


@dataclass(frozen=True, slots=True)
class Garbage:
    """An object that nobody reads: its name below the root, its size, and what it is."""

    name: str
    size: int
    kind: str


def list_garbage(
    objects: Objects, manifest: Manifest, now: datetime, older_than: timedelta = LONGEST_ATTEMPT
) -> list[Garbage]:
    """What may be removed: parts that no mark names, drafts of killed writers, probes.

    Args:
        objects: the lake.
        manifest: which parts its runs name.
        now: the time, aware.
        older_than: nothing younger is taken; parts that a generation replaced count from when that
            was published, since a reader may be at them.

    Raises:
        StoreError: when a complete run has not all its marks: then nothing is garbage.
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
    """Take garbage away, one after the other."""
    failpoint("gc.listed")
    for item in items:
        failpoint("gc.remove.before")
        objects.remove([item.name])
        failpoint("gc.remove.after")


def _garbage_of_run(
    objects: Objects, manifest: Manifest, run_id: str, limit: datetime
) -> Iterator[Garbage]:
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
