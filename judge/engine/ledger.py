"""Who may still spend: every model call is reserved before it is made and settled after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One model call about to be made.

    Args:
        key: the ask's cache key, or its prompt hash where replies are not cached.
        model: the model as requested.
        worst_usd: the most it can cost; null where no price is known.
    """

    key: str
    model: str
    worst_usd: float | None


@dataclass(frozen=True, slots=True)
class CallSpending:
    """What a call came to. `code` is null where a reply came.

    `cost_usd` null: it is not known; the ledger then counts the worst case, never 0.
    """

    code: str | None
    cost_usd: float | None
    input_tokens: int | None = None
    output_tokens: int | None = None
    latency_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Account:
    """What a run or a day came to so far.

    Args:
        calls: model calls, those in flight included.
        usd: what they cost; at the worst case where that is not known, or not yet.
        open_calls: reserved and never settled: in flight, or lost with their process.
        open_usd: the worst case of those, a part of `usd`.
        unpriced: settled calls whose cost and worst case are both unknown; `usd` leaves them out.
    """

    calls: int
    usd: float
    open_calls: int = 0
    open_usd: float = 0.0
    unpriced: int = 0


class Ledger(Protocol):
    """Counts calls and dollars over all that share it: runs, shards, processes of a machine."""

    def reserve(self, call: PlannedCall, *, wait: bool = True) -> int:
        """Set the worst case aside; the ticket settles it.

        Raises:
            NotAsked: `budget` when the call could exceed what may be spent, `halted` when the
                kill switch was pulled.
            LedgerBusy: where another process is writing and `wait` is false.
        """

    def settle(self, ticket: int, spent: CallSpending, key: str | None = None) -> None:
        """Put what it came to in the place of the worst case; a ticket of another run, or of
        another ask than `key`, is left alone.
        """

    def cancel(self, ticket: int, key: str) -> None:
        """Take back a reservation of a call that was never made: it counts no more."""

    def claims(self, key: str, place: str, *, wait: bool = True) -> bool:
        """Whether the ask at `place` is the one of this run that a paid reply is charged to.

        The first to claim a key has it, for ever; so a reply that was paid for in an interrupted
        sitting is charged once when the run goes on.

        Raises:
            LedgerBusy: where another process is writing and `wait` is false.
        """


class OpenLedger:
    """Nothing is limited and nothing is kept: for models that cost nothing, and for direct calls."""

    def __init__(self) -> None:
        self._claims: dict[str, str] = {}

    def reserve(self, call: PlannedCall, *, wait: bool = True) -> int:
        """Always granted."""
        return 0

    def settle(self, ticket: int, spent: CallSpending, key: str | None = None) -> None:
        """Nothing is kept."""

    def cancel(self, ticket: int, key: str) -> None:
        """Nothing is kept."""

    def claims(self, key: str, place: str, *, wait: bool = True) -> bool:
        """Whoever comes first."""
        return self._claims.setdefault(key, place) == place
