"""The durable record of a run's batches: what was handed in, so that nobody hands it in again.

Beside the kept replies, in `batches/<run id>/`, each part of a round has

    <round>-<part>.json    its state: prepared -> submitted (with the provider's id) -> collected
    <round>-<part>.asks    one line an ask: its key, its ticket in the ledger
    <round>-<part>.given   what came and did not fit, by key: first attempts of asks put singly

All is written before the provider hears of it, and goes with a tag that the provider keeps, so that a
process that dies between the provider's answer and its own note finds the batch by its tag.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Final, Literal

from pydantic import TypeAdapter, ValidationError

from assizes.judge.engine.batching import PaidReply
from assizes.judge.errors import StoreError
from assizes.judge.models.model import Completion, UnusableReply
from assizes.tasks.store.objects.opening import objects_at

State = Literal["prepared", "submitted", "collected", "dropped"]
"""`dropped`: it was prepared and never handed in; its asks are free for another batch."""


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """One part of a round: the asks of one model that fit into one file.

    Args:
        round: counts from 1 over all sittings of the run.
        part: counts from 1 in the round.
        model: as requested.
        mark: tells the model with its parameters from others (`assizes.judge.engine.batching.model_mark`).
        asks: how many.
        keys_hash: SHA-256 over their keys, in order.
        state: how far it has come.
        batch_id: the provider's.
        ended_as: the provider's word for how it ended.
        answered: asks that something was paid for.
        ledger: the file that gave the tickets; empty where it is not known.
    """

    run_id: str
    round: int
    part: int
    model: str
    mark: str
    asks: int
    keys_hash: str
    state: State = "prepared"
    batch_id: str | None = None
    ended_as: str | None = None
    answered: int = 0
    ledger: str = ""

    @property
    def name(self) -> str:
        """Its place among the batches of the run."""
        return f"{self.round}-{self.part}"

    @property
    def tag(self) -> dict[str, str]:
        """What the provider keeps with the batch."""
        return {
            "assizes_run": self.run_id,
            "assizes_part": self.name,
            "assizes_asks": self.keys_hash[:32],
        }


@dataclass(frozen=True, slots=True)
class _StoredReply:
    """What a line brought, as JSON; `code` is null for a reply that may be read."""

    completion: Completion
    code: str | None = None
    detail: str = ""

    @classmethod
    def of(cls, reply: PaidReply) -> _StoredReply:
        if isinstance(reply, UnusableReply):
            return cls(reply.completion, reply.code, reply.detail)
        return cls(reply)

    @property
    def reply(self) -> PaidReply:
        if self.code is None:
            return self.completion
        return UnusableReply(self.code, self.detail, self.completion)


_RECORD_ADAPTER: Final = TypeAdapter(BatchRecord)
_REPLY_ADAPTER: Final = TypeAdapter(_StoredReply)
_REPLIES_ADAPTER: Final = TypeAdapter(dict[str, _StoredReply])


class BatchLog:
    """The records of one run at a URI. What cannot be written here must not be handed in.

    Raises:
        StoreError: by every method, when the place cannot be read or written.
    """

    def __init__(self, uri: str, storage_options: Mapping[str, Any], run_id: str) -> None:
        self.run_id = run_id
        self._objects = objects_at(uri, storage_options)
        self._folder = f"batches/{run_id}"

    def records(self) -> list[BatchRecord]:
        """All parts that were ever prepared, the earliest first."""
        names = [name for name in self._objects.names(self._folder) if name.endswith(".json")]
        bodies = self._objects.read([f"{self._folder}/{name}" for name in names])
        records = [self._record(name, body) for name, body in bodies.items()]
        return sorted(records, key=lambda record: (record.round, record.part))

    def prepare(self, record: BatchRecord, tickets: Iterable[tuple[str, int]]) -> None:
        """Note a part before it is handed in.

        Raises:
            StoreError: also when another process has taken its place.
        """
        lines = "".join(f"{key} {ticket}\n" for key, ticket in tickets)
        self._objects.replace(self._name(record, "asks"), lines.encode())
        if not self._objects.create(
            self._name(record, "json"), _RECORD_ADAPTER.dump_json(record, indent=1)
        ):
            raise StoreError(
                f"{self._objects.where}: batch {record.name} of run {record.run_id!r} is there "
                "already; another process works on this run"
            )

    def save(self, record: BatchRecord) -> None:
        """Note how far a part has come."""
        self._objects.replace(
            self._name(record, "json"), _RECORD_ADAPTER.dump_json(record, indent=1)
        )

    def tickets(self, record: BatchRecord) -> dict[str, int]:
        """The ledger's ticket of each ask of a part, by key.

        Raises:
            StoreError: also when they are not there.
        """
        name = self._name(record, "asks")
        body = self._objects.read([name]).get(name)
        if body is None:
            raise StoreError(f"{self._objects.where}: {name} is missing; restore the file")
        pairs = (line.split() for line in body.decode().splitlines())
        return {key: int(ticket) for key, ticket in pairs}

    def save_first_attempts(
        self, record: BatchRecord, first_attempts: Mapping[str, PaidReply]
    ) -> None:
        """Keep first attempts that did not fit."""
        stored = {key: _StoredReply.of(reply) for key, reply in first_attempts.items()}
        self._objects.replace(self._name(record, "given"), _REPLIES_ADAPTER.dump_json(stored))

    def first_attempts(self) -> dict[str, PaidReply]:
        """All first attempts that did not fit, by key."""
        names = [name for name in self._objects.names(self._folder) if name.endswith(".given")]
        bodies = self._objects.read([f"{self._folder}/{name}" for name in names])
        stored = {
            key: item
            for body in bodies.values()
            for key, item in _REPLIES_ADAPTER.validate_json(body).items()
        }
        return {key: item.reply for key, item in stored.items()}

    def _name(self, record: BatchRecord, suffix: str) -> str:
        return f"{self._folder}/{record.name}.{suffix}"

    def _record(self, name: str, body: bytes) -> BatchRecord:
        try:
            return _RECORD_ADAPTER.validate_json(body)
        except ValidationError as error:
            raise StoreError(
                f"{self._objects.where}: {name} is no record of a batch; restore the file"
            ) from error


class BatchResults:
    """What the batches of a round brought, in a file, until the hearings have made use of it."""

    def __init__(self, folder: Path) -> None:
        self._lock = Lock()
        self._file = sqlite3.connect(
            folder / "inbox.db", isolation_level=None, check_same_thread=False
        )
        self._file.execute("pragma journal_mode = memory")
        self._file.execute("pragma synchronous = off")
        self._file.execute("create table came (key text primary key, body blob) without rowid")

    def add(self, lines: Sequence[tuple[str, PaidReply]]) -> None:
        """Keep them; those that are there already are the same."""
        rows = [(key, _REPLY_ADAPTER.dump_json(_StoredReply.of(reply))) for key, reply in lines]
        with self._lock:
            self._file.execute("begin")
            self._file.executemany("insert or replace into came values (?, ?)", rows)
            self._file.execute("commit")

    def pop(self, key: str) -> PaidReply | None:
        """What came of an ask, once."""
        sql = "delete from came where key = ? returning body"
        with self._lock:
            row = self._file.execute(sql, (key,)).fetchone()
        return None if row is None else _REPLY_ADAPTER.validate_json(row[0]).reply

    def pop_all(self) -> dict[str, PaidReply]:
        """What nobody took, taken."""
        with self._lock:
            rows = self._file.execute("delete from came returning key, body").fetchall()
        return {key: _REPLY_ADAPTER.validate_json(body).reply for key, body in rows}

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


class BatchedKeys:
    """The asks that were ever part of a batch of a run; 16 bytes of each key."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def __contains__(self, key: str) -> bool:
        return bytes.fromhex(key[:32]) in self._seen

    def add(self, key: str) -> bool:
        """Note a key; false where it was noted before."""
        before = len(self._seen)
        self._seen.add(bytes.fromhex(key[:32]))
        return len(self._seen) > before

    def drop(self, keys: Iterable[str]) -> None:
        """Forget keys that were not handed in after all."""
        self._seen.difference_update(bytes.fromhex(key[:32]) for key in keys)
