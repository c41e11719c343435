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

from assizes.judge.engine.batching import Batches, Came
from assizes.judge.engine.ledger import Call, Ledger, Spent
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
from assizes.tasks.batch.batch_calls import LookPace, chunks, let_end, passes, patiently
from assizes.tasks.batch.batch_files import Draft
from assizes.tasks.batch.batch_log import BatchBook, BatchRecord, Inbox, Keys
from assizes.tasks.context.run_context import watcher

log = logging.getLogger(__name__)

BLIND_LOOKS: Final = 60
"""So many looks at a batch in a row may fail; at the longest pause that is an hour."""

LINES_AT_ONCE: Final = 500

WAITING: Final = "waiting for batch"


@dataclass(frozen=True, slots=True)
class Supplies:
    """What a desk works with.

    Args:
        book: the durable record.
        offices: the batch endpoint of each model, by its mark.
        ledger: what may be spent.
        pace: how often batches are looked at.
        stopped: when someone stopped the run, if they did.
        ledger_file: where the ledger is; empty where nothing is kept.
    """

    book: BatchBook
    offices: Mapping[str, Batches]
    ledger: Ledger
    pace: LookPace
    stopped: Callable[[], str | None] = lambda: None
    ledger_file: str = ""


class Desk:
    """The batches of one run; implements `assizes.judge.engine.batching.Answers` for the hearings.

    The order of things is what keeps an ask from being handed in twice: reserved in the ledger,
    noted in the book, looked for at the provider, handed in, noted again. Whatever came is settled
    and kept before a part counts as collected.
    """

    def __init__(self, supplies: Supplies, folder: Path) -> None:
        self.keys = Keys()
        self._supplies = supplies
        self._inbox = Inbox(folder)
        self._records: dict[str, BatchRecord] = {}
        self._left: dict[str, Came] = {}
        self._blind: Counter[str] = Counter()

    @property
    def waiting(self) -> list[BatchRecord]:
        """Parts that the provider works on."""
        return [
            one for one in self._records.values() if one.state == "submitted" and not one.ended_as
        ]

    def asked(self, key: str) -> bool:
        """Whether an ask was ever part of a batch of this run."""
        return key in self.keys

    async def take(self, key: str) -> Came | None:
        """What came of it, once."""
        return await asyncio.to_thread(self._inbox.take, key)

    def leave(self, key: str, came: Came) -> None:
        """Note what does not fit."""
        self._left[key] = came

    async def reopen(self) -> None:
        """Take up what an earlier sitting left; what it may or may not have handed in is looked for
        at the provider.

        Raises:
            Inconclusive: when the provider cannot be asked.
        """
        for record in await asyncio.to_thread(self._supplies.book.records):
            self._records[record.name] = record
            if record.state == "dropped":
                continue
            tickets = await asyncio.to_thread(self._supplies.book.tickets, record)
            for key in tickets:
                self.keys.add(key)
            if record.state == "prepared":
                await self._looked_up(record)

    async def submit(self, drafts: Sequence[Draft]) -> None:
        """Hand a round in.

        Raises:
            OverBudget: when it could cost more than may be spent; nothing has been handed in.
            Halted: when someone stopped the run.
            Inconclusive: when the provider does not take it.
        """
        round_ = 1 + max((one.round for one in self._records.values()), default=0)
        prepared: list[tuple[BatchRecord, Draft]] = []
        try:
            for part, draft in enumerate(drafts, 1):
                record = self._record(draft, round_, part)
                await asyncio.to_thread(self._prepare, record, draft)
                prepared.append((record, draft))
        except NotAsked as refused:
            for record, _ in prepared:
                await asyncio.to_thread(self._drop, record)
            raise _stop(refused, sum(draft.asks for draft in drafts)) from refused
        for place, (record, draft) in enumerate(prepared, 1):
            try:
                await let_end(self._hand_in(record, draft))
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
        pace = self._supplies.pace
        await AsyncRetrying(
            retry=retry_if_result(bool),
            wait=wait_exponential(multiplier=pace.first_s, max=pace.longest_s),
            sleep=self._pause,
        )(self._look)

    async def close_round(self) -> dict[str, Came]:
        """The hearings have made use of what came: note it, and what is left for asks put singly.

        Returns:
            All first attempts of the run that did not fit, by key.
        """
        self._left.update(await asyncio.to_thread(self._inbox.rest))
        book = self._supplies.book
        for record in list(self._records.values()):
            if record.state == "submitted" and record.ended_as:
                tickets = await asyncio.to_thread(book.tickets, record)
                given = {key: self._left[key] for key in tickets if key in self._left}
                if given:
                    await asyncio.to_thread(book.keep_given, record, given)
                await self._note(replace(record, state="collected"))
        self._left.clear()
        return await asyncio.to_thread(book.given)

    def close(self) -> None:
        """Let go of the inbox."""
        self._inbox.close()

    # Handing in.

    def _record(self, draft: Draft, round_: int, part: int) -> BatchRecord:
        run_id = self._supplies.book.run_id
        return BatchRecord(
            *(run_id, round_, part, draft.model, draft.mark, draft.asks, draft.keys_hash),
            ledger=self._supplies.ledger_file,
        )

    def _prepare(self, record: BatchRecord, draft: Draft) -> None:
        """Set the worst case of every ask aside, then note the part."""
        ledger = self._supplies.ledger
        tickets: list[tuple[str, int]] = []
        try:
            for key, usd in draft.worst_cases():
                tickets.append((key, ledger.reserve(Call(key, record.model, usd))))
            self._supplies.book.prepare(record, tickets)
        except AssizesError:
            self._give_back(dict(tickets))
            raise
        self._records[record.name] = record

    def _drop(self, record: BatchRecord) -> None:
        """It was not handed in: its asks are free again, and nothing was spent."""
        tickets = self._supplies.book.tickets(record)
        if self._counted_here(record):
            self._give_back(tickets)
        self.keys.drop(tickets)
        self._records[record.name] = dropped = replace(record, state="dropped")
        self._supplies.book.save(dropped)

    def _give_back(self, tickets: Mapping[str, int]) -> None:
        for key, ticket in tickets.items():
            self._supplies.ledger.cancel(ticket, key)

    def _counted_here(self, record: BatchRecord) -> bool:
        """Whether its tickets are of this ledger; those of another mean other calls here."""
        return record.ledger in ("", self._supplies.ledger_file)

    async def _hand_in(self, record: BatchRecord, draft: Draft) -> None:
        office = self._office(record)

        async def once() -> str:
            # What broke off may have been taken all the same: it is looked for before each try.
            found = await office.find(record.tag)
            if found is not None:
                return found
            with draft.path.open("rb") as lines:
                return await office.submit(lines, record.tag)

        try:
            batch_id = await patiently(self._supplies.pace, once)
        except ModelError as error:
            if not passes(error):
                await asyncio.to_thread(self._drop, record)
            raise Inconclusive(
                f"no batch for {record.model}: {error}; run again, or without --batch"
            ) from error
        await self._note(replace(record, state="submitted", batch_id=batch_id))
        log.info("batch %s: %d asks of round %d", batch_id, record.asks, record.round)

    async def _looked_up(self, record: BatchRecord) -> None:
        """Whether the sitting that prepared a part got to hand it in."""
        office = self._office(record)
        try:
            found = await patiently(self._supplies.pace, lambda: office.find(record.tag))
        except ModelError as error:
            raise Inconclusive(
                f"cannot see whether batch {record.name} of {record.model} was handed in: {error}"
            ) from error
        if found is None:
            await asyncio.to_thread(self._drop, record)
        else:
            await self._note(replace(record, state="submitted", batch_id=found))

    # Waiting.

    async def _look(self) -> bool:
        """Look at every part that is waited for, and take what has ended; whether any is left."""
        parts = self.waiting
        statuses = [await let_end(self._status(record)) for record in parts]
        for record, status in zip(parts, statuses, strict=True):
            if status is not None and status.ended:
                await let_end(self._receive(record, status))
        left = self.waiting
        ended = [one for one in self._records.values() if one.state == "submitted" and one.ended_as]
        done = sum(one.done for one in statuses if one is not None and not one.ended)
        done += sum(record.asks for record in ended)
        watcher.get()(WAITING, done, sum(record.asks for record in ended + left))
        return bool(left)

    async def _status(self, record: BatchRecord) -> BatchStatus | None:
        """Where a part stands; null where that cannot be told for the moment."""
        try:
            status = await self._office(record).status(record.batch_id or "")
        except ModelError as error:
            self._blind[record.name] += 1
            if not passes(error) or self._blind[record.name] > BLIND_LOOKS:
                raise _lost_sight(record, error) from error
            return None
        self._blind[record.name] = 0
        return status

    async def _pause(self, seconds: float) -> None:
        """Sleep in small pieces, so that a stop is noticed."""
        while True:
            if at := self._supplies.stopped():
                raise Halted(
                    f"stopped at {at} (`assizes stop`); the provider goes on with its batches, the "
                    "same command collects them"
                )
            if seconds <= 0:
                return
            await asyncio.sleep(min(1.0, seconds))
            seconds -= 1.0

    # Taking.

    async def _receive(self, record: BatchRecord, status: BatchStatus) -> None:
        try:
            answered = await patiently(self._supplies.pace, lambda: self._received(record))
        except ModelError as error:
            raise _lost_sight(record, error) from error
        if answered < record.asks:
            log.warning(
                "batch %s of %s is %s%s: %d of its %d asks are put one by one, at the full price",
                *(record.batch_id, record.model, status.name, status.why and f" ({status.why})"),
                *(record.asks - answered, record.asks),
            )
        # Only in memory: a later sitting that finds it handed in takes it once more.
        self._records[record.name] = replace(record, ended_as=status.name, answered=answered)

    async def _received(self, record: BatchRecord) -> int:
        """Settle and keep what came; how many asks something came of."""
        tickets = await asyncio.to_thread(self._supplies.book.tickets, record)
        lines = self._office(record).results(record.batch_id or "")
        settles = self._counted_here(record)
        if not settles:
            log.warning(
                "batch %s was counted in ledger %r and stays so, at its worst case; this ledger "
                "is not told",
                *(record.batch_id, record.ledger),
            )
        answered = 0
        async for some in chunks(lines, LINES_AT_ONCE):
            answered += await asyncio.to_thread(self._keep, some, tickets, settles=settles)
        if settles:
            await asyncio.to_thread(self._settle_rest, tickets)
        return answered

    def _keep(
        self,
        lines: Sequence[tuple[str, Completion | ModelError]],
        tickets: dict[str, int],
        *,
        settles: bool,
    ) -> int:
        """Take those lines that are ours, each once: what was taken leaves the tickets."""
        came: list[tuple[str, Came]] = []
        for key, outcome in lines:
            ticket = tickets.pop(key, None)
            if ticket is None:
                continue
            if isinstance(outcome, Completion | UnusableReply):
                came.append((key, outcome))
            if settles:
                self._supplies.ledger.settle(ticket, _spent(outcome), key)
        self._inbox.put(came)
        return len(came)

    def _settle_rest(self, tickets: Mapping[str, int]) -> None:
        for key, ticket in tickets.items():
            self._supplies.ledger.settle(ticket, Spent("expired", 0.0), key)

    # Both.

    def _office(self, record: BatchRecord) -> Batches:
        office = self._supplies.offices.get(record.mark)
        if office is None:
            raise Inconclusive(
                f"batch {record.name} of this run was made for {record.model} with other settings "
                "than those of now; run with the settings of then"
            )
        return office

    async def _note(self, record: BatchRecord) -> None:
        self._records[record.name] = record
        await asyncio.to_thread(self._supplies.book.save, record)


def _stop(refused: NotAsked, asks: int) -> AssizesError:
    """The end of a run whose batch may not be handed in."""
    if refused.code == "budget":
        return OverBudget(f"a batch of {asks} asks was not handed in: {refused.detail}")
    return (Halted if refused.code == "halted" else Inconclusive)(refused.detail)


def _lost_sight(record: BatchRecord, error: ModelError) -> Inconclusive:
    return Inconclusive(
        f"batch {record.batch_id} of {record.model} cannot be collected: {error}; the same command "
        "tries again"
    )


def _spent(outcome: Completion | ModelError) -> Spent:
    """What a line came to; a provider charges only those that it answered."""
    if isinstance(outcome, UnusableReply):
        code, completion = outcome.code, outcome.completion
    elif isinstance(outcome, ModelError):
        return Spent(outcome.code, 0.0)
    else:
        code, completion = None, outcome
    return Spent(code, completion.cost_usd, completion.input_tokens, completion.output_tokens)
