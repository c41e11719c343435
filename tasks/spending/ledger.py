"""The ledger: counts every model call in one SQLite file, before the call and after it.

All processes of a machine that name the same file share its limits. A transaction reserves and
settles the calls that wait at one moment, and a call is made only after its reservation is
committed. So a process that is killed leaves whole rows: its open reservations stay counted at
their worst case, because that money may have been spent. Amounts are whole nano-dollars.
"""

from __future__ import annotations

import logging
import math
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from threading import RLock
from typing import Any, Final

from assizes.judge.config.judging import LimitsConfig
from assizes.judge.engine.call_gates import MAX_BUSY_S
from assizes.judge.engine.ledger import Account, CallSpending, PlannedCall
from assizes.judge.errors import LedgerBusy, NotAsked, StoreError
from assizes.judge.models.model import MAX_CALL_USD, is_token_count
from assizes.tasks.spending import ledger_file
from assizes.tasks.spending.ledger_entries import LedgerEntries
from assizes.tasks.spending.ledger_file import ALL_RUNS, NANO, SELECT_TOTALS

log = logging.getLogger(__name__)

_LIMITS: Final = ("budget_usd", "budget_usd_per_day", "max_asks", "max_asks_per_day")

LOCK_WAIT_S: Final = 0.01  # the wait of a call with `wait=False` for another thread

# Values: the scope of all runs, then the run's scope and the id of its session.
_SELECT_STOP: Final = "select at from stops where scope = ? or (scope = ? and upto >= ?)"
_SELECT_EARLIER_STOP: Final = (  # if no session has begun since
    "select at from stops where scope = ? and upto >= "
    "(select coalesce(max(id), 0) from sittings where run_id = ?)"
)
_BEGIN_SESSION: Final = "insert into sittings (run_id, at, pid) values (?, ?, ?) returning id"

GATHER_S: Final = 0.02
"""Seconds that claims and settlements may wait for a reservation, to be written together with it."""


class SqliteLedger:
    """The ledger of one run, in a file shared with other runs.

    Implements `assizes.judge.engine.ledger.Ledger`. Opening the ledger begins a session of the run
    (a row of the table `sittings`): a stop that was written before is over, a stop written later
    applies. All methods may be called from any thread.

    Attributes:
        gather_s: Seconds that claims and settlements may wait to be written together.

    Raises:
        ConfigurationError: the file cannot be created.
        StoreError: the file is no ledger, has another version, or cannot be written.
    """

    gather_s = GATHER_S

    def __init__(
        self,
        path: str,
        run_id: str,
        limits: LimitsConfig,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = path
        self.run_id = run_id
        self._clock = clock  # seconds since 1970; its days are those of UTC
        self._lock = RLock()  # of the connection, which has one transaction at a time
        self._fault: str | None = None  # the first error of the file; after it nothing is reserved
        self._run_scope = f"run:{run_id}"
        maxima = ((name, getattr(limits, name)) for name in _LIMITS)
        self._limits = {name: maximum for name, maximum in maxima if maximum is not None}
        self._due: list[tuple[Any, ...]] = []  # settlements that wait for a transaction
        self._entries: LedgerEntries | None = None  # of the transaction that is open
        self._waits = True  # whether SQLite's busy timeout is above 0 now
        self._file = ledger_file.open_ledger_file(path)
        try:
            ledger_file.check_totals(self._file, path)  # before it keeps others from writing
            with self._transaction():
                stops = (self._run_scope, run_id)
                stop = self._file.execute(_SELECT_EARLIER_STOP, stops).fetchone()
                self.resumed_after = None if stop is None else str(stop[0])  # when it was stopped
                row = (run_id, _utc_text(clock()), os.getpid())
                self._session = int(self._file.execute(_BEGIN_SESSION, row).fetchone()[0])
        except (sqlite3.Error, OSError, StoreError) as error:
            self._file.close()
            if isinstance(error, StoreError):
                raise
            raise StoreError(f"[limits] ledger {path!r} cannot be written: {error}") from error

    def group(self) -> AbstractContextManager[None]:
        """Write what is reserved and claimed within the block, and what is due, at its end.

        The block must not wait for anything. What it reserved counts only once it has ended.

        Raises:
            LedgerBusy: another process is writing; nothing was reserved or claimed.
            NotAsked: `closing` when the ledger cannot be written any more; likewise.
        """
        return self._write_group()

    @contextmanager
    def _write_group(self) -> Iterator[None]:
        try:
            with self._transaction(wait=False):
                yield
        except sqlite3.Error as error:
            raise NotAsked("closing", self._note_fault(error)) from error

    def reserve(self, call: PlannedCall, *, wait: bool = True) -> int:
        """Reserve the worst-case cost of a call; returns the ticket with which to settle the call.

        Raises:
            NotAsked: `budget` when the call could exceed a limit, `halted` when the run was
                stopped, `closing` when the ledger cannot be written any more.
            LedgerBusy: another process is writing and `wait` is false.
        """
        at = _utc_text(self._clock())
        day = at[:10]  # YYYY-MM-DD
        worst = None if call.worst_usd is None else math.ceil(call.worst_usd * NANO)  # never less
        if self._fault is not None:
            raise NotAsked("closing", self._fault)
        ticket = 0
        try:
            with self._transaction(wait=wait) as entries:
                refusal = self._refusal(entries, day, worst, call.model)
                if refusal is None:
                    ticket = entries.reserve(call, worst, at)
        except sqlite3.Error as error:
            raise NotAsked("closing", self._note_fault(error)) from error
        if refusal is not None:  # only now: raised before, it would roll back what was due
            raise refusal
        return ticket

    def settle(self, ticket: int, spent: CallSpending, key: str | None = None) -> None:
        """Replace the worst case of a call with its cost; only the first settlement counts.

        Another process may settle the ticket. A ticket of another run, or of another ask than
        `key`, comes from another ledger and is ignored. No error is raised, so that no reply is
        lost: after a fault of the file the call stays counted at its worst case, and the next
        reservation is refused.
        """
        self.settle_later(ticket, spent, key)
        self._write_due()

    def settle_later(self, ticket: int, spent: CallSpending, key: str | None = None) -> None:
        """Settle a call with the next transaction, at the latest when the ledger is closed.

        Until then the call is counted at its worst case.
        """
        # One number that SQLite cannot hold would break every later transaction, of other cases too.
        usd = spent.cost_usd
        is_cost = usd is not None and 0 <= usd <= MAX_CALL_USD
        cost = round(usd * NANO) if usd is not None and is_cost else None  # None: the worst case
        counts = (spent.input_tokens, spent.output_tokens)
        cache_counts = (spent.cached_tokens, spent.cache_write_tokens)
        call = (spent.latency_ms, spent.code, self.run_id, key)
        self._due.append((ticket, cost, *_tokens(counts), *call, *_tokens(cache_counts)))

    def cancel(self, ticket: int, key: str) -> None:
        """Cancel the reservation of a call that was never made, unless it was settled before."""
        with self._note_faults(), self._transaction() as entries:
            entries.cancel(ticket, key)

    def claim(self, reply_key: str, ask_id: str, *, wait: bool = True) -> bool:
        """Claim a reply for an ask of this run; the answer is whether the ask pays for it.

        Several asks of a run can share one reply; the first to claim it pays.

        Raises:
            LedgerBusy: another process is writing and `wait` is false.
        """
        try:
            with self._transaction(wait=wait) as entries:
                return entries.claim(reply_key, ask_id) == ask_id
        except sqlite3.Error as error:
            self._note_fault(error)
            return True  # this ask pays: a cost in two rows is better than in none

    def run_account(self, run_id: str | None = None) -> Account:
        """What a run has spent so far, by default the run of this ledger.

        Raises:
            StoreError: the file cannot be read.
        """
        if self._due:
            self._write_due()
        try:
            with self._lock:
                totals = self._file.execute(SELECT_TOTALS, (f"run:{run_id or self.run_id}",))
                return ledger_file.account_of(totals.fetchall())
        except sqlite3.Error as error:
            raise StoreError(f"[limits] ledger {self.path!r} cannot be read: {error}") from error

    def stopped_at(self) -> str | None:
        """When the run was stopped; `None` if it was not, or while the file is busy."""
        with self._note_faults(), suppress(LedgerBusy), self._exclusive_access(wait=False):
            return self._current_stop()
        return None

    def close(self) -> None:
        """Write the settlements that are due, and close the file; closing again does nothing."""
        try:
            if self._due:
                with self._note_faults(), self._transaction():
                    pass
        finally:
            with self._lock:
                self._file.close()

    def _current_stop(self) -> str | None:
        scopes = (ALL_RUNS, self._run_scope, self._session)
        row = self._file.execute(_SELECT_STOP, scopes).fetchone()
        return None if row is None else str(row[0])

    def _write_due(self) -> None:
        """Write the settlements that are due; if another process writes, the next one does."""
        with self._note_faults(), suppress(LedgerBusy), self._transaction(wait=False):
            pass

    def _refusal(
        self, entries: LedgerEntries, day: str, worst: int | None, model: str
    ) -> NotAsked | None:
        """Why a call of `worst` nano-dollars may not be made; `None` where it may."""
        if entries.stopped_at is not None:
            return NotAsked("halted", stop_line(entries.stopped_at))
        for name, maximum in self._limits.items():
            scope = f"day:{day}" if name.endswith("_per_day") else self._run_scope
            calls, nano = entries.spent(scope)
            if why := _excess(name, maximum, calls, nano, worst, model):
                return NotAsked("budget", f"[limits] {name} = {maximum:g}: {why}")
        return None

    @contextmanager
    def _transaction(self, *, wait: bool = True) -> Iterator[LedgerEntries]:
        """A transaction that first writes what is due; without `wait` it may raise `LedgerBusy`.

        Within `group`, the transaction of the group.
        """
        with self._exclusive_access(wait=wait):
            if self._entries is not None:  # of this thread, which holds the lock
                yield self._entries
                return
            with self._file:  # commits, or rolls back after an error
                # The write lock comes before the totals are read: two processes cannot both fit in.
                self._file.execute("begin immediate")
                entries = LedgerEntries(self._file, self.run_id, self._current_stop)
                due = list(self._due)  # other threads may append meanwhile
                for row in due:
                    entries.settle(row)
                self._entries = entries
                try:
                    yield entries
                finally:
                    self._entries = None
                entries.write_totals()
            del self._due[: len(due)]  # only after the commit: what was rolled back stays due

    @contextmanager
    def _exclusive_access(self, *, wait: bool) -> Iterator[None]:
        """Lock the connection for this thread; `wait` sets whether SQLite waits for processes."""
        if not self._lock.acquire(timeout=-1 if wait else LOCK_WAIT_S):
            raise self._busy()
        try:
            if wait is not self._waits:
                timeout_ms = int(1000 * MAX_BUSY_S) if wait else 0
                self._file.execute(f"pragma busy_timeout = {timeout_ms}")
                self._waits = wait
            yield
        except sqlite3.OperationalError as error:
            if wait or error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:  # the primary code
                raise
            raise self._busy() from error
        finally:
            self._lock.release()

    def _busy(self) -> LedgerBusy:
        # Made where it is raised: masking its message would cost every transaction as much again.
        return LedgerBusy(f"[limits] ledger {self.path!r} is being written")

    @contextmanager
    def _note_faults(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            self._note_fault(error)

    def _note_fault(self, error: sqlite3.Error) -> str:
        if self._fault is None:
            self._fault = f"[limits] ledger {self.path!r} cannot be written: {error}"
            log.warning("%s; no more model calls are made", self._fault)
        return self._fault


def _tokens(counts: tuple[int | None, ...]) -> Iterator[int | None]:
    return (count if is_token_count(count) else None for count in counts)


def stop_line(at: str) -> str:
    """The message of a run that was stopped at a moment."""
    return f"stopped at {at} (`assizes stop`)"


def _excess(
    name: str, maximum: float, calls: int, nano: int, worst: int | None, model: str
) -> str | None:
    """Why a call of `worst` nano-dollars could exceed a limit; `calls` and `nano` precede it."""
    if "usd" not in name:
        return f"{calls} calls were made" if calls + 1 > int(maximum) else None
    if worst is None:  # an unknown price could exceed any limit
        return f"no price is known for {model}"
    if nano + worst <= math.floor(maximum * NANO):
        return None
    spent, cost = f"{nano / NANO:.6f} USD", f"{worst / NANO:.6f} USD"
    return f"{spent} are spent or set aside, the next call could cost {cost}"


def _utc_text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
