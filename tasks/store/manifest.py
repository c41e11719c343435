"""The documents of a lake, and the parts that hold the rows of a run, as its documents name them.

Each document is JSON, written whole, and carries the schema version. Its first key is `hash`, of all
bytes behind it; a document of an older version has no hash. A commit mark names the parts
of one shard and is created once. Compacting a run, or deleting the rows of a subject, writes new
parts and then a generation (`runs/<run>/generations/<number>.json`, created once as well), whose
parts replace those of the shards that the generation lists. The newest generation counts, and beside
it the marks of shards that it does not list. A part that neither names does not count.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, TypeVar

import polars as pl

from assizes.judge.errors import SchemaVersion, StoreError
from assizes.judge.rows import SCHEMA_VERSION, SHARD_TABLES, TABLES, add_later_columns, as_json
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.store.objects import (
    ExpectedBytes,
    Objects,
    check_object,
    damaged_object,
    other_bytes,
)

T = TypeVar("T")

SUCCESS: Final = "SUCCESS.json"  # the document that ends a complete run
_FETCH_BATCH: Final = 64  # parts that are fetched together
_SEAL: Final = b'{"hash":"%b",%b'  # a document: the hash, and what the hash is of
_SEAL_BYTES: Final = len(b'{"hash":"",') + 32  # of a document up to what its hash is of


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document as it was read."""

    content: Mapping[str, Any]
    sha256: str  # of its bytes, in hexadecimal digits


class Documents:
    """Reads the documents of one lake; lasting ones never change and are fetched once."""

    def __init__(self, uri: str, objects: Objects) -> None:
        self._uri = uri
        self._objects = objects
        self._lasting: dict[str, StoredDocument] = {}  # by object name

    def read_documents(self, names: Iterable[str]) -> dict[str, StoredDocument]:
        """The named documents that exist, by object name in the order given.

        Raises:
            SchemaVersion: when a document has another schema version.
            StoreError: when a document is not a JSON object.
        """
        documents = {}
        for name, data in self._objects.read(list(names)).items():
            content = self.parse(name, data)
            if (version := content.get("schema_version")) != SCHEMA_VERSION:
                raise SchemaVersion.mismatch(self._uri, version, SCHEMA_VERSION)
            documents[name] = StoredDocument(content, hashlib.sha256(data).hexdigest())
        return documents

    def parse(self, name: str, data: bytes) -> dict[str, Any]:
        """The JSON object in the bytes of the object of that name, without its hash.

        Raises:
            StoreError: when the bytes are not a JSON object, or not those that were written.
        """
        where = self._objects.where
        try:
            document = json.loads(data)
        except ValueError as error:
            raise damaged_object(where, name, f"is not JSON ({error})") from error
        if not isinstance(document, dict):
            raise damaged_object(where, name, "is not a JSON object")
        if not _is_as_written(data, has_hash=document.pop("hash", None) is not None):
            raise other_bytes(where, name)
        return document

    def read_lasting(self, names: Iterable[str]) -> dict[str, StoredDocument]:
        """The same as `read_documents` for lasting documents, each fetched once."""
        all_names = list(names)
        self._lasting |= self.read_documents(n for n in all_names if n not in self._lasting)
        return {name: self._lasting[name] for name in all_names if name in self._lasting}

    def read_folder(self, folder: str) -> dict[str, StoredDocument]:
        """All lasting documents that lie directly below a folder now, by object name."""
        return self.read_lasting(f"{folder}/{name}" for name in self._objects.names(folder))


def encode_document(**content: Any) -> bytes:
    """The bytes of a document with this schema version; the same content gives the same bytes."""
    return seal(document_body(**content))


def document_body(**content: Any) -> bytes:
    """The bytes of the same document without its hash, from which names are made."""
    return as_json({"schema_version": SCHEMA_VERSION, **content}).encode()


def seal(body: bytes) -> bytes:
    """The bytes of a JSON object with a first key `hash`, of all that stands behind it."""
    return _SEAL % (_hash(body), body[1:]) if len(body) > len(b"{}") else body


def _is_as_written(data: bytes, *, has_hash: bool) -> bool:
    """Whether a document has its hash, or is of a version that wrote none."""
    body = b"{" + data[_SEAL_BYTES:]
    written = _hash(body)
    # Without the key, which may be what is damaged, the hash still stands in its place.
    return data == _SEAL % (written, body[1:]) or not (has_hash or written in data[:_SEAL_BYTES])


def _hash(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=16).hexdigest().encode()


@dataclass(frozen=True, slots=True)
class ParquetPart:
    """One Parquet object of a run, as its entry in a commit mark or a generation describes it."""

    name: str  # the last part of the object's name
    bytes: int  # the number of its bytes
    sha256: str  # of its bytes, in hexadecimal digits
    rows: int

    @property
    def expected(self) -> ExpectedBytes:
        """What the bytes of the object must be."""
        return ExpectedBytes(self.bytes, self.sha256)


@dataclass(frozen=True, slots=True)
class Generation:
    """New parts that replace those of some shards."""

    number: int  # counts the generations of a run from 1
    shards: frozenset[str]  # ids of the shards whose parts are replaced
    parts: Mapping[str, Sequence[ParquetPart]]  # by table


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the documents of a run name at one moment."""

    run_id: str
    marks: Mapping[str, Mapping[str, Any]]  # contents of the commit marks, by shard id
    generations: Sequence[Generation]  # the newest alone, or none

    @property
    def number(self) -> int:
        """The number of the newest generation; 0 while there is none."""
        return self.generations[-1].number if self.generations else 0

    def parts(self, table: str) -> dict[str, ParquetPart]:
        """The parts of a table by object name: of the generation, then of other shards by their ids."""
        parts = _current_parts(self.marks, self.generations, table)
        return {f"runs/{self.run_id}/parts/{part.name}": part for part in parts}

    def removed_rows(self, table: str) -> int:
        """The rows of a table that shards were committed with and that were deleted since."""
        committed = _current_parts(self.marks, (), table)
        return sum(p.rows for p in committed) - sum(p.rows for p in self.parts(table).values())


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
        for success in self._documents.read_lasting([f"runs/{run_id}/{SUCCESS}"]).values():
            expected = success.content.get("commits")  # None in a run of an older version
            if expected is not None and expected != _commits_digest(documents.values()):
                raise StoreError(
                    f"{self._objects.where}: run {run_id!r} was complete with {expected['shards']} "
                    f"commit marks and has {len(documents)} of them, or others; restore "
                    f"runs/{run_id}/commits"
                )
        return {mark.content["shard"]: mark.content for mark in documents.values()}

    def digest(self, run_id: str) -> dict[str, Any]:
        """The digest of the run's commit marks as they are now, to be stored when the run ends."""
        return _commits_digest(self._documents.read_folder(f"runs/{run_id}/commits").values())

    def generations(self, run_id: str) -> list[Generation]:
        """All generations of a run, the oldest first; empty when the run was never rewritten."""
        generations = []
        for document in self._documents.read_folder(f"runs/{run_id}/generations").values():
            content = document.content
            parts = {
                table: [ParquetPart(**part) for part in table_parts]
                for table, table_parts in content["parts"].items()
            }
            number, shards = content["generation"], frozenset(content["shards"])
            generations.append(Generation(number, shards, parts))
        return sorted(generations, key=attrgetter("number"))

    def snapshot(self, run_id: str) -> Snapshot:
        """The commit marks and the newest generation of a run as they are now."""
        return Snapshot(run_id, self.marks(run_id), self.generations(run_id)[-1:])

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
                if self.snapshot(run_id).number == snapshot.number:  # not rewritten: it is damaged
                    raise

    def sources(
        self, now: Snapshot, table: str, *, hashed: bool = True
    ) -> list[Path] | list[bytes]:
        """What can be scanned for a table: paths of local files, or the bytes of a bucket's objects.

        Each is checked against its SHA-256, or with `hashed=False` against its size alone.

        Raises:
            StoreError: when a part is missing or is not what was committed.
        """
        wanted = {name: part.expected for name, part in now.parts(table).items()}
        if not hashed:
            wanted = {name: known._replace(sha256=None) for name, known in wanted.items()}
        return self._objects.sources(wanted)

    def referenced_part_names(self, run_id: str, settled_number: int) -> set[str]:
        """Names of all parts of a run that a reader may still open.

        Every reader has seen the generation `settled_number` (0 for none) by now, so nobody reads
        the parts that it and earlier generations replaced.
        """
        marks, generations = self.marks(run_id), self.generations(run_id)
        settled = [generation for generation in generations if generation.number <= settled_number]
        newer = generations[len(settled) :]
        names: set[str] = set()
        for table in SHARD_TABLES:
            names.update(part.name for part in _current_parts(marks, settled[-1:], table))
            names.update(part.name for later in newer for part in later.parts.get(table, ()))
        return names

    def frames(self, table: str, parts: Mapping[str, ParquetPart]) -> Iterator[pl.DataFrame]:
        """The rows of each part of a table, checked against the part's size and SHA-256.

        A column that was added to the table after a part was written is None in its rows.

        Raises:
            StoreError: when a part is missing or is not what was committed.
        """
        names, where = list(parts), self._objects.where
        for first in range(0, len(names), _FETCH_BATCH):
            batch = names[first : first + _FETCH_BATCH]
            contents = self._objects.read(batch)
            for name in batch:
                data = check_object(where, name, contents.get(name), parts[name].expected)
                yield add_later_columns(table, pl.read_parquet(io.BytesIO(data)))

    def write_part(self, run_id: str, stem: str, rows: pl.DataFrame) -> ParquetPart:
        """Write rows as a part of a run; `stem` is a name that no other writer uses."""
        buffer = io.BytesIO()
        rows.write_parquet(buffer, compression="zstd")
        data, name = buffer.getvalue(), f"{stem}.parquet"
        failpoint("lake.part.before")
        self._objects.create(f"runs/{run_id}/parts/{name}", data)
        failpoint("lake.part.after")
        return ParquetPart(name, len(data), hashlib.sha256(data).hexdigest(), rows.height)

    def publish(self, run_id: str, generation: Generation) -> bool:
        """Create the document of a generation; False where another process was first."""
        name = f"runs/{run_id}/generations/{generation.number:06d}.json"
        attempt = uuid.uuid4().hex  # tells a retried write of this process from another's
        body = encode_document(
            run_id=run_id,
            generation=generation.number,
            attempt=attempt,
            shards=sorted(generation.shards),
            parts={
                table: [asdict(part) for part in table_parts]
                for table, table_parts in generation.parts.items()
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
    new_parts = [part for generation in generations for part in generation.parts.get(table, ())]
    return new_parts + [
        ParquetPart(**mark["parts"][table])
        for shard, mark in sorted(marks.items())
        if table in mark["parts"] and shard not in replaced
    ]


def _commits_digest(marks: Iterable[StoredDocument]) -> dict[str, Any]:
    """The number of commit marks, and one SHA-256 over the SHA-256 of each."""
    lines = sorted(f"{mark.content['shard']} {mark.sha256}\n" for mark in marks)  # in any order
    return {"shards": len(lines), "sha256": hashlib.sha256("".join(lines).encode()).hexdigest()}


# Polars reads ahead by as many row groups as there could be of, and keeps what it has read: of a run
# of a million cases twice the memory, and no less time. Who has set these knows better.
os.environ.setdefault("POLARS_ROW_GROUP_PREFETCH_SIZE", "2")
os.environ.setdefault("POLARS_IDEAL_MORSEL_SIZE", "32768")


def scan_parts(sources: Any, table: str, *, use_statistics: bool = True) -> pl.LazyFrame:
    """The rows of parts of a table in their order, from paths of local files or from bytes.

    `use_statistics`: a condition may skip a part by what its footer says. Of many ids and many small
    parts, comparing takes polars longer than reading.
    """
    return pl.scan_parquet(
        sources,
        use_statistics=use_statistics,
        glob=False,  # a name may hold [ or *
        hive_partitioning=False,  # no columns from "key=value" in a path
        schema=TABLES[table],
        missing_columns="insert",  # that an older part lacks
    )


def parts_with(
    condition: pl.Expr, sources: Sequence[Any], heights: Sequence[int], table: str
) -> list[int]:
    """The places of the parts with a row that meets a condition on ids.

    `heights` are the numbers of rows of the parts.
    """
    if not sources:
        return []
    ids = collect_rows(scan_parts(sources, table, use_statistics=False).select("case_id"))
    # Rows come in the order of the parts, so that the place of a row tells its part.
    ends = pl.Series(heights, dtype=pl.UInt32).cum_sum()
    places = ids.select(condition.arg_true()).to_series()
    return sorted(set(ends.search_sorted(places, side="right").to_list()))
