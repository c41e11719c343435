"""The flow `evaluate`: plan a run, judge, sum up, compare, judge the anchors, report, conclude.

Anchors and canaries are runs of their own: they show whether the judge itself has changed, and
whether it obeys an attack that is planted in a transcript.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import date
from typing import Final, TypeVar

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.events import emit_event

from assizes.flows.distribute import judge_shards
from assizes.flows.outcome import RunOutcome, subflow_outcome, to_state
from assizes.flows.server import finds_server
from assizes.flows.shards import ask_by_batch
from assizes.judge.calibration.record import Canaries
from assizes.judge.config.run import RunConfig, StartMode, Trigger
from assizes.judge.errors import AssizesError
from assizes.tasks.attribute_change import attribute_change
from assizes.tasks.context.artifacts import show_progress
from assizes.tasks.context.run_context import PlannedRun, RunContext, open_run_context
from assizes.tasks.find_causes import find_causes
from assizes.tasks.plan import RunRequest, lock_unfinished_run, plan_run
from assizes.tasks.publish_report import publish_report, run_resource
from assizes.tasks.publish_scores import publish_scores
from assizes.tasks.runs import anchor_runs
from assizes.tasks.runs.calibrations import calibrate_run
from assizes.tasks.runtime.process import redacts_secrets
from assizes.tasks.store import Store, open_store
from assizes.tasks.summarise import BaselineResult, compare_with_baseline, summarise_run
from assizes.tasks.tell_incidents import tell_incidents

log = logging.getLogger(__name__)

T = TypeVar("T")

TAKEOVER_EVENT: Final = "assizes.judge.taken_over"
"""The Prefect event for a judge that obeyed an instruction planted in a transcript."""


@redacts_secrets
@finds_server
@flow(name="evaluate", flow_run_name="evaluate-{config.name}", result_serializer="json")
async def evaluate(
    config: RunConfig,
    trigger: Trigger = "adhoc",
    run_id: str | None = None,
    on: date | None = None,
    manner: StartMode = "begin",
) -> State[RunOutcome]:
    """Judge the transcripts that a configuration names, and say whether they got worse.

    Args:
        config: everything about the run; a copy is stored with the run.
        trigger: what started the run.
        run_id: the id of a run to resume, or of a new run; by default it is derived from
            configuration and input.
        on: the day that fills date placeholders of the transcripts' URI.
        manner: `begin` a run, or go on with it where it was begun; `resume` it by its stored plan,
            without listing the input again; `fork`: begin another run beside one of that id which
            has another configuration.

    Returns:
        A state named for the outcome; its data is the `RunOutcome`.
    """
    return await _run(config, RunRequest(trigger, run_id, on, manner))


@redacts_secrets
@finds_server
@flow(name="evaluate", flow_run_name="evaluate-{config.name}", result_serializer="json")
async def evaluate_uncompared(
    config: RunConfig,
    trigger: Trigger = "adhoc",
    run_id: str | None = None,
    on: date | None = None,
    manner: StartMode = "begin",
) -> State[RunOutcome]:
    """The flow `evaluate` without the comparison with a baseline that is chosen by a rule.

    A backfill judges several runs at once and compares them afterwards: the run that a rule chooses
    must not depend on which run ended first. This is a flow of its own because Prefect would record
    a further parameter of `evaluate`.
    """
    return await _run(config, RunRequest(trigger, run_id, on, manner), compares_later=True)


async def _run(
    config: RunConfig, request: RunRequest, *, compares_later: bool = False
) -> State[RunOutcome]:
    async with open_run_context(config) as context:
        planned = await plan_run(context, request)
        async with lock_unfinished_run(context, planned), show_progress(context):
            batch_failures = await ask_by_batch(context, planned)  # fills the reply cache
            failures = await judge_shards(context, planned, batch_failures)
            has_lost_shards = bool(failures.reasons) or failures.stop is not None
            run, summary = await summarise_run(context, planned, has_lost_shards=has_lost_shards)
        result = await compare_with_baseline(context, run, compares_later=compares_later)
        if context.config.anchors.uri is not None:  # after the comparison, which they explain
            result = await _judge_anchors(context, run, result)
        causes = await find_causes(context, run, compares_later=compares_later)
        result = replace(result, causes=causes)
        links = await publish_report(context, run, summary, result.comparison)
        await tell_incidents(context, run)
        await publish_scores(context, run)
    return to_state(run.record, summary, result, failures, links, fail=config.runner.fail_flow)


async def _judge_anchors(
    context: RunContext, run: PlannedRun, result: BaselineResult
) -> BaselineResult:
    """Judge the anchors where they are due, and attribute a change to the agent or to the judge."""
    settings = context.config.anchors
    is_due = anchor_runs.has_due_anchors
    if await asyncio.to_thread(is_due, context.store, run.record, context.config):
        # Asked anew: the reply cache would answer for the model of last month.
        config = anchor_runs.anchor_config(context.config)
        own_id = anchor_runs.anchors_id(run.run_id)
        outcome = await subflow_outcome(
            evaluate(config, run.record.trigger, run_id=own_id, return_state=True)
        )
        if isinstance(outcome, AssizesError):  # the run itself is judged and goes on
            log.warning("the anchors could not be judged: %s", outcome)
        elif settings.labels is not None:  # verdicts of people calibrate the judge
            await _calibrate(context, config, outcome.run_id, settings.labels)
    return replace(result, attribution=await attribute_change(context, run, result.comparison))


async def _calibrate(context: RunContext, config: RunConfig, run_id: str, labels: str) -> None:
    """Calibrate the judge by an anchor run and its labels; an error is only logged."""
    settings = config.calibration.model_copy(update={"labels": labels, "judgements": None})
    config = config.model_copy(update={"calibration": settings})
    name = context.config.name
    try:
        calibrated_result = await asyncio.to_thread(calibrate_run, context.store, run_id, settings)
        canaries = await judge_canaries(config, run_id, name, context.store)
    except AssizesError as error:
        log.warning("the anchors could not calibrate the judge: %s", error)
        return
    if canaries is not None:
        log.info("%s", canaries.sentence())
        if canaries.takeovers:
            payload = canaries.model_dump(mode="json")
            emit_event(TAKEOVER_EVENT, resource=run_resource(run_id, name), payload=payload)
    for reason in calibrated_result.with_canaries(canaries).shortfalls:
        log.warning("the judge falls short on the anchors: %s", reason)


async def judge_canaries(
    config: RunConfig, run_id: str, name: str, store: Store | None = None
) -> Canaries | None:
    """Judge cases of a run again with an attack planted in each, as a run of its own.

    `config` is that of the run which judged the cases as they are, `name` the configuration whose
    judge is tried. Returns what became of the canaries; `None` when [calibration] wants none.

    Raises:
        ConfigurationError: the labels cannot be read.
    """
    if not config.calibration.canaries:
        return None

    def read(query: Callable[[Store], T]) -> T:
        # Opened here, it is open only while it is read: the run of the canaries writes to it.
        with nullcontext(store) if store is not None else open_store(config.store) as opened:
            return query(opened)

    case_ids = await asyncio.to_thread(
        read, lambda opened: anchor_runs.chosen_canaries(opened, run_id, config.calibration)
    )
    own_run_id = None  # no canary was judged
    if case_ids:
        own_config = anchor_runs.canary_config(config, case_ids, name)
        # Without cached replies every canary run is a new one; else the same canaries are the same.
        own_id = f"{run_id}-canaries" if own_config.cache.use == "refresh" else None
        outcome = await subflow_outcome(evaluate(own_config, run_id=own_id, return_state=True))
        if isinstance(outcome, AssizesError):
            log.warning("the canaries could not be judged: %s", outcome)
        else:
            own_run_id = outcome.run_id
    return await asyncio.to_thread(
        read, lambda opened: anchor_runs.canaries_of(opened, own_run_id, len(case_ids))
    )
