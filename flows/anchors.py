"""Judges the anchors of a run, which show whether the judge itself has changed."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Final

from prefect.events import emit_event

from assizes.flows.canaries import judge_canaries
from assizes.flows.outcome import subflow_outcome
from assizes.flows.run_evaluation import evaluate_without_anchors
from assizes.judge.calibration.canaries import Canaries
from assizes.judge.errors import AssizesError
from assizes.tasks.attribute_change import attribute_change
from assizes.tasks.context.planned_run import PlannedRun
from assizes.tasks.context.run_context import RunContext
from assizes.tasks.publish_report import run_resource
from assizes.tasks.runs.anchor_runs import anchor_config, anchors_id, has_due_anchors
from assizes.tasks.runs.calibrations import calibrate_run
from assizes.tasks.summarise import BaselineResult

TAKEOVER_EVENT: Final = "assizes.judge.taken_over"
"""The Prefect event for a judge that obeyed an instruction planted in a transcript."""

log = logging.getLogger(__name__)


async def judge_anchors(
    context: RunContext, run: PlannedRun, baseline_result: BaselineResult
) -> BaselineResult:
    """With [anchors], judge the anchors, and attribute a change to the agent or to the judge.

    The anchors are a run of their own that uses no cached replies; where they have labels, the judge
    is calibrated by them. If the anchors cannot be judged, a warning is logged and the run goes on.

    Args:
        context: of the run.
        run: the run at its end.
        baseline_result: the comparison of the run with its baseline.

    Returns:
        The baseline result with the attribution; unchanged without [anchors].
    """
    if context.config.anchors.uri is None:
        return baseline_result
    if await asyncio.to_thread(has_due_anchors, context.store, run.record, context.config):
        await _judge_anchor_run(context, run)
    attribution = await attribute_change(context, run, baseline_result.comparison)
    return replace(baseline_result, attribution=attribution)


async def _judge_anchor_run(context: RunContext, run: PlannedRun) -> None:
    config, own_id = anchor_config(context.config), anchors_id(run.run_id)
    outcome = await subflow_outcome(
        evaluate_without_anchors(config, run.record.trigger, run_id=own_id, return_state=True)
    )
    if isinstance(outcome, AssizesError):
        log.warning("the anchors could not be judged: %s", outcome)
    elif (labels := context.config.anchors.labels) is not None:
        await _calibrate(context, outcome.run_id, labels)


async def _calibrate(context: RunContext, run_id: str, labels: str) -> None:
    """Calibrate the judge by an anchor run and its labels; an error is only logged."""
    settings = context.config.calibration.model_copy(update={"labels": labels, "judgements": None})
    config = anchor_config(context.config).model_copy(update={"calibration": settings})
    try:
        calibrated_result = await asyncio.to_thread(calibrate_run, context.store, run_id, settings)
        canaries = await judge_canaries(config, run_id, context.config.name, context.store)
    except AssizesError as error:
        log.warning("the anchors could not calibrate the judge: %s", error)
        return
    if canaries is not None:
        _report_canaries(context.config.name, run_id, canaries)
    for reason in calibrated_result.with_canaries(canaries).shortfalls:
        log.warning("the judge falls short on the anchors: %s", reason)


def _report_canaries(name: str, run_id: str, canaries: Canaries) -> None:
    log.info("%s", canaries.sentence())
    if canaries.takeovers:
        emit_event(
            TAKEOVER_EVENT,
            resource=run_resource(run_id, name),
            payload=canaries.model_dump(mode="json"),
        )
