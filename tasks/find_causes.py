"""Finds what the failures of a finished run have in common."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from prefect import task
from prefect.cache_policies import NO_CACHE

from assizes.judge.causes.failures import is_failure
from assizes.judge.errors import AssizesError
from assizes.judge.rows import COMPLETE
from assizes.tasks.context.run_context import PlannedRun, RunContext
from assizes.tasks.reports.data.causes import causes_part
from assizes.tasks.reports.schema.causes import Causes
from assizes.tasks.runs.stored_causes import earlier_runs, unexplained_cases
from assizes.tasks.runtime.process import redacts_secrets
from assizes.tasks.store import RunRecord, Store

LEAST_FAILED: Final = 3
"""The fewest failed scores from which a run can have a cause of its own."""

log = logging.getLogger(__name__)


@redacts_secrets
@task(name="find_causes", cache_policy=NO_CACHE, result_serializer="json")
async def find_causes(
    context: RunContext, run: PlannedRun, *, compares_later: bool = False
) -> Causes | None:
    """Find and store the causes of a complete run; returns them as its report shows them.

    `None`: there is no cause, or the run is not complete. With `compares_later` no cause is sought,
    because earlier runs may still be judged; `assizes causes` finds them when somebody asks. A store
    that cannot be written leaves the run as it is, and is logged.
    """
    if run.record.status != COMPLETE or compares_later:
        return None
    try:
        return await asyncio.to_thread(_find_causes, context.store, run.record)
    except AssizesError as error:  # the run is judged and paid for
        log.warning("the causes of failures could not be found: %s", error)
        return None


def _find_causes(store: Store, record: RunRecord) -> Causes | None:
    if not _may_have_causes(store, record.run_id):
        return None
    # scikit-learn, which this imports, is slow to import.
    from assizes.tasks.runs.run_causes import causes_of_run

    causes = causes_of_run(store, record.run_id)
    return causes_part(causes.causes, unexplained_cases(store, record.run_id, causes))


def _may_have_causes(store: Store, run_id: str) -> bool:
    """Whether the run has failures enough, or the run before it had causes, which may be gone."""
    failed = store.scan(run_id, "scores").filter(is_failure())
    if failed.head(LEAST_FAILED).collect().height == LEAST_FAILED:
        return True
    before = earlier_runs(store, run_id, 1)
    causes = store.causes.read(before[0]) if before else None
    return causes is not None and causes.causes.height > 0
