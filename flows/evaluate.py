"""One evaluation: plan the run, judge the shards, sum up, compare, report, conclude."""

from __future__ import annotations

from datetime import date

from prefect import flow
from prefect.client.schemas.objects import State

from assizes.flows.anchors import judge_anchors
from assizes.flows.batch import ask_by_batch
from assizes.flows.distribute import judge_shards
from assizes.flows.outcome import RunOutcome, to_state
from assizes.judge.config.run import RunConfig, StartMode, Trigger
from assizes.tasks.context.progress_artifact import show_progress
from assizes.tasks.context.run_context import open_run_context
from assizes.tasks.plan import RunRequest, lock_unfinished_run, plan_run
from assizes.tasks.publish_report import publish_report
from assizes.tasks.runtime.redacted_runs import redacts_secrets
from assizes.tasks.summarise import compare_with_baseline, summarise_run
from assizes.tasks.tell_incidents import tell_incidents


@redacts_secrets
@flow(name="evaluate", flow_run_name="evaluate-{config.name}", result_serializer="json")
async def evaluate(
    config: RunConfig,
    trigger: Trigger = "adhoc",
    run_id: str | None = None,
    on: date | None = None,
    manner: StartMode = "begin",
) -> State[RunOutcome]:
    """Judge the transcripts a configuration names and say whether they got worse.

    Args:
        config: everything about the run; snapshotted into its row.
        trigger: what started it.
        run_id: resume or name a run; by default derived from configuration and input.
        on: the day that fills date placeholders of the transcripts' URI.
        manner: `begin` a run or go on with it where it was begun; `resume` it by its stored plan,
            listing nothing anew; `fork`: where it was begun otherwise, begin another beside it.

    Returns:
        A state named for the outcome; its data is the `RunOutcome`.
    """
    async with open_run_context(config) as context:
        run = await plan_run(context, RunRequest(trigger, run_id, on, manner))
        async with lock_unfinished_run(context, run), show_progress(config.name):
            failures = await ask_by_batch(context, run)
            failures = await judge_shards(context, run, failures)
            run, summary = await summarise_run(context, run, has_lost_shards=bool(failures))
        baseline_result = await compare_with_baseline(context, run)
        baseline_result = await judge_anchors(context, run, baseline_result)
        links = await publish_report(context, run, summary, baseline_result.comparison)
        await tell_incidents(context, run)
    return to_state(
        run.record, summary, baseline_result, failures, links, fail=config.runner.fail_flow
    )
