"""The flow `evaluate`: one evaluation with its anchors. Its steps are in `run_evaluation`."""

from __future__ import annotations

from datetime import date

from prefect import flow
from prefect.client.schemas.objects import State

from assizes.flows.anchors import judge_anchors
from assizes.flows.outcome import RunOutcome
from assizes.flows.run_evaluation import run_evaluation
from assizes.judge.config.run import RunConfig, StartMode, Trigger
from assizes.tasks.plan import RunRequest
from assizes.tasks.runtime.redacted_runs import redacts_secrets


@redacts_secrets
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
    request = RunRequest(trigger, run_id, on, manner)
    return await run_evaluation(config, request, judge_anchors)


@redacts_secrets
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
    request = RunRequest(trigger, run_id, on, manner)
    return await run_evaluation(config, request, judge_anchors, compares_later=True)
