"""Calibrates a judge: judges labelled transcripts, and compares its verdicts with the labels."""

from __future__ import annotations

import asyncio
from typing import Final

from prefect import flow
from prefect.artifacts import acreate_markdown_artifact
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from assizes.flows.evaluate import evaluate, judge_canaries
from assizes.flows.outcome import subflow_outcome
from assizes.flows.server import finds_server
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import AssizesError
from assizes.tasks.context.artifacts import artifact_key, calibration_markdown, ignore_server_errors
from assizes.tasks.runs.calibrations import CalibrationResult, calibrate_run
from assizes.tasks.runtime.process import redacts_secrets
from assizes.tasks.store import existing_store

KEY: Final = "assizes-calibration"
"""Artifact key of a calibration's Markdown; the name of the configuration follows it."""


@redacts_secrets
@finds_server
@flow(name="calibrate", flow_run_name="calibrate-{config.name}", result_serializer="json")
async def calibrate_judge(config: RunConfig, run_id: str | None = None) -> State[CalibrationResult]:
    """Calibrate the judge of a configuration; a judge below its floors ends the flow as failed.

    Leaves a Markdown artifact `assizes-calibration-<name>`.

    Args:
        config: its [calibration] names the labels and the floors.
        run_id: a stored run, by its id or another name (`latest`, `nightly~1`); it gets no
            canaries. None: the transcripts are judged, which costs nothing when their run is
            complete, and canaries are planted in them.
    """
    of_run = run_id
    if of_run is None:  # a complete run of the same input costs nothing again
        outcome = await subflow_outcome(evaluate(config, return_state=True))
        if isinstance(outcome, AssizesError):
            raise outcome
        of_run = outcome.run_id
    result = await asyncio.to_thread(_calibrate_stored, config, of_run)
    if run_id is None:
        result = result.with_canaries(await judge_canaries(config, of_run, config.name))
    text = calibration_markdown(
        result.calibrations, result.shortfalls, result.canaries, result.disagreements
    )
    with ignore_server_errors("the calibration"):
        await acreate_markdown_artifact(text, key=f"{KEY}-{artifact_key(config.name)}")
    if not result.shortfalls:
        message = "; ".join(
            f"{calibration.metric}: {calibration.citation()}" for calibration in result.calibrations
        )
        return Completed(name="Calibrated", message=message, data=result)
    state = Failed if config.runner.fail_flow else Completed
    return state(name="FallsShort", message="; ".join(result.shortfalls), data=result)


def _calibrate_stored(config: RunConfig, run_id: str) -> CalibrationResult:
    with existing_store(config.store) as store:
        return calibrate_run(store, run_id, config.calibration)
