"""Decides whether the agent or the judge has changed, and emits an event for a changed judge."""

from __future__ import annotations

import asyncio

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.events import emit_event

from assizes.judge.comparison.compare import RunComparison
from assizes.judge.history.anchors import Attribution
from assizes.tasks.context.run_context import PlannedRun, RunContext
from assizes.tasks.publish_report import run_resource
from assizes.tasks.runs.anchor_runs import stored_attribution
from assizes.tasks.runtime.process import redacts_secrets

EVENT_DRIFTED = "assizes.judge.drifted"  # the judge, not the agent, has changed


@redacts_secrets
@task(name="attribute_change", cache_policy=NO_CACHE, result_serializer="json")
async def attribute_change(
    context: RunContext, run: PlannedRun, comparison: RunComparison | None
) -> Attribution | None:
    """Attribute a change by the anchors of this run and an earlier one; `None` without anchors."""
    record = run.record
    attribution = await asyncio.to_thread(stored_attribution, context.store, record, comparison)
    if attribution is not None and attribution.judge_moved:
        emit_event(
            EVENT_DRIFTED,
            resource=run_resource(record.run_id, record.name),
            payload={"run_id": record.run_id, **attribution.model_dump(mode="json")},
        )
    return attribution
