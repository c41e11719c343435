"""Emits Prefect events for incidents: of the series of a run name, and of causes of failures."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

import polars as pl
from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.events import emit_event

from assizes.judge.causes.incidents import CauseIncident, cause_incidents
from assizes.judge.config.gates import SeriesConfig
from assizes.judge.errors import AssizesError
from assizes.judge.history.trends import Incident, State
from assizes.judge.rows import COMPLETE
from assizes.tasks.context.run_context import PlannedRun, RunContext
from assizes.tasks.runs.history import RunRange, stored_trends
from assizes.tasks.runs.stored_causes import LOOK_BACK, earlier_runs, stored_causes_of
from assizes.tasks.runs.stored_runs import BY_DAY, is_about_newest_day
from assizes.tasks.runtime.process import redacts_secrets
from assizes.tasks.store import RunRecord, Store

EVENTS: Final[dict[State, str]] = {
    "new": "assizes.incident.opened",
    "persisting": "assizes.incident.persisting",
    "resolved": "assizes.incident.resolved",
}

log = logging.getLogger(__name__)


@redacts_secrets
@task(name="tell_incidents", cache_policy=NO_CACHE, result_serializer="json")
async def tell_incidents(context: RunContext, run: PlannedRun) -> list[str]:
    """After a nightly run, emit an event for each incident that is open, or resolved by this run.

    Returns the incidents, a line each. A history that cannot be read leaves the run as it is, and is
    logged.
    """
    record, series = run.record, context.config.series
    # Other runs of a name come in bursts.
    if record.trigger != "nightly" or record.status != COMPLETE:
        return []
    try:
        incidents = await asyncio.to_thread(incidents_at, context.store, record, series)
        causes = await asyncio.to_thread(cause_incidents_at, context.store, record, series)
    except AssizesError as error:
        log.warning("no incidents could be worked out: %s", error)
        return []
    for incident in incidents:
        payload = {"line": incident.line(), **incident.model_dump(mode="json")}
        _emit(record, incident.state, incident.incident, payload)
    for cause in causes:
        _emit(
            record,
            cause.state,
            f"cause.{cause.cause_id}",
            {"line": cause.line(), **cause._asdict()},
        )
    return [*(each.line() for each in incidents), *(each.line() for each in causes)]


def _emit(record: RunRecord, state: State, incident: str, payload: Mapping[str, Any]) -> None:
    emit_event(
        EVENTS[state],
        resource={
            "prefect.resource.id": f"assizes.incident.{incident}",
            "prefect.resource.name": f"{record.name} {incident}",
            "assizes.name": record.name,
        },
        related=[
            {
                "prefect.resource.id": f"assizes.run.{record.run_id}",
                "prefect.resource.role": "run",
            }
        ],
        payload={**payload, "name": record.name, "run_id": record.run_id},
    )


def incidents_at(store: Store, record: RunRecord, config: SeriesConfig) -> list[Incident]:
    """The incidents of whole series that are open at a run, or resolved by it.

    A run about an earlier day than another nightly or backfill run of its name has none, nor has any
    run before the name has enough runs for a reference. Runs about later days are left out.

    Raises:
        ConfigurationError: the configuration names an unknown slice or series.
    """
    of_name = (pl.col("name") == record.name) & (pl.col("status") == COMPLETE)
    if not config.announce or store.run_index().filter(of_name).height <= config.reference_runs:
        return []
    if not is_about_newest_day(store, record, BY_DAY):  # e.g. a missed night judged now
        return []
    whole = config.model_copy(update={"slices": ()})  # slices are exploratory
    trends = stored_trends(store, RunRange(record.name, until=record.day), whole)
    if not any(series.points[-1].run_id == record.run_id for series in trends.series):
        return []  # the run had no case
    return [
        incident
        for incident in trends.incidents
        if incident.side == "worse"
        and (incident.state != "resolved" or incident.resolved_run == record.run_id)
    ]


def cause_incidents_at(
    store: Store, record: RunRecord, config: SeriesConfig
) -> list[CauseIncident]:
    """The incidents of causes that are open at a run, or resolved by it.

    A run about an earlier day than another nightly or backfill run of its name has none. A cause
    that people muted has none either.
    """
    if not config.announce or not is_about_newest_day(store, record, BY_DAY):
        return []
    run_ids = [*earlier_runs(store, record.run_id, LOOK_BACK), record.run_id]
    causes = stored_causes_of(store, run_ids)
    announced = [each.causes.filter(~pl.col("muted")) for each in causes.values()]
    return cause_incidents(pl.concat(announced), run_ids) if announced else []
