"""Plan a run: its input frozen, its id derived from content, its row begun in the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from assizes.judge.catalog import fingerprints
from assizes.judge.config.diff import TRUTH
from assizes.judge.config.run import Manner, Trigger
from assizes.judge.errors import ConfigurationError
from assizes.judge.prompts.prompt_texts import kept_prompts
from assizes.judge.rows import COMPLETE
from assizes.tasks.context.run_context import Room, watcher
from assizes.tasks.intake.days import NothingDue
from assizes.tasks.intake.scan import Choice, Handling
from assizes.tasks.intake.shards import Plan, plan_intake
from assizes.tasks.runs.baselines import DAY, SEQUENCE, next_sequence
from assizes.tasks.runs.incremental import run_choice
from assizes.tasks.runs.run_ids import chosen_run_id, content_run_id, forked_run_id
from assizes.tasks.runs.run_lock import holding, take
from assizes.tasks.runs.stored_comparison import baseline_id
from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.runtime.log_redaction import discreet
from assizes.tasks.store import RunRecord


@dataclass(frozen=True, slots=True)
class Request:
    """What a caller asks of a run beyond its configuration."""

    trigger: Trigger = "adhoc"
    run_id: str | None = None
    date: date | None = None
    manner: Manner = "begin"

    @property
    def may_be_empty(self) -> bool:
        """Whether nothing to judge is a finding of its own, kept as a run, and no fault of whoever
        asked: nobody looks at what a schedule or an event begins.
        """
        return self.trigger != "adhoc"


class PlannedRun:
    """A run as it stands in the store, with the input it is bound to."""

    def __init__(self, record: RunRecord, intake: Plan) -> None:
        """Bind the row to its input."""
        self.record = record
        self.intake = intake

    @property
    def run_id(self) -> str:
        """The id every row carries."""
        return self.record.run_id

    @property
    def finished(self) -> bool:
        """True when every shard was committed and summed up before."""
        return self.record.status == COMPLETE


@discreet
@task(name="plan_run", cache_policy=NO_CACHE, result_serializer="json")
async def plan_run(room: Room, request: Request) -> PlannedRun:
    """List the input, cut it into shards, and begin the run or find it already begun.

    What a schedule, an event or a backfill begins is judged by one process at a time: another that
    is at work on the run is waited for, as what both asked would be paid twice.

    Raises:
        ConfigurationError: the transcripts cannot be found, or a complete run is to ask anew.
        StoreError: the run id belongs to another configuration or other transcripts.
        UnknownRun: the configured baseline is not in the store.
        Inconclusive: there is nothing to judge.
    """
    if request.manner == "resume":
        return await asyncio.to_thread(_resumed, room, request)
    choice = await asyncio.to_thread(run_choice, room.store, room.config, room.court, request.date)
    intake = await asyncio.to_thread(_intake, room, request, choice)
    failpoint("plan.listed")
    begun = await asyncio.to_thread(_begun, room, request, intake)
    if request.trigger != "adhoc" and begun.status != COMPLETE:
        begun = await _taken(room, begun.run_id)
    room.pin(begun.config.get("prices", {}))
    failpoint("plan.begun")
    return PlannedRun(begun, Plan.from_dict(begun.plan))


async def _taken(room: Room, run_id: str) -> RunRecord:
    """A run that nobody else is at work on, as it is by then; a complete one is let go of."""
    await take(room.store, run_id)
    record = await asyncio.to_thread(room.store.run, run_id)
    if record.status == COMPLETE:
        await asyncio.to_thread(room.store.release, run_id)
    return record


@asynccontextmanager
async def at_work(room: Room, run: PlannedRun) -> AsyncIterator[None]:
    """Let others see that somebody is at work on a run; a finished one is left as it is."""
    async with AsyncExitStack() as stack:
        if not run.finished:
            await stack.enter_async_context(holding(room.store, run.run_id))
        yield


def _intake(room: Room, request: Request, choice: Choice | None) -> Plan:
    """What there is to judge.

    Raises:
        NothingDue: nothing, and the caller has not said that this may be.
    """
    report = watcher.get()
    try:
        return plan_intake(
            room.config.transcripts,
            room.config.shard_size,
            room.spool,
            date=request.date,
            on_progress=lambda read: report("reading", read, 0),
            handling=Handling(choice, room.treatment),
        )
    except NothingDue as found:
        if not request.may_be_empty:
            raise
        return found.plan or Plan.without_objects(request.date)


def _resumed(room: Room, request: Request) -> PlannedRun:
    """A run that was begun before, as it was planned then.

    Raises:
        UnknownRun: no run of that id was begun.
        StoreError: its configuration was another one.
        ConfigurationError: its ground truth was another one.
    """
    stored = room.store.run(request.run_id or "")
    found = replace(_record(room, request, stored.plan), run_id=stored.run_id)
    plan = Plan.from_dict(stored.plan)
    if plan.truth_digest != room.treatment.digest:
        raise ConfigurationError(
            f"[ground_truth] {room.config.ground_truth.uri!r} is another file than when run "
            f"{stored.run_id} was planned; put it back, or begin another run (--fork)"
        )
    begun = room.store.begin(found)
    room.pin(begun.config.get("prices", {}))
    return PlannedRun(begun, plan)


def _record(room: Room, request: Request, plan: dict[str, Any]) -> RunRecord:
    """A run that begins now; its id is that of the request."""
    config = room.config
    return RunRecord(
        run_id=request.run_id or "",
        name=config.name,
        trigger=request.trigger,
        status="running",
        config={
            **config.model_dump(mode="json"),
            "fingerprints": fingerprints(room.court),
            TRUTH: room.treatment.digest,
            "prices": room.prices(),
            SEQUENCE: next_sequence(room.store),
            **({DAY: request.date.isoformat()} if request.date else {}),
        },
        config_hash=config.config_hash(),
        judge_model=", ".join(room.court.model_ids),
        started_at=datetime.now(UTC),
        finished_at=None,
        counts={},
        summary=None,
        plan=plan,
    )


def _begun(room: Room, request: Request, intake: Plan) -> RunRecord:
    """The run as the store holds it; where it was begun before, with the plan of that time."""
    config = room.config
    told = kept_prompts(room.court.judges)
    record = _record(room, request, replace(intake, prompts=told).as_dict())
    run_id = request.run_id or _run_id(room, intake, record.config["fingerprints"])
    record = replace(record, run_id=run_id)
    if request.manner == "fork":
        record = replace(record, run_id=forked_run_id(room.store, record))
    # A baseline that is not there must not be noticed at the end, when the judges have been paid.
    baseline_id(room.store, config.comparison.baseline, record)
    begun = room.store.begin(record)
    if request.run_id and config.cache.use == "refresh" and begun.status == COMPLETE:
        raise ConfigurationError(
            f"run {begun.run_id} is complete, there is nothing to ask anew; leave out --run-id, or "
            "name another"
        )
    return begun


def _run_id(room: Room, intake: Plan, prints: dict[str, str]) -> str:
    base = content_run_id(room.config, intake, prints)
    return chosen_run_id(base, room.config, room.store, costs=room.seats.costs)
