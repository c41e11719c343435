"""Hands batches in, waits for them, takes what they brought: each ask once, whatever happens."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tenacity import AsyncRetrying, retry_if_result, wait_exponential

from assizes.judge.engine.batching import Batches, PaidReply
from assizes.judge.engine.ledger import CallSpending, Ledger, PlannedCall
from assizes.judge.errors import (
    AssizesError,
    Halted,
    Inconclusive,
    ModelError,
    NotAsked,
    OverBudget,
)
from assizes.judge.models.batch_lines import BatchStatus
from assizes.judge.models.model import Completion, UnusableReply
from assizes.tasks.batch.batch_calls import (
    PollInterval,
    call_with_retries,
    chunks,
    finish_before_cancel,
    is_transient,
)
from assizes.tasks.batch.batch_files import Draft
from assizes.tasks.batch.batch_log import BatchedKeys, BatchLog, BatchRecord, BatchResults
from assizes.tasks.context.run_context import progress_reporter

log = logging.getLogger(__name__)

MAX_FAILED_POLLS: Final = 60
"""So many looks at a batch in a row may fail; at the longest pause that is an hour."""

LINES_PER_CHUNK: Final = 500

WAITING_STAGE: Final = "waiting for batch"


@dataclass(frozen=True, slots=True)
class BatchDependencies:
    """What a desk works with.

    Args:
        book: the durable record.
        offices: the batch endpoint of each model, by its mark.
        ledger: what may be spent.
        pace: how often batches are looked at.
        stopped: when someone stopped the run, if they did.
        ledger_file: where the ledger is; empty where nothing is kept.
    """

    batch_log: BatchLog
    endpoints: Mapping[str, Batches]
    ledger: Ledger
    poll_interval: PollInterval
    stopped_at: Callable[[], str | None] = lambda: None
    ledger_file: str = ""


class BatchClient:
    """The batches of one run; implements `assizes.judge.engine.batching.Answers` for the hearings.

    The order of things is what keeps an ask from being handed in twice: reserved in the ledger,
    noted in the book, looked for at the provider, handed in, noted again. Whatever came is settled
    and kept before a part counts as collected.
    """

    def __init__(self, dependencies: BatchDependencies, folder: Path) -> None:
        self.keys = BatchedKeys()
        self._dependencies = dependencies
        self._results = BatchResults(folder)
        self._records: dict[str, BatchRecord] = {}
        self._first_attempts: dict[str, PaidReply] = {}
        self._failed_polls: Counter[str] = Counter()

    @property
    def waiting(self) -> list[BatchRecord]:
        """Parts that the provider works on."""
        return [
            record
            for record in self._records.values()
            if record.state == "submitted" and not record.ended_as
        ]

    def has_asked(self, key: str) -> bool:
        """Whether an ask was ever part of a batch of this run."""
        return key in self.keys

    async def take(self, key: str) -> PaidReply | None:
        """What came of it, once."""
        return await asyncio.to_thread(self._results.pop, key)

    def leave(self, key: str, reply: PaidReply) -> None:
        """Note what does not fit."""
        self._first_attempts[key] = reply

    async def reopen(self) -> None:
        """Take up what an earlier sitting left; what it may or may not have handed in is looked for
        at the provider.

        Raises:
            Inconclusive: when the provider cannot be asked.
        """
        for record in await asyncio.to_thread(self._dependencies.batch_log.records):
            self._records[record.name] = record
            if record.state == "dropped":
                continue
            tickets = await asyncio.to_thread(self._dependencies.batch_log.tickets, record)
            for key in tickets:
                self.keys.add(key)
            if record.state == "prepared":
                await self._check_submission(record)

    async def submit(self, drafts: Sequence[Draft]) -> None:
        """Hand a round in.

        Raises:
            OverBudget: when it could cost more than may be spent; nothing has been handed in.
            Halted: when someone stopped the run.
            Inconclusive: when the provider does not take it.
        """
        round_ = 1 + max((earlier.round for earlier in self._records.values()), default=0)
        prepared: list[tuple[BatchRecord, Draft]] = []
        try:
            for part, draft in enumerate(drafts, 1):
                record = self._new_record(draft, round_, part)
                await asyncio.to_thread(self._prepare, record, draft)
                prepared.append((record, draft))
        except NotAsked as refused:
            for record, _ in prepared:
                await asyncio.to_thread(self._drop, record)
            raise _stop_error(refused, sum(draft.asks for draft in drafts)) from refused
        for place, (record, draft) in enumerate(prepared, 1):
            try:
                await finish_before_cancel(self._submit_draft(record, draft))
            except Inconclusive:
                for later, _ in prepared[place:]:
                    await asyncio.to_thread(self._drop, later)
                raise

    async def collect(self) -> None:
        """Wait until every part that was handed in has ended, and take what it brought.

        Raises:
            Halted: when someone stopped the run; a later sitting collects.
            Inconclusive: when the provider cannot be asked any more.
        """
        if not self.waiting:
            return
        interval = self._dependencies.poll_interval
        await AsyncRetrying(
            retry=retry_if_result(bool),
            wait=wait_exponential(multiplier=interval.first_s, max=interval.longest_s),
            sleep=self._pause,
        )(self._poll)

    async def close_round(self) -> dict[str, PaidReply]:
        """The hearings have made use of what came: note it, and what is left for asks put singly.

        Returns:
            All first attempts of the run that did not fit, by key.
        """
        self._first_attempts.update(await asyncio.to_thread(self._results.pop_all))
        batch_log = self._dependencies.batch_log
        for record in list(self._records.values()):
            if record.state == "submitted" and record.ended_as:
                tickets = await asyncio.to_thread(batch_log.tickets, record)
                first_attempts = {
                    key: self._first_attempts[key] for key in tickets if key in self._first_attempts
                }
                if first_attempts:
                    await asyncio.to_thread(batch_log.save_first_attempts, record, first_attempts)
                await self._save_record(replace(record, state="collected"))
        self._first_attempts.clear()
        return await asyncio.to_thread(batch_log.first_attempts)

    def close(self) -> None:
        """Let go of the inbox."""
        self._results.close()

    # Handing in.

    def _new_record(self, draft: Draft, round_: int, part: int) -> BatchRecord:
        run_id = self._dependencies.batch_log.run_id
        return BatchRecord(
            *(run_id, round_, part, draft.model, draft.mark, draft.asks, draft.keys_hash),
            ledger=self._dependencies.ledger_file,
        )

    def _prepare(self, record: BatchRecord, draft: Draft) -> None:
        """Set the worst case of every ask aside, then note the part."""
        ledger = self._dependencies.ledger
        tickets: list[tuple[str, int]] = []
        try:
            for key, usd in draft.worst_cases():
                tickets.append((key, ledger.reserve(PlannedCall(key, record.model, usd))))
            self._dependencies.batch_log.prepare(record, tickets)
        except AssizesError:
            self._cancel_tickets(dict(tickets))
            raise
        self._records[record.name] = record

    def _drop(self, record: BatchRecord) -> None:
        """It was not handed in: its asks are free again, and nothing was spent."""
        tickets = self._dependencies.batch_log.tickets(record)
        if self._is_in_own_ledger(record):
            self._cancel_tickets(tickets)
        self.keys.drop(tickets)
        self._records[record.name] = dropped = replace(record, state="dropped")
        self._dependencies.batch_log.save(dropped)

    def _cancel_tickets(self, tickets: Mapping[str, int]) -> None:
        for key, ticket in tickets.items():
            self._dependencies.ledger.cancel(ticket, key)

    def _is_in_own_ledger(self, record: BatchRecord) -> bool:
        """Whether its tickets are of this ledger; those of another mean other calls here."""
        return record.ledger in ("", self._dependencies.ledger_file)

    async def _submit_draft(self, record: BatchRecord, draft: Draft) -> None:
        endpoint = self._endpoint(record)

        async def find_or_submit() -> str:
            # What broke off may have been taken all the same: it is looked for before each try.
            existing_id = await endpoint.find(record.tag)
            if existing_id is not None:
                return existing_id
            with draft.path.open("rb") as lines:
                return await endpoint.submit(lines, record.tag)

        try:
            batch_id = await call_with_retries(self._dependencies.poll_interval, find_or_submit)
        except ModelError as error:
            if not is_transient(error):
                await asyncio.to_thread(self._drop, record)
            raise Inconclusive(
                f"no batch for {record.model}: {error}; run again, or without --batch"
            ) from error
        await self._save_record(replace(record, state="submitted", batch_id=batch_id))
        log.info("batch %s: %d asks of round %d", batch_id, record.asks, record.round)

    async def _check_submission(self, record: BatchRecord) -> None:
        """Whether the sitting that prepared a part got to hand it in."""
        endpoint = self._endpoint(record)
        try:
            batch_id = await call_with_retries(
                self._dependencies.poll_interval, lambda: endpoint.find(record.tag)
            )
        except ModelError as error:
            raise Inconclusive(
                f"cannot see whether batch {record.name} of {record.model} was handed in: {error}"
            ) from error
        if batch_id is None:
            await asyncio.to_thread(self._drop, record)
        else:
            await self._save_record(replace(record, state="submitted", batch_id=batch_id))

    # Waiting.

    async def _poll(self) -> bool:
        """Look at every part that is waited for, and take what has ended; whether any is left."""
        parts = self.waiting
        statuses = [await finish_before_cancel(self._status(record)) for record in parts]
        for record, status in zip(parts, statuses, strict=True):
            if status is not None and status.ended:
                await finish_before_cancel(self._receive_results(record, status))
        open_parts = self.waiting
        ended = [
            part for part in self._records.values() if part.state == "submitted" and part.ended_as
        ]
        done = sum(
            batch_status.done
            for batch_status in statuses
            if batch_status is not None and not batch_status.ended
        )
        done += sum(record.asks for record in ended)
        progress_reporter.get()(
            WAITING_STAGE, done, sum(record.asks for record in ended + open_parts)
        )
        return bool(open_parts)

    async def _status(self, record: BatchRecord) -> BatchStatus | None:
        """Where a part stands; null where that cannot be told for the moment."""
        try:
            status = await self._endpoint(record).status(record.batch_id or "")
        except ModelError as error:
            self._failed_polls[record.name] += 1
            if not is_transient(error) or self._failed_polls[record.name] > MAX_FAILED_POLLS:
                raise _collection_error(record, error) from error
            return None
        self._failed_polls[record.name] = 0
        return status

    async def _pause(self, seconds: float) -> None:
        """Sleep in small pieces, so that a stop is noticed."""
        while True:
            if at := self._dependencies.stopped_at():
                raise Halted(
                    f"stopped at {at} (`assizes stop`); the provider goes on with its batches, the "
                    "same command collects them"
                )
            if seconds <= 0:
                return
            await asyncio.sleep(min(1.0, seconds))
            seconds -= 1.0

    # Taking.

    async def _receive_results(self, record: BatchRecord, status: BatchStatus) -> None:
        try:
            answered = await call_with_retries(
                self._dependencies.poll_interval, lambda: self._store_results(record)
            )
        except ModelError as error:
            raise _collection_error(record, error) from error
        if answered < record.asks:
            log.warning(
                "batch %s of %s is %s%s: %d of its %d asks are put one by one, at the full price",
                *(record.batch_id, record.model, status.name, status.why and f" ({status.why})"),
                *(record.asks - answered, record.asks),
            )
        # Only in memory: a later sitting that finds it handed in takes it once more.
        self._records[record.name] = replace(record, ended_as=status.name, answered=answered)

    async def _store_results(self, record: BatchRecord) -> int:
        """Settle and keep what came; how many asks something came of."""
        tickets = await asyncio.to_thread(self._dependencies.batch_log.tickets, record)
        lines = self._endpoint(record).results(record.batch_id or "")
        settles = self._is_in_own_ledger(record)
        if not settles:
            log.warning(
                "batch %s was counted in ledger %r and stays so, at its worst case; this ledger "
                "is not told",
                *(record.batch_id, record.ledger),
            )
        answered = 0
        async for chunk in chunks(lines, LINES_PER_CHUNK):
            answered += await asyncio.to_thread(
                self._record_outcomes, chunk, tickets, settles=settles
            )
        if settles:
            await asyncio.to_thread(self._settle_rest, tickets)
        return answered

    def _record_outcomes(
        self,
        lines: Sequence[tuple[str, Completion | ModelError]],
        tickets: dict[str, int],
        *,
        settles: bool,
    ) -> int:
        """Take those lines that are ours, each once: what was taken leaves the tickets."""
        results: list[tuple[str, PaidReply]] = []
        for key, outcome in lines:
            ticket = tickets.pop(key, None)
            if ticket is None:
                continue
            if isinstance(outcome, Completion | UnusableReply):
                results.append((key, outcome))
            if settles:
                self._dependencies.ledger.settle(ticket, _spending(outcome), key)
        self._results.add(results)
        return len(results)

    def _settle_rest(self, tickets: Mapping[str, int]) -> None:
        for key, ticket in tickets.items():
            self._dependencies.ledger.settle(ticket, CallSpending("expired", 0.0), key)

    # Both.

    def _endpoint(self, record: BatchRecord) -> Batches:
        endpoint = self._dependencies.endpoints.get(record.mark)
        if endpoint is None:
            raise Inconclusive(
                f"batch {record.name} of this run was made for {record.model} with other settings "
                "than those of now; run with the settings of then"
            )
        return endpoint

    async def _save_record(self, record: BatchRecord) -> None:
        self._records[record.name] = record
        await asyncio.to_thread(self._dependencies.batch_log.save, record)


def _stop_error(refused: NotAsked, asks: int) -> AssizesError:
    """The end of a run whose batch may not be handed in."""
    if refused.code == "budget":
        return OverBudget(f"a batch of {asks} asks was not handed in: {refused.detail}")
    return (Halted if refused.code == "halted" else Inconclusive)(refused.detail)


def _collection_error(record: BatchRecord, error: ModelError) -> Inconclusive:
    return Inconclusive(
        f"batch {record.batch_id} of {record.model} cannot be collected: {error}; the same command "
        "tries again"
    )


def _spending(outcome: Completion | ModelError) -> CallSpending:
    """What a line came to; a provider charges only those that it answered."""
    if isinstance(outcome, UnusableReply):
        code, completion = outcome.code, outcome.completion
    elif isinstance(outcome, ModelError):
        return CallSpending(outcome.code, 0.0)
    else:
        code, completion = None, outcome
    return CallSpending(
        code, completion.cost_usd, completion.input_tokens, completion.output_tokens
    )
