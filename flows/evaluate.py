"""One evaluation: plan the run, judge the shards, sum up, compare, report, conclude."""

from __future__ import annotations

from datetime import date

from prefect import flow
from prefect.client.schemas.objects import State

from assizes.flows.anchors import judge_anchors
from assizes.flows.batch import ask_by_batch
from assizes.flows.distribute import judge_shards
from assizes.flows.outcome import RunOutcome, conclude
from assizes.judge.config.run import Manner, RunConfig, Trigger
from assizes.tasks.context.progress_artifact import progress_shown
from assizes.tasks.context.run_context import sitting
from assizes.tasks.plan import Request, at_work, plan_run
from assizes.tasks.publish_report import publish_report
from assizes.tasks.runtime.log_redaction import discreet
from assizes.tasks.summarise import compare_with_baseline, summarise_run
from assizes.tasks.tell_incidents import tell_incidents


@discreet
@flow(name="evaluate", flow_run_name="evaluate-{config.name}", result_serializer="json")
async def evaluate(
    config: RunConfig,
    trigger: Trigger = "adhoc",
    run_id: str | None = None,
    on: date | None = None,
    manner: Manner = "begin",
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
    async with sitting(config) as room:
        run = await plan_run(room, Request(trigger, run_id, on, manner))
        async with at_work(room, run), progress_shown(config.name):
            lost = await ask_by_batch(room, run)
            lost = await judge_shards(room, run, lost)
            summary = await summarise_run(room, run, lost=bool(lost))
        against = await compare_with_baseline(room, run)
        against = await judge_anchors(room, run, against)
        links = await publish_report(room, run, summary, against.comparison)
        await tell_incidents(room, run)
    return conclude(run.record, summary, against, lost, links, fail=config.runner.fail_flow)
