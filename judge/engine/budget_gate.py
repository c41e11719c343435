"""The budget of the calls of one process.

A call whose worst cost does not fit into the budget beside the calls in flight waits for these: it
may fit once they have been settled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_random

from assizes.judge.engine.ledger import CallSpending, Ledger, PlannedCall
from assizes.judge.errors import LedgerBusy, NotAsked

T = TypeVar("T")

MAX_BUSY_S: Final = 30.0
"""Seconds that a process waits for another's transaction, which takes well under a millisecond."""


class BudgetGate:
    """Reserves calls in a ledger; near the limit of the budget, calls wait for one another.

    A call in flight counts with its worst cost, which is several times its actual cost. Without
    waiting, a run would stop with much of its budget unspent, and the more calls it makes at once,
    the sooner it would stop.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._open = 0
        self._lock = asyncio.Lock()
        self._settled = asyncio.Event()

    async def reserve(self, call: PlannedCall) -> int:
        """Reserve the worst cost of a call, waiting for calls in flight where need be.

        Returns:
            The ticket with which to settle the call.

        Raises:
            NotAsked: when the call does not fit even after all calls in flight have been settled.
            LedgerBusy: when other processes keep the ledger busy for `MAX_BUSY_S`.
        """
        async with self._lock:
            while True:
                self._settled.clear()
                try:
                    ticket = await _retry_while_busy(
                        partial(self._ledger.reserve, call, wait=False)
                    )
                except NotAsked as refused:
                    if refused.code != "budget" or not self._open:
                        raise
                    await self._settled.wait()
                else:
                    self._open += 1
                    return ticket

    async def claims(self, key: str, place: str) -> bool:
        """Whether a paid reply is charged to the ask at `place`; see `Ledger.claims`."""
        try:
            return await _retry_while_busy(partial(self._ledger.claims, key, place, wait=False))
        except LedgerBusy:
            return True

    def settle(self, ticket: int, spent: CallSpending) -> None:
        """Replace the worst cost of a call by what it spent, and let a waiting call try again."""
        try:
            self._ledger.settle(ticket, spent)
        finally:  # a waiting call must not wait for ever
            self._open -= 1
            self._settled.set()


async def _retry_while_busy(action: Callable[[], T]) -> T:
    """Run the action, retrying while the ledger is busy; the event loop goes on meanwhile."""
    with suppress(LedgerBusy):
        return action()

    async def attempt() -> T:
        return action()

    retrying = AsyncRetrying(
        retry=retry_if_exception_type(LedgerBusy),
        wait=wait_random(0.005, 0.05),
        stop=stop_after_delay(MAX_BUSY_S),
        reraise=True,
    )
    return await retrying(attempt)
