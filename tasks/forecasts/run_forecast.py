"""Foresee a run: its transcripts read, its asks counted and priced, nothing asked or written."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from typing import Final

import polars as pl

from assizes.judge.case import Case
from assizes.judge.catalog import Court, court, fingerprints
from assizes.judge.config.run import RunConfig
from assizes.judge.engine.reply_cache import ReplyCache
from assizes.judge.errors import Inconclusive, NoStore, StoreBusy
from assizes.judge.forecast.ask_forecast import Bench, Forecaster
from assizes.judge.forecast.run_forecast import (
    Figures,
    Past,
    RunForecast,
    Scene,
    Spendings,
    spending_limits,
    total,
)
from assizes.judge.model_assignment import Seats, seats
from assizes.judge.models.model import OFFLINE_PROVIDER
from assizes.judge.rows import COMPLETE
from assizes.judge.verdicts.executions import collected
from assizes.tasks.context.run_context import watcher
from assizes.tasks.intake.preprocessing import Treatment
from assizes.tasks.intake.scan import Choice, Handling
from assizes.tasks.intake.shard import Shard
from assizes.tasks.intake.shards import Plan, Record, plan_intake, read_shard
from assizes.tasks.judge_shard import hear_all
from assizes.tasks.runs.incremental import run_choice
from assizes.tasks.runs.run_ids import chosen_run_id, content_run_id
from assizes.tasks.sandbox.sql_runner import SandboxClerk
from assizes.tasks.sources.objects import Spool
from assizes.tasks.spending.ledger_file import spent_by, spent_today
from assizes.tasks.spending.reply_cache import FileReplies, OwnReplies
from assizes.tasks.store import Store, open_store

WHOLE_UP_TO: Final = 2000
"""Runs of so many cases are heard whole; of larger ones a sample."""

SAMPLE: Final = 1000
AT_ONCE: Final = 32
PAST_RUNS: Final = 3
"""So many earlier runs say how long replies are and how long calls take."""


async def forecast(config: RunConfig, on: date | None = None) -> RunForecast:
    """What a run of this configuration would ask, cost and take.

    No model is called, no key is needed, and neither store nor cache is written to.

    Raises:
        ConfigurationError: the judges, the models or the transcripts cannot work.
        UnknownRun: the run whose leavings are to be taken up is not in the store.
        Inconclusive: there is nothing to judge.
    """
    bench = court(config.judge)
    found = await asyncio.to_thread(seats, config, bench)
    treatment = await asyncio.to_thread(Treatment.of, config)
    choice = await asyncio.to_thread(_left_before, config, bench, on)
    spool, clerk = Spool.of(config.transcripts), SandboxClerk.of(config)
    try:
        intake = await asyncio.to_thread(
            plan_intake,
            config.transcripts,
            config.shard_size,
            spool,
            date=on,
            on_progress=lambda read: watcher.get()("reading", read, 0),
            handling=Handling(choice, treatment),
        )
        known = await asyncio.to_thread(_Known, config, bench, found, intake)
        forecaster = Forecaster(found, known.replies(), clerk)
        heard = await _heard(
            forecaster,
            bench,
            intake,
            lambda shard: list(read_shard(shard, config.transcripts, spool, treatment)),
        )
    finally:
        await clerk.aclose()
        await asyncio.to_thread(spool.close)
    if not heard:
        raise Inconclusive("no_data: every transcript has changed or gone since it was listed")
    models = {model.name: model for model in found.models}
    scene = Scene(config, models, known.past, intake.due / heard)
    return _told(Figures(scene, forecaster.tallies), known, intake, heard)


def _left_before(config: RunConfig, bench: Court, on: date | None) -> Choice | None:
    """What earlier runs left; the store is read only for a run that asks for it."""
    if config.transcripts.again is None and not config.transcripts.since_last:
        return run_choice(None, config, bench, on)
    try:
        with open_store(config.store) as store:
            return run_choice(store, config, bench, on)
    except NoStore:
        if config.transcripts.again is not None:
            raise
        return run_choice(None, config, bench, on)


async def _heard(
    forecaster: Forecaster, bench: Court, intake: Plan, read: Callable[[Shard], list[Record]]
) -> int:
    """Hear every case, or of many a sample; how many were heard."""
    shards = list(_sampled(intake) if intake.due > WHOLE_UP_TO else intake.shards)
    report = watcher.get()
    report("foreseeing", 0, sum(len(shard.due()) for shard in shards))
    slots, heard = asyncio.Semaphore(AT_ONCE), 0

    async def hear(case: Case) -> None:
        async with slots:
            await hear_all(forecaster, bench, case)
        report("foreseeing", 1, 0)

    for shard in shards:
        records = await asyncio.to_thread(read, shard)
        cases = [record.case for record in records if record.case is not None]
        await asyncio.gather(*map(hear, cases))
        heard += len(cases)
    return heard


def _sampled(intake: Plan) -> Iterator[Shard]:
    """The shards cut down to a sample of the cases, the same one every time."""
    places = [(shard, position) for shard in intake.shards for position in shard.due()]
    drawn = sorted(places, key=lambda place: _lot(place[0].uri, place[1]))[:SAMPLE]
    taken: dict[str, set[int]] = {}
    for shard, position in drawn:
        taken.setdefault(shard.shard_id, set()).add(position)
    for shard in intake.shards:
        if shard.shard_id in taken:
            yield replace(shard, take=tuple(sorted(taken[shard.shard_id])), rejected=())


def _lot(uri: str, position: int) -> bytes:
    return hashlib.blake2b(f"{uri}\x00{position}".encode(errors="replace"), digest_size=8).digest()


class _Known:
    """What store, ledger and cache say about the run and about earlier ones."""

    def __init__(self, config: RunConfig, bench: Court, found: Seats, intake: Plan) -> None:
        self.config = config
        self.seats = found
        self.run_id = content_run_id(config, intake, fingerprints(bench))
        self.status: str | None = None
        self.past: Mapping[Bench, Past] = {}
        self.notes: list[str] = []
        try:
            with open_store(config.store) as store:
                self._read(store)
        except StoreBusy as error:
            self.notes.append(f"nothing is known of earlier runs: {error}")
        except NoStore:  # a run makes it
            pass
        ledger = config.limits.ledger
        self.spent = Spendings(spent_by(ledger, self.run_id), spent_today(ledger))

    def _read(self, store: Store) -> None:
        self.run_id = chosen_run_id(self.run_id, self.config, store, costs=self.seats.costs)
        runs = store.runs()
        own = runs.filter(pl.col("run_id") == self.run_id)
        self.status = None if own.is_empty() else str(own["status"][0])
        earlier = runs.filter(pl.col("status") == COMPLETE)["run_id"].head(PAST_RUNS)
        self.past = _past(store, earlier)

    def replies(self) -> ReplyCache | None:
        """The kept replies that the run would take."""
        if not self.seats.keeps:
            return None
        cache = self.config.cache
        replies = FileReplies(cache.uri, cache.storage_options)
        return OwnReplies(replies, self.run_id) if cache.use == "refresh" else replies


def _past(store: Store, runs: Iterable[str]) -> dict[Bench, Past]:
    """Mean reply tokens and seconds by bench, over single good calls."""
    asks = [store.scan(run_id, "asks") for run_id in runs]
    if not asks:
        return {}
    good = pl.col("error").is_null() & (pl.col("attempts") <= 1) & (pl.col("output_tokens") > 0)
    rows = collected(
        pl.concat(asks)
        .filter(good)
        .group_by("judge", "model", "round")
        .agg(pl.len(), pl.col("output_tokens").mean(), pl.col("latency_ms").mean())
    )
    return {
        Bench(judge, model, round_): Past(replies, tokens, latency_ms / 1000)
        for judge, model, round_, replies, tokens, latency_ms in rows.iter_rows()
    }


def _told(figures: Figures, known: _Known, intake: Plan, heard: int) -> RunForecast:
    config, judges = known.config, figures.judges
    expected = total(one.expected_usd for one in judges)
    worst = total(one.worst_usd for one in judges)
    providers = {model.name: model.provider for model in known.seats.models}
    calls = sum(one.to_put for one in judges if providers[one.model] != OFFLINE_PROVIDER)
    counts = ("read", "due", "duplicates", "rejected", "unselected")
    return RunForecast(
        run_id=known.run_id,
        status=known.status,
        transcripts={name: getattr(intake, name) for name in counts},
        sampled=heard if heard < intake.due else None,
        asks=sum(one.asks for one in judges),
        kept=sum(one.kept for one in judges),
        same=sum(one.same for one in judges),
        to_put=sum(one.to_put for one in judges),
        input_tokens=sum(one.input_tokens for one in judges),
        output_tokens=sum(one.output_tokens for one in judges),
        expected_usd=expected,
        worst_usd=worst,
        minutes=figures.minutes(),
        judges=judges,
        limits=tuple(spending_limits(config, (expected, worst), calls, known.spent)),
        assumptions=(*figures.assumptions(), *known.notes),
    )
