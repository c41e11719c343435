"""Which parts hold the rows of a run: what its commit marks and its generations name.

A commit mark names the parts of one shard and is created once. A generation
(`runs/<run>/generations/<number>.json`, created once as well) stands for the shards it lists: what
was compacted, or rewritten without a subject. The newest one counts; marks of shards that it does
not list count beside it. Parts that are named by neither are not there.
"""

from __future__ import annotations

import hashlib
import io
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import polars as pl

from assizes.judge.errors import StoreError
from assizes.judge.rows import SHARD_TABLES, add_later_columns
from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.store.lake.documents import Documents, StoredDocument, encode_document
from assizes.tasks.store.objects.protocol import Objects, size_error
from assizes.tasks.store.record import parquet_bytes

T = TypeVar("T")

SUCCESS: Final = "SUCCESS.json"

_FETCH_BATCH: Final = 64
"""So many parts are fetched together."""


@dataclass(frozen=True, slots=True)
class ParquetPart:
    """One Parquet object of a run, as it was committed."""

    name: str
    size: int
    sha256: str
    rows: int

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> ParquetPart:
        """The part a mark or a generation names."""
        return cls(document["name"], document["bytes"], document["sha256"], document["rows"])

    def as_document(self) -> dict[str, Any]:
        """As marks and generations name it."""
        return {
            "name": self.name,
            "bytes": self.size,
            "sha256": self.sha256,
            "rows": self.rows,
        }


@dataclass(frozen=True, slots=True)
class Generation:
    """The parts that stand for a set of shards, by table."""

    number: int
    shards: frozenset[str]
    parts: Mapping[str, Sequence[ParquetPart]]

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Generation:
        """As it was written."""
        parts = {
            table: [ParquetPart.from_document(part) for part in table_parts]
            for table, table_parts in document["parts"].items()
        }
        return cls(document["generation"], frozenset(document["shards"]), parts)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What named the parts of a run at one moment."""

    run_id: str
    marks: Mapping[str, Mapping[str, Any]]
    generations: Sequence[Generation]

    @property
    def number(self) -> int:
        """The number of the newest generation; 0 for none."""
        return self.generations[-1].number if self.generations else 0

    def parts(self, table: str) -> dict[str, ParquetPart]:
        """The parts of a table, by object name, in order of shard."""
        parts = _current_parts(self.marks, self.generations, table)
        return {f"runs/{self.run_id}/parts/{part.name}": part for part in parts}


class Manifest:
    """The parts of the runs of one lake."""

    def __init__(self, objects: Objects, documents: Documents) -> None:
        self._objects = objects
        self._documents = documents

    def marks(self, run_id: str) -> dict[str, Mapping[str, Any]]:
        """The commit mark of each shard, by shard id.

        Raises:
            StoreError: when a complete run has not all the marks that it ended with.
        """
        documents = self._documents.read_folder(f"runs/{run_id}/commits")
        success_documents = self._documents.read_lasting([f"runs/{run_id}/{SUCCESS}"])
        for success in success_documents.values():
            expected_digest = success.content.get("commits")
            if expected_digest is not None and expected_digest != commits_digest(
                documents.values()
            ):
                raise StoreError(
                    f"{self._objects.where}: run {run_id!r} was complete with {expected_digest['shards']} "
                    f"commit marks and has {len(documents)} of them, or others; restore "
                    f"runs/{run_id}/commits"
                )
        return {mark.content["shard"]: mark.content for mark in documents.values()}

    def digest(self, run_id: str) -> dict[str, Any]:
        """What the marks of a run come to now; kept when it ends."""
        return commits_digest(self._documents.read_folder(f"runs/{run_id}/commits").values())

    def generations(self, run_id: str) -> list[Generation]:
        """Every generation of a run, the oldest first; none while its shards are as committed."""
        documents = self._documents.read_folder(f"runs/{run_id}/generations").values()
        return sorted(
            (Generation.from_document(document.content) for document in documents),
            key=lambda generation: generation.number,
        )

    def snapshot(self, run_id: str) -> Snapshot:
        """The marks and the newest generation as they are now, to be used together."""
        marks = self.marks(run_id)
        return Snapshot(run_id, marks, self.generations(run_id)[-1:])

    def read_consistently(self, run_id: str, read: Callable[[Snapshot], T]) -> T:
        """What a reader makes of a snapshot; anew where the run was rewritten meanwhile.

        Raises:
            StoreError: when a part is missing or damaged, and the run was not rewritten.
        """
        while True:
            snapshot = self.snapshot(run_id)
            try:
                return read(snapshot)
            except StoreError:
                if self.snapshot(run_id).number == snapshot.number:
                    raise

    def parts(self, run_id: str, table: str) -> dict[str, ParquetPart]:
        """The parts of a table, by object name, in order of shard."""
        return self.snapshot(run_id).parts(table)

    def referenced_part_names(self, run_id: str, settled_number: int) -> set[str]:
        """Names of all parts that a reader may still open.

        Args:
            run_id: the run.
            settled_number: the newest generation that every reader has seen by now; what it and those
                before it stand for is read no more. 0 for none.
        """
        marks, generations = self.marks(run_id), self.generations(run_id)
        before = [generation for generation in generations if generation.number <= settled_number][
            -1:
        ]
        after = [generation for generation in generations if generation.number > settled_number]
        names: set[str] = set()
        for table in SHARD_TABLES:
            names.update(part.name for part in _current_parts(marks, before, table))
            names.update(
                part.name for generation in after for part in generation.parts.get(table, ())
            )
        return names

    def frames(self, table: str, parts: Mapping[str, ParquetPart]) -> Iterator[pl.DataFrame]:
        """The rows of a table's parts, one after the other, each checked against size and SHA-256.

        A part of before a column was added has it too, null.

        Raises:
            StoreError: when one is missing or is not what was committed.
        """
        names = list(parts)
        for first in range(0, len(names), _FETCH_BATCH):
            batch = names[first : first + _FETCH_BATCH]
            contents = self._objects.read(batch)
            for name in batch:
                data = self._checked_bytes(name, parts[name], contents.get(name))
                yield add_later_columns(table, pl.read_parquet(io.BytesIO(data)))

    def _checked_bytes(self, name: str, part: ParquetPart, data: bytes | None) -> bytes:
        where = self._objects.where
        if data is None or len(data) != part.size:
            raise size_error(where, name, None if data is None else len(data), part.size)
        if hashlib.sha256(data).hexdigest() != part.sha256:
            raise StoreError(
                f"{where}: {name} is not what was committed (SHA-256 differs); restore the file"
            )
        return data

    def write_part(self, run_id: str, stem: str, rows: pl.DataFrame) -> ParquetPart:
        """Write rows under a name that nobody else writes."""
        data = parquet_bytes(rows)
        name = f"{stem}.parquet"
        failpoint("lake.part.before")
        self._objects.create(f"runs/{run_id}/parts/{name}", data)
        failpoint("lake.part.after")
        return ParquetPart(name, len(data), hashlib.sha256(data).hexdigest(), rows.height)

    def publish(self, run_id: str, generation: Generation) -> bool:
        """Let a generation count; false when another one of its number is there."""
        name = f"runs/{run_id}/generations/{generation.number:06d}.json"
        attempt = uuid.uuid4().hex
        body = encode_document(
            run_id=run_id,
            generation=generation.number,
            attempt=attempt,
            shards=sorted(generation.shards),
            parts={
                t: [part.as_document() for part in table_parts]
                for t, table_parts in generation.parts.items()
            },
        )
        if self._objects.create(name, body):
            return True
        documents = self._documents.read_lasting([name])
        return any(document.content["attempt"] == attempt for document in documents.values())


def _current_parts(
    marks: Mapping[str, Mapping[str, Any]], generations: Sequence[Generation], table: str
) -> list[ParquetPart]:
    """The parts of a table: of these generations, and of the marks that they do not stand for."""
    replaced = frozenset[str]().union(*(generation.shards for generation in generations))
    mark_parts = [
        ParquetPart.from_document(mark["parts"][table])
        for shard, mark in sorted(marks.items())
        if table in mark["parts"] and shard not in replaced
    ]
    return [
        part for generation in generations for part in generation.parts.get(table, ())
    ] + mark_parts


def commits_digest(marks: Iterable[StoredDocument]) -> dict[str, Any]:
    """How many marks, and one SHA-256 over those of all of them."""
    lines = sorted(f"{mark.content['shard']} {mark.sha256}\n" for mark in marks)
    return {"shards": len(lines), "sha256": hashlib.sha256("".join(lines).encode()).hexdigest()}


def new_attempt() -> str:
    """An id for one attempt at writing: in the names of its parts and in its mark."""
    return uuid.uuid4().hex
