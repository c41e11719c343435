"""Submits batches, waits for them and collects their replies: each ask once, whatever happens."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tenacity import AsyncRetrying, retry_if_result, wait_exponential

from assizes.judge import errors
from assizes.judge.engine.batching import Batches, PaidReply
from assizes.judge.engine.ledger import Ledger
from assizes.judge.models.batch_lines import BatchStatus, Submission, Undecided
from assizes.judge.models.model import Completion, UnusableReply
from assizes.tasks.batch import batch_requests
from assizes.tasks.batch.batch_log import (
    BatchAccounts,
    BatchedKeys,
    BatchLog,
    BatchRecord,
    BatchResults,
)
from assizes.tasks.batch.batch_requests import Draft, PollInterval, finish_before_cancel
from assizes.tasks.context.run_context import ProgressReporter, ignore_progress

log = logging.getLogger(__name__)

MAX_FAILED_POLLS: Final = 60  # of a batch in a row; at the longest pause that is an hour
LINES_PER_CHUNK: Final = 500  # how many result lines are written in one transaction


@dataclass(frozen=True, slots=True)
class BatchDependencies:
    """What a batch client works with."""

    batch_log: BatchLog
    endpoints: Mapping[str, Batches]  # of each model, by `model_mark`
    ledger: Ledger
    poll_interval: PollInterval
    stopped_at: Callable[[], str | None] = lambda: None  # when somebody stopped the run
    ledger_file: str = ""  # empty where the ledger keeps nothing
    progress: ProgressReporter = ignore_progress  # how many asks are answered


class BatchClient:
    """The batches of one run; implements `assizes.judge.engine.batching.BatchAnswers` for hearings.

    The order of the steps keeps an ask from being submitted twice: reserve it in the ledger, write
    the log, look for the batch at the provider, submit the batch, write the log again. Replies are
    settled and stored before a part counts as collected. `folder` is a temporary one.
    """

    def __init__(self, dependencies: BatchDependencies, folder: Path) -> None:
        self.keys = BatchedKeys()  # of all asks that were ever part of a batch of the run
        self._dependencies = dependencies
        self._log = dependencies.batch_log
        self._accounts = BatchAccounts(dependencies.ledger)
        self._own_ledgers = ("", dependencies.ledger_file)  # whose tickets may be settled here
        self._results = BatchResults(folder)
        self._records: dict[str, BatchRecord] = {}  # by name
        self._first_attempts: dict[str, PaidReply] = {}  # by key, until the round is closed
        self._undecided: set[str] = set()  # names of parts that may have been submitted
        self._failed_polls: Counter[str] = Counter()  # in a row, by name of the record

    @property
    def waiting(self) -> list[BatchRecord]:
        """The parts that the provider is still working on, or may be."""
        parts = self._records.values()
        return [each for each in parts if each.is_waiting or each.name in self._undecided]

    def has_asked(self, key: str) -> bool:
        """Whether an ask was ever part of a batch of this run."""
        return key in self.keys

    async def take(self, key: str) -> PaidReply | None:
        """The reply of an ask; `None` where there is none, or it was taken before."""
        return await asyncio.to_thread(self._results.pop, key)

    def leave(self, key: str, reply: PaidReply) -> None:
        """Note a reply that did not fit, as the first attempt of a single call."""
        self._first_attempts[key] = reply

    async def reopen(self) -> None:
        """Load the batches of earlier processes, and look for prepared ones at the provider.

        Raises:
            Inconclusive: the provider cannot be reached.
        """
        records = await asyncio.to_thread(self._log.records)
        self._records.update({record.name: record for record in records})
        for record in records:
            if record.state in ("dropped", "collected"):  # maybe killed before this
                await self._discard_files(record)
            if record.state == "dropped":  # never submitted, so its asks are free
                continue
            tickets = await asyncio.to_thread(self._log.tickets, record)
            for key in tickets:
                self.keys.add(key)
            if record.state == "prepared":  # its process died: was the batch submitted?
                await self._check_submission(record)

    async def submit(self, drafts: Sequence[Draft]) -> None:
        """Submit the drafts of a round.

        Raises:
            OverBudget: the round could cost more than the budget; nothing has been submitted.
            Halted: someone stopped the run.
            Inconclusive: the provider does not accept a batch.
        """
        run_id = self._log.run_id
        round_ = 1 + max((earlier.round for earlier in self._records.values()), default=0)
        prepared: list[tuple[BatchRecord, Draft]] = []
        try:
            for part, draft in enumerate(drafts, 1):
                record = BatchRecord(
                    *(run_id, round_, part, draft.model, draft.mark, draft.asks, draft.keys_hash),
                    ledger=self._dependencies.ledger_file,
                    writer=uuid.uuid4().hex,
                )
                await asyncio.to_thread(self._prepare, record, draft)
                prepared.append((record, draft))
        except errors.NotAsked as refused:
            for record, _ in prepared:
                await asyncio.to_thread(self._drop, record)
            if refused.code == "budget":
                asks = sum(draft.asks for draft in drafts)
                detail = f"a batch of {asks} asks was not handed in: {refused.detail}"
                raise errors.OverBudget(detail) from refused
            error = errors.Halted if refused.code == "halted" else errors.Inconclusive
            raise error(refused.detail) from refused
        for number, (record, draft) in enumerate(prepared, 1):
            try:
                await finish_before_cancel(self._submit_draft(record, draft))
            except errors.Inconclusive:
                # Whether the failed part was submitted after all, a later process finds out.
                for later, _ in prepared[number:]:
                    await asyncio.to_thread(self._drop, later)
                raise

    async def collect(self) -> None:
        """Wait until every submitted part has ended, and store the replies.

        Raises:
            Halted: someone stopped the run; a later process collects.
            Inconclusive: the provider cannot be reached any more.
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
        """Mark parts as collected once the hearings have used their replies.

        Replies that did not fit, or that no hearing took, are stored first. Returns the stored
        replies of all rounds of the run, by key: first attempts of single calls.
        """
        left = self._first_attempts
        left.update(await asyncio.to_thread(self._results.pop_all))
        for record in [record for record in self._records.values() if record.has_results]:
            tickets = await asyncio.to_thread(self._log.tickets, record)
            if first_attempts := {key: left[key] for key in tickets if key in left}:
                await asyncio.to_thread(self._log.save_first_attempts, record, first_attempts)
            await self._save_record(replace(record, state="collected"))
            await self._discard_files(record)
        left.clear()
        return await asyncio.to_thread(self._log.first_attempts)

    def close(self) -> None:
        """Close the file of results."""
        self._results.close()

    def _prepare(self, record: BatchRecord, draft: Draft) -> None:
        """Reserve the worst case of every ask, then write the part into the log."""
        tickets = self._accounts.reserve(record.model, draft.worst_cases())
        try:
            self._log.prepare(record, tickets.items())
        except errors.AssizesError:
            self._accounts.cancel(tickets)
            raise
        self._records[record.name] = record

    def _drop(self, record: BatchRecord) -> None:
        """Drop a part that was not submitted: cancel its reservations, and free its asks."""
        tickets = self._log.tickets(record)
        if record.ledger in self._own_ledgers:
            self._accounts.cancel(tickets)
        self.keys.drop(tickets)
        self._records[record.name] = dropped = replace(record, state="dropped")
        self._log.save(dropped)

    async def _submit_draft(self, record: BatchRecord, draft: Draft) -> None:
        endpoint, interval = self._endpoint(record), self._dependencies.poll_interval

        async def find_or_submit(prepared: BatchRecord) -> str:
            # The provider may have accepted a request that broke off: look before each try.
            if (existing_id := await self._find(prepared)) is not None:
                return existing_id
            with draft.path.open("rb") as lines:
                return await endpoint.submit(lines, await self._submission(prepared))

        try:
            after = await batch_requests.call_with_retries(interval, endpoint.latest)
            if after is not None:
                await self._save_record(record := replace(record, after=after))
            batch_id = await batch_requests.call_with_retries(
                interval, lambda: find_or_submit(record)
            )
        except Undecided as undecided:
            self._wait_for_decision(record, undecided)
            return
        except errors.ModelError as error:
            if not batch_requests.is_transient(error):  # else it may have arrived
                await asyncio.to_thread(self._drop, record)
                await self._discard_files(record)
            what = f"no batch for {record.model}: {error}"
            raise errors.Inconclusive(f"{what}; run again, or without --batch") from error
        await self._save_record(replace(record, state="submitted", batch_id=batch_id))
        log.info("batch %s: %d asks of round %d", batch_id, record.asks, record.round)

    async def _check_submission(self, record: BatchRecord) -> None:
        """Find out whether the process that prepared a part has submitted it; if not, drop it."""
        try:
            batch_id = await batch_requests.call_with_retries(
                self._dependencies.poll_interval, lambda: self._find(record)
            )
        except Undecided as undecided:
            self._wait_for_decision(record, undecided)
            return
        except errors.ModelError as error:
            what = f"cannot see whether batch {record.name} of {record.model} was handed in"
            raise errors.Inconclusive(f"{what}: {error}") from error
        self._undecided.discard(record.name)
        if batch_id is None:
            await asyncio.to_thread(self._drop, record)
        else:
            await self._save_record(replace(record, state="submitted", batch_id=batch_id))

    async def _find(self, record: BatchRecord) -> str | None:
        """Look for a prepared part at the provider; `None` where it was not submitted."""
        return await self._endpoint(record).find(await self._submission(record))

    async def _submission(self, record: BatchRecord) -> Submission:
        keys = await asyncio.to_thread(self._log.tickets, record)
        others = {each.batch_id for each in self._records.values() if each.batch_id is not None}
        return Submission(record.tag, keys.keys(), record.after, others)

    async def _discard_files(self, record: BatchRecord) -> None:
        """Delete the files of a part from the user's own place; a failure is logged only."""
        endpoint = self._dependencies.endpoints.get(record.mark)
        if endpoint is None:  # the part was made with other settings
            return
        try:
            await endpoint.discard(Submission(record.tag, after=record.after))
        except errors.ModelError as error:
            what = f"the files of batch {record.name} of {record.model} are still there"
            log.warning("%s, with texts of transcripts: %s", what, error)

    def _wait_for_decision(self, record: BatchRecord, undecided: Undecided) -> None:
        """Keep a part prepared: the end of a batch will tell whether it was submitted."""
        if record.name not in self._undecided:
            what = f"batch {record.name} of {record.model} may have been handed in"
            log.warning("%s: %s; nothing is handed in twice", what, undecided.detail)
        self._undecided.add(record.name)

    async def _poll(self) -> bool:
        """Poll every waiting part and collect the ended ones; whether any part still waits."""
        for name in sorted(self._undecided):
            await finish_before_cancel(self._check_submission(self._records[name]))
        parts = [record for record in self.waiting if record.is_waiting]
        statuses = [await finish_before_cancel(self._status(record)) for record in parts]
        done = 0
        for record, status in zip(parts, statuses, strict=True):
            if status is not None and status.ended:
                await finish_before_cancel(self._receive_results(record, status))
            elif status is not None:
                done += status.done
        open_asks = sum(record.asks for record in self.waiting)
        ended_asks = sum(record.asks for record in self._records.values() if record.has_results)
        self._dependencies.progress("waiting for batch", done + ended_asks, ended_asks + open_asks)
        return bool(self.waiting)

    async def _status(self, record: BatchRecord) -> BatchStatus | None:
        """The status of a part; `None` after a transient fault of the provider."""
        try:
            status = await self._endpoint(record).status(record.batch_id or "")
        except errors.ModelError as error:
            self._failed_polls[record.name] += 1
            too_many = self._failed_polls[record.name] > MAX_FAILED_POLLS
            if too_many or not batch_requests.is_transient(error):
                raise _collection_error(record, error) from error
            return None
        self._failed_polls[record.name] = 0
        return status

    async def _pause(self, seconds: float) -> None:
        """Sleep at most a second at a time, so that a stop of the run is noticed."""
        while True:
            if at := self._dependencies.stopped_at():
                raise errors.Halted(
                    f"stopped at {at} (`assizes stop`); the provider goes on with its batches, the "
                    "same command collects them"
                )
            if seconds <= 0:
                return
            await asyncio.sleep(min(1.0, seconds))
            seconds -= 1.0

    async def _receive_results(self, record: BatchRecord, status: BatchStatus) -> None:
        try:
            answered = await batch_requests.call_with_retries(
                self._dependencies.poll_interval, lambda: self._store_results(record)
            )
        except errors.ModelError as error:
            raise _collection_error(record, error) from error
        if answered < record.asks:  # the rest expired, or failed at the provider
            log.warning(
                "batch %s of %s is %s%s: %d of its %d asks are sent one by one, at the full price",
                *(record.batch_id, record.model, status.name, status.why and f" ({status.why})"),
                *(record.asks - answered, record.asks),
            )
        # Only in memory: a later process finds the part submitted and collects it once more.
        self._records[record.name] = replace(record, ended_as=status.name, answered=answered)

    async def _store_results(self, record: BatchRecord) -> int:
        """Settle and store the results of a part; the number of asks with a paid reply."""
        tickets = await asyncio.to_thread(self._log.tickets, record)
        lines = self._endpoint(record).results(record.batch_id or "")
        settles = record.ledger in self._own_ledgers
        if not settles:
            log.warning(
                "batch %s was counted in ledger %r and stays there at its worst case; this "
                "run's ledger does not count it",
                *(record.batch_id, record.ledger),
            )
        answered = 0
        async for chunk in batch_requests.chunks(lines, LINES_PER_CHUNK):
            answered += await asyncio.to_thread(
                self._record_outcomes, chunk, tickets, settles=settles
            )
        if settles:
            await asyncio.to_thread(self._accounts.settle_unanswered, tickets)
        return answered

    def _record_outcomes(
        self,
        lines: Sequence[tuple[str, Completion | errors.ModelError]],
        tickets: dict[str, int],
        *,
        settles: bool,
    ) -> int:
        """Store each ask's first line and drop its ticket; returns the number of paid replies."""
        results: list[tuple[str, PaidReply]] = []
        for key, outcome in lines:
            if (ticket := tickets.pop(key, None)) is None:  # a second line, or a foreign ask
                continue
            if isinstance(outcome, Completion | UnusableReply):
                results.append((key, outcome))
            if settles:
                self._accounts.settle(key, ticket, outcome)
        self._results.add(results)
        return len(results)

    def _endpoint(self, record: BatchRecord) -> Batches:
        if (endpoint := self._dependencies.endpoints.get(record.mark)) is None:
            raise errors.Inconclusive(
                f"batch {record.name} of this run was made for {record.model} with other "
                "settings; run it again with the settings that it began with"
            )
        return endpoint

    async def _save_record(self, record: BatchRecord) -> None:
        self._records[record.name] = record
        await asyncio.to_thread(self._log.save, record)


def _collection_error(record: BatchRecord, error: errors.ModelError) -> errors.Inconclusive:
    return errors.Inconclusive(
        f"batch {record.batch_id} of {record.model} cannot be collected: {error}; the same command "
        "tries again"
    )
