"""Finds missed nights among the runs of a store, and the days that another process is judging."""

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
from assizes.tasks.runs.stored_runs import day_of
from assizes.tasks.runtime.process import redacts_secrets
from assizes.tasks.store import Store, open_store

log = logging.getLogger(__name__)


@redacts_secrets
@task(name="due_nights", cache_policy=NO_CACHE, result_serializer="json")
async def due_nights(config: RunConfig, night: date) -> list[date]:
    """The nights to judge, oldest first: the missed nights, then `night` itself.

    A night is missed when it lies between the first nightly run of this name in the store and
    `night`, and has no complete run. Nights more than `[nightly] catch_up` days ago are not judged;
    the log names them once, when the outage is over.

    Raises:
        StoreError: the store cannot be opened.
    """

    def load_missed_nights() -> list[date]:
        with open_store(config.store, writing=True) as store:  # creates a missing store
            return _missed_nights(store, config.name, night)

    missed = await asyncio.to_thread(load_missed_nights)
    catch_up_nights = [day for day in missed if (night - day).days <= config.nightly.catch_up]
    skipped_nights = [day for day in missed if day not in catch_up_nights]
    # Only the first run after an outage finds that the night before was missed.
    is_outage_over = bool(catch_up_nights) or night - timedelta(days=1) in skipped_nights
    if skipped_nights and is_outage_over:
        first, last = skipped_nights[0], skipped_nights[-1]
        log.warning(
            "%d nights from %s to %s have no run and are not judged now ([nightly] catch_up = %d); "
            "`assizes backfill --from %s --to %s` judges them",
            *(len(skipped_nights), first, last, config.nightly.catch_up, first, last),
        )
    if catch_up_nights:
        log.warning(
            "nights that were missed are judged now: %s", ", ".join(map(str, catch_up_nights))
        )
    return [*catch_up_nights, night]


def _missed_nights(store: Store, name: str, night: date) -> list[date]:
    """The days before `night` without a complete run, since the first nightly run of a name."""
    rows = [(day, row) for day, row in _dated_rows(store, name) if day < night]
    # An ad hoc run may be over a part of the day.
    done = {day for day, row in rows if row["status"] == COMPLETE and row["trigger"] != "adhoc"}
    first = min((day for day, row in rows if row["trigger"] == "nightly"), default=night)
    days = (first + timedelta(days=number) for number in range((night - first).days))
    return [day for day in days if day not in done]


def days_in_progress(
    config: RunConfig, days: Collection[date], now: datetime | None = None
) -> set[date]:
    """The days among `days` whose run is locked, at the time `now`, by a process that judges it.

    Raises:
        StoreError: the store cannot be read.
    """
    moment = now or datetime.now(UTC)
    with open_store(config.store) as store:
        return {
            day
            for day, row in _dated_rows(store, config.name)
            if row["status"] == "running" and day in days  # without a lock its process has died
            if (until := store.locked_until(row["run_id"])) is not None and until > moment
        }


def can_have_many_writers(config: RunConfig) -> bool:
    """Whether several processes may write to the store at once; a missing store is created.

    Raises:
        StoreError: the store cannot be opened.
    """
    with open_store(config.store, writing=True) as store:
        return store.many_writers


def _dated_rows(store: Store, name: str) -> Iterator[tuple[date, Mapping[str, Any]]]:
    run_ids = store.run_index().filter(pl.col("name") == name, "dated")["run_id"]
    for row in store.rows_of_runs(run_ids).iter_rows(named=True):
        if (day := day_of(row)) is not None:
            yield day, row
