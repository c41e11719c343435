"""The runs of days in a store: which nights were missed, and which days somebody is at work on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import polars as pl
from prefect import task
from prefect.cache_policies import NO_CACHE

from assizes.judge.config.run import RunConfig
from assizes.judge.rows import COMPLETE
from assizes.tasks.runs.baselines import day_of
from assizes.tasks.runtime.redacted_runs import redacts_secrets
from assizes.tasks.store import Store, open_store

log = logging.getLogger(__name__)


@redacts_secrets
@task(name="due_nights", cache_policy=NO_CACHE, result_serializer="json")
async def due_nights(config: RunConfig, night: date) -> list[date]:
    """A night, and before it those that were missed, oldest first.

    Missed are nights since the first of this name in the store without a complete run, at most
    `[nightly] catch_up` of them and none further back than that. Older ones are named in the log, on
    the first night after those that were missed.

    Raises:
        StoreError: when the store cannot be opened.
    """
    missed = await asyncio.to_thread(_load_missed_nights, config, night)
    catch_up_nights = [
        missed_night
        for missed_night in missed
        if (night - missed_night).days <= config.nightly.catch_up
    ]
    skipped_nights = [
        missed_night for missed_night in missed if missed_night not in catch_up_nights
    ]
    outage_over = bool(catch_up_nights) or timedelta(days=1) in {
        night - missed_night for missed_night in skipped_nights
    }
    if skipped_nights and outage_over:  # said once, when the outage is over
        log.warning(
            "%d nights from %s to %s have no run and are not made good ([nightly] catch_up = %d); "
            "`assizes backfill --from %s --to %s` judges them",
            *(
                len(skipped_nights),
                skipped_nights[0],
                skipped_nights[-1],
                config.nightly.catch_up,
                skipped_nights[0],
                skipped_nights[-1],
            ),
        )
    if catch_up_nights:
        log.warning("missed nights are made good: %s", ", ".join(map(str, catch_up_nights)))
    return [*catch_up_nights, night]


def _load_missed_nights(config: RunConfig, night: date) -> list[date]:
    with open_store(config.store, writing=True) as store:
        return missed_nights(store, config.name, night)


def missed_nights(store: Store, name: str, night: date) -> list[date]:
    """The nights before one, since the first of a name, without a complete run of that day."""
    rows = [(day, row) for day, row in _dated_rows(store, name) if day < night]
    nightly = [day for day, row in rows if row["trigger"] == "nightly"]
    if not nightly:
        return []
    done = {day for day, row in rows if row["status"] == COMPLETE and row["trigger"] != "adhoc"}
    first = min(nightly)
    days = (first + timedelta(days=number) for number in range((night - first).days))
    return [day for day in days if day not in done]


def days_in_progress(
    config: RunConfig, days: Collection[date], now: datetime | None = None
) -> set[date]:
    """Those of some days that another process is at work on.

    Raises:
        StoreError: when the store cannot be read.
    """
    moment = now or datetime.now(UTC)
    with open_store(config.store) as store:
        running = [
            (day, row["run_id"])
            for day, row in _dated_rows(store, config.name)
            if row["status"] == "running" and day in days
        ]
        return {
            day
            for day, run_id in running
            if (until := store.locked_until(run_id)) is not None and until > moment
        }


def can_have_many_writers(config: RunConfig) -> bool:
    """Whether several runs may write to the store at once; it is made where there is none.

    Raises:
        StoreError: when it cannot be opened.
    """
    with open_store(config.store, writing=True) as store:
        return store.many_writers


def _dated_rows(store: Store, name: str) -> Iterator[tuple[date, Mapping[str, Any]]]:
    for row in store.runs().filter(pl.col("name") == name).iter_rows(named=True):
        if (day := day_of(row)) is not None:
            yield day, row
