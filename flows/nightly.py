"""The flow `nightly`: judges yesterday's transcripts, and those of nights that were missed."""

from __future__ import annotations

from datetime import date

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run

from assizes.flows.days import PartOutcome, SeriesOutcome, conclude_parts, judge_part
from assizes.judge.config.run import RunConfig
from assizes.tasks.intake.days import RunPart, check_dated, yesterday
from assizes.tasks.list_due_nights import due_nights
from assizes.tasks.runtime.redacted_runs import redacts_secrets


def _run_name() -> str:
    parameters = flow_run.parameters
    config: RunConfig = parameters["config"]
    return f"nightly-{config.name}-{parameters.get('on') or _night(config)}"


@redacts_secrets
@flow(name="nightly", flow_run_name=_run_name, result_serializer="json")
async def nightly(config: RunConfig, on: date | None = None) -> State[SeriesOutcome]:
    """Judge the transcripts of the last whole day, after those of nights that were missed.

    Each night is an `evaluate` run; a finished run costs nothing again. A night without transcripts
    is a run too, with the conclusion `NoData`.

    Args:
        config: everything about the runs; `[nightly]` has the time zone of the days, and how many
            missed nights are judged as well.
        on: the only day to judge; None: the last whole day, and the missed nights.

    Returns:
        A state named for the severest conclusion of these nights; its data is the `SeriesOutcome`.

    Raises:
        ConfigurationError: the transcripts' URI has no placeholder for a day.
    """
    check_dated(config.transcripts.uri)
    nights = [on] if on else await due_nights(config, _night(config))
    outcomes: list[PartOutcome] = []
    for night in nights:
        if outcomes and outcomes[-1].conclusion in ("Halted", "OverBudget"):
            break
        outcomes.append(await judge_part(config, "nightly", RunPart(night)))
    left = [RunPart(night) for night in nights[len(outcomes) :]]
    fail = config.runner.fail_flow
    return conclude_parts(config.name, outcomes, left, fail=fail, empty_counts=True)


def _night(config: RunConfig) -> date:
    """The day before the scheduled start; a flow run that starts late still judges this day."""
    return yesterday(flow_run.scheduled_start_time, config.nightly.time_zone)
