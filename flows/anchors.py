"""Judge the anchors beside a run, and say whether the judge moved."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Final

from prefect.events import emit_event

from assizes.flows.canaries import judge_canaries
from assizes.flows.outcome import subflow_outcome
from assizes.judge.calibration.canaries import Canaries
from assizes.judge.errors import AssizesError
from assizes.tasks.attribute_change import attribute_change
from assizes.tasks.context.run_context import Room
from assizes.tasks.plan import PlannedRun
from assizes.tasks.publish_report import run_resource
from assizes.tasks.runs.anchor_runs import anchor_config, anchors_due, anchors_id
from assizes.tasks.runs.calibrations import calibrate_run
from assizes.tasks.summarise import Against

EVENT_TAKEN_OVER: Final = "assizes.judge.taken_over"

log = logging.getLogger(__name__)


async def judge_anchors(room: Room, run: PlannedRun, against: Against) -> Against:
    """With [anchors], a run of its own over them, asked anew and held against their labels where
    they have any; then whose the change is.

    Anchors that cannot be judged leave the run as it is, and the log says why.
    """
    if room.config.anchors.uri is None:
        return against
    if await asyncio.to_thread(anchors_due, room.store, run.record, room.config):
        await _judge(room, run)
    found = await attribute_change(room, run, against.comparison)
    return replace(against, attribution=found)


async def _judge(room: Room, run: PlannedRun) -> None:
    from assizes.flows.evaluate import evaluate

    config, own_id = anchor_config(room.config), anchors_id(run.run_id)
    outcome = await subflow_outcome(
        evaluate(config, run.record.trigger, run_id=own_id, return_state=True)
    )
    if isinstance(outcome, AssizesError):
        log.warning("the anchors could not be judged: %s", outcome)
    elif isinstance(outcome, BaseException):
        raise outcome
    elif (labels := room.config.anchors.labels) is not None:
        await _calibrate(room, outcome.run_id, labels)


async def _calibrate(room: Room, run_id: str, labels: str) -> None:
    """Labels that cannot be used leave the judge without a calibration, and the log says why."""
    settings = room.config.calibration.model_copy(update={"labels": labels, "judgements": None})
    config = anchor_config(room.config).model_copy(update={"calibration": settings})
    try:
        found = await asyncio.to_thread(calibrate_run, room.store, run_id, settings)
        canaries = await judge_canaries(config, run_id, room.config.name, room.store)
    except AssizesError as error:
        log.warning("the anchors could not calibrate the judge: %s", error)
        return
    if canaries is not None:
        _tell(room.config.name, run_id, canaries)
    for reason in found.with_canaries(canaries).shortfalls:
        log.warning("the judge falls short on the anchors: %s", reason)


def _tell(name: str, run_id: str, canaries: Canaries) -> None:
    log.info("%s", canaries.sentence())
    if canaries.takeovers:
        emit_event(
            EVENT_TAKEN_OVER,
            resource=run_resource(run_id, name),
            payload=canaries.model_dump(mode="json"),
        )
