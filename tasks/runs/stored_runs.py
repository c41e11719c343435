"""The ids, the locks and the baselines of stored runs.

An id is a hash of what a run does, so that the same work always has the same id (decision 3); a
suffix tells runs apart that do the same work again. A lock shows that a process works on the run.
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import json
import logging
import random
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from itertools import chain, count
from typing import Any, Final

import polars as pl

from assizes.judge.config.run import RunConfig, suite_series
from assizes.judge.errors import StoreError, UnknownRun
from assizes.judge.models.model import NOT_CACHED
from assizes.judge.rows import COMPLETE, as_json
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.intake.plan import Plan
from assizes.tasks.spending.ledger_file import known_runs
from assizes.tasks.store import RunRecord, Store
from assizes.tasks.store.listing.run_index import index_row, suite_key
from assizes.tasks.store.record import DAY, is_same_run
from assizes.tasks.store.run_names import resolve_run, run_names

LATEST: Final = "latest"
LATEST_PASSED: Final = "latest_passed"
PREVIOUS_VERSION: Final = "previous_version"
RULES: Final = (LATEST, LATEST_PASSED, PREVIOUS_VERSION)

BY_DAY: Final = ("nightly", "backfill")  # triggers of runs that are each about a whole day
REFRESHED = "r"  # suffix of runs that ask their models anew: `<id>-r2`, `<id>-r3`, ...

REPLAYED = "replay"
"""Suffix of runs that only replay cached replies: `<id>-replay1`, ...

Replies can be missing from the cache; a run without them must not take a complete run's place.
"""

FORKED = "f"
"""Suffix of runs whose id is taken by another configuration or input: `<id>-f2`, `<id>-f3`, ..."""

log = logging.getLogger(__name__)

LOCK_DURATION_S: Final = 90.0
"""Seconds after which a lock expires that its process does not renew.

One that expires too early loses nothing, as a slow process may still commit its shards.
"""

HEARTBEAT_INTERVAL_S: Final = 25.0  # seconds between two renewals of a lock

LOCK_WAIT_TOLD_S: Final = 5.0
"""Seconds of waiting for the lock of a run after which a line says so."""

LOCK_RETRY_S: Final = 1.0
"""Mean seconds before a process tries again to acquire a lock that another process holds."""

INTERRUPTED: Final = "interrupted"
"""The displayed status of a run that has not ended and has no valid lock: it can be resumed."""


def content_run_id(config: RunConfig, intake: Plan, fingerprints: dict[str, str]) -> str:
    """The id `<name>-<12 hex digits>`, a hash of configuration, input and judges, not of the time.

    `fingerprints` are the hashes of the prompts and rubrics of the judges, by name.
    """
    body = as_json([config.config_hash(), intake.content_hash, fingerprints])
    return f"{config.name}-{hashlib.sha256(body.encode()).hexdigest()[:12]}"


def chosen_run_id(base: str, config: RunConfig, store: Store, *, costs: bool) -> str:
    """The id of a run that begins or is resumed, where the user gave no id.

    It is `base`, from `content_run_id`, with the suffix that the setting `[cache] use` needs.
    `costs` says whether a model of the run costs money.

    Raises:
        StoreError: the store or the ledger cannot be read.
    """
    use = config.cache.use
    if use == "read_write":
        return base
    of_base = pl.col("run_id").str.starts_with(base)
    rows = store.rows_of_runs(store.run_index().filter(of_base)["run_id"])
    runs = {row["run_id"]: row for row in rows.iter_rows(named=True)}
    complete = {run_id: run for run_id, run in runs.items() if run["status"] == COMPLETE}
    if use == "replay_only":
        # A complete run some of whose asks had no cached reply is left alone.
        lacking = {
            run_id
            for run_id, run in complete.items()
            if json.loads(run["summary"] or "{}").get("failures", {}).get(NOT_CACHED)
        }
        replays = (f"{base}-{REPLAYED}{number}" for number in count(1))
        return base if base in complete else next(id_ for id_ in replays if id_ not in lacking)
    # The first id under which no run has asked anything, or a refreshing run has not ended.
    refreshing = {run_id for run_id, run in runs.items() if cache_use(run) == "refresh"}
    # An id in the ledger is taken: its kept replies would be used as replies of this run.
    paid = known_runs(config.limits.ledger) if costs else ()
    taken = {*runs, *paid} - (refreshing - complete.keys())
    refreshed = chain([base], (f"{base}-{REFRESHED}{number}" for number in count(2)))
    return next(id_ for id_ in refreshed if id_ not in taken)


def forked_run_id(store: Store, record: RunRecord) -> str:
    """The first id of `<id>`, `<id>-f2`, `<id>-f3`, ... that is free or has the same work.

    The same work is the same configuration over the same input.
    """
    candidates = chain([record.run_id], (f"{record.run_id}-{FORKED}{n}" for n in count(2)))
    begun = set(store.run_index()["run_id"])
    return next(
        candidate
        for candidate in candidates
        if candidate not in begun or is_same_run(store.run(candidate), record)
    )


@asynccontextmanager
async def run_lock(store: Store, run_id: str) -> AsyncIterator[None]:
    """Hold the lock of a run for the length of the block, and renew it in the background."""
    await asyncio.to_thread(_renew_lock, store, run_id)
    heartbeat = asyncio.create_task(_renew_lock_forever(store, run_id))
    try:
        yield
    finally:
        heartbeat.cancel()
        with suppress(asyncio.CancelledError):
            await heartbeat
        await asyncio.to_thread(_release_lock, store, run_id)


async def acquire_run_lock(store: Store, run_id: str) -> None:
    """Acquire the lock of a run; wait while another process holds it."""
    # Every process writes its lock before it looks for others', so of two that come at once at most
    # one goes on; where each sees the other, both release theirs and wait for a random time.
    waited_s, is_told = 0.0, False
    while True:
        if not await asyncio.to_thread(_is_locked_by_others, store, run_id):
            await asyncio.to_thread(_renew_lock, store, run_id)
            if not await asyncio.to_thread(_is_locked_by_others, store, run_id):
                return
            await asyncio.to_thread(_release_lock, store, run_id)
        pause_s = random.uniform(0.5, 1.5) * LOCK_RETRY_S
        await asyncio.sleep(pause_s)
        waited_s += pause_s
        if waited_s > LOCK_WAIT_TOLD_S and not is_told:
            is_told = True
            log.warning(
                "run %s waits for another process that works on it; if that died, its lock ends "
                "within %.0f s",
                run_id,
                LOCK_DURATION_S,
            )


def _is_locked_by_others(store: Store, run_id: str) -> bool:
    until = store.locked_until(run_id, by_others=True)
    return until is not None and until > datetime.now(UTC)


def displayed_status(store: Store, run_id: str, status: str, now: datetime | None = None) -> str:
    """The status of a run for people: `interrupted` where a `running` run has no valid lock now."""
    if status != "running":
        return status
    until = store.locked_until(run_id)
    alive = until is not None and until > (now or datetime.now(UTC))
    return status if alive else INTERRUPTED


def with_displayed_status(store: Store, runs: pl.DataFrame) -> pl.DataFrame:
    """Rows of runs with the statuses for people; it reads the locks of the running ones alone."""
    running = runs.filter(status="running")["run_id"]
    shown = {run_id: displayed_status(store, run_id, "running") for run_id in running}
    status = pl.col("run_id").replace_strict(
        list(shown), list(shown.values()), default=pl.col("status"), return_dtype=pl.String
    )
    return runs.with_columns(status=status) if shown else runs


async def _renew_lock_forever(store: Store, run_id: str) -> None:
    while True:
        await asyncio.sleep(HEARTBEAT_INTERVAL_S)
        await asyncio.to_thread(_renew_lock, store, run_id)


def _renew_lock(store: Store, run_id: str) -> None:
    try:
        store.acquire_lock(run_id, datetime.now(UTC) + timedelta(seconds=LOCK_DURATION_S))
    except StoreError as error:  # the lock is for display; rows are safe without it
        log.warning("cannot say that run %s is being worked on: %s", run_id, error)


def _release_lock(store: Store, run_id: str) -> None:
    try:
        store.release_lock(run_id)
    except StoreError as error:
        log.warning("cannot say that run %s is left alone: %s", run_id, error)


def baseline_by_rule(store: Store, rule: str, record: RunRecord) -> str | None:
    """The id of the baseline that a rule names; `None` if there is none.

    Candidates are the earlier complete runs of the same name, over the same suite if any, that have
    a verdict and did not only replay cached replies: those about earlier days for a nightly or backfill run, else those that
    began earlier and are not about a later day. The rule is `latest`; `latest_passed`: the latest
    run that passed its gates and did not regress against its own baseline; or `previous_version`:
    the latest run without a case of the agent versions that this run judged.
    """
    rows = _earlier_rows(store, record)  # the nearest first; the rules below leave some out
    if rule == LATEST_PASSED:
        rows = (
            row
            for row in rows
            if row["outcome"] == "passed" and not _has_regressed(store, row["run_id"])
        )
    if rule == PREVIOUS_VERSION:
        rows = _of_another_version(store, record, rows)
    return next((str(row["run_id"]) for row in rows), None)


def _has_regressed(store: Store, run_id: str) -> bool:
    """Whether a run was found worse than a baseline."""
    verdicts = store.comparisons([run_id])["verdict"]
    return any(json.loads(verdict).get("ending") == "regressed" for verdict in verdicts)


def baseline_by_name(store: Store, name: str, own_id: str | None = None) -> RunRecord:
    """The run that a configuration names as its baseline: by its id, or as `run_names` says.

    The run `own_id`, whose baseline is sought, is passed over. Unless the name is a whole id, so are
    runs that are not complete, as long as another run has the name.

    Raises:
        UnknownRun: the name means no run, or more than one.
    """
    runs = store.run_index().filter(pl.col("run_id").ne_missing(own_id))
    if name in runs["run_id"]:
        return store.run(name)
    try:
        complete = run_names(runs.filter(pl.col("status") == COMPLETE))
        return store.run(resolve_run(name, complete, store.uri))
    except UnknownRun:
        return store.run(resolve_run(name, run_names(runs), store.uri))


def named_baseline(config: Mapping[str, Any]) -> str | None:
    """The run that a configuration names as its baseline; `None` for no baseline and for a rule."""
    baseline: str | None = config.get("comparison", {}).get("baseline")
    return None if baseline in RULES else baseline


def next_sequence(store: Store) -> int:
    """The number of a run that begins now: one more than the highest in the store."""
    highest: int | None = store.run_index().select(pl.col("sequence").max()).item()
    return 1 + (highest or 0)


def day_of(row: Mapping[str, Any]) -> date | None:
    """The day whose transcripts a run judged, from its row of table `runs`; `None`: no one day."""
    day = json.loads(row["config"]).get(DAY)
    return None if day is None else date.fromisoformat(day)


def is_about_newest_day(store: Store, record: RunRecord, triggers: Collection[str]) -> bool:
    """Whether no complete run of the same name with such a trigger is about a later day."""
    alike = store.run_index().filter(name=record.name, status=COMPLETE)
    later = (pl.col("day") > record.day) & pl.col("trigger").is_in(list(triggers))
    return alike.filter(later).is_empty()


def cache_use(row: Mapping[str, Any]) -> str | None:
    """The setting `[cache] use` of a run, from its row of table `runs`."""
    use: str | None = json.loads(row["config"]).get("cache", {}).get("use")
    return use


def _earlier_rows(store: Store, record: RunRecord) -> Iterable[Mapping[str, Any]]:
    """The rows of the index of the runs that can be the baseline of a run, the nearest first."""
    own_row, own_day = index_row(record.row()), day_of(record.row())
    of_name = (pl.col("name") == record.name) & (pl.col("run_id") != record.run_id)
    by_day = record.trigger in BY_DAY
    alike = store.run_index().filter(
        of_name & (pl.col("status") == COMPLETE),
        pl.col("cache_use").ne_missing("replay_only"),
        pl.col("outcome").is_not_null() & (pl.col("outcome") != "inconclusive"),
        pl.col("suite").eq_missing(pl.lit(suite_key(suite_series(record.config)), pl.String)),
    )
    rows = list(alike.iter_rows(named=True))
    if by_day:
        rows = [row for row in rows if row["trigger"] in BY_DAY]
    if by_day and own_day is not None:  # else a backfill compares with its future
        rows = [row for row in rows if row["dated"] and row["day"] < own_day]
    else:
        last = own_day or date.max
        rows = [row for row in rows if _sort_key(row) < _sort_key(own_row) and row["day"] <= last]
    # Undated runs stay in the order of their numbers, as clocks may differ by a day.
    dated = sorted((row for row in rows if row["dated"]), key=_day_key, reverse=True)
    undated = sorted((row for row in rows if not row["dated"]), key=_sort_key, reverse=True)
    return heapq.merge(dated, undated, key=_day_key, reverse=True)


def _day_key(row: Mapping[str, Any]) -> tuple[date, tuple[int, datetime, str]]:
    return row["day"], _sort_key(row)


def _sort_key(row: Mapping[str, Any]) -> tuple[int, datetime, str]:
    """Sorts rows of the index by the number of the run, as the clocks of two machines may differ by a day."""
    # Runs from before there were numbers come first, by their clock.
    return row["sequence"], row["started_at"], row["run_id"]


def _of_another_version(
    store: Store, record: RunRecord, rows: Iterable[Mapping[str, Any]]
) -> Iterator[Mapping[str, Any]]:
    """The rows of the runs of the same agent that share no agent version with a run."""
    own_versions = _agent_values(store, record, "agent_version")
    agent = record.config["transcripts"]["where"].get("agent")
    for row in rows if own_versions else ():
        (stored,) = store.rows_of_runs([row["run_id"]]).iter_rows(named=True)
        other_run = RunRecord.of_row(stored, {})
        versions = _agent_values(store, other_run, "agent_version")
        if not versions or versions & own_versions:  # nothing is known of it, or they share one
            continue
        if agent is None or _agent_values(store, other_run, "agent") == {agent}:
            yield row


def _agent_values(store: Store, record: RunRecord, column: str) -> set[str]:
    """The values of an agent column in the cases of a run, or the one the run was restricted to."""
    chosen = record.config["transcripts"].get("where", {}).get(column)
    if chosen is not None:
        return {chosen}
    if record.status == "running":  # its rows are not complete yet
        return set()
    values = collect_rows(store.scan(record.run_id, "cases").select(column).unique())
    return set(values[column].drop_nulls())
