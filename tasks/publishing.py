"""Render the report of a run, write it, and tell Prefect about it."""

from __future__ import annotations

import asyncio

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.events import emit_event

from judge.compare import RunComparison
from judge.summary import RunSummary
from tasks.plan import PlannedRun
from tasks.reports.artifacts import publish_artifacts
from tasks.reports.data import REGRESSION
from tasks.reports.stored import render_stored
from tasks.room import Room
from tasks.store import RunRecord

EVENT_FINISHED = "assizes.run.finished"
EVENT_REGRESSION = "assizes.regression.detected"
EVENT_INCONCLUSIVE = "assizes.run.inconclusive"


@task(name="publish_report", cache_policy=NO_CACHE, result_serializer="json")
async def publish_report(
    room: Room, run: PlannedRun, summary: RunSummary, comparison: RunComparison | None
) -> dict[str, str]:
    """Write report.html, report.md and report.json; create the artifacts; emit the events.

    Returns:
        Where each report lies, by its suffix.
    """
    data, links = await asyncio.to_thread(
        render_stored, room.store, run.record, comparison, room.config.report
    )
    await publish_artifacts(data, links)
    fell = data["verdict"]["outcome"] == REGRESSION
    _emit(run.record, summary, comparison, links, fell=fell)
    return links


def _emit(
    record: RunRecord,
    summary: RunSummary,
    comparison: RunComparison | None,
    links: dict[str, str],
    *,
    fell: bool,
) -> None:
    names = [EVENT_FINISHED]
    if fell:
        names.append(EVENT_REGRESSION)
    if summary.outcome == "inconclusive":
        names.append(EVENT_INCONCLUSIVE)
    payload = {
        "run_id": record.run_id,
        "name": record.name,
        "trigger": record.trigger,
        "outcome": summary.outcome,
        "weighted_metrics_score_pct": summary.weighted_metrics_score_pct,
        "cases_pass_rate_pct": summary.cases_pass_rate_pct,
        "coverage": summary.coverage,
        "baseline": comparison.baseline_run_id if comparison else None,
        "reasons": comparison.verdict.why if comparison else [],
        "report": links.get("html"),
    }
    for name in names:
        emit_event(
            name,
            resource={
                "prefect.resource.id": f"assizes.run.{record.run_id}",
                "prefect.resource.name": record.run_id,
                "assizes.name": record.name,
            },
            payload=payload,
        )
