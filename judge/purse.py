"""Who waits for money: a call that does not fit beside those in flight may fit after them."""

from __future__ import annotations

import asyncio

from judge.errors import NotAsked
from judge.ledger import Call, Ledger, Spent


class Purse:
    """A ledger for the calls of one process: near its limit they follow one another.

    A call in flight is counted at its worst case, which is several times what it will cost. Without
    waiting, a run would stop with much of its budget unspent, the sooner the more calls it makes at
    once.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._open = 0
        self._turn = asyncio.Lock()
        self._settled = asyncio.Event()

    async def reserve(self, call: Call) -> int:
        """Set the worst case aside, after calls in flight have been settled where need be.

        Raises:
            NotAsked: when it cannot be had whatever they come to.
        """
        async with self._turn:
            while True:
                self._settled.clear()
                try:
                    ticket = self._ledger.reserve(call)
                except NotAsked as refused:
                    if refused.code != "budget" or not self._open:
                        raise
                    await self._settled.wait()
                else:
                    self._open += 1
                    return ticket

    def settle(self, ticket: int, spent: Spent) -> None:
        """Put what it came to in the place of the worst case, and let the next one try."""
        self._ledger.settle(ticket, spent)
        self._open -= 1
        self._settled.set()
