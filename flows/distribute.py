"""Judge a run where its configuration says: here, by workers of a pool, or on a Dask cluster."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol

from assizes.flows.shards import POLL_INTERVAL_S, ShardFailures, judge_locally
from assizes.judge import errors
from assizes.judge.errors import AssizesError, Halted, Inconclusive, OverBudget
from assizes.tasks.context.planned_run import PlannedRun
from assizes.tasks.context.run_context import RunContext, progress_reporter
from assizes.tasks.context.shared_state import create_shared_state_check
from assizes.tasks.distribute.partitions import (
    JUDGED_STATE,
    Partition,
    PartitionEnd,
    PartitionJob,
    partition_config,
    partitions,
)
from assizes.tasks.intake.plan import Shard
from assizes.tasks.spending.ledger import SqliteLedger, stop_line

log = logging.getLogger(__name__)

MAX_ATTEMPTS: Final = 3
"""So often a partition is given out in one sitting when the processes that judge it die."""

HALTED_STATES: Final = ("Cancelled", "Halted")
"""How a partition ends that was halted."""

_ERRORS_BY_NAME: Final = {kind.__name__: kind for kind in (OverBudget, Halted, Inconclusive)}


async def judge_shards(
    context: RunContext, run: PlannedRun, failures: ShardFailures
) -> ShardFailures:
    """Judge every shard not yet committed; what is `lost` already is added to.

    Raises:
        ConfigurationError: when there is nobody to judge elsewhere.
        StoreError: when the store cannot be reached.
    """
    if run.is_finished:
        return failures
    done = await asyncio.to_thread(context.store.shard_counts, run.run_id)
    report = progress_reporter.get()
    report("judging", 0, run.intake.due)
    report("judging", sum(c.get("judged", 0) + c.get("errored", 0) for c in done.values()), 0)
    due = [shard for shard in run.intake.shards if shard.shard_id not in done]
    if context.config.runner.kind == "local":
        await judge_locally(context, run.run_id, due, failures)
    elif due and failures.stop is None:
        await _judge_elsewhere(context, run, due, failures)
    return failures


class Executor(Protocol):
    """Who judges partitions elsewhere."""

    async def open_partitions(self) -> list[Partition]:
        """Partitions that are being judged already."""
        ...

    async def judge(self, order: PartitionJob, attempt: int) -> PartitionEnd:
        """Have one judged, and say how that ended."""
        ...

    async def halt(self, why: str) -> None:
        """Begin no further partition, and let those that are begun make no further call."""
        ...


@asynccontextmanager
async def _open_executor(context: RunContext, run_id: str) -> AsyncIterator[Executor]:
    runner = context.config.runner
    if runner.kind == "workers":
        from assizes.tasks.distribute.work_pool import work_pool

        async with work_pool(runner, run_id) as pool:
            yield pool
    else:
        from assizes.flows.cluster import open_cluster

        async with open_cluster(runner, run_id) as dask_cluster:
            yield dask_cluster


async def _judge_elsewhere(
    context: RunContext, run: PlannedRun, due: Sequence[Shard], failures: ShardFailures
) -> None:
    """Cut what is due into partitions, and have them judged, a bounded number at a time."""
    seal = await asyncio.to_thread(create_shared_state_check, context, run.run_id)
    async with _open_executor(context, run.run_id) as executor:
        open_partitions = await executor.open_partitions()
        shards, size = run.intake.shards, context.config.runner.partition_shards
        done = {shard.shard_id for shard in shards} - {shard.shard_id for shard in due}
        taken = {shard_id for partition in open_partitions for shard_id in partition.shard_ids}
        pieces = [*open_partitions, *partitions(shards, size, done, taken)]
        cases = {shard.shard_id: len(shard.due_positions()) for shard in due}
        await _PartitionRunner(context, run, failures, executor, seal).judge(pieces, cases)


class _PartitionRunner:
    """The partitions that are out now."""

    def __init__(
        self,
        context: RunContext,
        run: PlannedRun,
        failures: ShardFailures,
        executor: Executor,
        seal: str | None,
    ) -> None:
        self._context = context
        self._run = run
        self._failures = failures
        self._executor = executor
        self._seal = seal
        self._config = partition_config(context.config)
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
        ledger = await asyncio.to_thread(self._context.ledger_for, self._run.run_id)
        try:
            while self._pending or (waiting and self._failures.stop is None):
                while waiting and self._failures.stop is None and len(self._pending) < most:
                    self._pending.add(asyncio.create_task(self._judge_piece(waiting.pop())))
                finished, self._pending = await asyncio.wait(
                    self._pending, timeout=POLL_INTERVAL_S, return_when=asyncio.FIRST_COMPLETED
                )
                for task in finished:
                    task.result()
                await self._check_stop(ledger)
        finally:
            await self._cancel()

    async def _check_stop(self, ledger: SqliteLedger | None) -> None:
        """Once the run asks no more, nobody it has asked to judge does."""
        at = ledger.stopped_at() if ledger is not None else None
        if at is not None and self._failures.stop is None:
            self._failures.stop = Halted(stop_line(at))
            log.warning("no further partition is begun: %s", self._failures.stop)
        if self._failures.stop is not None and self._pending:
            await self._executor.halt(" ".join(str(self._failures.stop).split()))

    async def _cancel(self) -> None:
        """Let what is out end by itself when someone cancels the run; it keeps what it has."""
        if not self._pending:
            return
        for left in self._pending:
            left.cancel()
        await asyncio.gather(*self._pending, return_exceptions=True)
        await self._executor.halt("the run was cancelled")

    async def _judge_piece(self, piece: Partition) -> None:
        """Give a partition out until it is judged, and anew while those die who took it up."""
        attempt, tries = 0, 0
        while True:
            attempt += 1
            order = PartitionJob(self._config, self._run.run_id, piece, self._seal)
            ended = await self._executor.judge(order, attempt)
            if ended.name == JUDGED_STATE and not ended.stale:
                self._note_judged(piece)
                return
            left = await self._uncommitted_shards(piece)
            if not left:
                self._note_judged(piece)
                return
            tries += not ended.stale
            if self._failures.stop is None and (
                ended.stale or (ended.lost and tries < MAX_ATTEMPTS)
            ):
                if not ended.stale:
                    log.warning("partition %d is given out again: %s", piece.number, ended.message)
                continue
            self._note_lost(ended, left)
            return

    async def _uncommitted_shards(self, piece: Partition) -> list[str]:
        done = await asyncio.to_thread(self._context.store.shard_counts, self._run.run_id)
        return [shard_id for shard_id in piece.shard_ids if shard_id not in done]

    def _note_judged(self, piece: Partition) -> None:
        self._any_judged = True
        progress_reporter.get()(
            "judging", sum(self._cases.get(shard_id, 0) for shard_id in piece.shard_ids), 0
        )

    def _note_lost(self, ended: PartitionEnd, left: Sequence[str]) -> None:
        """What is missing, shard by shard; an error that the next partition would meet as well, or
        nothing but processes that die, ends the run.
        """
        error = self._fault(ended)
        for _ in left:
            self._failures.add_failure(error)
        if self._failures.stop is None and isinstance(error, AssizesError):
            self._failures.stop = error
        elif self._failures.stop is None and ended.lost and not self._any_judged:
            self._failures.stop = Inconclusive(f"no partition could be judged: {ended.message}")

    def _fault(self, ended: PartitionEnd) -> AssizesError | str:
        if ended.name in HALTED_STATES and self._failures.stop is not None:
            return self._failures.stop
        if ended.name in _ERRORS_BY_NAME:
            return _ERRORS_BY_NAME[ended.name](ended.message)
        known = isinstance(getattr(errors, ended.name, None), type)
        return AssizesError(ended.message) if known else ended.message
