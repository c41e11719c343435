"""Judges a run through the provider's batch endpoint: the hearings advance one round per batch."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from assizes.judge.engine.batching import AskCallback, Batches, batches_of, model_mark
from assizes.judge.engine.ledger import OpenLedger
from assizes.judge.models.model import Model
from assizes.judge.protocol import Ask
from assizes.tasks.batch.batch_client import BatchClient, BatchDependencies
from assizes.tasks.batch.batch_log import BatchLog
from assizes.tasks.batch.batch_requests import BatchLimits, Draft, Drafts, PollInterval
from assizes.tasks.context.hearing import hear_all
from assizes.tasks.context.run_context import PlannedRun, RunContext
from assizes.tasks.intake.plan import Shard
from assizes.tasks.intake.shards import read_shard
from assizes.tasks.runtime.process import redacts_secrets
from assizes.tasks.runtime.temporary_folder import TemporaryFolder

log = logging.getLogger(__name__)

PREPARING_STAGE = "preparing batch"


@redacts_secrets
@task(name="judge_by_batch", cache_policy=NO_CACHE, result_serializer="json")
async def judge_by_batch(context: RunContext, run: PlannedRun, *, submits: bool = True) -> int:
    """Fill the reply cache round by round, until no hearing lacks a reply that a batch could bring.

    Judging then continues as without batches and finds the replies in the cache; an ask that no
    batch could answer is put as a single call. The process may end at any time: a later process
    with the same command collects the batches.

    Without `submits`, only the batches that an earlier process submitted are collected. Returns the
    number of rounds that this process submitted.

    Raises:
        ConfigurationError: a provider has no batch endpoint that can be used.
        OverBudget: a round could cost more than the budget allows; it has not been submitted.
        Halted: someone stopped the run.
        Inconclusive: the provider cannot be reached.
    """
    runner, models = context.config.runner, context.assignment.models
    by_mark = {
        model_mark(model): batches_of(model, runner.bedrock, runner.vertex) for model in models
    }
    # Models that cost nothing have no endpoint.
    endpoints = {mark: batches for mark, batches in by_mark.items() if batches is not None}
    done = await asyncio.to_thread(context.store.shard_counts, run.run_id)
    due = [shard for shard in run.intake.shards if shard.shard_id not in done]
    if not endpoints:
        reason = f"{run.record.judge_model} needs no provider"
        if context.config.cache.use == "replay_only":
            reason = "[cache] use = replay_only asks nothing"
        log.warning("[runner] batch: %s, nothing to batch", reason)
    if not (endpoints and due):
        return 0
    with TemporaryFolder() as folder:
        client = BatchClient(_dependencies(context, run.run_id, endpoints), folder.path)
        hearings = _RunHearings(context, run.run_id, due, endpoints, client, folder.path)
        try:
            return await (hearings.run_rounds() if submits else hearings.collect_earlier())
        except asyncio.CancelledError:
            for record in client.waiting:  # cancelled here, but paid for there
                log.warning(
                    "batch %s (%d asks) goes on at the provider; the same command collects it",
                    *(record.batch_id or record.name, record.asks),
                )
            raise
        finally:
            client.close()


def has_begun_batches(context: RunContext, run_id: str) -> bool:
    """Whether an earlier process submitted batches of this run, whose replies are paid for.

    Raises:
        StoreError: the log of the batches cannot be read.
    """
    cache = context.config.cache
    if cache.use == "replay_only" or not context.assignment.has_paid_calls:  # no model may be asked
        return False
    records = BatchLog(cache.uri, cache.storage_options, run_id).records()
    return any(record.state != "dropped" for record in records)


def _dependencies(
    context: RunContext, run_id: str, endpoints: Mapping[str, Batches]
) -> BatchDependencies:
    cache, ledger = context.config.cache, context.ledger_for(run_id)
    return BatchDependencies(
        batch_log=BatchLog(cache.uri, cache.storage_options, run_id),
        endpoints=endpoints,
        ledger=ledger or OpenLedger(),  # `None`: no model costs anything
        poll_interval=PollInterval(context.config.runner.batch_poll_s),
        stopped_at=ledger.stopped_at if ledger else lambda: None,
        ledger_file=str(Path(ledger.path).resolve()) if ledger else "",
        progress=context.progress,
    )


@dataclass(frozen=True, slots=True)
class _RunHearings:
    """The hearings of a run, repeated each round with the replies that have come so far."""

    context: RunContext
    run_id: str
    due: Sequence[Shard]  # the shards that are not committed
    endpoints: Mapping[str, Batches]  # mark of a model -> its batch endpoint
    client: BatchClient
    folder: Path  # of the requests and replies; deleted at the end

    async def run_rounds(self) -> int:
        """Submit and collect round by round; returns the number of submitted rounds."""
        await self.client.reopen()  # batches of an earlier process
        rounds = 0
        while True:
            await self.client.collect()
            with tempfile.TemporaryDirectory(dir=self.folder) as round_folder:
                drafts = self._large_enough(await self._draft_requests(Path(round_folder)))
                # The engine continues unusable batch replies with single calls.
                self.context.first_attempts = await self.client.close_round()
                if not drafts:  # no hearing lacks a reply
                    return rounds
                await self.client.submit(drafts)
            rounds += 1

    async def collect_earlier(self) -> int:
        """Collect the batches of an earlier process; asks without a reply become single calls."""
        await self.client.reopen()
        if waiting := self.client.waiting:
            log.warning(
                "%d asks of this run are in batches that were handed in before: they are waited for "
                "and collected first; no new batch is handed in",
                sum(record.asks for record in waiting),
            )
            await self.client.collect()
            with tempfile.TemporaryDirectory(dir=self.folder) as round_folder:
                await self._draft_requests(Path(round_folder))
        self.context.first_attempts = await self.client.close_round()
        return 0

    def _large_enough(self, drafts: Sequence[Draft]) -> list[Draft]:
        """The drafts that the provider takes; asks of smaller ones become single calls."""
        large = []
        for draft in drafts:
            least = self.endpoints[draft.mark].min_asks
            if draft.asks >= least:
                large.append(draft)
                continue
            log.warning(
                "%d asks of %s are too few for a batch, which takes %d or more: they are sent one by "
                "one, at the full price",
                *(draft.asks, draft.model, least),
            )
        return large

    async def _draft_requests(self, folder: Path) -> Sequence[Draft]:
        """Hear every case as far as the replies go, and write the next asks to files."""
        report = self.context.progress
        report(PREPARING_STAGE, 0, len(self.due))
        with Drafts(folder, BatchLimits()) as drafts:

            def add_ask(model: Model, ask: Ask[Any], key: str) -> None:
                # Two hearings may put one ask, which is paid for once.
                if self.client.keys.add(key):
                    endpoint = self.endpoints[model_mark(model)]
                    drafts.add(model, endpoint.line(key, endpoint.body(ask)), ask, key)

            for shard in self.due:
                await self._hear_shard(shard, add_ask)
                report(PREPARING_STAGE, 1, 0)
        return drafts.close()

    async def _hear_shard(self, shard: Shard, add_ask: AskCallback) -> None:
        context = self.context
        records = await asyncio.to_thread(
            lambda: list(
                read_shard(shard, context.config.transcripts, context.spool, context.preprocessor)
            )
        )
        engine = context.ask_collector(self.run_id, self.client, add_ask)
        cases = [record.case for record in records if record.case is not None]
        await asyncio.gather(*(hear_all(engine, context.judge_panel, case) for case in cases))
