"""Finds the baseline of a run, where its configuration names the baseline by a rule."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Any, Final

import polars as pl

from assizes.judge.rows import COMPLETE
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.store import RunRecord, Store

LATEST: Final = "latest"
LATEST_PASSED: Final = "latest_passed"
PREVIOUS_VERSION: Final = "previous_version"
RULES: Final = (LATEST, LATEST_PASSED, PREVIOUS_VERSION)

SEQUENCE: Final = "sequence"
"""Key in the snapshot of a run's configuration: the number of the run in its store, from 1."""

DAY: Final = "day"
"""Key in the same snapshot: the day whose transcripts were judged, as ISO 8601.

A run that is not about one day has no such key.
"""

_BY_DAY: Final = ("nightly", "backfill")
"""Triggers of runs that are each about a whole day."""


def baseline_by_rule(store: Store, rule: str, record: RunRecord) -> str | None:
    """The id of the baseline that a rule names; `None` if there is none.

    Candidates are the earlier complete runs of the same name that have a verdict and did not only
    replay cached replies. For a nightly or backfill run, earlier runs are those about earlier days,
    whenever they were judged; for any other run, those that began earlier.

    Args:
        store: holds the runs.
        rule: `latest`; `latest_passed`: the latest run that passed its gates and did not regress
            against its own baseline; `previous_version`: the latest run without a case of the
            agent versions that this run judged.
        record: the run that needs a baseline.
    """
    rows = _earlier_rows(store, record)
    if rule == LATEST_PASSED:
        regressed_ids = _regressed_run_ids(store)
        rows = (
            row for row in rows if _outcome(row) == "passed" and row["run_id"] not in regressed_ids
        )
    if rule == PREVIOUS_VERSION:
        rows = _of_another_version(store, record, rows)
    return next((str(row["run_id"]) for row in rows), None)


def named_baseline(config: Mapping[str, Any]) -> str | None:
    """The id of the baseline that a configuration names; `None` for no baseline and for a rule."""
    baseline: str | None = config.get("comparison", {}).get("baseline")
    return None if baseline in RULES else baseline


def next_sequence(store: Store) -> int:
    """The number of a run that begins now: one more than the highest in the store."""
    return 1 + max((_sort_key(row)[0] for row in store.runs().iter_rows(named=True)), default=0)


def day_of(row: Mapping[str, Any]) -> date | None:
    """The day that a run is about, from its row of table `runs`; `None` for no single day."""
    day = json.loads(row["config"]).get(DAY)
    return None if day is None else date.fromisoformat(day)


def cache_use(row: Mapping[str, Any]) -> str | None:
    """The setting `[cache] use` of a run, from its row of table `runs`."""
    use: str | None = json.loads(row["config"]).get("cache", {}).get("use")
    return use


def _earlier_rows(store: Store, record: RunRecord) -> Iterator[Mapping[str, Any]]:
    """The rows of the runs that can be the baseline of a run, the nearest first."""
    own_row = record.row()
    of_name = (pl.col("name") == record.name) & (pl.col("run_id") != record.run_id)
    complete = store.runs().filter(of_name & (pl.col("status") == COMPLETE))
    rows = [row for row in complete.iter_rows(named=True) if _can_be_baseline(row)]
    if record.trigger in _BY_DAY:
        rows = [row for row in rows if row["trigger"] in _BY_DAY]
    if record.trigger in _BY_DAY and (day := day_of(own_row)) is not None:
        dated = [
            (row_day, row) for row in rows if (row_day := day_of(row)) is not None and row_day < day
        ]
        dated.sort(key=lambda dated_row: (dated_row[0], _sort_key(dated_row[1])), reverse=True)
        return iter([row for _, row in dated])
    begun_before = [row for row in rows if _sort_key(row) < _sort_key(own_row)]
    return iter(sorted(begun_before, key=_sort_key, reverse=True))


def _sort_key(row: Mapping[str, Any]) -> tuple[int, datetime, str]:
    """Sorts runs by their number, as the clocks of two machines may differ by a day.

    Runs from before there were numbers come first, by their clock.
    """
    return json.loads(row["config"]).get(SEQUENCE, 0), row["started_at"], row["run_id"]


def _can_be_baseline(row: Mapping[str, Any]) -> bool:
    return cache_use(row) != "replay_only" and _outcome(row) not in (None, "inconclusive")


def _outcome(row: Mapping[str, Any]) -> str | None:
    outcome: str | None = json.loads(row["summary"] or "{}").get("outcome")
    return outcome


def _regressed_run_ids(store: Store) -> set[str]:
    """The ids of the runs that a stored comparison found to have regressed."""
    rows = store.comparisons().iter_rows(named=True)
    return {
        row["candidate"] for row in rows if json.loads(row["verdict"]).get("ending") == "regressed"
    }


def _of_another_version(
    store: Store, record: RunRecord, rows: Iterator[Mapping[str, Any]]
) -> Iterator[Mapping[str, Any]]:
    """The rows of the runs that share no agent version with a run, but its agent."""
    own_versions = _agent_values(store, record, "agent_version")
    agent = record.config["transcripts"]["where"].get("agent")
    for row in rows if own_versions else ():
        other_run = RunRecord.of_row(row, {})
        versions = _agent_values(store, other_run, "agent_version")
        if not versions or versions & own_versions:
            continue
        if agent is None or _agent_values(store, other_run, "agent") == {agent}:
            yield row


def _agent_values(store: Store, record: RunRecord, column: str) -> set[str]:
    """The values of an agent column in the cases of a run, or the one the run was restricted to."""
    chosen = record.config["transcripts"].get("where", {}).get(column)
    if chosen is not None:
        return {chosen}
    if record.status == "running":
        return set()
    values = collect_rows(store.scan(record.run_id, "cases").select(column).unique())
    return set(values[column].drop_nulls())
