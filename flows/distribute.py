"""Judge a run where its configuration says: here, by workers of a pool, or on a Dask cluster."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol

from assizes.flows.shards import LOOK_S, Losses, judge_here
from assizes.judge import errors
from assizes.judge.errors import AssizesError, Halted, Inconclusive, OverBudget
from assizes.tasks.context.run_context import Room, watcher
from assizes.tasks.context.shared_state import set_seal
from assizes.tasks.distribute.partitions import (
    DONE,
    Ended,
    Order,
    Partition,
    orders_config,
    partitions,
)
from assizes.tasks.intake.shard import Shard
from assizes.tasks.plan import PlannedRun
from assizes.tasks.spending.ledger import SqliteLedger, stop_line

log = logging.getLogger(__name__)

TRIES: Final = 3
"""So often a partition is given out in one sitting when the processes that judge it die."""

CALLED_BACK: Final = ("Cancelled", "Halted")
"""How a partition ends that was halted."""

_ENDS: Final = {kind.__name__: kind for kind in (OverBudget, Halted, Inconclusive)}


async def judge_shards(room: Room, run: PlannedRun, lost: Losses) -> Losses:
    """Judge every shard not yet committed; what is `lost` already is added to.

    Raises:
        ConfigurationError: when there is nobody to judge elsewhere.
        StoreError: when the store cannot be reached.
    """
    if run.finished:
        return lost
    done = await asyncio.to_thread(room.store.committed, run.run_id)
    report = watcher.get()
    report("judging", 0, run.intake.due)
    report("judging", sum(c.get("judged", 0) + c.get("errored", 0) for c in done.values()), 0)
    due = [shard for shard in run.intake.shards if shard.shard_id not in done]
    if room.config.runner.kind == "local":
        await judge_here(room, run.run_id, due, lost)
    elif due and lost.stop is None:
        await _judge_there(room, run, due, lost)
    return lost


class Hands(Protocol):
    """Who judges partitions elsewhere."""

    async def found(self) -> list[Partition]:
        """Partitions that are being judged already."""
        ...

    async def judge(self, order: Order, attempt: int) -> Ended:
        """Have one judged, and say how that ended."""
        ...

    async def halt(self, why: str) -> None:
        """Begin no further partition, and let those that are begun make no further call."""
        ...


@asynccontextmanager
async def _hands(room: Room, run_id: str) -> AsyncIterator[Hands]:
    runner = room.config.runner
    if runner.kind == "workers":
        from assizes.tasks.distribute.work_pool import work_pool

        async with work_pool(runner, run_id) as pool:
            yield pool
    else:
        from assizes.flows.cluster import cluster

        async with cluster(runner, run_id) as there:
            yield there


async def _judge_there(room: Room, run: PlannedRun, due: Sequence[Shard], lost: Losses) -> None:
    """Cut what is due into partitions, and have them judged, a bounded number at a time."""
    seal = await asyncio.to_thread(set_seal, room, run.run_id)
    async with _hands(room, run.run_id) as hands:
        out = await hands.found()
        shards, size = run.intake.shards, room.config.runner.partition_shards
        done = {shard.shard_id for shard in shards} - {shard.shard_id for shard in due}
        taken = {shard_id for one in out for shard_id in one.shard_ids}
        pieces = [*out, *partitions(shards, size, done, taken)]
        cases = {shard.shard_id: len(shard.due()) for shard in due}
        await _Spread(room, run, lost, hands, seal).judge(pieces, cases)


class _Spread:
    """The partitions that are out now."""

    def __init__(
        self, room: Room, run: PlannedRun, lost: Losses, hands: Hands, seal: str | None
    ) -> None:
        self._room = room
        self._run = run
        self._lost = lost
        self._hands = hands
        self._seal = seal
        self._config = orders_config(room.config)
        self._cases: Mapping[str, int] = {}
        self._pending: set[asyncio.Task[None]] = set()
        self._any_judged = False

    async def judge(self, pieces: Sequence[Partition], cases: Mapping[str, int]) -> None:
        """Have them all judged, or as many as can be; `cases` says how many each shard has that is
        due.
        """
        self._cases = cases
        waiting = list(reversed(pieces))
        most = self._config.runner.partitions_in_flight
        ledger = await asyncio.to_thread(self._room.ledger_for, self._run.run_id)
        try:
            while self._pending or (waiting and self._lost.stop is None):
                while waiting and self._lost.stop is None and len(self._pending) < most:
                    self._pending.add(asyncio.create_task(self._judged(waiting.pop())))
                finished, self._pending = await asyncio.wait(
                    self._pending, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED
                )
                for one in finished:
                    one.result()
                await self._heed_stop(ledger)
        finally:
            await self._cancel()

    async def _heed_stop(self, ledger: SqliteLedger | None) -> None:
        """Once the run asks no more, nobody it has asked to judge does."""
        at = ledger.stopped() if ledger is not None else None
        if at is not None and self._lost.stop is None:
            self._lost.stop = Halted(stop_line(at))
            log.warning("no further partition is begun: %s", self._lost.stop)
        if self._lost.stop is not None and self._pending:
            await self._hands.halt(" ".join(str(self._lost.stop).split()))

    async def _cancel(self) -> None:
        """Let what is out end by itself when someone cancels the run; it keeps what it has."""
        if not self._pending:
            return
        for left in self._pending:
            left.cancel()
        await asyncio.gather(*self._pending, return_exceptions=True)
        await self._hands.halt("the run was cancelled")

    async def _judged(self, piece: Partition) -> None:
        """Give a partition out until it is judged, and anew while those die who took it up."""
        attempt, tries = 0, 0
        while True:
            attempt += 1
            order = Order(self._config, self._run.run_id, piece, self._seal)
            ended = await self._hands.judge(order, attempt)
            if ended.name == DONE and not ended.stale:
                self._note_judged(piece)
                return
            left = await self._left(piece)
            if not left:
                self._note_judged(piece)
                return
            tries += not ended.stale
            if self._lost.stop is None and (ended.stale or (ended.lost and tries < TRIES)):
                if not ended.stale:
                    log.warning("partition %d is given out again: %s", piece.number, ended.message)
                continue
            self._note_lost(ended, left)
            return

    async def _left(self, piece: Partition) -> list[str]:
        done = await asyncio.to_thread(self._room.store.committed, self._run.run_id)
        return [shard_id for shard_id in piece.shard_ids if shard_id not in done]

    def _note_judged(self, piece: Partition) -> None:
        self._any_judged = True
        watcher.get()("judging", sum(self._cases.get(one, 0) for one in piece.shard_ids), 0)

    def _note_lost(self, ended: Ended, left: Sequence[str]) -> None:
        """What is missing, shard by shard; an error that the next partition would meet as well, or
        nothing but processes that die, ends the run.
        """
        error = self._fault(ended)
        for _ in left:
            self._lost.note(error)
        if self._lost.stop is None and isinstance(error, AssizesError):
            self._lost.stop = error
        elif self._lost.stop is None and ended.lost and not self._any_judged:
            self._lost.stop = Inconclusive(f"no partition could be judged: {ended.message}")

    def _fault(self, ended: Ended) -> AssizesError | str:
        if ended.name in CALLED_BACK and self._lost.stop is not None:
            return self._lost.stop
        if ended.name in _ENDS:
            return _ENDS[ended.name](ended.message)
        known = isinstance(getattr(errors, ended.name, None), type)
        return AssizesError(ended.message) if known else ended.message
