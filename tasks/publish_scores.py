"""Sends the scores of a run to where traces are kept, once its report is written."""

from __future__ import annotations

import asyncio
import logging

from prefect import task
from prefect.cache_policies import NO_CACHE

from assizes.judge.errors import AssizesError
from assizes.judge.rows import COMPLETE
from assizes.tasks.context.run_context import PlannedRun, RunContext
from assizes.tasks.publishing.deliveries import delivery_log
from assizes.tasks.publishing.publisher import Publisher
from assizes.tasks.runtime.process import redacts_secrets

log = logging.getLogger(__name__)


@redacts_secrets
@task(name="publish_scores", cache_policy=NO_CACHE, result_serializer="json")
async def publish_scores(context: RunContext, run: PlannedRun) -> dict[str, int] | None:
    """Publish a complete run, if `[publish] after_run` wants it; returns what was sent by kind.

    The run is judged and paid for, so a failure changes nothing about it: the failure is logged, and
    `assizes publish RUN` goes on. None where nothing was to be sent.
    """
    settings = context.config.publish
    if not settings.after_run or run.record.status != COMPLETE:
        return None
    remedy = f"`assizes publish {run.run_id}` goes on"
    try:
        publisher = Publisher(context.store, delivery_log(context.config.store), settings)
        # As it is stored: scores bear the time of the run, which must be the same each time.
        record = await asyncio.to_thread(context.store.run, run.run_id)
        report = await asyncio.to_thread(publisher.publish, record)
    except AssizesError as error:
        log.warning("the scores could not be published: %s; %s", error, remedy)
        return None
    sent = dict(report.sent)
    log.info("published to %s: %s", report.destination, sent or "nothing new")
    if report.stopped is not None:
        log.warning("not all scores were published: %s; %s", report.stopped, remedy)
    elif report.exit_code:
        count = report.refused + report.unanswered
        reasons = "; ".join(report.reasons[:1])
        log.warning("%d scores were not published: %s; %s", count, reasons, remedy)
    return sent
