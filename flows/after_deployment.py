"""The flow `after-deployment`: judges the first transcripts of a version that was deployed."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.runtime import flow_run
from prefect.states import Running

from assizes.flows.evaluate import evaluate
from assizes.flows.outcome import RunOutcome, parse_outcome
from assizes.flows.server import finds_server
from assizes.judge.config.run import RunConfig
from assizes.tasks.context.run_context import progress_reporter
from assizes.tasks.intake.run_sources import (
    covering_uri,
    day_of_moment,
    day_window,
    days_between,
)
from assizes.tasks.intake.scan import TranscriptCounter
from assizes.tasks.intake.series_requests import check_version
from assizes.tasks.runs.stored_runs import LATEST, PREVIOUS_VERSION
from assizes.tasks.runtime.process import redacts_secrets
from assizes.tasks.trace_stores.address import is_trace_store

log = logging.getLogger(__name__)

COLLECTING: Final = "collecting"
"""The name of the state and of the progress stage while the flow waits for transcripts."""

MAX_DAYS_BEFORE: Final = 31
"""Days before the run whose transcripts count at most, however old the deployment is."""


@redacts_secrets
@finds_server
@flow(
    name="after-deployment",
    flow_run_name="after-deployment-{config.name}-{version}",
    result_serializer="json",
)
async def after_deployment(
    config: RunConfig,
    version: str,
    agent: str | None = None,
    min_transcripts: int | None = None,
    deployed_at: datetime | None = None,
) -> State[RunOutcome]:
    """Wait for transcripts of a version that was deployed, then judge only those.

    At the deadline the flow judges the transcripts that there are, and the reasons say so; without
    any the state is `NoData`. The deadline counts from the scheduled start, also after a restart.

    Args:
        config: everything about the run; `[after_deployment]` says how long and how often to look.
            Without a baseline, or with `latest`, the run is compared with the version before.
        version: `agent_version` of the cases.
        agent: `agent` of the cases; None: any agent with that version.
        min_transcripts: the number of transcripts to wait for; None: as configured.
        deployed_at: when the version was deployed; transcripts from that day on count, up to
            `MAX_DAYS_BEFORE` days before this run begins. None: now.

    Returns:
        The state of the subflow `evaluate`, whose name can gate a rollout; its data is the
        `RunOutcome`.

    Raises:
        ConfigurationError: the version or the agent is empty, or the transcripts cannot be reached.
    """
    check_version(version, agent)
    wanted = min_transcripts or config.after_deployment.min_transcripts
    began: datetime = flow_run.scheduled_start_time  # the same after a restart
    run_config = version_config(config, version, agent)
    since = _first_moment(deployed_at, began)
    count = await _collect(run_config, wanted, began, since)
    # Prefect types an async flow called with return_state as if it had been awaited already.
    work: Any = evaluate(_dated_config(run_config, since), "deployment", return_state=True)
    state: State[Any] = await work
    outcome: Any = parse_outcome(await state.aresult(raise_on_failure=False))
    if not isinstance(outcome, RunOutcome):
        return state
    if count < wanted:
        shortfall = f"{count} of {wanted} transcripts of version {version} by the deadline"
        outcome = outcome.model_copy(update={"reasons": [shortfall, *outcome.reasons]})
    message = "; ".join(outcome.reasons) or "every gate passed"
    return State(type=state.type, name=state.name, message=message, data=outcome)


def version_config(config: RunConfig, version: str, agent: str | None) -> RunConfig:
    """The configuration of a run over the transcripts of one version.

    Without a baseline, or with `latest`, the baseline becomes the version before.
    """
    where = config.transcripts.where | {"agent_version": version}
    if agent is not None:
        where["agent"] = agent
    transcripts = config.transcripts.model_copy(update={"where": where})
    comparison = config.comparison
    # The latest run may be one of the version itself (docs/decisions.md, decision 59).
    if comparison.baseline in (None, LATEST):
        comparison = comparison.model_copy(update={"baseline": PREVIOUS_VERSION})
    return config.model_copy(update={"transcripts": transcripts, "comparison": comparison})


def _first_moment(deployed_at: datetime | None, began: datetime) -> datetime:
    """The moment from whose day on transcripts count; an event may be posted long after it occurred."""
    if deployed_at is None:
        return began
    moment = deployed_at if deployed_at.tzinfo else deployed_at.replace(tzinfo=UTC)
    earliest = began - timedelta(days=MAX_DAYS_BEFORE)
    if moment < earliest:
        log.warning(
            "deployed at %s: only the %d days before this run are looked at",
            moment,
            MAX_DAYS_BEFORE,
        )
    return max(earliest, min(moment, began))  # a clock that is ahead deploys nothing tomorrow


def _dated_config(config: RunConfig, since: datetime) -> RunConfig:
    """Fill date placeholders of the transcripts' URI: the day of the deployment to tomorrow.

    A trace store is asked for the traces from that day on.
    """
    zone = config.nightly.time_zone
    first = day_of_moment(since, zone)
    # Tomorrow too: a clock that is ahead may write to the folder of that day already.
    last = day_of_moment(datetime.now(UTC), zone) + timedelta(days=1)
    uri = covering_uri(config.transcripts.uri, days_between(first, last))
    changes: dict[str, Any] = {"uri": uri}
    if is_trace_store(uri):
        traces, begin = config.transcripts.trace_settings, day_window(first, zone)[0]
        since = begin if traces.since is None else max(traces.since, begin)
        changes["traces"] = traces.model_copy(update={"since": since})
    transcripts = config.transcripts.model_copy(update=changes)
    return config.model_copy(update={"transcripts": transcripts})


async def _collect(config: RunConfig, wanted: int, began: datetime, since: datetime) -> int:
    """Wait until there are enough cases, or until the deadline; returns the number of cases."""
    settings = config.after_deployment
    deadline = began + timedelta(minutes=settings.deadline_minutes)
    collected = TranscriptCounter(config.transcripts)
    report = progress_reporter.get()
    report(COLLECTING, 0, wanted)
    reported = 0  # cases that the progress shows
    await _name_state(COLLECTING)
    while True:
        # Each time anew: a new day may have begun since.
        collected.config = _dated_config(config, since).transcripts
        count = await asyncio.to_thread(collected.count_cases)
        report(COLLECTING, min(count, wanted) - reported, 0)
        reported = min(count, wanted)
        left_s = (deadline - datetime.now(UTC)).total_seconds()
        log.info("%d of %d transcripts, %.0f s to the deadline", count, wanted, max(0.0, left_s))
        if count >= wanted or left_s <= 0:
            break
        await asyncio.sleep(min(settings.poll_s, left_s))
    await _name_state("Running")
    return count


async def _name_state(name: str) -> None:
    """Rename the running state of this flow run, which people see in Prefect's UI."""
    context = FlowRunContext.get()  # None: the function was called without Prefect
    if context is None or context.flow_run is None:
        return
    async with get_client() as client:
        await client.set_flow_run_state(context.flow_run.id, Running(name=name), force=True)
