"""The durable log of a run's batches, and their accounts in the ledger: no ask is submitted twice.

In the folder `batches/<run id>/` of the reply cache, each part of a round has three files:

    <round>-<part>.json    the state: prepared -> submitted (with the provider's id) -> collected
    <round>-<part>-<writer>.asks   a line for each ask: its key, and its ticket in the ledger
    <round>-<part>.given   replies that did not fit, by key: first attempts of single calls

The log is written before the provider gets the batch, and the batch carries a tag that the provider
keeps. So a process that dies between the provider's answer and its own note leaves a batch that a
later process finds by the tag.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from threading import Lock
from typing import Any, Final, Literal

from pydantic import TypeAdapter, ValidationError

from assizes.judge.engine.batching import PaidReply
from assizes.judge.engine.ledger import CallSpending, Ledger, PlannedCall
from assizes.judge.errors import AssizesError, ModelError, StoreError
from assizes.judge.models.model import Completion, UnusableReply
from assizes.tasks.store.bucket import objects_at

State = Literal["prepared", "submitted", "collected", "dropped"]
"""The state of a part; `dropped`: prepared but never submitted, so its asks are free again."""


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """One part of a round of a run: the asks of one model that fit into one file."""

    run_id: str
    round: int  # from 1, over all processes that judge the run
    part: int  # from 1, within the round
    model: str
    mark: str  # of the model with its parameters (`assizes.judge.engine.batching.model_mark`)
    asks: int
    keys_hash: str  # SHA-256 over the keys of the asks, in order
    state: State = "prepared"
    batch_id: str | None = None  # the provider's
    ended_as: str | None = None  # the provider's word for how the batch ended
    answered: int = 0  # asks with a paid reply
    ledger: str = ""  # the file whose tickets the asks hold; empty where it is not known
    after: str | None = None  # `Batches.latest` before the submission; `None`: found by the tag
    writer: str = ""  # in the name of the file of asks: unique; empty in older logs

    @property
    def name(self) -> str:
        """Round and part as a text, unique within the run."""
        return f"{self.round}-{self.part}"

    @property
    def is_waiting(self) -> bool:
        """Whether the provider is still working on the batch."""
        return self.state == "submitted" and not self.ended_as

    @property
    def has_results(self) -> bool:
        """Whether the batch has ended, and its replies are not yet used by the hearings."""
        return self.state == "submitted" and bool(self.ended_as)

    @property
    def tag(self) -> dict[str, str]:
        """The metadata that the provider keeps with the batch."""
        return {
            "assizes_run": self.run_id,
            "assizes_part": self.name,
            "assizes_asks": self.keys_hash[:32],
        }


@dataclass(frozen=True, slots=True)
class _StoredReply:
    """A paid reply in the form in which it is stored."""

    completion: Completion
    code: str | None = None  # why the reply is unusable; None for a usable one
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
    """The batch records of one run, at the URI of its reply cache.

    A batch whose record cannot be written must not be submitted.

    Raises:
        StoreError: every method, where the place cannot be read or written.
    """

    def __init__(self, uri: str, storage_options: Mapping[str, Any], run_id: str) -> None:
        self.run_id = run_id
        self._objects = objects_at(uri, storage_options)
        self._folder = f"batches/{run_id}"

    def records(self) -> list[BatchRecord]:
        """The records of all parts that were ever prepared, the earliest first."""
        records, where = [], self._objects.where
        for name, body in self._files(".json").items():
            try:
                records.append(_RECORD_ADAPTER.validate_json(body))
            except ValidationError as error:
                what = f"{name} is no record of a batch"
                raise StoreError(f"{where}: {what}; restore the file") from error
        return sorted(records, key=attrgetter("round", "part"))

    def prepare(self, record: BatchRecord, tickets: Iterable[tuple[str, int]]) -> None:
        """Write the record of a part, with key and ticket of each ask, before it is submitted.

        Raises:
            StoreError: also where another process has written a part of the same name.
        """
        # The tickets come first: a record without them could not be settled. Tickets of another
        # process are never written over: it may have submitted the asks that they pay for.
        lines = "".join(f"{key} {ticket}\n" for key, ticket in tickets).encode()
        body = _RECORD_ADAPTER.dump_json(record, indent=1)
        files = ((self._asks_name(record), lines), (self._name(record, "json"), body))
        if not all(self._objects.create(name, data) for name, data in files):
            raise StoreError(
                f"{self._objects.where}: batch {record.name} of run {record.run_id!r} is there "
                "already; another process works on this run"
            )

    def save(self, record: BatchRecord) -> None:
        """Write the new state of a part."""
        body = _RECORD_ADAPTER.dump_json(record, indent=1)
        self._objects.replace(self._name(record, "json"), body)

    def tickets(self, record: BatchRecord) -> dict[str, int]:
        """The ledger's ticket of each ask of a part, by key.

        Raises:
            StoreError: also where the file of tickets is missing.
        """
        name = self._asks_name(record)
        if (body := self._objects.read([name]).get(name)) is None:
            raise StoreError(f"{self._objects.where}: {name} is missing; restore the file")
        pairs = (line.split() for line in body.decode().splitlines())
        return {key: int(ticket) for key, ticket in pairs}

    def save_first_attempts(
        self, record: BatchRecord, first_attempts: Mapping[str, PaidReply]
    ) -> None:
        """Write the replies of a part that did not fit, by key."""
        stored = {key: _StoredReply.of(reply) for key, reply in first_attempts.items()}
        self._objects.replace(self._name(record, "given"), _REPLIES_ADAPTER.dump_json(stored))

    def first_attempts(self) -> dict[str, PaidReply]:
        """The replies of all parts that did not fit, by key: first attempts of single calls."""
        return {
            key: stored.reply
            for body in self._files(".given").values()
            for key, stored in _REPLIES_ADAPTER.validate_json(body).items()
        }

    def _files(self, suffix: str) -> dict[str, bytes]:
        names = [name for name in self._objects.names(self._folder) if name.endswith(suffix)]
        return self._objects.read([f"{self._folder}/{name}" for name in names])

    def _asks_name(self, record: BatchRecord) -> str:
        stem = f"{record.name}-{record.writer}" if record.writer else record.name
        return f"{self._folder}/{stem}.asks"

    def _name(self, record: BatchRecord, suffix: str) -> str:
        return f"{self._folder}/{record.name}.{suffix}"


class BatchResults:
    """The replies of the batches of a round, in a temporary SQLite file until hearings use them."""

    def __init__(self, folder: Path) -> None:
        self._lock = Lock()
        path = folder / "inbox.db"
        self._file = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        # No care for a crash: a later process collects the results from the provider again.
        self._file.execute("pragma journal_mode = memory")
        self._file.execute("pragma synchronous = off")
        self._file.execute("create table came (key text primary key, body blob) without rowid")

    def add(self, lines: Sequence[tuple[str, PaidReply]]) -> None:
        """Store replies by key; a reply that is stored again is the same."""
        rows = [(key, _REPLY_ADAPTER.dump_json(_StoredReply.of(reply))) for key, reply in lines]
        with self._lock:
            self._file.execute("begin")  # one transaction for a chunk: faster than one for each row
            self._file.executemany("insert or replace into came values (?, ?)", rows)
            self._file.execute("commit")

    def pop(self, key: str) -> PaidReply | None:
        """Take out the reply of an ask; `None` where there is none, or it was taken before."""
        sql = "delete from came where key = ? returning body"
        with self._lock:
            row = self._file.execute(sql, (key,)).fetchone()
        return None if row is None else _REPLY_ADAPTER.validate_json(row[0]).reply

    def pop_all(self) -> dict[str, PaidReply]:
        """Take out all replies that no hearing has taken, by key."""
        with self._lock:
            rows = self._file.execute("delete from came returning key, body").fetchall()
        return {key: _REPLY_ADAPTER.validate_json(body).reply for key, body in rows}

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class BatchedKeys:
    """The keys of the asks that were ever part of a batch of a run."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()  # 16 bytes, half of a SHA-256: a run may have millions

    def __contains__(self, key: str) -> bool:
        return bytes.fromhex(key[:32]) in self._seen

    def add(self, key: str) -> bool:
        """Add a key; `False` where it was added before."""
        before = len(self._seen)
        self._seen.add(bytes.fromhex(key[:32]))
        return len(self._seen) > before

    def drop(self, keys: Iterable[str]) -> None:
        """Remove keys that were not submitted after all."""
        self._seen.difference_update(bytes.fromhex(key[:32]) for key in keys)


class BatchAccounts:
    """The asks of batches in one ledger; a ticket of another ledger file means another call."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def reserve(
        self, model: str, worst_cases: Iterable[tuple[str, float | None]]
    ) -> dict[str, int]:
        """Reserve the worst case in dollars of every ask; the tickets, by key.

        Raises:
            NotAsked: the asks could exceed a limit, or the run was stopped; nothing stays reserved.
        """
        tickets: dict[str, int] = {}
        try:
            for key, usd in worst_cases:
                tickets[key] = self._ledger.reserve(PlannedCall(key, model, usd))
        except AssizesError:
            self.cancel(tickets)
            raise
        return tickets

    def cancel(self, tickets: Mapping[str, int]) -> None:
        """Cancel the reservations of asks that were not submitted."""
        for key, ticket in tickets.items():
            self._ledger.cancel(ticket, key)

    def settle(self, key: str, ticket: int, outcome: Completion | ModelError) -> None:
        """Settle an ask with its outcome; a provider charges only the asks that it answered."""
        code = outcome.code if isinstance(outcome, ModelError) else None
        reply = outcome.completion if isinstance(outcome, UnusableReply) else outcome
        spending = CallSpending(code, 0.0)
        if isinstance(reply, Completion):
            cache_tokens = (reply.cached_tokens, reply.cache_write_tokens)
            tokens = (reply.input_tokens, reply.output_tokens)
            spending = CallSpending(code, reply.cost_usd, *tokens, 0.0, *cache_tokens)
        self._ledger.settle(ticket, spending, key)

    def settle_unanswered(self, tickets: Mapping[str, int]) -> None:
        """Settle asks that came back without any outcome, at no cost."""
        for key, ticket in tickets.items():
            self._ledger.settle(ticket, CallSpending("expired", 0.0), key)
