"""Rewrites the parts of a run: into fewer parts, or without the rows of some cases.

New parts are written first. Then a generation is created, and from that moment readers see the new
parts instead of the old ones. When two processes rewrite a run at once, one of them is refused and
has changed nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import polars as pl

from assizes.judge.errors import StoreError
from assizes.judge.rows import COMPLETE, KEYS, SHARD_TABLES
from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.store.manifest import Generation, Manifest, ParquetPart
from assizes.tasks.store.objects import Objects
from assizes.tasks.store.record import CASE_TABLES, RunRecord

FULL_PART_ROWS: Final = 1_000_000  # the most rows of a part that small parts are merged into


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """The number of parts of a run before and after it was compacted."""

    before: int
    after: int


class Rewriter:
    """Rewrites the parts of one run of a lake."""

    def __init__(self, objects: Objects, manifest: Manifest, run_id: str) -> None:
        self._objects = objects
        self._manifest = manifest
        self._run_id = run_id
        self._snapshot = manifest.snapshot(run_id)
        self._attempt = uuid.uuid4().hex  # makes the names of new parts unique
        self._written_parts: list[ParquetPart] = []  # deleted again after a conflict

    def compact(self, run: RunRecord) -> CompactionResult:
        """Merge the small parts of a complete run; its rows stay unchanged.

        Raises:
            StoreError: when the run is not complete, or another process is rewriting it.
        """
        if run.status != COMPLETE:
            raise StoreError(
                f"run {run.run_id!r} is {run.status}; only a complete run is compacted"
            )
        old_parts = {t: list(self._snapshot.parts(t).values()) for t in SHARD_TABLES}
        with self._detect_conflict():
            merged = {
                table: [self._merge_parts(table, group) for group in _part_groups(parts)]
                for table, parts in old_parts.items()
            }
            if self._written_parts:
                self._publish(merged)
        return CompactionResult(*(sum(map(len, parts.values())) for parts in (old_parts, merged)))

    def forget(self, case_ids: Collection[str]) -> None:
        """Delete the rows of some cases; the old parts that held these rows are deleted at once.

        Raises:
            StoreError: when another process is rewriting the run.
        """
        with self._detect_conflict():
            new_parts = {t: list(self._snapshot.parts(t).values()) for t in SHARD_TABLES}
            old_parts: list[ParquetPart] = []
            for table in CASE_TABLES:
                frames = self._manifest.frames(table, self._snapshot.parts(table))
                for index, (part, rows) in enumerate(zip(new_parts[table], frames, strict=True)):
                    remaining = rows.filter(~pl.col("case_id").is_in(list(case_ids)))
                    if remaining.height < rows.height:
                        old_parts.append(part)
                        new_parts[table][index] = self._write(table, remaining)
            if old_parts:
                self._publish(new_parts)
                self._remove(old_parts)  # not left to the garbage collection: it waits for a day

    @contextmanager
    def _detect_conflict(self) -> Iterator[None]:
        """Turn a missing part into a conflict when another process has rewritten the run."""
        try:
            yield
        except StoreError:
            if self._manifest.snapshot(self._run_id).number == self._snapshot.number:
                raise  # no other process is to blame
            # The other process may have deleted old parts before this one had read them.
            self._remove(self._written_parts)
            raise self._conflict() from None

    def _merge_parts(self, table: str, group: Sequence[ParquetPart]) -> ParquetPart:
        if len(group) == 1:
            return group[0]
        parts = {f"runs/{self._run_id}/parts/{part.name}": part for part in group}
        rows = pl.concat(self._manifest.frames(table, parts)).sort(KEYS[table], maintain_order=True)
        return self._write(table, rows)

    def _write(self, table: str, rows: pl.DataFrame) -> ParquetPart:
        stem = f"{table}-rewritten-{self._attempt}-{len(self._written_parts):04d}"
        failpoint("rewrite.part.before")
        part = self._manifest.write_part(self._run_id, stem, rows)
        failpoint("rewrite.part.after")
        self._written_parts.append(part)
        return part

    def _publish(self, parts: dict[str, list[ParquetPart]]) -> None:
        earlier = self._snapshot.generations
        # A generation takes over what earlier ones replaced: readers look at the newest alone.
        covered = frozenset(self._snapshot.marks).union(*(before.shards for before in earlier))
        generation = Generation(self._snapshot.number + 1, covered, parts)
        failpoint("rewrite.publish.before")
        published = self._manifest.publish(self._run_id, generation)
        failpoint("rewrite.publish.after")
        if not published:
            raise self._conflict()

    def _conflict(self) -> StoreError:
        what = f"run {self._run_id!r} is rewritten by another process"
        return StoreError(f"{what}; nothing was changed, try again")

    def _remove(self, parts: Iterable[ParquetPart]) -> None:
        self._objects.remove(f"runs/{self._run_id}/parts/{part.name}" for part in parts)


def _part_groups(parts: Sequence[ParquetPart]) -> list[list[ParquetPart]]:
    """Groups of neighbouring parts: each has at most `FULL_PART_ROWS` rows, or is a single part."""
    groups: list[list[ParquetPart]] = []
    rows = 0
    for part in parts:
        rows += part.rows
        if not groups or rows > FULL_PART_ROWS:
            groups.append([])
            rows = part.rows
        groups[-1].append(part)
    return groups
