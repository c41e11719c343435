"""Judges a run through the provider's batch endpoint: the hearings advance one round per batch."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from assizes.judge.engine.batching import AskCallback, Batches, PaidReply, batches_of, model_mark
from assizes.judge.engine.ledger import OpenLedger
from assizes.judge.models.model import Model
from assizes.judge.protocol import Ask
from assizes.tasks.batch.batch_client import BatchClient, BatchDependencies
from assizes.tasks.batch.batch_log import BatchLog
from assizes.tasks.batch.batch_requests import BatchLimits, Draft, Drafts, PollInterval
from assizes.tasks.context.run_context import PlannedRun, RunContext, progress_reporter
from assizes.tasks.intake.plan import Shard
from assizes.tasks.intake.shards import read_shard
from assizes.tasks.judge_shard import hear_all
from assizes.tasks.runtime.process import redacts_secrets

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
        OverBudget: a round could cost more than the budget allows; it has not been submitted.
        Halted: someone stopped the run.
        Inconclusive: the provider cannot be reached.
    """
    endpoints = _batch_endpoints(context.assignment.models)
    done = await asyncio.to_thread(context.store.shard_counts, run.run_id)
    due = [shard for shard in run.intake.shards if shard.shard_id not in done]
    if not endpoints:
        reason = f"{run.record.judge_model} needs no provider"
        if context.config.cache.use == "replay_only":
            reason = "[cache] use = replay_only asks nothing"
        log.warning("[runner] batch: %s, nothing to batch", reason)
    if not (endpoints and due):
        return 0
    with tempfile.TemporaryDirectory(prefix="assizes-batch-") as folder:
        client = BatchClient(_dependencies(context, run.run_id, endpoints), Path(folder))
        try:
            hearings = _RunHearings(context, run.run_id, due, endpoints)
            if not submits:
                await _collect_earlier(hearings, client, Path(folder))
                return 0
            return await _run_rounds(hearings, client, Path(folder))
        except asyncio.CancelledError:
            _warn_of_open_batches(client)
            raise
        finally:
            client.close()


def has_begun_batches(context: RunContext, run_id: str) -> bool:
    """Whether an earlier process submitted batches of this run, whose replies are paid for.

    `False` where no model may be asked at all (`replay_only`).

    Raises:
        StoreError: the log of the batches cannot be read.
    """
    cache = context.config.cache
    if cache.use == "replay_only" or not context.assignment.has_paid_calls:
        return False
    records = BatchLog(cache.uri, cache.storage_options, run_id).records()
    return any(record.state != "dropped" for record in records)


def _batch_endpoints(models: Iterable[Model]) -> dict[str, Batches]:
    """The batch endpoints of the models, by `model_mark`; models that cost nothing have none.

    Raises:
        ConfigurationError: a provider has no batch endpoint that can be used.
    """
    endpoints = {model_mark(model): batches_of(model) for model in models}
    return {mark: endpoint for mark, endpoint in endpoints.items() if endpoint is not None}


def _dependencies(
    context: RunContext, run_id: str, endpoints: Mapping[str, Batches]
) -> BatchDependencies:
    cache, ledger = context.config.cache, context.ledger_for(run_id)
    return BatchDependencies(
        batch_log=BatchLog(cache.uri, cache.storage_options, run_id),
        endpoints=endpoints,
        ledger=ledger or OpenLedger(),
        poll_interval=PollInterval(context.config.runner.batch_poll_s),
        stopped_at=ledger.stopped_at if ledger else lambda: None,
        ledger_file=str(Path(ledger.path).resolve()) if ledger else "",
    )


class _RunHearings:
    """The hearings of a run, repeated each round with the replies that have come so far."""

    def __init__(
        self,
        context: RunContext,
        run_id: str,
        due: Sequence[Shard],
        endpoints: Mapping[str, Batches],
    ) -> None:
        self._context = context
        self._run_id = run_id
        self._due = due
        self._endpoints = endpoints

    async def draft_requests(self, client: BatchClient, folder: Path) -> Sequence[Draft]:
        """Hear every case as far as the replies go, and write the next asks to files."""
        report = progress_reporter.get()
        report(PREPARING_STAGE, 0, len(self._due))
        with Drafts(folder, BatchLimits()) as drafts:

            def add_ask(model: Model, ask: Ask[Any], key: str) -> None:
                if client.keys.add(key):
                    drafts.add(model, self._endpoints[model_mark(model)].body(ask), ask, key)

            for shard in self._due:
                await self._hear_shard(shard, client, add_ask)
                report(PREPARING_STAGE, 1, 0)
        return drafts.close()

    async def _hear_shard(self, shard: Shard, client: BatchClient, add_ask: AskCallback) -> None:
        context = self._context
        records = await asyncio.to_thread(
            lambda: list(
                read_shard(shard, context.config.transcripts, context.spool, context.preprocessor)
            )
        )
        engine = context.ask_collector(self._run_id, client, add_ask)
        cases = [record.case for record in records if record.case is not None]
        await asyncio.gather(*(hear_all(engine, context.judge_panel, case) for case in cases))

    def pass_on(self, first_attempts: Mapping[str, PaidReply]) -> None:
        """Hand unusable batch replies to the engine, which continues them with single calls."""
        self._context.first_attempts = first_attempts


async def _run_rounds(hearings: _RunHearings, client: BatchClient, folder: Path) -> int:
    await client.reopen()
    rounds = 0
    while True:
        await client.collect()
        with tempfile.TemporaryDirectory(dir=folder) as round_folder:
            drafts = await hearings.draft_requests(client, Path(round_folder))
            hearings.pass_on(await client.close_round())
            if not drafts:
                return rounds
            await client.submit(drafts)
        rounds += 1


async def _collect_earlier(hearings: _RunHearings, client: BatchClient, folder: Path) -> None:
    """Collect the batches of an earlier process; asks without a reply are put as single calls."""
    await client.reopen()
    if waiting := client.waiting:
        log.warning(
            "%d asks of this run are in batches that were handed in before: they are waited for "
            "and collected first; no new batch is handed in",
            sum(record.asks for record in waiting),
        )
        await client.collect()
        with tempfile.TemporaryDirectory(dir=folder) as round_folder:
            await hearings.draft_requests(client, Path(round_folder))
    hearings.pass_on(await client.close_round())


def _warn_of_open_batches(client: BatchClient) -> None:
    for record in client.waiting:
        log.warning(
            "batch %s (%d asks) goes on at the provider; the same command collects it",
            *(record.batch_id, record.asks),
        )
