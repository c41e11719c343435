"""Renders the report of a run, writes it, and emits the events of the run to Prefect."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.events import emit_event

from assizes.judge.comparison.compare import RunComparison
from assizes.judge.errors import AssizesError
from assizes.judge.summary.run_summary import RunSummary
from assizes.judge.verdicts.run_outcome import REGRESSION
from assizes.tasks.context.artifacts import publish_artifacts
from assizes.tasks.context.run_context import PlannedRun, RunContext
from assizes.tasks.reports.render import charts  # noqa: F401  # else a run would import Altair at its end
from assizes.tasks.reports.render.prometheus import write_metrics
from assizes.tasks.reports.stored import read_report, write_report_files
from assizes.tasks.runs.stored_runs import is_about_newest_day
from assizes.tasks.runtime.process import redacts_secrets
from assizes.tasks.store import RunRecord, Store

log = logging.getLogger(__name__)

TAG = "assizes"
"""A tag on every flow run of this program, so that a crashed one is told from foreign flow runs."""

EVENT_FINISHED = "assizes.run.finished"
EVENT_REGRESSION = "assizes.regression.detected"
EVENT_INCONCLUSIVE = "assizes.run.inconclusive"
EVENT_FAILED = "assizes.run.failed"  # a failed gate, an unfinished run, an impossible comparison

_OUTCOME_EVENTS: Final = {
    REGRESSION: EVENT_REGRESSION,
    "inconclusive": EVENT_INCONCLUSIVE,
    "undecided": EVENT_INCONCLUSIVE,
}

RUN_RESOURCE = "assizes.run"
"""The prefix of the resource of these events; the id of the run follows."""


@redacts_secrets
@task(name="publish_report", cache_policy=NO_CACHE, result_serializer="json")
async def publish_report(
    context: RunContext, run: PlannedRun, summary: RunSummary, comparison: RunComparison | None
) -> dict[str, str]:
    """Write the reports, create the artifacts, emit the events; returns the reports by suffix."""
    report = await asyncio.to_thread(read_report, context.store, run.record, comparison)
    links, _ = await asyncio.gather(
        asyncio.to_thread(write_report_files, report, context.config.report),
        asyncio.to_thread(context.store.settle),  # nothing is read meanwhile
    )
    await publish_artifacts(report.data, links)
    if (folder := context.config.report.metrics) is not None:
        try:
            await asyncio.to_thread(_write_metrics, context.store, run.record, folder)
        except AssizesError as error:  # only logged: the run is judged and paid for
            log.warning("%s", error)
    address = report_address(run.run_id, links.get("html"), context.config.notify.base_url)
    names, payload = run_events(run.record, summary, report.data, address)
    resource = run_resource(run.run_id, run.record.name) | {"assizes.trigger": run.record.trigger}
    for name in names:
        emit_event(name, resource=dict(resource), payload=dict(payload))
    log.info("run %s is %s: %s", run.run_id, run.record.status, ", ".join(names))
    return links


def _write_metrics(store: Store, record: RunRecord, folder: str) -> None:
    if is_about_newest_day(store, record, [record.trigger]):  # a trigger has its own file
        write_metrics(store, record, folder)


def run_events(
    record: RunRecord, summary: RunSummary, data: Mapping[str, Any], address: str | None
) -> tuple[list[str], dict[str, Any]]:
    """The names of the events of a finished run, and their payload, from the data of its report.

    `address` is the URI of its report, or `None`.
    """
    outcome, comparison = data["verdict"]["outcome"], data["comparison"]
    alerts = [] if outcome == "passed" else [_OUTCOME_EVENTS.get(outcome, EVENT_FAILED)]
    early = [] if summary.early_stop is None else [summary.early_stop.line]
    # Ids, numbers and reasons only: events leave for chat programs, so no text of transcripts.
    return [EVENT_FINISHED, *alerts], {
        "run_id": record.run_id,
        "name": record.name,
        "trigger": record.trigger,
        "day": record.day.isoformat(),
        "status": record.status,
        "outcome": summary.outcome,
        "weighted_metrics_score_pct": summary.weighted_metrics_score_pct,
        "cases_pass_rate_pct": summary.cases_pass_rate_pct,
        "coverage": summary.coverage,
        "baseline": comparison["baseline"]["run_id"] if comparison else None,
        "reasons": [*data["verdict"]["reasons"], *early],
        "report": address,
    }


def report_address(run_id: str, path: str | None, base_url: str | None) -> str | None:
    """The URI by which others open a report: its page under `base_url`, else its file.

    `path` is where the HTML was written, if it was: a path of this machine, or a URI.
    """
    if base_url is not None:
        return f"{base_url.rstrip('/')}/view/runs/{quote(run_id)}"
    if path is None or "://" in path:
        return path
    return Path(path).absolute().as_uri()


def run_resource(run_id: str, name: str) -> dict[str, str]:
    """The Prefect resource of a run."""
    return {
        "prefect.resource.id": f"{RUN_RESOURCE}.{run_id}",
        "prefect.resource.name": run_id,
        "assizes.name": name,
    }
