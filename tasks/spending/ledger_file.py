"""The SQLite file of a ledger: creates, checks and opens it, reads totals, and writes stops.

Every function that is given a path raises `StoreError` where the file at the path is no ledger.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random

from assizes.judge.engine.call_gates import MAX_BUSY_S
from assizes.judge.engine.ledger import Account
from assizes.judge.errors import ConfigurationError, StoreError
from assizes.tasks.runtime.places import write_probe

NANO: Final = 1_000_000_000  # nano-dollars in a dollar
ALL_RUNS: Final = "all"  # the scope of a stop that holds for every run until it is lifted

SELECT_TOTALS: Final = (
    "select calls, nano, open_calls, open_nano, unpriced from totals where scope = ?"
)

_SUMS: Final = (  # of the calls of a run or a day: what `totals` holds under that scope
    "select '{0}:' || {1}, count(*), sum(counted_nano), sum(state = 'reserved'), "
    "sum(iif(state = 'reserved', counted_nano, 0)), "
    "sum(state = 'settled' and worst_nano is null and cost_nano is null) from calls group by {1}"
)
_TOTALS: Final = "select scope, calls, nano, open_calls, open_nano, unpriced from totals"
_COUNTED: Final = f"{_SUMS.format('run', 'run_id')} union all {_SUMS.format('day', 'day')}"
_SELECT_WRONG: Final = (  # a scope whose calls were all cancelled has a row of zeros
    f"with counted as materialized ({_COUNTED}) "
    f"select * from (select * from counted except {_TOTALS}) union all select * from ({_TOTALS} "
    "where (calls, nano, open_calls, open_nano, unpriced) <> (0, 0, 0, 0, 0) "
    "except select * from counted)"
)

_MOST_CHECKED: Final = 200_000
"""The most calls of a ledger that is checked: half a second."""

_checked: Final[dict[str, tuple[int, int, int]]] = {}  # inode, size and time, by path

_CHECKPOINT_PAGES: Final = 4000  # of 4 KiB: 16 MB, because each checkpoint waits for the disk
_APPLICATION_ID: Final = 0x41535A4C  # "ASZL": tells a ledger from any other SQLite file
_VERSION: Final = 1  # of the tables, kept as SQLite's user_version

_LATER_COLUMNS: Final = ("cached_tokens", "cache_write_tokens")
"""Columns of `calls` that older ledgers lack; the version stays, as older versions of assizes do
not mind them."""

# `sittings` holds a row for each time that a process began or resumed a run; a stop applies to the
# sessions up to its `upto`.
_TABLES: Final = """
create table calls (
    id integer primary key,
    run_id text not null,
    day text not null,
    at text not null,
    key text not null,
    model text not null,
    worst_nano integer,
    cost_nano integer,
    counted_nano integer not null,
    input_tokens integer,
    output_tokens integer,
    latency_ms real,
    code text,
    state text not null check (state in ('reserved', 'settled')),
    cached_tokens integer,
    cache_write_tokens integer
);
create table totals (
    scope text primary key,
    calls integer not null,
    nano integer not null,
    open_calls integer not null,
    open_nano integer not null,
    unpriced integer not null
) without rowid;
create table claims (
    run_id text not null,
    key text not null,
    place text not null,
    primary key (run_id, key)
) without rowid;
create table sittings (
    id integer primary key autoincrement,
    run_id text not null,
    at text not null,
    pid integer not null
);
create index sittings_of_runs on sittings (run_id);
create table stops (
    scope text primary key,
    upto integer not null,
    at text not null
) without rowid;
"""


def open_ledger_file(path: str) -> sqlite3.Connection:
    """A connection to the ledger at a path; a missing file and its folder are created.

    Raises:
        ConfigurationError: the file cannot be created or written.
        StoreError: the file is no ledger, or has another version.
    """
    connection: sqlite3.Connection | None = None
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        # SQLite itself never lets a group write to a new file, whatever the mode mask says.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666))
        # Without an isolation level the module begins no transaction of its own.
        connection = sqlite3.connect(
            path, timeout=MAX_BUSY_S, isolation_level=None, check_same_thread=False
        )
        _check_is_ledger(connection, path)  # before anything is written into a foreign file
        # Where two processes create the file at once, the switch to WAL fails instead of waiting.
        for attempt in Retrying(
            retry=retry_if_exception_type(sqlite3.OperationalError),
            wait=wait_random(0.005, 0.05),
            stop=stop_after_delay(5),  # seconds
            reraise=True,
        ):
            with attempt:
                connection.execute("pragma journal_mode = wal")  # reading does not wait for writing
                connection.execute("pragma synchronous = normal")  # a sync only per checkpoint
                connection.execute(f"pragma wal_autocheckpoint = {_CHECKPOINT_PAGES}")
                _create_tables(connection)
        _check_is_ledger(connection, path, is_created=True)
    except (OSError, sqlite3.Error, UnicodeDecodeError, StoreError) as error:
        if connection is not None:
            connection.close()
        if isinstance(error, StoreError):
            raise
        if isinstance(error, UnicodeDecodeError):  # SQLite's words quote bytes of the file
            raise _damaged(path, "its list of tables cannot be read") from None
        if isinstance(error, sqlite3.Error) and "not a database" in str(error):  # SQLite's words
            raise _no_ledger(path, "it is no SQLite database") from None
        if isinstance(error, sqlite3.DatabaseError) and "malformed" in str(error):
            raise _damaged(path, " ".join(str(error).split())) from None
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise ConfigurationError(
            f"[limits] ledger {path!r} cannot be written: {reason}; name a file on a local disk that can"
        ) from None
    return connection


def check_totals(connection: sqlite3.Connection, path: str) -> None:
    """Check that the pages of a ledger are whole, and its totals the sums of its calls.

    A ledger of more than 200,000 calls is not checked, because each command would wait for it.
    A file that this process has checked is checked again when it has changed; what was only written
    to its write-ahead log counts as no change.

    Raises:
        StoreError: the file is damaged.
        sqlite3.Error, OSError: the file cannot be read.
    """
    stat = Path(path).stat()
    known = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
    if _checked.get(path) == known:
        return
    ((calls,),) = connection.execute("select coalesce(max(id), 0) from calls").fetchall()
    if calls > _MOST_CHECKED:
        return
    ((state,),) = connection.execute("pragma quick_check(1)").fetchall()
    if state != "ok":
        raise _damaged(path, " ".join(str(state).split()))
    if wrong := connection.execute(_SELECT_WRONG).fetchone():
        raise _damaged(path, f"the totals of {wrong[0]} are not the sums of its calls")
    _checked[path] = known


def probe_ledger(path: str) -> None:
    """Check that a ledger can be written at a path; no file is left where there was none.

    Raises:
        ConfigurationError: the file cannot be created or written.
        StoreError: the file is no ledger.
    """
    if Path(path).exists():
        open_ledger_file(path).close()
    else:
        write_probe(str(Path(path).parent), {}, "[limits] ledger in")


def known_runs(path: str) -> list[str]:
    """The ids of the runs in a ledger, the newest first; empty where there is no ledger yet."""
    sql = "select run_id from sittings group by run_id order by max(id) desc"
    return [str(run_id) for (run_id,) in _rows(path, sql)]


def has_claim(path: str, run_id: str, key: str) -> bool:
    """Whether a ledger holds a claim of a run; `False` where there is no ledger yet."""
    return bool(_rows(path, "select 1 from claims where run_id = ? and key = ?", run_id, key))


def account_of(rows: list[tuple[Any, ...]]) -> Account:
    """The totals of a scope: the row that `SELECT_TOTALS` returns, if any."""
    calls, nano, open_calls, open_nano, unpriced = rows[0] if rows else (0, 0, 0, 0, 0)
    return Account(calls, nano / NANO, open_calls, open_nano / NANO, unpriced)


def spending_today(path: str) -> Account:
    """What all runs have spent in the present UTC day; zero where there is no ledger yet."""
    return account_of(_rows(path, SELECT_TOTALS, f"day:{datetime.now(UTC):%Y-%m-%d}"))


def run_spending(path: str, run_id: str) -> Account:
    """What one run has spent in all its sessions; zero where there is no ledger yet."""
    return account_of(_rows(path, SELECT_TOTALS, f"run:{run_id}"))


def write_stop(path: str, run_id: str | None) -> None:
    """Stop the present session of a run, or with `None` every run until `lift_stop`."""
    scope = ALL_RUNS if run_id is None else f"run:{run_id}"
    # A session begun later has a higher id than `upto`, and is not stopped.
    sql = "insert or replace into stops (scope, upto, at) select ?, coalesce(max(id), 0), ? from sittings"
    _rows(path, sql, scope, f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC", creates=True)


def lift_stop(path: str) -> bool:
    """Lift a stop of all runs; `False` where there was none."""
    return bool(_rows(path, "delete from stops where scope = ? returning scope", ALL_RUNS))


def all_runs_stopped_at(path: str) -> str | None:
    """When all runs were stopped; `None` where they are not."""
    rows = _rows(path, "select at from stops where scope = ?", ALL_RUNS)
    return str(rows[0][0]) if rows else None


def _rows(path: str, sql: str, *values: str, creates: bool = False) -> list[tuple[Any, ...]]:
    """The rows that a statement returns; none where there is no ledger, unless it `creates` one."""
    if not (creates or Path(path).exists()):
        return []
    with closing(open_ledger_file(path)) as file:
        try:
            if sql == SELECT_TOTALS:
                check_totals(file, path)
            return file.execute(sql, values).fetchall()
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"[limits] ledger {path!r} cannot be used: {error}") from error


def _check_is_ledger(
    connection: sqlite3.Connection, path: str, *, is_created: bool = False
) -> None:
    """Check that the file is a ledger of this version, or empty unless `is_created`."""
    ((mark,),) = connection.execute("pragma application_id").fetchall()
    ((version,),) = connection.execute("pragma user_version").fetchall()
    ((tables,),) = connection.execute("select count(*) from sqlite_master").fetchall()
    if not (mark or tables or is_created):  # an empty file, to become a ledger
        return
    if mark != _APPLICATION_ID:
        raise _no_ledger(path, "it holds something else")
    if version != _VERSION:
        raise StoreError(
            f"[limits] ledger {path!r} has version {version}, this assizes reads version "
            f"{_VERSION}; name another file"
        )


def _create_tables(connection: sqlite3.Connection) -> None:
    with connection:  # commits, or rolls back after an error
        connection.execute("begin immediate")
        ((mark,),) = connection.execute("pragma application_id").fetchall()
        if not mark:  # another process may have been faster
            for statement in filter(str.strip, _TABLES.split(";")):
                connection.execute(statement)
            connection.execute(f"pragma application_id = {_APPLICATION_ID}")
            connection.execute(f"pragma user_version = {_VERSION}")
        held = {row[1] for row in connection.execute("pragma table_info(calls)").fetchall()}
        for name in _LATER_COLUMNS:
            if mark == _APPLICATION_ID and name not in held:
                connection.execute(f"alter table calls add column {name} integer")


def _damaged(path: str, what: str) -> StoreError:
    return StoreError(
        f"[limits] ledger {path!r} is damaged: {what}; restore the file from a copy, or rename it: a new "
        "ledger counts from zero"
    )


def _no_ledger(path: str, why: str) -> StoreError:
    return StoreError(f"[limits] ledger {path!r} is no ledger of assizes: {why}; name another file")
