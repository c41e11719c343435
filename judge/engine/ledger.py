"""What an engine keeps its accounts in: the budget ledger, and the cache of paid replies.

Every model call is reserved in the ledger before it is made, and settled afterwards. No reply that
is in the cache is paid for twice.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from assizes.judge.models.model import Completion


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A model call that is about to be made.

    `key` is the cache key of the ask, or the hash of its prompt where replies are not cached;
    `model` is the name of the model as requested. `worst_usd` is the most dollars that the call can
    cost, `None` where no price is known.
    """

    key: str
    model: str
    worst_usd: float | None


@dataclass(frozen=True, slots=True)
class CallSpending:
    """What a call spent, with its error code, which is `None` where a reply came.

    Where the cost is not known, the ledger counts the worst cost, never 0.
    """

    code: str | None
    cost_usd: float | None
    input_tokens: int | None = None
    output_tokens: int | None = None
    latency_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Account:
    """What a run, or a day, has spent so far.

    `calls` counts the model calls, those in flight included. In `usd`, a call whose cost is not
    known yet, or will never be known, counts with its worst cost. Open calls were reserved and
    never settled: they are in flight, or were lost with their process; `open_usd` is their worst
    cost, a part of `usd`. Settled calls whose cost and worst cost are both unknown are `unpriced`;
    `usd` leaves them out.
    """

    calls: int
    usd: float
    open_calls: int = 0
    open_usd: float = 0.0
    unpriced: int = 0


class Ledger(Protocol):
    """Counts calls and dollars over all runs, shards and processes that share the ledger."""

    def reserve(self, call: PlannedCall, *, wait: bool = True) -> int:
        """Reserve the worst cost of a call, and return the ticket with which to settle the call.

        Raises:
            NotAsked: `budget` when the call could exceed what may be spent, `halted` when the
                kill switch was pulled.
            LedgerBusy: when another process is writing and `wait` is false.
        """

    def settle(self, ticket: int, spent: CallSpending, key: str | None = None) -> None:
        """Replace the reserved worst cost by what the call spent.

        Nothing happens for a ticket of another run, or of an ask other than `key`.
        """

    def cancel(self, ticket: int, key: str) -> None:
        """Take back the reservation of a call that was never made."""

    def claims(self, key: str, place: str, *, wait: bool = True) -> bool:
        """Whether a paid reply is charged to the ask at `place` of this run.

        The first ask that claims a key keeps the claim for ever. A reply that was paid for before
        the run was interrupted is therefore charged once when the run goes on.

        Raises:
            LedgerBusy: when another process is writing and `wait` is false.
        """


@dataclass(slots=True, eq=False)
class OpenLedger:
    """A ledger without limits that stores nothing: for free models, and for calls without a run."""

    _claims: dict[str, str] = field(default_factory=dict, init=False)

    def reserve(self, call: PlannedCall, *, wait: bool = True) -> int:
        """Grant every call; all tickets are 0."""
        return 0

    def settle(self, ticket: int, spent: CallSpending, key: str | None = None) -> None:
        """Do nothing: spending is not stored."""

    def cancel(self, ticket: int, key: str) -> None:
        """Do nothing: reservations are not stored."""

    def claims(self, key: str, place: str, *, wait: bool = True) -> bool:
        """Whether the ask at `place` was the first to claim the key."""
        return self._claims.setdefault(key, place) == place


@dataclass(frozen=True, slots=True)
class CachedReply:
    """A cached reply that fits its ask, with its usage and the number of calls that it took.

    `paid_by` is the id of the run that paid for the reply, empty where no run did.
    """

    completion: Completion
    attempts: int = 1
    paid_by: str = ""


class ReplyCache(Protocol):
    """Stores paid replies; only replies that fit their ask are stored."""

    async def get(self, key: str) -> CachedReply | None:
        """The reply under a key; `None` where there is none that can be read."""

    async def store(self, key: str, reply: CachedReply) -> None:
        """Store a reply; a reply that is there already is overwritten."""


class RequestLocks(Protocol):
    """Keeps processes that share a reply cache from asking for the same reply at once."""

    def lock(self, key: str) -> AbstractAsyncContextManager[None]:
        """A lock that only one process holds at a time while it asks for the reply of this key.

        A process that had to wait for the lock must look into the cache first.
        """
