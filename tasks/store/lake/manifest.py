"""The parts that hold the rows of a run, as its commit marks and its generations name them.

A commit mark names the parts of one shard and is created once. Compacting a run, or deleting the
rows of a subject, writes new parts and then a generation
(`runs/<run>/generations/<number>.json`, created once as well), whose parts replace those of the
shards that the generation lists. The newest generation counts, and beside it the marks of shards
that it does not list. A part that neither names does not count.
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
"""The document that ends a complete run."""

_FETCH_BATCH: Final = 64
"""Parts that are fetched together."""


@dataclass(frozen=True, slots=True)
class ParquetPart:
    """One Parquet object of a run, as it was committed.

    Attributes:
        name: the last part of the object's name.
        size: bytes.
        sha256: of the bytes, in hexadecimal digits.
        rows: the number of rows.
    """

    name: str
    size: int
    sha256: str
    rows: int

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> ParquetPart:
        """The part that an entry of a commit mark or a generation names."""
        return cls(document["name"], document["bytes"], document["sha256"], document["rows"])

    def as_document(self) -> dict[str, Any]:
        """The entry for this part in a commit mark or a generation."""
        return {
            "name": self.name,
            "bytes": self.size,
            "sha256": self.sha256,
            "rows": self.rows,
        }


@dataclass(frozen=True, slots=True)
class Generation:
    """The parts that replace those of a set of shards.

    Attributes:
        number: 1 for the first generation of a run.
        shards: ids of the shards.
        parts: the new parts by table.
    """

    number: int
    shards: frozenset[str]
    parts: Mapping[str, Sequence[ParquetPart]]

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Generation:
        """The generation that a document describes."""
        parts = {
            table: [ParquetPart.from_document(part) for part in table_parts]
            for table, table_parts in document["parts"].items()
        }
        return cls(document["generation"], frozenset(document["shards"]), parts)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The commit marks and the newest generation of a run at one moment.

    Attributes:
        run_id: the run.
        marks: the content of each commit mark, by shard id.
        generations: the newest generation; empty while there is none.
    """

    run_id: str
    marks: Mapping[str, Mapping[str, Any]]
    generations: Sequence[Generation]

    @property
    def number(self) -> int:
        """The number of the newest generation; 0 while there is none."""
        return self.generations[-1].number if self.generations else 0

    def parts(self, table: str) -> dict[str, ParquetPart]:
        """The parts of a table, by object name, ordered by shard."""
        parts = _current_parts(self.marks, self.generations, table)
        return {f"runs/{self.run_id}/parts/{part.name}": part for part in parts}


class Manifest:
    """The parts of the runs of one lake."""

    def __init__(self, objects: Objects, documents: Documents) -> None:
        self._objects = objects
        self._documents = documents

    def marks(self, run_id: str) -> dict[str, Mapping[str, Any]]:
        """The content of each commit mark of a run, by shard id.

        Raises:
            StoreError: when a complete run has not the marks with which it ended.
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
        """The digest of the run's commit marks as they are now, to be stored when the run ends."""
        return commits_digest(self._documents.read_folder(f"runs/{run_id}/commits").values())

    def generations(self, run_id: str) -> list[Generation]:
        """All generations of a run, the oldest first; empty when the run was never rewritten."""
        documents = self._documents.read_folder(f"runs/{run_id}/generations").values()
        return sorted(
            (Generation.from_document(document.content) for document in documents),
            key=lambda generation: generation.number,
        )

    def snapshot(self, run_id: str) -> Snapshot:
        """The commit marks and the newest generation of a run as they are now."""
        marks = self.marks(run_id)
        return Snapshot(run_id, marks, self.generations(run_id)[-1:])

    def read_consistently(self, run_id: str, read: Callable[[Snapshot], T]) -> T:
        """Call `read` with a snapshot of a run, and again if the run was rewritten meanwhile.

        Raises:
            StoreError: when a part is missing or damaged although the run was not rewritten.
        """
        while True:
            snapshot = self.snapshot(run_id)
            try:
                return read(snapshot)
            except StoreError:
                if self.snapshot(run_id).number == snapshot.number:
                    raise

    def parts(self, run_id: str, table: str) -> dict[str, ParquetPart]:
        """The parts of a run in a table, by object name, ordered by shard."""
        return self.snapshot(run_id).parts(table)

    def referenced_part_names(self, run_id: str, settled_number: int) -> set[str]:
        """Names of all parts of a run that a reader may still open.

        Args:
            run_id: the run.
            settled_number: the number of the newest generation that every reader has seen by now;
                nobody reads the parts that it and earlier generations replaced. 0 for none.
        """
        marks, generations = self.marks(run_id), self.generations(run_id)
        settled = [generation for generation in generations if generation.number <= settled_number]
        newer = [generation for generation in generations if generation.number > settled_number]
        names: set[str] = set()
        for table in SHARD_TABLES:
            names.update(part.name for part in _current_parts(marks, settled[-1:], table))
            names.update(
                part.name for generation in newer for part in generation.parts.get(table, ())
            )
        return names

    def frames(self, table: str, parts: Mapping[str, ParquetPart]) -> Iterator[pl.DataFrame]:
        """The rows of each part of a table, checked against the part's size and SHA-256.

        A column that was added to the table after a part was written is `null` in its rows.

        Raises:
            StoreError: when a part is missing or is not what was committed.
        """
        names = list(parts)
        for first in range(0, len(names), _FETCH_BATCH):
            batch = names[first : first + _FETCH_BATCH]
            contents = self._objects.read(batch)
            for name in batch:
                data = self._checked_bytes(name, parts[name], contents.get(name))
                yield add_later_columns(table, pl.read_parquet(io.BytesIO(data)))

    def _checked_bytes(self, name: str, part: ParquetPart, data: bytes | None) -> bytes:
        """Return the bytes of a part if they are what was committed, else raise `StoreError`."""
        where = self._objects.where
        if data is None or len(data) != part.size:
            raise size_error(where, name, None if data is None else len(data), part.size)
        if hashlib.sha256(data).hexdigest() != part.sha256:
            raise StoreError(
                f"{where}: {name} is not what was committed (SHA-256 differs); restore the file"
            )
        return data

    def write_part(self, run_id: str, stem: str, rows: pl.DataFrame) -> ParquetPart:
        """Write rows as a part of a run; `stem` is a name that no other writer uses."""
        data = parquet_bytes(rows)
        name = f"{stem}.parquet"
        failpoint("lake.part.before")
        self._objects.create(f"runs/{run_id}/parts/{name}", data)
        failpoint("lake.part.after")
        return ParquetPart(name, len(data), hashlib.sha256(data).hexdigest(), rows.height)

    def publish(self, run_id: str, generation: Generation) -> bool:
        """Create the document of a generation, so that the generation counts from now on.

        Returns:
            False when another process has published a generation of that number.
        """
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
    """The parts of a table: those of the generations, and those of shards that none of them lists."""
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
    """The number of commit marks, and one SHA-256 over the SHA-256 of each."""
    lines = sorted(f"{mark.content['shard']} {mark.sha256}\n" for mark in marks)
    return {"shards": len(lines), "sha256": hashlib.sha256("".join(lines).encode()).hexdigest()}


def new_attempt() -> str:
    """A new id for one attempt at writing, to be part of its parts' names and of its mark."""
    return uuid.uuid4().hex
