"""The rows of a run in other parts: fewer ones, or without some cases.

New parts are written first; then a generation, created once, lets them stand for the shards. Until
that moment readers see the old parts, from it on the new ones. Of two that rewrite at once, one is
refused and has changed nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import polars as pl

from assizes.judge.errors import StoreError
from assizes.judge.rows import COMPLETE, KEYS, SHARD_TABLES
from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.store.lake.manifest import Generation, Manifest, Part, new_attempt
from assizes.tasks.store.objects.protocol import Objects
from assizes.tasks.store.record import OF_CASES, RunRecord

FULL_PART_ROWS: Final = 1_000_000
"""Small parts are merged until one has so many rows."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """How many parts a run had, and has now."""

    before: int
    after: int


class Rewriter:
    """Rewrites the parts of one run of a lake."""

    def __init__(self, objects: Objects, manifest: Manifest, run_id: str) -> None:
        self._objects = objects
        self._manifest = manifest
        self._run_id = run_id
        self._now = manifest.snapshot(run_id)
        self._attempt = new_attempt()
        self._written: list[Part] = []

    def compact(self, run: RunRecord, full_rows: int = FULL_PART_ROWS) -> Compacted:
        """Merge the small parts of a complete run; rows stay what they are.

        Raises:
            StoreError: when the run is not complete, or another process rewrites it.
        """
        if run.status != COMPLETE:
            raise StoreError(
                f"run {self._run_id!r} is {run.status}; only a complete run is compacted"
            )
        parts = {table: self._now.parts(table) for table in SHARD_TABLES}
        before = sum(len(ones) for ones in parts.values())
        with self._alone():
            merged = {
                table: [
                    self._merged(table, group) for group in _groups(list(ones.values()), full_rows)
                ]
                for table, ones in parts.items()
            }
            if self._written:
                self._publish(merged)
        return Compacted(before, sum(len(ones) for ones in merged.values()))

    def forget(self, case_ids: Collection[str]) -> None:
        """Leave out the rows of some cases; the parts that held them are removed at once.

        Raises:
            StoreError: when another process rewrites the run.
        """
        with self._alone():
            kept = {table: list(self._now.parts(table).values()) for table in SHARD_TABLES}
            held: list[Part] = []
            for table in OF_CASES:
                frames = self._manifest.frames(table, self._now.parts(table))
                for place, (part, rows) in enumerate(zip(kept[table], frames, strict=True)):
                    others = rows.filter(~pl.col("case_id").is_in(list(case_ids)))
                    if others.height < rows.height:
                        held.append(part)
                        kept[table][place] = self._write(table, others)
            if held:
                self._publish(kept)
                self._remove(held)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Where another has rewritten the run, its old parts may be gone before we have read them."""
        try:
            yield
        except StoreError:
            if self._manifest.snapshot(self._run_id).number == self._now.number:
                raise
            self._remove(self._written)
            raise _overtaken(self._run_id) from None

    def _merged(self, table: str, group: Sequence[Part]) -> Part:
        if len(group) == 1:
            return group[0]
        parts = {f"runs/{self._run_id}/parts/{part.name}": part for part in group}
        rows = pl.concat(self._manifest.frames(table, parts)).sort(KEYS[table], maintain_order=True)
        return self._write(table, rows)

    def _write(self, table: str, rows: pl.DataFrame) -> Part:
        stem = f"{table}-rewritten-{self._attempt}-{len(self._written):04d}"
        failpoint("rewrite.part.before")
        part = self._manifest.write_part(self._run_id, stem, rows)
        failpoint("rewrite.part.after")
        self._written.append(part)
        return part

    def _publish(self, parts: dict[str, list[Part]]) -> None:
        standing = frozenset(self._now.marks).union(*(one.shards for one in self._now.generations))
        generation = Generation(self._now.number + 1, standing, parts)
        failpoint("rewrite.publish.before")
        published = self._manifest.publish(self._run_id, generation)
        failpoint("rewrite.publish.after")
        if not published:
            raise _overtaken(self._run_id)

    def _remove(self, parts: Iterable[Part]) -> None:
        self._objects.remove(f"runs/{self._run_id}/parts/{part.name}" for part in parts)


def _overtaken(run_id: str) -> StoreError:
    return StoreError(
        f"run {run_id!r} is rewritten by another process; nothing was changed, try again"
    )


def _groups(parts: Sequence[Part], full_rows: int) -> list[list[Part]]:
    """Parts to be merged with one another, in their order; a full one stays alone."""
    groups: list[list[Part]] = []
    rows = full_rows
    for part in parts:
        if rows + part.rows > full_rows:
            groups.append([])
            rows = 0
        groups[-1].append(part)
        rows += part.rows
    return groups
