"""The connection of a store to its DuckDB file, which a writer lends to readers while it is idle.

DuckDB keeps other processes out for as long as one has the file open for writing. So a writer closes
the file when a reader waits and no transaction is open, and opens it again for its next transaction,
once the readers are done. Nothing changes about a commit: it is one transaction, then its line in
the journal. Only a writer opens the file for writing, also while it is lent. A reader that keeps the
writer waiting for longer than `LendingTimes.read_limit_s` loses the file.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb
from duckdb import DuckDBPyConnection as Connection

from assizes.judge.errors import ConfigurationError, NoStore, StoreBusy, StoreError
from assizes.tasks.store import duckdb_file
from assizes.tasks.store.duckdb_turns import FileIsWritten, ReadLock, Turns, WriterMark
from assizes.tasks.store.people import IN_MEMORY

log = logging.getLogger(__name__)


class LendingTimes(NamedTuple):
    """How long readers and a writer of one file wait for each other, in seconds."""

    read_wait_s: float = 10.0
    """A reader waits so long for a writer to lend the file; a transaction takes much less."""

    read_limit_s: float = 30.0
    """A reader may keep a waiting writer from the file for so long, its own waiting not counted."""

    lend_wait_s: float = 600.0
    """A writer waits so long for the file that it lent, for programs that know no `read_limit_s`."""

    min_hold_s: float = 0.1
    """A writer keeps a file that it opened again for so long, so that readers slow it down little."""


MEMORY_LIMIT: Final = "64MB"
"""The memory in which DuckDB keeps what it wrote, where its default is most of the machine's; beyond
this limit DuckDB spills to a folder beside the file."""

_TIMES: Final = LendingTimes()
_WATCH_S: Final = 0.01  # seconds between two looks whether somebody waits
_ASK_S: Final = 0.5  # seconds after which a waiting reader takes its turn anew
_WARN_S: Final = 10.0  # seconds of waiting for readers after which a writer says so
_SURE: Final = 50  # looks in a row that find somebody waiting: it is a writer, readers pass quickly


class _State(NamedTuple):
    """What a file held when it was lent."""

    store_id: str | None
    commits: int
    ended_runs: int

    def has_all_of(self, earlier: _State) -> bool:
        """Whether this is the same file, and it lost nothing."""
        return (
            self.store_id == earlier.store_id
            and self.commits >= earlier.commits
            and self.ended_runs >= earlier.ended_runs
        )


class LentConnection:
    """A connection for one thread at a time, opened again where it was lent.

    `prepare` sets up each new connection; `times` bounds the waiting for other processes.

    Raises:
        StoreBusy: another process writes, and does not lend the file in time.
        NoStore: there is no file to read.
        StoreError: the file is damaged, or no DuckDB file.
    """

    def __init__(
        self,
        uri: str,
        path: Path,
        *,
        writing: bool,
        prepare: Callable[[Connection], None],
        times: LendingTimes = _TIMES,
    ) -> None:
        self.uri = uri
        self._path = path
        self._writing = writing
        self._prepare = prepare
        self._times = times
        self._lock = threading.Lock()  # of the connection, which has one transaction at a time
        self._ended = threading.Event()
        self._is_cut = False  # a reader kept a writer waiting for too long
        self._is_damaged = False  # a statement found the file damaged: nothing more is written
        self._allows_lending = False  # not before the tables are there
        self._lent: _State | None = None  # what the file held when it was lent
        self.mark: WriterMark | None = None
        self._leave: Callable[[], object] | None = None
        self.turns = None if path == IN_MEMORY else Turns(path)
        self._connection: Connection | None = None
        self._read_lock: ReadLock | None = None  # of a reader, as long as DuckDB has the file
        self._queries: set[Connection] = set()  # those of `query_connection`
        self._opened_at = 0.0  # by `time.monotonic`
        with ExitStack() as undo:
            undo.callback(self.close)  # after an error below: another process may need the file
            if self.turns is None:
                self._connection = duckdb_file.open_connection(uri, path, writing=writing)
            elif writing:
                self._open_writing(self.turns)
            else:
                self._open_reading(self.turns)
            with self.exclusive() as con:
                prepare(con)
            undo.pop_all()

    @contextmanager
    def exclusive(self) -> Iterator[Connection]:
        """The connection for this thread alone; DuckDB's errors become `StoreError`s of one line."""
        with self._lock:
            try:
                yield self._known_connection()
            except duckdb.Error as error:
                if self._is_cut:
                    raise self._cut_error() from error
                self._is_damaged |= duckdb_file.is_damage(error)
                raise duckdb_file.statement_error(self.uri, error) from error
            finally:
                self._lend_if_wanted()

    def checkpoint(self) -> None:
        """Write the write-ahead log into the file, as a close does; not where the file is damaged."""
        with self.exclusive() as con:
            if not self._is_damaged:
                con.execute("checkpoint")

    @contextmanager
    def query_connection(self) -> Iterator[Connection]:
        """A connection to the same file for one query, with temporary tables of its own.

        It is cut like every reader that keeps a writer waiting.

        Raises:
            StoreBusy: it kept a writer waiting for too long.
        """
        with self._lock:
            con = self._known_connection().cursor()
            self._queries.add(con)
        try:
            yield con
        except (duckdb.Error, ConfigurationError) as error:
            if self._is_cut:
                raise self._cut_error() from error
            raise
        finally:
            self._queries.discard(con)
            con.close()

    def allow_lending(self) -> None:
        """From now on lend the file; before, its tables may not be there yet."""
        if self.turns is None or (not self._writing and not self.turns.has_writer()):
            return
        watch = _lend_forever if self._writing else _cut_at_limit
        pause_s = _WATCH_S if self._writing else self._times.read_limit_s
        arguments = (weakref.ref(self), self._ended, pause_s)
        name = f"assizes-file-{'writer' if self._writing else 'reader'}"
        threading.Thread(target=watch, args=arguments, name=name, daemon=True).start()
        self._allows_lending = self._writing

    def run_mark(self, run_id: str) -> Mapping[str, Any] | None:
        """What the living writer says about a run that it works on; None where it does not."""
        if self.mark is not None:
            return self.mark.runs.get(run_id)
        runs = self.turns.writer().get("runs", {}) if self.turns is not None else {}
        lock: Mapping[str, Any] | None = runs.get(run_id)
        return lock

    def close(self) -> None:
        """Close the file, and let another process write to it; closing it again does nothing."""
        self._ended.set()
        with self._lock:
            # Prefect keeps the arguments of its last tasks until the interpreter ends: DuckDB would
            # then print a report of leaked objects.
            self._drop_connection()
            if self._leave is not None:
                self._leave()
            self.mark = self._leave = None

    def _known_connection(self) -> Connection:
        if self._is_cut:
            raise self._cut_error()
        if self._ended.is_set():
            raise StoreError(f"{self.uri} is closed")
        if self._connection is None:
            self._open_again()
        assert self._connection is not None
        return self._connection

    def _open_writing(self, turns: Turns) -> None:
        try:
            self.mark = turns.become_writer(duckdb_file.LOCK_WAIT_S)
        except OSError as error:
            what = "lock file" if self._path.parent.is_dir() else "folder"
            reason = error.strerror or error
            raise StoreError(f"{self.uri}: cannot make its {what}: {reason}") from error
        if self.mark is None:
            raise duckdb_file.busy_error(self.uri, turns.writer().get("pid"))
        # Also for a store that is forgotten without being closed, and at the end of the process.
        self._leave = weakref.finalize(self, turns.leave, self.mark)
        with turns.turn(duckdb_file.LOCK_WAIT_S):
            self._connect(duckdb_file.LOCK_WAIT_S)

    def _open_reading(self, turns: Turns) -> None:
        if turns.is_own():  # DuckDB would refuse it too, unless the file is lent at this moment
            raise duckdb_file.own_process_error(self.uri)
        deadline = time.monotonic() + self._times.read_wait_s
        while True:
            is_written = turns.has_writer()
            try:
                with turns.turn(_ASK_S):
                    return self._connect(_ASK_S if is_written else 0)
            except StoreBusy:
                if not turns.has_writer() or time.monotonic() > deadline:
                    raise

    def _open_again(self) -> None:
        """Open the file that was lent, once its readers are done, and check that nothing is lost."""
        assert self.turns is not None
        began = time.monotonic()
        while self._connection is None:
            try:
                with self.turns.turn(self._times.lend_wait_s):
                    self._connect(min(_WARN_S, self._times.lend_wait_s))
            except StoreBusy as error:
                if time.monotonic() - began > self._times.lend_wait_s:
                    raise
                log.warning("waiting for a reader: %s", error)
        with ExitStack() as undo:
            undo.callback(self._drop_connection)
            self._check_reopened(self._connection)
            undo.pop_all()

    def _drop_connection(self) -> None:
        if self._connection is not None:
            if self._is_damaged:  # a checkpoint would write what is left of the file
                with suppress(duckdb.Error):
                    self._connection.execute("pragma disable_checkpoint_on_shutdown")
            self._connection.close()
        self._connection = None
        self._release_read_lock()

    def _release_read_lock(self) -> None:
        if self._read_lock is not None:
            self._read_lock.release()
        self._read_lock = None

    def _check_reopened(self, con: Connection) -> None:
        self._prepare(con)
        now = _held_state(con)
        if (was := self._lent) is not None and not now.has_all_of(was):
            what = f"it holds {now.commits} shards, and {was.commits} when it was lent"
            raise duckdb_file.damage_error(self.uri, what)
        con.execute("pragma enable_checkpoint_on_shutdown")  # `open_connection` had disabled it

    def _connect(self, wait_s: float) -> None:
        with ExitStack() as undo:
            if not self._writing:
                self._read_lock = _lock_for_reading(self.uri, self._path, wait_s)
                undo.callback(self._release_read_lock)
            self._connection = duckdb_file.open_connection(
                self.uri, self._path, writing=self._writing, wait_s=wait_s
            )
            undo.pop_all()
        self._opened_at = time.monotonic()

    def _lend_if_wanted(self) -> None:
        """Close the file where somebody waits for it; the caller holds the lock."""
        con, turns = self._connection, self.turns
        if con is None or turns is None or not self._allows_lending or self._ended.is_set():
            return
        if time.monotonic() - self._opened_at < self._times.min_hold_s or not turns.is_wanted():
            return
        with suppress(duckdb.Error):  # a damaged file: the next transaction says so
            self._lent = _held_state(con)
        con.close()
        self._connection = None

    def _lend_when_idle(self) -> None:
        if self._connection is not None and self._lock.acquire(blocking=False):
            try:
                self._lend_if_wanted()
            finally:
                self._lock.release()

    def _cut(self) -> None:
        """End what a reader reads, as a writer has waited for long."""
        self._is_cut = True
        # Again and again: it interrupts a statement, not what a reader does between two of them.
        while not self._lock.acquire(timeout=_WATCH_S):
            _interrupt([self._connection])
        try:
            while self._queries:  # closing the connection would wait for them
                _interrupt([*self._queries])
                time.sleep(_WATCH_S)
            self._drop_connection()
        finally:
            self._lock.release()

    def _cut_error(self) -> StoreBusy:
        return StoreBusy(
            f"{self.uri}: reading took longer than {self._times.read_limit_s:.0f} s while a run writes to the "
            "file; read less at once, or read again when the run has ended"
        )


def set_up(con: Connection) -> None:
    """Set up a new connection."""
    con.execute("set TimeZone='UTC'")  # else times come back in the machine's zone
    # Merging row groups at a checkpoint takes memory by the hundred MB, the more the longer the
    # table; files stay about the same without it, and queries as fast.
    con.execute("set max_vacuum_tasks=0")


def set_up_file(con: Connection) -> None:
    """Set up a new connection to a file."""
    set_up(con)
    con.execute(f"set memory_limit='{MEMORY_LIMIT}'")


def _lock_for_reading(uri: str, path: Path, wait_s: float) -> ReadLock | None:
    """Keep writers from a DuckDB file before it is opened for reading; wait for one at most `wait_s`.

    Returns `None` where the file cannot be opened: DuckDB then says why.

    Raises:
        StoreBusy: when another process still has the file open for writing.
        NoStore: when there is no file.
    """
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return ReadLock(path)
        except FileIsWritten as error:
            if time.monotonic() > deadline:
                raise duckdb_file.busy_error(uri, error.pid) from None
            time.sleep(duckdb_file.LOCK_RETRY_S)
        except FileNotFoundError:
            raise NoStore.at(uri) from None
        except OSError:
            return None


def _held_state(con: Connection) -> _State:
    (row,) = con.execute(
        "select (select max(store) from _identity), (select count(*) from _commits), "
        "(select count(*) from runs where finished_at is not null)"
    ).fetchall()
    return _State(*row)


def _interrupt(connections: Iterable[Connection | None]) -> None:
    """End the statements that connections run now."""
    for con in connections:
        if con is not None:
            with suppress(duckdb.Error):  # it has been closed in between
                con.interrupt()


def _lend_forever(ref: weakref.ref[LentConnection], ended: threading.Event, pause_s: float) -> None:
    """Lend a writer's file whenever somebody waits for it and the writer is idle."""
    while not ended.wait(pause_s):
        if (lent := ref()) is None:
            return
        lent._lend_when_idle()
        del lent  # the store may be forgotten without being closed


def _cut_at_limit(ref: weakref.ref[LentConnection], ended: threading.Event, pause_s: float) -> None:
    """After `pause_s`, take the file from a reader that keeps a writer waiting."""
    looks = 0
    while not ended.wait(pause_s):
        pause_s = _WATCH_S
        if (lent := ref()) is None or lent.turns is None:
            return
        looks = looks + 1 if lent.turns.is_wanted() else 0
        if looks >= _SURE:
            lent._cut()
            return
        del lent
