"""The budget ledger: every model call is reserved before it is made, and settled afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A model call that is about to be made.

    Args:
        key: the cache key of the ask, or the hash of its prompt where replies are not cached.
        model: the name of the model as requested.
        worst_usd: the most dollars that the call can cost; `None` where no price is known.
    """

    key: str
    model: str
    worst_usd: float | None


@dataclass(frozen=True, slots=True)
class CallSpending:
    """What a call spent.

    Attributes:
        code: the error code; `None` where a reply came.
        cost_usd: dollars; `None` where the cost is not known: the ledger then counts the worst
            cost, never 0.
        input_tokens: `None` where not known.
        output_tokens: `None` where not known.
        latency_ms: duration of the call.
    """

    code: str | None
    cost_usd: float | None
    input_tokens: int | None = None
    output_tokens: int | None = None
    latency_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Account:
    """What a run, or a day, has spent so far.

    Args:
        calls: the number of model calls, those in flight included.
        usd: dollars that the calls cost; a call whose cost is not known yet, or will never be
            known, counts with its worst cost.
        open_calls: calls that were reserved and never settled: they are in flight, or were lost
            with their process.
        open_usd: the worst cost of the open calls, a part of `usd`.
        unpriced: settled calls whose cost and worst cost are both unknown; `usd` leaves them out.
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


class OpenLedger:
    """A ledger without limits that stores nothing: for free models, and for calls without a run."""

    def __init__(self) -> None:
        self._claims: dict[str, str] = {}

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
