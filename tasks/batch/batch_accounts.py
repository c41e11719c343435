"""What batches cost: reserves the worst case of each ask in the ledger, and settles the outcome."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from assizes.judge.engine.ledger import CallSpending, Ledger, PlannedCall
from assizes.judge.errors import AssizesError, ModelError
from assizes.judge.models.model import Completion, UnusableReply
from assizes.tasks.batch.batch_log import BatchRecord


class BatchAccounts:
    """The asks of batches in one ledger.

    A ticket of another ledger would mean another call here, so `ledger_file` tells the ledgers
    apart.
    """

    def __init__(self, ledger: Ledger, ledger_file: str) -> None:
        self._ledger = ledger
        self._ledger_file = ledger_file

    def reserve(
        self, model: str, worst_cases: Iterable[tuple[str, float | None]]
    ) -> dict[str, int]:
        """Reserve the worst case in dollars of every ask; the tickets, by key.

        Raises:
            NotAsked: the asks could exceed a limit, or the run was stopped; nothing stays reserved.
        """
        tickets: dict[str, int] = {}
        try:
            for key, usd in worst_cases:
                tickets[key] = self._ledger.reserve(PlannedCall(key, model, usd))
        except AssizesError:
            self.cancel(tickets)
            raise
        return tickets

    def cancel(self, tickets: Mapping[str, int]) -> None:
        """Cancel the reservations of asks that were not submitted."""
        for key, ticket in tickets.items():
            self._ledger.cancel(ticket, key)

    def is_own(self, record: BatchRecord) -> bool:
        """Whether the tickets of a part are of this ledger."""
        return record.ledger in ("", self._ledger_file)

    def settle(self, key: str, ticket: int, outcome: Completion | ModelError) -> None:
        """Settle an ask with its outcome; a provider charges only the asks that it answered."""
        if isinstance(outcome, UnusableReply):
            code, completion = outcome.code, outcome.completion
        elif isinstance(outcome, ModelError):
            self._ledger.settle(ticket, CallSpending(outcome.code, 0.0), key)
            return
        else:
            code, completion = None, outcome
        spent = CallSpending(
            code, completion.cost_usd, completion.input_tokens, completion.output_tokens
        )
        self._ledger.settle(ticket, spent, key)

    def settle_unanswered(self, tickets: Mapping[str, int]) -> None:
        """Settle asks that came back without any outcome, at no cost."""
        for key, ticket in tickets.items():
            self._ledger.settle(ticket, CallSpending("expired", 0.0), key)
