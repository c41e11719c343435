"""What an engine keeps its accounts in: the budget ledger, and the cache of paid replies.

Every model call is reserved in the ledger before it is made, and settled afterwards. No reply that
is in the cache is paid for twice.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from assizes.judge.models.model import Completion


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A model call that is about to be made."""

    key: str  # the ask's cache key, or the hash of its prompt where replies are not cached
    model: str  # the name of the model as requested
    worst_usd: float | None  # the most that the call can cost; `None`: no price is known


@dataclass(frozen=True, slots=True)
class CallSpending:
    """What a call spent."""

    code: str | None  # of the error; `None` where a reply came
    cost_usd: float | None  # `None`: not known, so that the ledger counts the worst cost, never 0
    input_tokens: int | None = None  # `None`: not known
    output_tokens: int | None = None
    latency_ms: float = 0.0
    cached_tokens: int | None = None  # of `input_tokens`, by the provider's prompt cache
    cache_write_tokens: int | None = None  # of `input_tokens`, put into that cache


@dataclass(frozen=True, slots=True)
class Account:
    """What a run, or a day, has spent so far."""

    calls: int  # model calls, those in flight included
    usd: float  # a call whose cost is not known, or not yet, counts with its worst cost
    open_calls: int = 0  # reserved, never settled: in flight, or lost with their process
    open_usd: float = 0.0  # their worst cost, a part of `usd`
    unpriced: int = 0  # settled calls of unknown cost and worst cost, which `usd` leaves out


class Ledger(Protocol):
    """Counts calls and dollars over all runs, shards and processes that share the ledger."""

    gather_s: float  # seconds that claims and settlements may wait to be written together

    def group(self) -> AbstractContextManager[None]:
        """Write what is reserved and claimed within the block at its end, all or nothing.

        Raises:
            NotAsked: `closing` when the ledger cannot be written any more.
            LedgerBusy: when another process is writing.
        """

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

    def settle_later(self, ticket: int, spent: CallSpending) -> None:
        """Settle a call with the next group, or when the ledger is closed."""

    def cancel(self, ticket: int, key: str) -> None:
        """Take back the reservation of a call that was never made."""

    def claim(self, reply_key: str, ask_id: str, *, wait: bool = True) -> bool:
        """Claim a paid reply for an ask of this run; the answer is whether the ask has the claim.

        The first ask that claims a reply keeps the claim for ever, and the reply is charged to it
        (docs/decisions.md, decision 30). Nothing else follows from a claim.

        Raises:
            LedgerBusy: when another process is writing and `wait` is false.
        """


@dataclass(slots=True, eq=False)
class OpenLedger:
    """A ledger without limits that stores nothing: for free models, and for calls without a run."""

    gather_s: float = field(default=0.0, init=False)  # nothing is written
    _claims: dict[str, str] = field(default_factory=dict, init=False)  # reply key -> ask id

    def group(self) -> AbstractContextManager[None]:
        """Do nothing: nothing is written."""
        return nullcontext()

    def reserve(self, call: PlannedCall, *, wait: bool = True) -> int:
        """Grant every call; all tickets are 0."""
        return 0

    def settle(self, ticket: int, spent: CallSpending, key: str | None = None) -> None:
        """Do nothing: spending is not stored."""

    def settle_later(self, ticket: int, spent: CallSpending) -> None:
        """Settle a call at once."""
        self.settle(ticket, spent)

    def cancel(self, ticket: int, key: str) -> None:
        """Do nothing: reservations are not stored."""

    def claim(self, reply_key: str, ask_id: str, *, wait: bool = True) -> bool:
        """Claim a reply for an ask; the answer is whether the ask was the first to claim it."""
        return self._claims.setdefault(reply_key, ask_id) == ask_id


@dataclass(frozen=True, slots=True)
class CachedReply:
    """A cached reply that fits its ask."""

    completion: Completion  # with the usage of all calls that it took
    attempts: int = 1  # the number of these calls
    paid_by: str = ""  # id of the run that paid; empty where no run did


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
