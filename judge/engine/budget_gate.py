"""Who waits for money: a call that does not fit beside those in flight may fit after them."""

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
"""How long a process waits for the transaction of another; one takes well under a millisecond."""


class BudgetGate:
    """A ledger for the calls of one process: near its limit they follow one another.

    A call in flight is counted at its worst case, which is several times what it will cost. Without
    waiting, a run would stop with much of its budget unspent, the sooner the more calls it makes at
    once.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._open = 0
        self._lock = asyncio.Lock()
        self._settled = asyncio.Event()

    async def reserve(self, call: PlannedCall) -> int:
        """Set the worst case aside, after calls in flight have been settled where need be.

        Raises:
            NotAsked: when it cannot be had whatever they come to.
            LedgerBusy: when another process writes to the ledger without end.
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
        """Put what it came to in the place of the worst case, and let the next one try."""
        try:
            self._ledger.settle(ticket, spent)
        finally:  # who waits for it must not wait for ever
            self._open -= 1
            self._settled.set()


async def _retry_while_busy(action: Callable[[], T]) -> T:
    """Do it, once nobody else is in the way; meanwhile the event loop goes on."""
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
