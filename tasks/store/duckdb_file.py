"""Opens a DuckDB file as a store, and keeps the journal of the commits made to the file.

DuckDB opens a file whose write-ahead log was cut short without an error: whole transactions are
gone, and the rest looks right. So each commit is also appended to `<file>.commits` after its
transaction: one line, synced to disk before the commit is acknowledged. A file that lacks what its
journal lists is damaged.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import socket
import uuid
import zlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import duckdb
from duckdb import DuckDBPyConnection as Connection
from tenacity import Retrying, retry_if_exception_message, stop_after_delay, wait_fixed

from assizes.judge import rows
from assizes.judge.errors import NoStore, SchemaVersion, StoreBusy, StoreError
from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.store.duckdb_rows import TYPES, create_statement
from assizes.tasks.store.objects import sync_folder
from assizes.tasks.store.people import IN_MEMORY

log = logging.getLogger(__name__)

_OWN_TABLES: Final = (  # counts and plan are JSON; sha is the digest of a shard's rows
    "create table _commits (run_id VARCHAR, shard VARCHAR, sha VARCHAR, counts VARCHAR, rows BIGINT)",
    "create table _plans (run_id VARCHAR, plan VARCHAR)",
    "create table _meta (schema_version INTEGER)",
)

LOCK_WAIT_S: Final = 3.0  # the wait of a writer for another process; readers close the file soon

LOCK_RETRY_S: Final = 0.01  # seconds
_LOCK_MESSAGE: Final = "Conflicting lock"  # in DuckDB's error when another process has the file
_MAGIC: Final = slice(8, 12)  # the bytes of a DuckDB file that read `DUCK`
_MAX_NAMED_SHARDS: Final = 3  # lost shards of a run that an error message names, at most

DAMAGE_PATTERN: Final = re.compile(
    r"corrupt|checksum|INTERNAL|FATAL|serializ|WAL|beyond the end|could not read", re.IGNORECASE
)
"""What stands in an error message of DuckDB that means a damaged file."""

_FULL_PATTERN: Final = re.compile(
    "|".join(re.escape(os.strerror(code)) for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
    + "|failed to offload data block|not enough space",
    re.IGNORECASE,
)
"""What stands in an error message of DuckDB that means a full disk, a quota or a limit of size."""


@dataclass(slots=True)
class CommitState:
    """The commits that a journal lists or a file holds: the shards, and the ended runs."""

    store: str | None = None  # the id of the DuckDB file
    # Digests by (run id, shard id), the newest last: deleting a subject's rows changes a digest.
    shards: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    endings: dict[str, str] = field(default_factory=dict)  # the final statuses by run id

    def __str__(self) -> str:
        runs = {run for run, _ in self.shards} | self.endings.keys()
        return f"{len(self.shards)} shards of {len(runs)} runs"


@dataclass(frozen=True, slots=True)
class Journal:
    """The journal of one DuckDB file."""

    path: Path | None  # None for a store in memory, which has no journal

    def read(self) -> CommitState:
        """The commits that the journal lists for its last file; empty where there is no journal."""
        state, states = CommitState(), dict[str, CommitState]()
        if self.path is None or not self.path.exists():
            return state
        for line in self.path.read_bytes().split(b"\n"):
            crc, _, body = line.partition(b" ")  # 8 hex digits, then JSON
            if b"%08x" % zlib.crc32(body) != crc:
                continue  # a line that was cut short or altered
            entry: dict[str, Any] = json.loads(body)
            if "store" in entry:
                # Somebody may put another file here, and the first one back: to each its own commits.
                state = states.setdefault(entry["store"], CommitState() if state.store else state)
                state.store = entry["store"]
            elif "shard" in entry:
                state.shards.setdefault((entry["run"], entry["shard"]), []).append(entry["sha"])
            else:
                state.endings[entry["run"]] = entry["ended"]
        return state

    def catch_up(self, file_state: CommitState) -> None:
        """Append what the file holds and the journal lacks: a writer died between the two writes."""
        listed = self.read()
        if listed.store != file_state.store:  # a new file, or one put in the place of another
            self.append([{"store": file_state.store}])
            listed = self.read()
        entries: list[dict[str, Any]] = [
            {"run": run_id, "shard": shard_id, "sha": shas[-1]}
            for (run_id, shard_id), shas in file_state.shards.items()
            if listed.shards.get((run_id, shard_id), [])[-1:] != shas[-1:]
        ]
        entries += [
            {"run": run_id, "ended": status}
            for run_id, status in file_state.endings.items()
            if listed.endings.get(run_id) != status
        ]
        if entries:
            self.append(entries)

    def append(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Append {`store`: file id}, {`run`, `shard`, `sha`: digest} or {`run`, `ended`: status}."""
        if (path := self.path) is None:
            return  # a store in memory
        bodies = [rows.as_json(dict(entry)).encode() for entry in entries]
        data = b"".join(b"%08x %b\n" % (zlib.crc32(body), body) for body in bodies)
        failpoint("journal.append.before")
        is_new = not path.exists()
        with path.open("ab+") as file:
            # A line that a killed writer left unfinished must not run into the next one.
            is_cut = file.tell() and file.seek(-1, os.SEEK_END) >= 0 and file.read(1) != b"\n"
            file.write(b"\n" + data if is_cut else data)
            failpoint(
                "journal.append.half",  # as a full disk or a power cut would leave the last line
                before=lambda: os.truncate(path, max(0, path.stat().st_size - len(data) // 2)),
            )
            file.flush()
            # Only now is the commit acknowledged: it must survive a power cut.
            os.fsync(file.fileno())
        if is_new:  # the name of the file must survive as well
            sync_folder(path.parent)
        failpoint("journal.append.after")


def _missing_commits(listed: CommitState, file_state: CommitState) -> list[str]:
    """What a journal lists and its file lacks, described run by run; empty for a whole file."""
    if file_state.store != listed.store:
        return []  # the journal of another file counts for nothing
    missing: dict[str, list[str]] = {}
    for (run_id, shard_id), shas in listed.shards.items():
        file_sha = file_state.shards.get((run_id, shard_id), [""])[-1]
        # An unlisted digest is no damage: a writer died between its writes to file and journal.
        if file_sha == "" or file_sha in shas[:-1]:  # gone, or from before a deletion
            missing.setdefault(run_id, []).append(shard_id)
    descriptions = []
    for run_id, shards in sorted(missing.items()):
        count, some = len(shards), ", ".join(sorted(shards)[:_MAX_NAMED_SHARDS])
        more = f" and {count - _MAX_NAMED_SHARDS} more" if count > _MAX_NAMED_SHARDS else ""
        plural = "s" if count > 1 else ""
        descriptions.append(f"{count} shard{plural} of run {run_id} ({some}{more})")
    return descriptions + [
        f"the end of run {run_id}"
        for run_id, status in sorted(listed.endings.items())
        if status == rows.COMPLETE
        and run_id not in missing
        and file_state.endings.get(run_id) != status
    ]


def open_connection(uri: str, path: Path, *, writing: bool, wait_s: float = 0.0) -> Connection:
    """Open a connection to the DuckDB file of a store, not yet checked against its journal.

    Opening for writing makes the file; `uri` is for messages. Where another process has the file
    open, opening is tried again for `wait_s` seconds.

    Raises:
        StoreBusy: when another process has the file open.
        NoStore: when there is no file to read.
        StoreError: when the file is damaged, or no DuckDB file.
    """
    try:
        if writing:
            path.parent.mkdir(parents=True, exist_ok=True)
        elif not path.exists():
            raise NoStore.at(uri)
        con = Retrying(
            retry=retry_if_exception_message(match=rf"(?s).*{_LOCK_MESSAGE}"),
            stop=stop_after_delay(wait_s),
            wait=wait_fixed(LOCK_RETRY_S),
            reraise=True,
        )(duckdb.connect, path, read_only=not writing)
        if path != IN_MEMORY:
            _check_path(con, uri)
        # A checkpoint would write what is left of a damaged log into the file.
        con.execute("pragma disable_checkpoint_on_shutdown")
        # DuckDB would fetch missing extensions over the network.
        con.execute("set autoinstall_known_extensions=false")
    except OSError as error:
        raise StoreError(f"{uri}: cannot make its folder: {error.strerror or error}") from error
    except duckdb.Error as error:
        raise _open_error(uri, path, str(error)) from error
    return con


def prepare_tables(
    con: Connection,
    uri: str,
    journal: Journal,
    present: Collection[str],
    *,
    writing: bool,
    is_checked: bool = False,
) -> None:
    """Create the tables of a new file, or check those of an existing one.

    An existing file must have the schema of this version and all that its journal lists; a new one
    gets its tables if it may be written. `present` is what `present_tables` returned. A file that
    `is_checked` has not changed since it was found whole: its commits are not read.

    Raises:
        SchemaVersion: when the file has another schema version.
        NoStore: when the file has no tables and may not be written.
        StoreError: when the file lacks what its journal lists, or has foreign tables of our names.
    """
    if "_meta" in present:
        _check_version(con, uri)
        if not is_checked and "_identity" in present:  # older files have no id
            _check_commits(con, uri, journal.read())
        return
    listed = journal.read()
    if listed.store is not None and (listed.shards or listed.endings):
        raise damage_error(uri, f"it is empty, and its journal lists {listed}")
    if not writing:
        raise NoStore.at(uri, ", a DuckDB file without one")
    if foreign_tables := sorted(rows.TABLES.keys() & present):
        raise StoreError(
            f"{uri} holds other tables named {', '.join(foreign_tables)}; point [store] uri to a new file"
        )
    for statement in (*map(create_statement, rows.TABLES), *_OWN_TABLES):
        con.execute(statement)
        failpoint("warehouse.open.half")
    con.execute("insert into _meta values (?)", [rows.SCHEMA_VERSION])


def _check_version(con: Connection, uri: str) -> None:
    version = con.execute("select max(schema_version) from _meta").fetchall()[0][0]
    if version != rows.SCHEMA_VERSION:
        raise SchemaVersion.mismatch(uri, version, rows.SCHEMA_VERSION)


def _check_commits(con: Connection, uri: str, listed: CommitState) -> None:
    if listed.store is None:
        return
    if missing := _missing_commits(listed, read_commit_state(con)):
        what = f"its journal lists {', '.join(missing)}, and they are not there"
        raise damage_error(uri, what)


def make_writable(con: Connection) -> None:
    """Add to a checked file the later tables and columns, and an id for its journal."""
    con.execute("pragma enable_checkpoint_on_shutdown")  # `open_connection` had disabled it
    con.execute(create_statement("calibrations"))  # younger than the schema version (decision 41)
    for table in rows.LATER_COLUMNS:  # they are `null` in the rows of an older file
        held = con.sql(f"select * from {table} limit 0").columns
        for name, dtype in rows.missing_columns(table, held).items():
            con.execute(f'alter table {table} add column "{name}" {TYPES[dtype]}')
    con.execute("create table if not exists _identity (store VARCHAR)")
    if not con.execute("select store from _identity").fetchall():
        con.execute("insert into _identity values (?)", [uuid.uuid4().hex])


def read_commit_state(con: Connection) -> CommitState:
    """The shards and the ended runs that a file holds."""
    (identity,) = con.execute("select max(store) from _identity").fetchall()
    commits = con.execute("select run_id, shard, sha from _commits").fetchall()
    ended = "select run_id, status from runs where finished_at is not null"
    return CommitState(
        store=identity[0],
        shards={(run_id, shard_id): [sha] for run_id, shard_id, sha in commits},
        endings=dict(con.execute(ended).fetchall()),
    )


def set_aside_old_journal(uri: str, path: Path, journal: Journal) -> None:
    """Rename the journal of a DuckDB file that somebody has removed, with a warning.

    Raises:
        StoreError: when the file's write-ahead log is still there, so that it was lost rather than
            removed, or when a rebuild of the file was interrupted.
    """
    if path.exists() or journal.path is None:
        return
    listed = journal.read()
    if path.with_name(f"{path.name}.rebuilt").exists():
        raise StoreError(
            f"{uri} has a rebuild that did not end; run `assizes store rebuild` to finish it"
        )
    if (wal := path.with_name(f"{path.name}.wal")).exists():
        raise damage_error(uri, f"{path.name} is gone and {wal.name} is still there")
    if listed.shards or listed.endings:
        aside = journal.path.with_name(f"{journal.path.name}.{(listed.store or 'old')[:8]}")
        journal.path.rename(aside)
        log.warning("%s is gone and is made anew; it held %s (%s)", uri, listed, aside)


def damage_error(uri: str, what: str) -> StoreError:
    """The error for a damaged file: what is wrong with it, and what the user can do."""
    return StoreError(
        f"{uri} is damaged: {what}. Nothing was changed. Put back the file with its .wal from a "
        "copy, or run `assizes store rebuild`: it moves them aside and keeps what can be read; then run "
        "what is lost again, kept replies are not paid for twice"
    )


def statement_error(uri: str, error: duckdb.Error) -> StoreError:
    """The error of one line for a statement that failed: a full disk, a damaged file, or another."""
    line = first_line(error)
    # Asked first: an error about a full disk names the write-ahead log, as one about damage does.
    if _FULL_PATTERN.search(str(error)):
        return StoreError(
            f"{uri}: the disk is full ({line}). What was committed before is kept, nothing else was "
            "written; free some room and give the same command again: kept replies are not paid for twice"
        )
    return damage_error(uri, line) if is_damage(error) else StoreError(f"{uri}: {line}")


def is_damage(error: duckdb.Error) -> bool:
    """Whether a statement failed because the file is damaged."""
    return not _FULL_PATTERN.search(str(error)) and bool(DAMAGE_PATTERN.search(first_line(error)))


def busy_error(uri: str, pid: object) -> StoreBusy:
    """The error for a file that another process has open; `pid` is its id, None if not known."""
    holder = f"process {pid} on {socket.gethostname()}" if pid else "another process"
    return StoreBusy(
        f"{uri} is in use by {holder}; wait until it ends or stop it, "
        "or point [store] uri to a folder, which takes several writers"
    )


def own_process_error(uri: str) -> StoreBusy:
    """The error for a file that this process has open for writing, or for reading."""
    return StoreBusy(
        f"{uri} is open in this process (process {os.getpid()}) the other way, for reading or "
        "for writing; close it there first"
    )


def first_line(error: object) -> str:
    """The first line of an error's message."""
    return str(error).strip().split("\n", 1)[0]


def _check_path(con: Connection, uri: str) -> None:
    """Refuse a table such as CSV or JSON: DuckDB opens it in memory, where all rows would be lost."""
    if con.execute("select path from duckdb_databases() where not internal").fetchone() == (None,):
        con.close()
        raise StoreError(f"{uri} is not a DuckDB file; [store] uri, or --store, names another")


def _open_error(uri: str, path: Path, message: str) -> StoreError:
    if _LOCK_MESSAGE in message:
        owner = re.search(r"PID (\d+)", message)
        return busy_error(uri, owner[1] if owner else None)
    if "different configuration" in message:  # in DuckDB's error for a second connection
        return own_process_error(uri)
    if _FULL_PATTERN.search(message):
        return statement_error(uri, duckdb.Error(message))
    line, is_foreign = first_line(message), "not a valid DuckDB database" in message
    if (is_foreign or DAMAGE_PATTERN.search(message)) and _is_store_file(path):
        return damage_error(uri, line)
    if is_foreign:
        return StoreError(f"{uri} is not a DuckDB file; [store] uri, or --store, names another")
    return StoreError(f"{uri}: {line}; [store] uri, or --store, names another place")


def _is_store_file(path: Path) -> bool:
    """Whether a file that DuckDB refuses was a store: it has a journal or DuckDB's magic bytes."""
    if path.with_name(f"{path.name}.commits").exists():
        return True
    with suppress(OSError), path.open("rb") as file:
        return file.read(_MAGIC.stop)[_MAGIC] == b"DUCK"
    return False
