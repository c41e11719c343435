"""The record of a run, and what both kinds of store share.

The configuration and the plan of a run are stored when it begins and never change. Rows are added
by whole shards. A complete run is final.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import polars as pl

from assizes.judge.config.run import FINGERPRINTS, config_diff
from assizes.judge.errors import StoreError
from assizes.judge.rows import COMPLETE, KEYS, SHARD_TABLES, TABLES, as_json, frame

if TYPE_CHECKING:
    import duckdb

Frames: TypeAlias = Mapping[str, pl.DataFrame]  # rows by table
Counts: TypeAlias = Mapping[str, int]  # the number of records by status

STORE_MARK: Final = "_assizes.json"  # the document at the root of each Parquet store

RUN_TABLES: Final = (*SHARD_TABLES, "run_metrics")  # tables whose rows belong to one run
CASE_TABLES: Final = ("scores", "asks", "cases")  # tables whose rows belong to one case
_FIELDS_SHOWN: Final = 5  # changed settings that an error message names, at most

DAY: Final = "day"
"""Key in the snapshot of a run's configuration: the day whose transcripts were judged (ISO 8601),
if it is one day."""

SEQUENCE: Final = "sequence"
"""Key in the snapshot of a run's configuration: the number of the run in its store, from 1."""

DONE_STATUSES: Final = ("judged", "errored", "skipped")
"""The statuses of a case that its run is done with."""

LOOK_PREFIX: Final = "look-"
"""How the names of looks begin, which a run that may stop early commits between its shards."""

FINAL_STATUSES: Final = (COMPLETE, "incomplete", "failed")
"""The statuses with which a run can end. A run that is not complete may be resumed and end again."""

ID_PATTERN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
"""What an id matches as a whole, so that it is safe as part of a path."""


@dataclass(frozen=True, slots=True)
class ArrowView:
    """A frame or relation of which only its Arrow stream can be seen."""

    # Polars remembers the class of what it reads: a class of DuckDB, or one defined in a module that
    # imports duckdb, would keep that module alive past interpreter exit, and its bindings then print
    # a leak report to stderr. So the class stands here.
    source: pl.DataFrame | duckdb.DuckDBPyRelation

    # DuckDB reads this stream directly; a bare polars frame it would convert with pyarrow.
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.source.__arrow_c_stream__(requested_schema)


@dataclass(frozen=True, slots=True)
class RunLock:
    """A process's lock on a run that it works on."""

    until: datetime  # aware; a process that lives renews its lock before
    since: datetime | None = None  # when the process began with the run; None in older documents
    done: int = 0  # cases of the run that were committed then
    holder: str = "another process"  # such as `process 7 on host`; unknown in older documents

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> RunLock:
        """The lock that a document of a store describes."""
        since = document.get("since")
        return cls(
            datetime.fromisoformat(document["until"]),
            None if since is None else datetime.fromisoformat(since),
            int(document.get("done", 0)),
            document.get("holder", "another process"),
        )


def begun_lock(done: int) -> dict[str, Any]:
    """The document of a lock of this process, but for when it expires; `done` cases are committed."""
    holder = f"process {os.getpid()} on {socket.gethostname()}"
    return {"since": datetime.now(UTC).isoformat(), "done": done, "holder": holder}


def cases_done(shard_counts: Mapping[str, Counts]) -> int:
    """The number of cases in committed shards, however they ended; `shard_counts` are by shard id."""
    return sum(counts.get(name, 0) for counts in shard_counts.values() for name in DONE_STATUSES)


def is_look(name: str) -> bool:
    """Whether what is committed under a name is a look, and no shard."""
    return name.startswith(LOOK_PREFIX)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run: its row of table runs as Python values, and the plan with which it began."""

    run_id: str
    name: str  # of the series to which the run belongs
    trigger: str  # nightly, deployment, backfill or adhoc
    status: str  # running, or one of FINAL_STATUSES
    config: dict[str, Any]  # the whole configuration, as JSON values
    config_hash: str
    judge_model: str
    started_at: datetime  # aware, in UTC, as is finished_at
    finished_at: datetime | None = None  # None until the run ends
    counts: dict[str, int] = field(default_factory=dict)  # records by status
    summary: dict[str, Any] | None = None  # None until the run ends
    plan: dict[str, Any] = field(default_factory=dict)  # input manifest; a resumed run follows it

    @property
    def day(self) -> date:
        """The day that the run is about: that in `config`, else the day (UTC) on which it began."""
        day = self.config.get(DAY)
        return date.fromisoformat(day) if day else self.started_at.astimezone(UTC).date()

    def row(self) -> dict[str, Any]:
        """The row of table runs."""
        return {name: getattr(self, name) for name in TABLES["runs"]} | {
            "config": as_json(self.config),
            "started_at": self.started_at.astimezone(UTC),
            "finished_at": self.finished_at and self.finished_at.astimezone(UTC),
            "counts": as_json(self.counts),
            "summary": None if self.summary is None else as_json(self.summary),
        }

    @classmethod
    def of_row(cls, row: Mapping[str, Any], plan: Mapping[str, Any]) -> RunRecord:
        """The record of a row of table runs, whose times may also be ISO 8601 text."""
        times = {
            name: datetime.fromisoformat(str(row[name])).astimezone(UTC)
            for name in ("started_at", "finished_at")
            if row[name]
        }
        values = {name: row[name] for name in TABLES["runs"].keys() - {"day"}} | {
            "config": json.loads(row["config"]),
            "counts": json.loads(row["counts"]),
            "summary": row["summary"] and json.loads(row["summary"]),
        }
        return cls(**(values | times), plan=dict(plan))


def newest_first(runs: pl.DataFrame) -> pl.DataFrame:
    """Table runs by day, then by start, the latest first; rows older than column `day` get theirs."""
    days = [row["day"] or RunRecord.of_row(row, {}).day for row in runs.iter_rows(named=True)]
    order = ("day", "started_at", "run_id")
    dated = runs.with_columns(pl.Series("day", days, dtype=pl.Date))
    return dated.sort(order, descending=[True, True, False])


def checked_id(value: str, what: str) -> str:
    """Return an id that is safe as part of a path; `what` says for the message what the id names.

    Raises:
        StoreError: when the id has other characters than letters, digits, `.`, `_` and `-`, begins
            with `.` or `-`, or is longer than 128 characters.
    """
    if not ID_PATTERN.fullmatch(value):
        raise StoreError(
            f"{what} {value!r} cannot name a stored object; accepted: 1 to 128 of A-Z a-z 0-9 . _ -, "
            "not starting with . or -"
        )
    return value


def checked_metrics(run_id: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Return run metrics, sorted by their keys, when they may be stored.

    Raises:
        StoreError: when the rows have another schema, belong to another run, or hold NaN or
            infinity. A missing number is None.
    """
    frames = checked_frames(run_id, {"run_metrics": rows}, ("run_metrics",))
    metrics = frames["run_metrics"].sort(KEYS["run_metrics"])
    # NaN would pass a threshold in DuckDB and Polars, where it is above all numbers (decision 2).
    invalid = metrics.filter(pl.col("value").is_finite().not_())
    if invalid.height:
        raise StoreError(
            f"run metric {invalid['name'][0]!r} of run {run_id!r} is {invalid['value'][0]!r}; "
            "accepted: a finite number or null"
        )
    return metrics


def checked_frames(
    run_id: str, frames: Frames, tables: Collection[str] = SHARD_TABLES
) -> dict[str, pl.DataFrame]:
    """Return a frame for each of some tables (of a shard), empty where none was given.

    Raises:
        StoreError: when another table is given, or rows that have another schema than their table
            or belong to another run.
    """
    for table in frames:
        check_table(table, tables)
    checked = {table: frames[table] if table in frames else frame(table, []) for table in tables}
    for table, rows in checked.items():
        if rows.schema != pl.Schema(TABLES[table]):
            raise StoreError(
                f"rows of {table!r} in run {run_id!r} have the columns {dict(rows.schema)!r}; "
                f"accepted: {TABLES[table]!r}"
            )
        # `ne_missing`: a run id that is missing is a foreign one as well.
        run_ids = rows["run_id"]
        if (is_foreign := run_ids.ne_missing(run_id)).any():
            raise StoreError(
                f"rows of {table!r} in run {run_id!r} belong to run {run_ids.filter(is_foreign)[0]!r}"
            )
    return checked


def check_table(table: str, known: Collection[str]) -> None:
    """Refuse, as a `StoreError`, the name of a table that is not one of `known`."""
    if table not in known:
        raise StoreError(f"table {table!r} is not kept here; accepted: {', '.join(known)}")


def resumable_run(stored: RunRecord, run: RunRecord, store: str) -> RunRecord:
    """Return the stored run, if `run` may go on with it.

    Both must have the same input, but may cut it into other shards: the stored plan decides.

    Raises:
        StoreError: when `run` has another configuration or another input.
    """
    if not is_same_run(stored, replace(run, plan=stored.plan)):  # the input apart
        fields = [change.field for change in config_diff(stored.config, run.config)]
        some = ", ".join(fields[:_FIELDS_SHOWN]) or f"config_hash {stored.config_hash!r}"
        more = f" and {len(fields) - _FIELDS_SHOWN} more" if len(fields) > _FIELDS_SHOWN else ""
        raise StoreError(
            f"run {run.run_id!r} in {store} was begun with another configuration: {some}{more} "
            f"differ; `assizes resume {run.run_id}` goes on with that one, `assizes run` begins "
            "another run"
        )
    if not is_same_run(stored, run):
        raise StoreError(
            f"run {run.run_id!r} in {store} was planned over other input than there is now; begin "
            "another run: `assizes run` without an id, or with another one"
        )
    return stored


def is_same_run(stored: RunRecord, run: RunRecord) -> bool:
    """Whether two runs have the same configuration, judges and input."""
    judges = [record.config.get(FINGERPRINTS) for record in (stored, run)]  # None in old runs
    return (
        stored.config_hash == run.config_hash
        and (None in judges or judges[0] == judges[1])
        and stored.plan.get("content_hash") == run.plan.get("content_hash")
    )


def final_record(
    stored: RunRecord, run: RunRecord, store: str, *, same_metrics: bool
) -> RunRecord | None:
    """The record of a run that ends, or None when the store holds the same end already.

    The record has the stored configuration, plan and start; status, end time, counts and summary
    are those of `run`. `same_metrics` says whether the store holds the same run metrics already.

    Raises:
        StoreError: when the configuration is another, the status is not a final one, or the stored
            run is complete with other content.
    """
    if run.status not in FINAL_STATUSES:
        raise StoreError(
            f"run {run.run_id!r} cannot end as {run.status!r}; accepted: {', '.join(FINAL_STATUSES)}"
        )
    final = replace(
        resumable_run(stored, replace(run, plan=stored.plan), store),
        status=run.status,
        finished_at=run.finished_at,
        counts=run.counts,
        summary=run.summary,
    )
    before, after = stored.row(), final.row()
    changed = [name for name in ("status", "counts", "summary") if before[name] != after[name]]
    if not same_metrics:
        changed.append("run_metrics")
    if not changed:  # ended again in the same way: its first end time stays
        return None
    if stored.status == COMPLETE:
        raise StoreError(
            f"run {run.run_id!r} in {store} is complete and frozen; {', '.join(changed)} would change; "
            "use another run id"
        )
    return final
