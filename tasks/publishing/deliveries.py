"""What was sent of a run to other places: the outbox of a store.

Each change of state is a row. Rows lie in objects that are created once, each named by the hash of
its bytes: below `deliveries/<run>/` in a lake, in the folder `<file>.deliveries` beside a DuckDB
file, which another process may have locked. A row is durable when `add` returns.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import socket
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import polars as pl

from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import StoreBusy, StoreError
from assizes.judge.rows import DELIVERIES, as_json
from assizes.tasks.store import Store
from assizes.tasks.store.bucket import objects_at
from assizes.tasks.store.objects import Folder, Objects, other_bytes
from assizes.tasks.store.people import IN_MEMORY

State = Literal["sending", "sent", "refused", "withdrawn"]
"""`sending`: the answer is not recorded, so the other side may have it or not."""

_FOLDER: Final = "deliveries"
_SUFFIX: Final = ".deliveries"
_DUCKDB: Final = "duckdb:///"
_LEASE: Final = timedelta(minutes=10)  # of a writer to a bucket; a killed one leaves it for so long


class DeliveryState(NamedTuple):
    """The last that is known of one delivery."""

    content_hash: str  # of what was sent last
    state: State
    remote_id: str  # that the other side gave; empty where it gave none
    target: str = "{}"  # what it was about, as JSON


class DeliveryLog:
    """The deliveries of the runs of a store; `StoreError` where it cannot be reached."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._last = datetime.min.replace(tzinfo=UTC)  # time of the last row of this process

    def add(self, run_id: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Store rows of table deliveries in one commit; column `at` is set here."""
        if not rows:
            return
        # A later row is a later state, also where the clock stands still or is set back.
        self._last = max(datetime.now(UTC), self._last + timedelta(microseconds=1))
        at = self._last.isoformat(timespec="microseconds")
        lines = [as_json({**row, "run_id": run_id, "at": at}) for row in rows]
        block = "".join(f"{line}\n" for line in lines).encode()
        self._objects.create(_object_name(run_id, block), block)

    def rows(self, run_id: str) -> pl.DataFrame:
        """Every row of table deliveries about a run, in order of time."""
        rows = [row for block in self._blocks(run_id).values() for row in _decoded(block)]
        frame = pl.DataFrame(rows, schema=DELIVERIES, orient="row")
        return frame.sort("at", "delivery_id", maintain_order=True)

    def latest(self, run_id: str) -> pl.DataFrame:
        """The last row of each delivery of a run, with the last id that the other side gave."""
        given = pl.col("remote_id").replace("", None).drop_nulls().last().fill_null("")
        others = pl.exclude("delivery_id", "remote_id").last()
        grouped = self.rows(run_id).group_by("delivery_id", maintain_order=True)
        return grouped.agg(others, given.alias("remote_id")).select(list(DELIVERIES))

    def states(self, run_id: str) -> dict[str, DeliveryState]:
        """What is known of each delivery of a run, by its id."""
        rows = self.latest(run_id).select(
            *("delivery_id", "content_hash", "state", "remote_id", "target")
        )
        return {row[0]: DeliveryState(*row[1:]) for row in rows.rows()}

    def run_ids(self) -> list[str]:
        """The ids of the runs of which anything was sent, sorted."""
        return self._objects.names(_FOLDER)

    def forget(self, run_id: str, delivery_ids: Collection[str]) -> None:
        """Delete every row of some deliveries: the others are written first, then the old removed."""
        for name, block in self._blocks(run_id).items():
            rows = list(_decoded(block))
            kept = [row for row in rows if row["delivery_id"] not in delivery_ids]
            if len(kept) == len(rows):
                continue
            if kept:
                lines = [as_json({**row, "at": row["at"].isoformat()}) for row in kept]
                rest = "".join(f"{line}\n" for line in lines).encode()
                self._objects.create(_object_name(run_id, rest), rest)
            self._objects.remove([name])

    def _blocks(self, run_id: str) -> dict[str, bytes]:
        folder = f"{_FOLDER}/{run_id}"
        names = [name for name in self._objects.names(folder) if name.endswith(".lines")]
        blocks = self._objects.read([f"{folder}/{name}" for name in names])
        for name, block in blocks.items():
            if name != _object_name(run_id, block):
                raise other_bytes(self._objects.where, name)
        return blocks

    @contextmanager
    def locked(self, run_id: str) -> Iterator[Callable[[], None]]:
        """Keep other processes from sending the same run at the same time.

        The function that the block gets extends the lock, in a bucket by ten minutes from then on.

        Raises:
            StoreBusy: another process is sending it.
        """
        busy = StoreBusy(f"another process is publishing run {run_id}; wait until it has ended")
        if isinstance(self._objects, Folder):
            with _locked_file(Path(self._objects.where) / _FOLDER / run_id / "lock", busy):
                yield lambda: None
            return
        name = f"{_FOLDER}/{run_id}/lease"
        self._take_lease(name, busy)
        try:
            yield lambda: self._objects.replace(name, _lease())
        finally:
            self._objects.remove([name])

    def _take_lease(self, name: str, busy: StoreBusy) -> None:
        """Create a lease in a bucket; one that has expired is taken over."""
        if self._objects.create(name, _lease()):
            return
        held = self._objects.read([name]).get(name)
        if held and datetime.fromisoformat(json.loads(held)["until"]) > datetime.now(UTC):
            raise busy
        self._objects.remove([name])
        if not self._objects.create(name, _lease()):
            raise busy


def _lease() -> bytes:
    holder = f"{socket.gethostname()} {os.getpid()} {uuid.uuid4().hex}"
    until = datetime.now(UTC) + _LEASE
    return as_json({"holder": holder, "until": until.isoformat()}).encode()


def delivery_log(config: StoreConfig) -> DeliveryLog:
    """The deliveries of a store, whether or not another process is writing a run to it.

    Raises:
        StoreError: the store is in memory, where nothing would be known of a killed process.
    """
    if not config.uri.startswith(_DUCKDB):
        return DeliveryLog(objects_at(config.uri, config.storage_options))
    file = Path(config.uri.removeprefix(_DUCKDB)).expanduser()
    if file == IN_MEMORY:
        raise StoreError("a store in memory keeps no deliveries; give [store] uri a file")
    return DeliveryLog(Folder(file.with_name(f"{file.name}{_SUFFIX}")))


def deliveries_of_query(config: StoreConfig, store: Store, run_id: str | None) -> pl.DataFrame:
    """The rows of table deliveries about a run, or about all, for a query; none of a store in memory.

    Raises:
        StoreError: the deliveries cannot be read.
    """
    empty = pl.DataFrame(schema=DELIVERIES)
    if config.uri.removeprefix(_DUCKDB) == str(IN_MEMORY):
        return empty
    log = delivery_log(config)
    wanted = log.run_ids() if run_id is None else [store.run(run_id).run_id]
    return pl.concat([empty, *(log.rows(each) for each in wanted)])


@contextmanager
def _locked_file(path: Path, busy: StoreBusy) -> Iterator[None]:
    """A lock on a file, which ends with the process, also when it is killed."""
    with ExitStack() as files:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = files.enter_context(path.open("ab"))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise busy from None
        except OSError as error:
            raise StoreError(f"{path}: cannot be locked: {error.strerror}") from error
        yield


def _object_name(run_id: str, block: bytes) -> str:
    return f"{_FOLDER}/{run_id}/{hashlib.sha256(block).hexdigest()[:32]}.lines"


def _decoded(block: bytes) -> Iterator[dict[str, Any]]:
    for line in block.splitlines():
        row = json.loads(line)
        yield {**row, "at": datetime.fromisoformat(row["at"])}
