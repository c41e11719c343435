"""Which run of a store another one is set beside, where the configuration names it by a rule."""

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
"""Where the snapshot in a run's row keeps which run of its store it was, from 1."""

DAY: Final = "day"
"""Where it keeps the day whose transcripts were judged, as ISO 8601; absent for a run of none."""

_BY_DAY: Final = ("nightly", "backfill")
"""Triggers of runs that each stand for a whole day."""


def baseline_by_rule(store: Store, rule: str, record: RunRecord) -> str | None:
    """The run that a rule means, among the complete runs of the same name that come before this one
    and have a verdict; null when there is none.

    Before a night (or a day of a backfill) come those of earlier days, whenever they were judged;
    before any other run those that were begun earlier. A run over kept replies alone is none.

    Args:
        store: holds the runs.
        rule: `latest`; `latest_passed`: every gate, and no regression against its own baseline;
            `previous_version`: no case of the version or versions that this run judged.
        record: the run that wants a baseline.
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
    """The run that a configuration sets itself beside; null where it names none, or a rule, which
    may mean none.
    """
    baseline: str | None = config.get("comparison", {}).get("baseline")
    return None if baseline in RULES else baseline


def next_sequence(store: Store) -> int:
    """The number of a run that begins now: one more than any in the store."""
    return 1 + max((_sort_key(row)[0] for row in store.runs().iter_rows(named=True)), default=0)


def day_of(row: Mapping[str, Any]) -> date | None:
    """The day that a row of table runs says it is about."""
    day = json.loads(row["config"]).get(DAY)
    return None if day is None else date.fromisoformat(day)


def _earlier_rows(store: Store, record: RunRecord) -> Iterator[Mapping[str, Any]]:
    """The runs that may stand beside this one, the nearest first."""
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
    """By the number a run was begun with; clocks of two machines may differ by a day. Those of
    before there were numbers come first, by their clock.
    """
    return json.loads(row["config"]).get(SEQUENCE, 0), row["started_at"], row["run_id"]


def _can_be_baseline(row: Mapping[str, Any]) -> bool:
    """Whether a complete run may stand for its name."""
    use = json.loads(row["config"]).get("cache", {}).get("use")
    return use != "replay_only" and _outcome(row) not in (None, "inconclusive")


def _outcome(row: Mapping[str, Any]) -> str | None:
    outcome: str | None = json.loads(row["summary"] or "{}").get("outcome")
    return outcome


def _regressed_run_ids(store: Store) -> set[str]:
    """The runs that some stored comparison calls a regression."""
    rows = store.comparisons().iter_rows(named=True)
    return {
        row["candidate"] for row in rows if json.loads(row["verdict"]).get("ending") == "regressed"
    }


def _of_another_version(
    store: Store, record: RunRecord, rows: Iterator[Mapping[str, Any]]
) -> Iterator[Mapping[str, Any]]:
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
    """What the cases of a run say of their agent, or what the run was restricted to."""
    chosen = record.config["transcripts"].get("where", {}).get(column)
    if chosen is not None:
        return {chosen}
    if record.status == "running":
        return set()
    values = collect_rows(store.scan(record.run_id, "cases").select(column).unique())
    return set(values[column].drop_nulls())
