"""The steps of one evaluation: plan the run, judge, sum up, compare, report, conclude.

The flow `evaluate` (`flows/evaluate.py`) adds the anchors, whose evaluation is a subflow. The anchors
and the canaries need a flow for that which does not judge anchors itself: `evaluate_without_anchors`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import date

from prefect import flow
from prefect.client.schemas.objects import State

from assizes.flows.batch import ask_by_batch
from assizes.flows.distribute import judge_shards
from assizes.flows.outcome import RunOutcome, to_state
from assizes.judge.config.run import RunConfig, StartMode, Trigger
from assizes.tasks.context.planned_run import PlannedRun
from assizes.tasks.context.progress_artifact import show_progress
from assizes.tasks.context.run_context import RunContext, open_run_context
from assizes.tasks.plan import RunRequest, lock_unfinished_run, plan_run
from assizes.tasks.publish_report import publish_report
from assizes.tasks.runtime.redacted_runs import redacts_secrets
from assizes.tasks.summarise import BaselineResult, compare_with_baseline, summarise_run
from assizes.tasks.tell_incidents import tell_incidents

AnchorStep = Callable[[RunContext, PlannedRun, BaselineResult], Awaitable[BaselineResult]]
"""Judges the anchors of a run, and adds to its baseline result whether the judge has changed."""


async def run_evaluation(
    config: RunConfig,
    request: RunRequest,
    judge_anchors: AnchorStep | None = None,
    *,
    compares_later: bool = False,
) -> State[RunOutcome]:
    """Evaluate one run from plan to report, within a flow.

    Args:
        config: everything about the run.
        request: what the caller asks beyond the configuration.
        judge_anchors: the step that judges the anchors; None leaves it out.
        compares_later: leave out the comparison with a baseline that is chosen by a rule such as
            `latest`.

    Returns:
        A state named for the outcome; its data is the `RunOutcome`.
    """
    async with open_run_context(config) as context:
        planned = await plan_run(context, request)
        async with lock_unfinished_run(context, planned), show_progress(config.name):
            batch_failures = await ask_by_batch(context, planned)
            failures = await judge_shards(context, planned, batch_failures)
            run, summary = await summarise_run(context, planned, has_lost_shards=bool(failures))
        compared = await compare_with_baseline(context, run, compares_later=compares_later)
        result = await judge_anchors(context, run, compared) if judge_anchors else compared
        links = await publish_report(context, run, summary, result.comparison)
        await tell_incidents(context, run)
    return to_state(run.record, summary, result, failures, links, fail=config.runner.fail_flow)


@redacts_secrets
@flow(name="evaluate", flow_run_name="evaluate-{config.name}", result_serializer="json")
async def evaluate_without_anchors(
    config: RunConfig,
    trigger: Trigger = "adhoc",
    run_id: str | None = None,
    on: date | None = None,
    manner: StartMode = "begin",
) -> State[RunOutcome]:
    """The flow `evaluate` for the anchors and the canaries of a run; its parameters are the same."""
    return await run_evaluation(config, RunRequest(trigger, run_id, on, manner))
