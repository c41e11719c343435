"""Forecasts a run: reads its transcripts, counts its asks and prices them; no model is called."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from typing import Final, NamedTuple

import polars as pl

from assizes.judge.case import Case
from assizes.judge.catalog import JudgePanel, fingerprints, resolve_judges
from assizes.judge.config.run import RunConfig
from assizes.judge.engine.ledger import ReplyCache
from assizes.judge.errors import AssizesError, Inconclusive, NoStore, StoreBusy
from assizes.judge.forecast.ask_forecast import AskGroup, Forecaster
from assizes.judge.forecast.cost_options import DecidedChoice
from assizes.judge.forecast.decided import EarlierCases
from assizes.judge.forecast.run_forecast import (
    ForecastFigures,
    ForecastInputs,
    PastReplies,
    RunForecast,
    Spendings,
    spending_limits,
    total,
)
from assizes.judge.model_assignment import ModelAssignment, assign_models
from assizes.judge.models.model import OFFLINE_PROVIDER
from assizes.judge.rows import COMPLETE
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.context.hearing import hear_all
from assizes.tasks.context.looks import wave_rules
from assizes.tasks.context.run_context import progress_reporter
from assizes.tasks.embedding.sentence_encoder import check_space
from assizes.tasks.forecasts.decided_counts import (
    counted_calls,
    decided_choice,
    earlier_cases,
    may_stop_early,
)
from assizes.tasks.forecasts.option_counts import (
    OptionSample,
    SampledRun,
    batched_models,
    count_options,
    escalated_shares,
    paid_tallies,
)
from assizes.tasks.intake.plan import Plan, RecordSelector, ScanPolicy, Shard
from assizes.tasks.intake.preprocessing import CasePreprocessor
from assizes.tasks.intake.shards import ShardRecord, plan_intake, read_shard
from assizes.tasks.intake.waves import waves_in
from assizes.tasks.runs.anchor_runs import anchor_config, canary_config, likely_canaries
from assizes.tasks.runs.record_selectors import record_selector
from assizes.tasks.runs.stored_runs import chosen_run_id, content_run_id
from assizes.tasks.sandbox.sql_runner import SandboxSqlRunner
from assizes.tasks.sources.spool import Spool
from assizes.tasks.spending.ledger_file import run_spending, spending_today
from assizes.tasks.spending.reply_cache import FileReplyCache, RunReplyCache
from assizes.tasks.store import Store, open_store

MAX_UNSAMPLED_CASES: Final = 2000  # runs with more cases than this are forecast from a sample
SAMPLE_SIZE: Final = 1000  # cases in a sample
CONCURRENT_CASES: Final = 32  # cases whose asks are counted at the same time
PAST_RUN_COUNT: Final = 3  # earlier runs from which reply length and latency are taken, at most


async def forecast(config: RunConfig, day: date | None = None) -> RunForecast:
    """Forecast how much a run of this configuration would ask and cost, and how long it would take.

    No API key is needed. For a run of one day, `day` is the day whose transcripts would be judged.

    Raises:
        ConfigurationError: the judges, the models, the transcripts or the space of causes cannot be
            used.
        UnknownRun: the run whose remaining records are to be judged is not in the store.
        Inconclusive: there is nothing to judge.
    """
    check_space(config.causes)
    judge_panel = resolve_judges(config.judge)
    assignment = await asyncio.to_thread(assign_models, config, judge_panel)
    preprocessor = await asyncio.to_thread(CasePreprocessor.from_config, config)
    selector = await asyncio.to_thread(_load_record_selector, config, judge_panel, day)
    # Judges of SQL run statements between their asks, so a forecast runs them, too.
    spool, sql_runner = Spool.of(config.transcripts), SandboxSqlRunner.of(config)
    try:
        intake = await asyncio.to_thread(
            plan_intake,
            config.transcripts,
            config.shard_size,
            spool,
            date=day,
            # How many records there are is known when all are read.
            on_progress=lambda read: progress_reporter.get()("reading", read, 0),
            policy=ScanPolicy(selector, preprocessor, config.nightly.time_zone, wave_rules(config)),
        )
        prior = await asyncio.to_thread(_PriorState, config, judge_panel, assignment, intake)
        forecaster = Forecaster(assignment, prior.replies(), sql_runner)
        heard = await _hear_cases(
            forecaster,
            judge_panel,
            intake,
            lambda shard: list(read_shard(shard, config.transcripts, spool, preprocessor)),
            sample := OptionSample(),
            lambda: counted_calls(paid_tallies(forecaster.tallies, assignment)),
        )
        sampled = SampledRun(sample.cases, intake.due, _decided_choice(prior, intake, heard))
        options = await count_options(config, judge_panel, assignment, sampled, sql_runner)
    finally:
        await sql_runner.aclose()
        await asyncio.to_thread(spool.close)
    # A division by zero otherwise, and a price for nothing.
    if not heard.cases:
        raise Inconclusive("no_data: every transcript has changed or gone since it was listed")
    figures = _figures(prior, forecaster, intake.due / heard.cases)  # over 1: sampled
    more = {"options": options, "option_cases": len(sample.cases) if options else None}
    return _build_forecast(figures, prior, intake, heard.cases).model_copy(update=more)


def _decided_choice(prior: _PriorState, intake: Plan, heard: _HeardCases) -> DecidedChoice | None:
    """How far the run goes if it stops when it is decided; a note says why it cannot."""
    # How many cases a cascade escalates is an estimate, so no number of calls is exact.
    exact = None if escalated_shares(prior.config, prior.assignment) else heard.calls
    decided, note = decided_choice(prior.config, intake, prior.earlier, exact)
    prior.notes += [] if note is None else [note]
    return decided


def _figures(prior: _PriorState, forecaster: Forecaster, scale: float) -> ForecastFigures:
    models = {model.name: model for model in prior.assignment.models}
    shares = escalated_shares(prior.config, prior.assignment)
    is_batch = prior.config.runner.batch
    batched = batched_models(prior.config, prior.assignment) if is_batch else {}
    inputs = ForecastInputs(prior.config, models, prior.past, scale, shares, batched)
    return ForecastFigures(inputs, forecaster.tallies)


def _load_record_selector(
    config: RunConfig, judge_panel: JudgePanel, day: date | None
) -> RecordSelector | None:
    """The selector of records; the store is opened only for a run that goes by earlier runs."""
    if config.transcripts.again or config.transcripts.since_last:
        try:
            with open_store(config.store) as store:
                return record_selector(store, config, judge_panel, day)
        except NoStore:
            # Without a store every case is new, but there is no run to judge again.
            if config.transcripts.again:
                raise
    return record_selector(None, config, judge_panel, day)


class _HeardCases(NamedTuple):
    """What was counted of the cases of a plan."""

    cases: int
    # Calls before the first look, and of all cases; `None`: there is no look, or only a sample.
    calls: tuple[int, int] | None


async def _hear_cases(
    forecaster: Forecaster,
    judge_panel: JudgePanel,
    intake: Plan,
    read: Callable[[Shard], list[ShardRecord]],
    sample: OptionSample,
    calls: Callable[[], int],
) -> _HeardCases:
    """Count the asks of every case, or of a sample of many cases; `calls` are those so far."""
    shards = list(_sampled_shards(intake) if intake.due > MAX_UNSAMPLED_CASES else intake.shards)
    report = progress_reporter.get()
    report("foreseeing", 0, sum(len(shard.due_positions()) for shard in shards))
    slots, heard_count = asyncio.Semaphore(CONCURRENT_CASES), 0
    first_calls, waves = None, waves_in(intake.design)
    is_whole = shards == list(intake.shards)

    async def hear(case: Case) -> None:
        # Not all at once: each open hearing holds its case and its rendered prompts in memory.
        async with slots:
            await hear_all(forecaster, judge_panel, case)
        report("foreseeing", 1, 0)

    for number, shard in enumerate(shards, start=1):
        records = await asyncio.to_thread(read, shard)
        cases = [record.case for record in records if record.case is not None]
        await asyncio.gather(*map(hear, cases))
        sample.add(cases)
        heard_count += len(cases)
        if is_whole and waves and number == waves[0].shards:
            first_calls = calls()
    return _HeardCases(heard_count, None if first_calls is None else (first_calls, calls()))


def _sampled_shards(intake: Plan) -> Iterator[Shard]:
    """The shards reduced to a sample of their cases; the same plan always gives the same sample."""

    def hash_of(place: tuple[Shard, int]) -> bytes:
        # The order of a hash is as good as random and needs no seed; a name may hold lone
        # surrogates.
        text = f"{place[0].uri}\x00{place[1]}".encode(errors="replace")
        return hashlib.blake2b(text, digest_size=8).digest()

    places = [(shard, position) for shard in intake.shards for position in shard.due_positions()]
    sampled_positions: dict[str, set[int]] = {}  # shard id -> positions of the sampled records
    for shard, position in sorted(places, key=hash_of)[:SAMPLE_SIZE]:
        sampled_positions.setdefault(shard.shard_id, set()).add(position)
    for shard in intake.shards:
        if positions := sampled_positions.get(shard.shard_id):
            yield replace(shard, take=tuple(sorted(positions)), rejected=())


class _PriorState:
    """What store, ledger and reply cache know about the run and about earlier runs."""

    def __init__(
        self, config: RunConfig, judge_panel: JudgePanel, assignment: ModelAssignment, intake: Plan
    ) -> None:
        self.config = config
        self.assignment = assignment
        self.run_id = content_run_id(config, intake, fingerprints(judge_panel))  # without a store
        self.status: str | None = None  # of the run itself; `None`: it has not begun
        self.past: Mapping[AskGroup, PastReplies] = {}  # empty: nothing is known of earlier runs
        self.earlier: EarlierCases | None = None  # what a run that may stop early is like
        self.notes: list[str] = []  # further assumptions, as sentences
        try:
            with open_store(config.store) as store:
                self.run_id = chosen_run_id(
                    self.run_id, config, store, costs=assignment.has_paid_calls
                )
                runs = store.run_index()
                own_rows = runs.filter(pl.col("run_id") == self.run_id)
                self.status = None if own_rows.is_empty() else str(own_rows["status"][0])
                earlier = runs.filter(pl.col("status") == COMPLETE)["run_id"].head(PAST_RUN_COUNT)
                self.past = _past(store, earlier)
                if may_stop_early(config):
                    self.earlier = earlier_cases(store, config)
        except StoreBusy as error:
            self.notes.append(f"nothing is known of earlier runs: {error}")
        except NoStore:  # the first run creates the store
            pass
        ledger = config.limits.ledger
        self.spent = Spendings(run_spending(ledger, self.run_id), spending_today(ledger))

    def replies(self) -> ReplyCache | None:
        """The reply cache that the run would read; `None` where no model's replies are cached."""
        if not self.assignment.has_cacheable_replies:
            return None
        cache = self.config.cache
        replies = FileReplyCache(cache.uri, cache.storage_options)
        # A refreshing run reads only the replies that it has paid for itself.
        return RunReplyCache(replies, self.run_id) if cache.use == "refresh" else replies


def _past(store: Store, runs: Iterable[str]) -> dict[AskGroup, PastReplies]:
    """Mean reply tokens and seconds of each `AskGroup`, over asks answered by their first call."""
    asks = [store.scan(run_id, "asks") for run_id in runs]
    if not asks:
        return {}
    # An ask that took several calls has the tokens and the time of all of them.
    good = pl.col("error").is_null() & (pl.col("attempts") <= 1) & (pl.col("output_tokens") > 0)
    rows = collect_rows(
        pl.concat(asks)
        .filter(good)
        .group_by("judge", "model", "round")
        .agg(pl.len(), pl.col("output_tokens").mean(), pl.col("latency_ms").mean())
    )
    return {
        AskGroup(judge, model, round_): PastReplies(replies, tokens, latency_ms / 1000)  # seconds
        for judge, model, round_, replies, tokens, latency_ms in rows.iter_rows()
    }


def _build_forecast(
    figures: ForecastFigures, prior: _PriorState, intake: Plan, heard_count: int
) -> RunForecast:
    config, judges = prior.config, figures.judges
    expected = total(judge.expected_usd for judge in judges)
    worst = total(judge.worst_usd for judge in judges)
    providers = {model.name: model.provider for model in prior.assignment.models}
    # The offline baseline costs nothing and counts for no limit of calls.
    calls = sum(judge.to_put for judge in judges if providers[judge.model] != OFFLINE_PROVIDER)
    counts = ("read", "due", "duplicates", "rejected", "unselected")
    sums = ("asks", "kept", "same", "to_put", "input_tokens", "output_tokens")
    return RunForecast(
        run_id=prior.run_id,
        status=prior.status,
        transcripts={name: getattr(intake, name) for name in counts},
        sampled=heard_count if heard_count < intake.due else None,  # `None`: every case was read
        **{name: sum(getattr(judge, name) for judge in judges) for name in sums},
        expected_usd=expected,
        worst_usd=worst,
        minutes=figures.minutes(),
        judges=judges,
        limits=tuple(spending_limits(config, (expected, worst), calls, prior.spent)),
        assumptions=(*figures.assumptions(), *prior.notes),
    )


async def forecast_with_anchors(config: RunConfig, day: date | None = None) -> RunForecast:
    """Forecast a run, and beside it the run over its anchors and the attacks planted in them.

    Where anchors or canaries (the planted attacks) cannot be read, an assumption says why.

    Raises:
        ConfigurationError: the judges, the models or the transcripts of the run cannot be used.
        Inconclusive: the run has nothing to judge.
    """
    run_forecast = await forecast(config, day)
    if config.anchors.uri is None or config.cache.use == "replay_only":
        return run_forecast
    settings = config.calibration.model_copy(update={"labels": config.anchors.labels})
    missing = "anchors"  # what the except clause names
    try:
        anchors = await forecast(anchor_config(config))
        run_forecast = run_forecast.model_copy(update={"anchors": anchors})
        missing = "canaries"
        has_canaries = settings.canaries and settings.labels is not None
        if has_canaries and (chosen := likely_canaries(settings)):
            canaries = await forecast(canary_config(anchor_config(config), chosen, config.name))
            run_forecast = run_forecast.model_copy(update={"canaries": canaries})
    # The run goes on without its anchors, and so does the forecast.
    except AssizesError as error:
        note = f"the {missing} are not counted: {' '.join(str(error).split())}"
        return run_forecast.model_copy(update={"assumptions": (*run_forecast.assumptions, note)})
    return run_forecast
