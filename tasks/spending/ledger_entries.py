"""What one transaction writes into a ledger: calls, claims, and the totals that follow from them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

from assizes.judge.engine.ledger import PlannedCall

_SPENT: Final = "select calls, nano from totals where scope = ?"
_RESERVE: Final = (
    "insert into calls (run_id, day, at, key, model, worst_nano, counted_nano, state) "
    "values (?, ?, ?, ?, ?, ?, ?, 'reserved')"
)
# ?1 ticket, ?2 cost, ?3 to ?6 tokens, ms and error code, ?7 run, ?8 key or null, ?9 and ?10 tokens of
# the provider's prompt cache
_SETTLE: Final = (
    "update calls set state = 'settled', cost_nano = ?2, "
    "counted_nano = coalesce(?2, worst_nano, 0), input_tokens = ?3, output_tokens = ?4, "
    "latency_ms = ?5, code = ?6, cached_tokens = ?9, cache_write_tokens = ?10 where id = ?1 "
    "and run_id = ?7 and key = coalesce(?8, key) "
    "and state = 'reserved' returning day, coalesce(worst_nano, 0), counted_nano, "
    "worst_nano is null and cost_nano is null"
)
_CANCEL: Final = (
    "delete from calls where id = ? and run_id = ? and key = ? and state = 'reserved' "
    "returning day, coalesce(worst_nano, 0)"
)
_CLAIM: Final = (  # an update without effect, so that SQLite returns the place of the first claim
    "insert into claims (run_id, key, place) values (?, ?, ?) "
    "on conflict (run_id, key) do update set place = place returning place"
)
_ADD: Final = (
    "insert into totals (scope, calls, nano, open_calls, open_nano, unpriced) "
    "values (?1, ?2, ?3, ?4, ?5, ?6) on conflict (scope) do update set "
    "calls = calls + ?2, nano = nano + ?3, open_calls = open_calls + ?4, "
    "open_nano = open_nano + ?5, unpriced = unpriced + ?6"
)


class LedgerEntries:
    """The entries of one transaction of a run; the totals are written once, at its end.

    Every method may raise `sqlite3.Error`; then the transaction must be rolled back.
    """

    def __init__(
        self, file: sqlite3.Connection, run_id: str, current_stop: Callable[[], str | None]
    ) -> None:
        self._file = file
        self._run_id = run_id
        self._current_stop = current_stop
        self._before: dict[str, tuple[int, int]] = {}  # calls and nano-dollars, by scope
        # By scope, what is added to calls, nano, open_calls, open_nano and unpriced.
        self._added: dict[str, list[int]] = {}

    @cached_property
    def stopped_at(self) -> str | None:
        """When the run was stopped; `None` if it was not."""
        return self._current_stop()

    def spent(self, scope: str) -> tuple[int, int]:
        """Calls and nano-dollars of a run or a day, with the entries so far."""
        if scope not in self._before:
            row = self._file.execute(_SPENT, (scope,)).fetchone()
            self._before[scope] = row or (0, 0)
        calls, nano = self._before[scope]
        added = self._added.get(scope, (0, 0))
        return calls + added[0], nano + added[1]

    def reserve(self, call: PlannedCall, worst: int | None, at: str) -> int:
        """Enter a call of at most `worst` nano-dollars, made `at` a time; returns its ticket."""
        day = at[:10]  # YYYY-MM-DD
        row = (self._run_id, day, at, call.key, call.model, worst, worst or 0)
        ticket = self._file.execute(_RESERVE, row).lastrowid
        assert ticket is not None  # SQLite numbers every row that is inserted
        self._add(day, 1, worst or 0, 1, worst or 0, 0)
        return ticket

    def settle(self, row: tuple[Any, ...]) -> None:
        """Enter what a call spent: the values of `_SETTLE`."""
        for day, worst, counted, unpriced in self._file.execute(_SETTLE, row).fetchall():
            self._add(day, 0, counted - worst, -1, -worst, unpriced)

    def cancel(self, ticket: int, key: str) -> None:
        """Remove a call that was never made."""
        values = (ticket, self._run_id, key)
        for day, worst in self._file.execute(_CANCEL, values).fetchall():
            self._add(day, -1, -worst, -1, -worst, 0)

    def claim(self, reply_key: str, ask_id: str) -> str:
        """Enter a claim of a reply where there is none; returns the ask that has the claim."""
        row = self._file.execute(_CLAIM, (self._run_id, reply_key, ask_id)).fetchone()
        return str(row[0])

    def write_totals(self) -> None:
        """Add the entries to the totals of their run and day."""
        for scope, added in self._added.items():
            self._file.execute(_ADD, (scope, *added))

    def _add(self, day: str, *amounts: int) -> None:
        for scope in (f"run:{self._run_id}", f"day:{day}"):
            if (added := self._added.get(scope)) is None:
                self._added[scope] = list(amounts)
            else:
                self._added[scope] = [one + more for one, more in zip(added, amounts, strict=True)]
