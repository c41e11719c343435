"""Judges the shards of a run: in this process, by workers of a work pool, or on a Dask cluster."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from itertools import count
from typing import Final, Protocol

from assizes.flows.partition import open_cluster
from assizes.flows.shard_processes import judge_in_processes
from assizes.flows.shards import (
    POLL_INTERVAL_S,
    ShardFailures,
    judge_locally,
    uncommitted_shards,
)
from assizes.flows.waves import judge_in_waves
from assizes.judge import errors
from assizes.judge.config.runner import RunnerConfig
from assizes.judge.errors import AssizesError, Halted, Inconclusive, OverBudget
from assizes.tasks.context.run_context import PlannedRun, RunContext
from assizes.tasks.context.shared_state import create_shared_state_check
from assizes.tasks.distribute.partitions import (
    JUDGED_STATE,
    Partition,
    PartitionEnd,
    PartitionJob,
    partition_config,
    partitions,
)
from assizes.tasks.distribute.processes import process_count
from assizes.tasks.distribute.work_pool import work_pool
from assizes.tasks.intake.plan import Shard
from assizes.tasks.intake.waves import shard_groups
from assizes.tasks.spending.ledger import SqliteLedger, stop_line

log = logging.getLogger(__name__)

MAX_ATTEMPTS: Final = 3
"""Times that one process gives out a partition when the processes that judge it die."""

HALTED_STATES: Final = ("Cancelled", "Halted")
"""Names of the final states of a partition that was halted."""

# The final state of a partition has the name of the class of its error.
_ERRORS_BY_NAME: Final = {kind.__name__: kind for kind in (OverBudget, Halted, Inconclusive)}


async def judge_shards(
    context: RunContext, run: PlannedRun, batch_failures: ShardFailures
) -> ShardFailures:
    """Judge the shards of a run that are not yet committed; returns the failures of shards.

    A run that may stop early is judged in waves. With `stop` among the failures of `ask_by_batch`, no
    shard is judged.

    Raises:
        ConfigurationError: when no work pool or Dask cluster can be reached.
        StoreError: when the store cannot be reached.
    """
    if run.is_finished:
        return ShardFailures(had_ended=True)
    due = await uncommitted_shards(context, run)
    if not due or batch_failures.stop is not None:
        return batch_failures

    executor: Executor | None = None
    async with AsyncExitStack() as stack:

        async def judge(shards: Sequence[Shard]) -> ShardFailures:
            nonlocal executor
            if context.config.runner.kind != "local":
                if executor is None:  # one for all waves: a Dask cluster takes seconds to start
                    opened = _open_executor(context.config.runner, run.run_id)
                    executor = await stack.enter_async_context(opened)
                return await _judge_elsewhere(context, run, shards, executor)
            cases = sum(len(shard.due_positions()) for shard in shards)
            count = min(process_count(context.config, cases), len(shards))
            if count == 1 or context.first_attempts:
                return await judge_locally(context, run.run_id, shards)
            return await judge_in_processes(context, run, shards, count)

        return await judge_in_waves(context, run, due, judge)


class Executor(Protocol):
    """Judges partitions in other processes."""

    async def open_partitions(self) -> list[Partition]:
        """Partitions that other processes are judging already."""

    async def judge(self, job: PartitionJob, attempt: int) -> PartitionEnd:
        """Have a partition judged, and wait for its end; `attempt` counts from 1."""

    async def halt(self, why: str) -> None:
        """Begin no further partition, and have the others make no further call."""


def _open_executor(runner: RunnerConfig, run_id: str) -> AbstractAsyncContextManager[Executor]:
    return work_pool(runner, run_id) if runner.kind == "workers" else open_cluster(runner, run_id)


async def _judge_elsewhere(
    context: RunContext, run: PlannedRun, due: Sequence[Shard], executor: Executor
) -> ShardFailures:
    """Have the due shards judged in other processes, by partitions."""
    # One cache and ledger for all are proved, not assumed (docs/decisions.md, decision 74).
    seal = await asyncio.to_thread(create_shared_state_check, context, run.run_id)
    open_partitions = await executor.open_partitions()
    cases = {shard.shard_id: len(shard.due_positions()) for shard in due}
    # Of a run in waves, shards of later waves count as done: they may not be needed.
    done = {shard.shard_id for shard in run.intake.shards} - cases.keys()
    taken = {shard_id for partition in open_partitions for shard_id in partition.shard_ids}
    most = context.config.runner.partition_shards
    cut = partitions(shard_groups(run.intake), most, done, taken)
    # Partitions that an earlier process gave out are waited for first.
    pieces = [*open_partitions, *cut]
    return await _PartitionRunner(context, run, executor, seal, cases).judge(pieces)


@dataclass
class _PartitionRunner:
    """Gives out the partitions of a run, a few at a time, and waits for their ends."""

    _context: RunContext
    _run: PlannedRun
    _executor: Executor
    _seal: str | None  # proves to a partition that it has the same cache
    _cases: Mapping[str, int]  # shard id -> due cases
    _failures: ShardFailures = field(default_factory=ShardFailures)
    _pending: set[asyncio.Task[None]] = field(default_factory=set)
    _any_judged: bool = False  # whether a partition was judged: processes can work at all

    def __post_init__(self) -> None:
        self._config = partition_config(self._context.config)

    async def judge(self, pieces: Sequence[Partition]) -> ShardFailures:
        """Have all partitions judged, or as many as possible; returns the failures of shards."""
        waiting = list(reversed(pieces))  # `pop` takes from the end
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
            if self._pending:  # this run was cancelled: the partitions halt by themselves
                for left in self._pending:
                    left.cancel()
                await asyncio.gather(*self._pending, return_exceptions=True)
                await self._executor.halt("the run was cancelled")
        return self._failures

    async def _check_stop(self, ledger: SqliteLedger | None) -> None:
        """Halt the partitions that other processes judge, once the run was stopped or has failed."""
        failures = self._failures
        at = ledger.stopped_at() if ledger is not None else None
        if at is not None and failures.stop is None:
            failures.stop = Halted(stop_line(at))
            log.warning("no further partition is begun: %s", failures.stop)
        if failures.stop is not None and self._pending:
            await self._executor.halt(" ".join(str(failures.stop).split()))

    async def _judge_piece(self, piece: Partition) -> None:
        """Give out a partition until it is judged, with retries while the judging processes die."""
        job = PartitionJob(self._config, self._run.run_id, piece, self._seal)
        tries = 0  # of this process: the end of an earlier attempt (`stale`) is none
        for attempt in count(1):
            ended = await self._executor.judge(job, attempt)
            left: list[str] = []
            if ended.stale or ended.name != JUDGED_STATE:  # the store knows what was committed
                done = await asyncio.to_thread(self._context.store.shard_counts, self._run.run_id)
                left = [shard_id for shard_id in piece.shard_ids if shard_id not in done]
            if not left:
                self._any_judged = True
                judged = sum(self._cases.get(shard_id, 0) for shard_id in piece.shard_ids)
                self._context.progress("judging", judged, 0)
                return
            tries += not ended.stale
            lives_on = ended.stale or (ended.lost and tries < MAX_ATTEMPTS)
            if self._failures.stop is not None or not lives_on:
                self._note_lost(ended, left)
                return
            if not ended.stale:
                log.warning("partition %d is given out again: %s", piece.number, ended.message)

    def _note_lost(self, ended: PartitionEnd, left: Sequence[str]) -> None:
        """Count the shards that a partition left unjudged, and decide whether the run must stop."""
        failures = self._failures
        error: AssizesError | str = ended.message
        if ended.name in HALTED_STATES and failures.stop is not None:
            error = failures.stop
        elif isinstance(getattr(errors, ended.name, None), type):  # the name of an error of ours
            error = _ERRORS_BY_NAME.get(ended.name, AssizesError)(ended.message)
        for _ in left:
            failures.add_failure(error)
        # The next partition would meet the same error, or processes that die as well.
        if failures.stop is None and isinstance(error, AssizesError):
            failures.stop = error
        elif failures.stop is None and ended.lost and not self._any_judged:
            failures.stop = Inconclusive(f"no partition could be judged: {ended.message}")
