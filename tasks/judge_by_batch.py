"""Lets the hearings of a run advance round by round through the provider's batch endpoint."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from assizes.judge.case import Case
from assizes.judge.engine.batching import Batches, Came, batches_of, model_mark
from assizes.judge.engine.ledger import OpenLedger
from assizes.judge.models.model import Model
from assizes.judge.protocol import Ask
from assizes.tasks.batch.batch_calls import LookPace
from assizes.tasks.batch.batch_client import Desk, Supplies
from assizes.tasks.batch.batch_files import Draft, Drafts, Most
from assizes.tasks.batch.batch_log import BatchBook
from assizes.tasks.context.run_context import Room, watcher
from assizes.tasks.intake.shard import Shard
from assizes.tasks.intake.shards import read_shard
from assizes.tasks.judge_shard import hear_all
from assizes.tasks.plan import PlannedRun
from assizes.tasks.runtime.log_redaction import discreet

log = logging.getLogger(__name__)

GATHERING = "preparing batch"


@discreet
@task(name="judge_by_batch", cache_policy=NO_CACHE, result_serializer="json")
async def judge_by_batch(room: Room, run: PlannedRun, *, submits: bool = True) -> int:
    """Fill the reply cache round by round, until no hearing lacks a reply that a batch could bring.

    Judging then goes on as ever and finds everything in the cache; what batches could not bring is
    asked for by itself. A process may end at any time: a later one with the same command collects.

    Args:
        room: where the run is heard.
        run: what is to be judged.
        submits: false: collect what an earlier sitting handed in, and hand nothing in.

    Returns:
        The rounds handed in by this sitting.

    Raises:
        OverBudget: a round could cost more than may be spent; it has not been handed in.
        Halted: someone stopped the run.
        Inconclusive: the provider cannot be asked.
    """
    offices = offices_of(room.seats.models)
    due = await asyncio.to_thread(_due, room, run)
    if not offices:
        log.warning("[runner] batch: %s, nothing to batch", _why_none(room, run))
    if not (offices and due):
        return 0
    with tempfile.TemporaryDirectory(prefix="assizes-batch-") as folder:
        desk = Desk(_supplies(room, run.run_id, offices), Path(folder))
        try:
            bench = _Bench(room, run.run_id, due, offices)
            if not submits:
                await _collected(bench, desk, Path(folder))
                return 0
            return await _rounds(bench, desk, Path(folder))
        except asyncio.CancelledError:
            _say_what_goes_on(desk)
            raise
        finally:
            desk.close()


def batches_begun(room: Room, run_id: str) -> bool:
    """Whether an earlier sitting put asks of this run into batches: what they bring is paid for.

    False where no model may be asked at all (`replay_only`).

    Raises:
        StoreError: when the record of the batches cannot be read.
    """
    cache = room.config.cache
    if cache.use == "replay_only" or not room.seats.costs:
        return False
    records = BatchBook(cache.uri, cache.storage_options, run_id).records()
    return any(record.state != "dropped" for record in records)


def _why_none(room: Room, run: PlannedRun) -> str:
    if room.config.cache.use == "replay_only":
        return "[cache] use = replay_only asks nothing"
    return f"{run.record.judge_model} needs no provider"


def offices_of(models: Iterable[Model]) -> dict[str, Batches]:
    """The batch endpoint of each model that has one, by its mark.

    Raises:
        ConfigurationError: when a provider has none that can be used.
    """
    found = {model_mark(model): batches_of(model) for model in models}
    return {mark: office for mark, office in found.items() if office is not None}


def _due(room: Room, run: PlannedRun) -> list[Shard]:
    done = room.store.committed(run.run_id)
    return [shard for shard in run.intake.shards if shard.shard_id not in done]


def _supplies(room: Room, run_id: str, offices: Mapping[str, Batches]) -> Supplies:
    cache, ledger = room.config.cache, room.ledger_for(run_id)
    return Supplies(
        book=BatchBook(cache.uri, cache.storage_options, run_id),
        offices=offices,
        ledger=ledger or OpenLedger(),
        pace=LookPace(room.config.runner.batch_poll_s),
        stopped=ledger.stopped if ledger else lambda: None,
        ledger_file=str(Path(ledger.path).resolve()) if ledger else "",
    )


class _Bench:
    """The hearings of a run."""

    def __init__(
        self, room: Room, run_id: str, due: Sequence[Shard], offices: Mapping[str, Batches]
    ) -> None:
        self._room = room
        self._run_id = run_id
        self._due = due
        self._offices = offices

    async def gather(self, desk: Desk, folder: Path) -> Sequence[Draft]:
        """Hear every case as far as it goes; what they would ask next, as files."""
        report = watcher.get()
        report(GATHERING, 0, len(self._due))
        with Drafts(folder, Most()) as drafts:

            def note(model: Model, ask: Ask[Any], key: str) -> None:
                if desk.keys.add(key):
                    drafts.add(model, self._offices[model_mark(model)].body(ask), ask, key)

            for shard in self._due:
                await self._gather(shard, desk, note)
                report(GATHERING, 1, 0)
        return drafts.close()

    async def _gather(self, shard: Shard, desk: Desk, note: Callable[..., None]) -> None:
        room = self._room
        records = await asyncio.to_thread(
            lambda: list(read_shard(shard, room.config.transcripts, room.spool, room.treatment))
        )
        engine = room.gatherer(self._run_id, desk, note)
        cases: list[Case] = [record.case for record in records if record.case is not None]
        await asyncio.gather(*(hear_all(engine, room.court, case) for case in cases))

    def leave(self, given: Mapping[str, Came]) -> None:
        """What batches brought that does not fit, for the asks that are put by themselves."""
        self._room.given = given


async def _rounds(bench: _Bench, desk: Desk, folder: Path) -> int:
    await desk.reopen()
    rounds = 0
    while True:
        await desk.collect()
        with tempfile.TemporaryDirectory(dir=folder) as own:
            drafts = await bench.gather(desk, Path(own))
            bench.leave(await desk.close_round())
            if not drafts:
                return rounds
            await desk.submit(drafts)
        rounds += 1


async def _collected(bench: _Bench, desk: Desk, folder: Path) -> None:
    """Take what was handed in before; what is then still lacking is asked for by itself."""
    await desk.reopen()
    if waiting := desk.waiting:
        log.warning(
            "%d asks of this run are in batches that were handed in before: they are waited for "
            "and collected first; no new batch is handed in",
            sum(record.asks for record in waiting),
        )
        await desk.collect()
        with tempfile.TemporaryDirectory(dir=folder) as own:
            await bench.gather(desk, Path(own))
    bench.leave(await desk.close_round())


def _say_what_goes_on(desk: Desk) -> None:
    for record in desk.waiting:
        log.warning(
            "batch %s (%d asks) goes on at the provider; the same command collects it",
            *(record.batch_id, record.asks),
        )
