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


def garbage(
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
    found = list(_drafts(objects, ["", "runs", "comparisons", "calibrations"], limit))
    found += [
        Garbage(f"{PROBES}/{one.name}", one.size, "probe") for one in _old(objects, PROBES, limit)
    ]
    for run_id in objects.names("runs"):
        found += _of_run(objects, manifest, run_id, limit)
    return found


def remove(objects: Objects, found: Sequence[Garbage]) -> None:
    """Take garbage away, one after the other."""
    failpoint("gc.listed")
    for one in found:
        failpoint("gc.remove.before")
        objects.remove([one.name])
        failpoint("gc.remove.after")


def _of_run(
    objects: Objects, manifest: Manifest, run_id: str, limit: datetime
) -> Iterator[Garbage]:
    folder = f"runs/{run_id}"
    yield from _drafts(objects, [folder, *(f"{folder}/{name}" for name in _FOLDERS)], limit)
    old = [one for one in _old(objects, f"{folder}/parts", limit) if not _is_draft(one)]
    if not old:
        return
    published = [one for one in _old(objects, f"{folder}/generations", limit) if not _is_draft(one)]
    settled = max((int(one.name.partition(".")[0]) for one in published), default=0)
    named = manifest.referenced(run_id, settled)
    for one in old:
        if one.name not in named:
            yield Garbage(f"{folder}/parts/{one.name}", one.size, "part")


def _drafts(objects: Objects, folders: Sequence[str], limit: datetime) -> Iterator[Garbage]:
    for folder in folders:
        for one in _old(objects, folder, limit):
            if _is_draft(one):
                yield Garbage(f"{folder}/{one.name}".lstrip("/"), one.size, "draft")


def _old(objects: Objects, folder: str, limit: datetime) -> list[Entry]:
    return [one for one in objects.entries(folder) if one.modified < limit]


def _is_draft(one: Entry) -> bool:
    return one.name.startswith(".")
