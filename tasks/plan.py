"""Plans a run: freezes its input, derives its id from the content, begins its row in the store."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from assizes.judge.catalog import fingerprints
from assizes.judge.config.commit import GIT, CommitFacts
from assizes.judge.config.run import TRUTH, StartMode, Trigger
from assizes.judge.errors import ConfigurationError
from assizes.judge.prompts.prompt_texts import prompt_snapshot
from assizes.judge.rows import COMPLETE
from assizes.tasks.context.looks import wave_rules
from assizes.tasks.context.run_context import PlannedRun, RunContext
from assizes.tasks.intake.plan import NothingDue, Plan, RecordSelector, ScanPolicy
from assizes.tasks.intake.shards import plan_intake
from assizes.tasks.runs import stored_runs
from assizes.tasks.runs.record_selectors import record_selector
from assizes.tasks.runs.stored_comparison import baseline_id
from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.runtime.process import redacts_secrets
from assizes.tasks.store import RunRecord
from assizes.tasks.store.record import DAY, SEQUENCE
from assizes.tasks.suites.suite_folder import suite_in_use, suite_snapshot


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What a caller asks of a run beyond its configuration; see the flow `evaluate`."""

    trigger: Trigger = "adhoc"
    run_id: str | None = None  # `None`: derived from the configuration and the input
    date: date | None = None  # fills the date placeholders of the transcripts' URI
    manner: StartMode = "begin"
    commit: CommitFacts | None = None  # of the code that the run is about; `None`: not told


@redacts_secrets
@task(name="plan_run", cache_policy=NO_CACHE, result_serializer="json")
async def plan_run(context: RunContext, request: RunRequest) -> PlannedRun:
    """List the input, cut it into shards, and begin the run, or continue a run begun before.

    A run of a schedule, an event or a backfill is judged by one process at a time: this task waits
    for another process that judges the same run, because both would pay for the same asks.

    Raises:
        ConfigurationError: the transcripts cannot be found, or a complete run is to ask anew.
        StoreError: the run id belongs to another configuration or other transcripts.
        UnknownRun: the configured baseline is not in the store.
        Inconclusive: there is nothing to judge.
    """
    if request.manner == "resume":
        return await asyncio.to_thread(_resume_run, context, request)  # without listing the input
    selector = await asyncio.to_thread(
        record_selector, context.store, context.config, context.judge_panel, request.date
    )
    intake = await asyncio.to_thread(_intake, context, request, selector)
    failpoint("plan.listed")
    record = await asyncio.to_thread(_begin_run, context, request, intake)
    if request.trigger != "adhoc" and record.status != COMPLETE:
        await stored_runs.acquire_run_lock(context.store, record.run_id)
        record = await asyncio.to_thread(context.store.run, record.run_id)
        if record.status == COMPLETE:  # by another process, while this one waited
            await asyncio.to_thread(context.store.release_lock, record.run_id)
    context.pin_prices(record.config.get("prices", {}))  # those of the first start
    failpoint("plan.begun")
    return PlannedRun(record, Plan.from_dict(record.plan))


def lock_unfinished_run(context: RunContext, run: PlannedRun) -> AbstractAsyncContextManager[None]:
    """Hold the lock of a run while it is judged; a finished run is not locked."""
    return nullcontext() if run.is_finished else stored_runs.run_lock(context.store, run.run_id)


def _intake(context: RunContext, request: RunRequest, selector: RecordSelector | None) -> Plan:
    """The plan of the input; where there is nothing to judge, an empty plan or `NothingDue`."""
    try:
        return plan_intake(
            context.config.transcripts,
            context.config.shard_size,
            context.spool,
            date=request.date,
            on_progress=lambda read: context.progress("reading", read, 0),
            policy=ScanPolicy(
                selector,
                context.preprocessor,
                context.config.nightly.time_zone,
                wave_rules(context.config),
            ),
        )
    except NothingDue as error:
        # Of a scheduled run nobody would see the error, but the store shows its empty run.
        if request.trigger == "adhoc":
            raise
        return error.plan or Plan.without_objects(request.date)


def _resume_run(context: RunContext, request: RunRequest) -> PlannedRun:
    """A run that was begun before, with the plan of that time."""
    # All rows of a run are judged in one way (docs/decisions.md, decision 38).
    stored = context.store.run(request.run_id or "")  # UnknownRun: it was never begun
    record = replace(_record(context, request, stored.plan), run_id=stored.run_id)
    plan = Plan.from_dict(stored.plan)
    if plan.truth_digest != context.preprocessor.truth_digest:
        raise ConfigurationError(
            f"[ground_truth] {context.config.ground_truth.uri!r} is another file than when run "
            f"{stored.run_id} was planned; put it back, or begin another run (`assizes run`)"
        )
    resumed_record = context.store.begin(record)  # StoreError: another configuration
    context.pin_prices(resumed_record.config.get("prices", {}))
    return PlannedRun(resumed_record, plan)


def _record(context: RunContext, request: RunRequest, plan: dict[str, Any]) -> RunRecord:
    """The record of a run that begins now; its id is that of the request, or empty."""
    config = context.config
    return RunRecord(
        run_id=request.run_id or "",
        name=config.name,
        trigger=request.trigger,
        status="running",
        config={
            **config.model_dump(mode="json"),
            "fingerprints": fingerprints(context.judge_panel),
            TRUTH: context.preprocessor.truth_digest,
            "prices": context.prices(),
            SEQUENCE: stored_runs.next_sequence(context.store),
            **({DAY: request.date.isoformat()} if request.date else {}),
            **suite_snapshot(config),
            **({GIT: request.commit.model_dump()} if request.commit else {}),
        },
        config_hash=config.config_hash(),
        judge_model=", ".join(context.judge_panel.model_ids),
        started_at=datetime.now(UTC),
        finished_at=None,
        counts={},
        summary=None,
        plan=plan,
    )


def _begin_run(context: RunContext, request: RunRequest, intake: Plan) -> RunRecord:
    """Begin the run in the store; a run that was begun before keeps the plan of that time."""
    config, used = context.config, suite_in_use(context.config)
    # A suite is there to be compared; a rerun of what another run left has no baseline, and of a
    # commit the run before may be that of any other one.
    is_compared = used is not None and config.transcripts.again is None and request.commit is None
    if is_compared and config.comparison.baseline is None:
        context.pin_baseline(stored_runs.LATEST)
        config = context.config
    prompts = prompt_snapshot(context.judge_panel.judges)
    if (again := config.transcripts.again) is not None:  # about the same day as what it goes over
        day = stored_runs.day_of(context.store.run(again.run).row())
        request = replace(request, date=day)
    record = _record(context, request, replace(intake, prompts=prompts).as_dict())
    if not request.run_id:
        costs = context.assignment.has_paid_calls
        hashed = record.config["fingerprints"]
        if request.commit is not None:
            hashed = {**hashed, GIT: request.commit.identity}
        base = stored_runs.content_run_id(config, intake, hashed)
        run_id = stored_runs.chosen_run_id(base, config, context.store, costs=costs)
        record = replace(record, run_id=run_id)
    if request.manner == "fork":
        record = replace(record, run_id=stored_runs.forked_run_id(context.store, record))
    # Fails now for a baseline that is not in the store, not at the end when the judges are paid.
    baseline = baseline_id(context.store, config.comparison.baseline, record)
    if baseline is not None and config.comparison.baseline not in stored_runs.RULES:
        # `nightly~1` is another run once the next one begins.
        context.pin_baseline(baseline)
        pinned = context.config.comparison.model_dump(mode="json")
        record = replace(record, config={**record.config, "comparison": pinned})
    stored = context.store.begin(record)
    if request.run_id and config.cache.use == "refresh" and stored.status == COMPLETE:
        raise ConfigurationError(
            f"run {stored.run_id} is complete, there is nothing to ask anew; `assizes run --refresh` "
            "without an id begins another run"
        )
    return stored
