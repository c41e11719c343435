"""The parent's side of the sandbox: lends copies of fixture databases, and talks to child processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import stat
import sys
from collections import Counter, OrderedDict
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Literal

from assizes.judge.protocol import SqlTable
from assizes.tasks.runtime.temporary_folder import TemporaryFolder
from assizes.tasks.sandbox.child import Caps

EngineName = Literal["sqlite", "duckdb"]

_MAX_COPIES = 8  # copies kept on disk: more than there are child processes, few enough for any disk

_Key = tuple[str, int, int]
"""The file of which a copy was made: its path, its time of change in nanoseconds, its bytes."""


class NoFixture(Exception):
    """A database that cannot be used; the message says why."""

    def __init__(self, database: str, why: str) -> None:
        super().__init__(f"database {database!r} {why}")


@dataclass(frozen=True, slots=True)
class Fixture:
    """A database file that a case names."""

    name: str  # as the case gives it
    path: Path
    engine: EngineName  # told by the first bytes of the file


def find_fixture(database: str, base: Path | None, own_files: Collection[Path] = ()) -> Fixture:
    """Find the database file that a case names, by its path relative to `base`.

    A transcript is not trusted: it must not reach files outside a folder, hidden files, or the
    files of a run, whose resolved paths are `own_files`. Without a `base` a relative path is in the
    current folder, an absolute path may be anywhere, and neither may be a link to another folder.

    Raises:
        NoFixture: when there is no such file, it lies elsewhere, or is no database.
    """
    if not database:
        raise NoFixture(database, "is no path")
    full_path = (base or Path.cwd()) / database
    inside = base or (full_path.parent if Path(database).is_absolute() else Path.cwd())
    try:
        path = full_path.resolve(strict=True)  # follows links, so that their targets are checked
        mode = path.stat().st_mode
    except (OSError, RuntimeError) as error:  # the latter: links in a circle
        raise NoFixture(database, "is not there") from error
    except ValueError as error:  # a NUL, or a lone surrogate
        raise NoFixture(database, "is no path") from error
    if not path.is_relative_to(inside.resolve()):  # by `..` or by a link
        raise NoFixture(database, "leads out of its folder; [transcripts] databases names one")
    parts = path.relative_to(inside.resolve()).parts
    if path in own_files or any(part.startswith(".") for part in parts):
        raise NoFixture(database, "is hidden, or a file of a run")
    if not stat.S_ISREG(mode):  # a pipe or a device may never end
        raise NoFixture(database, "is not a file")
    return Fixture(database, path, _engine(path, database))


def _engine(path: Path, database: str) -> EngineName:
    """The engine of a database file by its magic bytes; DuckDB's follow an 8-byte checksum."""
    try:
        with path.open("rb") as file:
            head = file.read(16)
    except OSError as error:
        raise NoFixture(database, "cannot be read") from error
    is_sqlite = head == b"SQLite format 3\x00"
    if not is_sqlite and head[8:12] != b"DUCK":
        raise NoFixture(database, "is neither a SQLite nor a DuckDB file")
    # A copy without its log would lack the newest rows, or be torn.
    for log in (f"{path}-wal", f"{path}-journal", f"{path}.wal"):
        if Path(log).exists() and Path(log).stat().st_size:
            raise NoFixture(database, f"is being written: {Path(log).name} is not empty")
    return "sqlite" if is_sqlite else "duckdb"


class FixtureCopies:
    """Private copies of database files in one folder; the least recently used are deleted first.

    A file whose time or size has changed is copied again. Threads may call the methods at once.
    """

    def __init__(self) -> None:
        # A folder that only this user can read, with an empty one in it for the child processes.
        self._folder = TemporaryFolder()
        self.empty = self._folder.path / "empty"
        self.empty.mkdir()
        self._copies: OrderedDict[_Key, Path] = OrderedDict()  # the least recently used first
        self._lent_counts: Counter[Path] = Counter()  # queries that read each copy now
        self._lock = Lock()
        self._copy_count = 0  # ever made; names the next one

    def lend_copy(self, fixture: Fixture) -> Fixture:
        """Lend a copy of a file, made when there is none; it is kept until `return_copy`.

        Raises:
            NoFixture: when the file cannot be copied.
        """
        try:
            status = fixture.path.stat()
            key = (str(fixture.path), status.st_mtime_ns, status.st_size)
            with self._lock:
                copy = self._copies.get(key)
                if copy is not None:
                    self._copies.move_to_end(key)
                    self._lent_counts[copy] += 1
            copy = copy or self._lend_new(key, fixture.path)
        except OSError as error:
            raise NoFixture(fixture.name, f"cannot be copied: {error}") from error
        return Fixture(fixture.name, copy, fixture.engine)

    def return_copy(self, copy: Fixture) -> None:
        """Take back a lent copy, and delete the oldest unused copies when there are too many."""
        with self._lock:
            self._lent_counts[copy.path] -= 1
            unused = [key for key, path in self._copies.items() if not self._lent_counts[path]]
            for key in unused[: max(0, len(self._copies) - _MAX_COPIES)]:
                self._copies.pop(key).unlink(missing_ok=True)

    def close(self) -> None:
        """Delete the folder with all copies."""
        self._folder.close()

    def _lend_new(self, key: _Key, path: Path) -> Path:
        """Make a copy and lend it; the lock is free meanwhile, so that no thread waits for the disk."""
        with self._lock:
            self._copy_count += 1
            copy = self._folder.path / f"{self._copy_count}.db"
        shutil.copyfile(path, copy)
        with self._lock:
            lent = self._copies.setdefault(key, copy)
            self._lent_counts[lent] += 1
        if lent != copy:  # another thread was faster
            copy.unlink()
        return lent


_ROOT = Path(__file__).parents[3]
"""The folder from which `assizes` is imported; the child process gets no other import path."""

_PROGRAM = f"import sys; sys.path.insert(0, {str(_ROOT)!r}); from assizes.tasks.sandbox.child import main; main()"
_START_S = 15.0
"""Seconds to wait for the first answer of a child: importing DuckDB from a cold disk is slow."""

_GRACE_S = 1.0
"""Seconds after a statement's time at which the child is killed; its own timer takes half of them."""

_FRAME_BYTES = 16_000_000  # the most bytes of a frame; a child that keeps to its caps sends less

_NOISE = re.compile(
    r"""
      '(?:[^']|'')*'      # a string
    | "(?:[^"]|"")*"      # a quoted name
    | `[^`]*`             # a quoted name, as MySQL writes it
    | \[[^\]]*\]          # a quoted name, as T-SQL writes it
    | --[^\n]*            # a comment to the end of the line
    | /\*.*?(?:\*/|\Z)    # a comment
    """,
    re.VERBOSE | re.DOTALL,
)
_WORDS = re.compile(r"[()]|\border\s+by\b", re.IGNORECASE)


class ChildEnded(Exception):
    """The child process is gone; the message says how it ended."""


def has_order_by(sql: str) -> bool:
    """Whether a statement orders its result, that is: has ORDER BY outside all parentheses."""
    depth = 0
    for match in _WORDS.finditer(_NOISE.sub(" ", sql)):
        if match[0] == "(":
            depth += 1
        elif match[0] == ")":
            depth -= 1
        elif depth == 0:
            return True
    return False


class Worker:
    """A child process with an empty environment and an empty working folder.

    The child runs one statement at a time. Once `failed` is set, only `end` may be called.
    """

    def __init__(self, process: asyncio.subprocess.Process, caps: Caps) -> None:
        self.failed = False
        self.statements = 0
        self._process = process
        self._caps = caps
        self._too_slow = f"took longer than {caps.time_s:g} s"

    @property
    def pid(self) -> int:
        """The process id of the child."""
        return self._process.pid

    async def open(self, fixture: Fixture, *, writes: bool) -> str | None:
        """Open a database and close the one before; returns the error where it cannot be opened.

        Raises:
            ChildEnded: when the child did not answer.
        """
        request = {"path": str(fixture.path), "engine": fixture.engine, "writes": writes}
        answer = await self._send_request({"open": request}, _START_S)
        return None if answer["error"] is None else str(answer["error"])

    async def run(self, statement: str) -> SqlTable:
        """Run one statement on the open database; if the child ends, the result says so."""
        if len(statement) > self._caps.statement_chars:
            too_long = f"longer than {self._caps.statement_chars} characters"
            return SqlTable(statement, error=too_long)
        self.statements += 1
        try:
            answer = await self._send_request({"run": statement}, self._caps.time_s + _GRACE_S)
        except ChildEnded as ended:
            return SqlTable(statement, error=str(ended))
        self.failed = answer["spent"]
        if answer["error"] is not None:
            return SqlTable(statement, error=answer["error"])
        rows, columns = tuple(map(tuple, answer["rows"])), tuple(answer["columns"])
        ordered, digests = has_order_by(statement), tuple(answer["digests"])
        cut = answer["truncated"]
        return SqlTable(statement, columns, rows, len(rows), cut, ordered, digests=digests)

    async def end(self) -> None:
        """Kill the child and wait until it has ended."""
        self.failed = True
        if self._process.returncode is None:
            # Not Process.kill(): that may reap a child that has just ended by itself, and then its
            # exit code is lost.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        await self._process.wait()

    async def _send_request(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Send a frame and read the answer; an error or a cancel meanwhile leaves `failed` set."""
        failed, self.failed = self.failed, True  # a late answer would be taken for the next one
        if failed:
            raise ChildEnded("the sandbox has ended")
        try:
            async with asyncio.timeout(seconds):
                answer = await self._exchange_frames(json.dumps(request).encode())
        except TimeoutError as error:
            await self.end()
            raise ChildEnded(self._too_slow) from error
        except (asyncio.IncompleteReadError, OSError, ValueError) as error:
            await self.end()
            raise ChildEnded(self._exit_text()) from error
        self.failed = False
        return answer

    async def _exchange_frames(self, body: bytes) -> dict[str, Any]:
        pipe_in, pipe_out = self._process.stdin, self._process.stdout
        if pipe_in is None or pipe_out is None:
            raise ChildEnded("the sandbox has no pipes")
        pipe_in.write(len(body).to_bytes(4, "big") + body)
        await pipe_in.drain()
        length = int.from_bytes(await pipe_out.readexactly(4), "big")
        if length > _FRAME_BYTES:  # a child that was taken over must not fill this memory
            raise OSError(f"a frame of {length} bytes")
        answer: dict[str, Any] = json.loads(await pipe_out.readexactly(length))
        return answer

    def _exit_text(self) -> str:
        """How the child ended: its timers send SIGALRM or SIGXCPU, other signals mean its memory."""
        code = self._process.returncode
        if code in {-signal.SIGALRM, -signal.SIGXCPU}:
            return self._too_slow
        return f"the sandbox ended ({code}); it may have needed more memory than allowed"


async def start_worker(caps: Caps, folder: Path) -> Worker:
    """Start a child process, whose working directory is an empty folder.

    Raises:
        OSError: when the system cannot start a process.
    """
    process = await asyncio.create_subprocess_exec(
        # Isolated (-I): no PYTHON* variables, no user packages, no import from the current folder.
        *(sys.executable, "-I", "-c", _PROGRAM, json.dumps(asdict(caps))),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=folder,
        env={},  # no keys of providers
        start_new_session=True,  # Ctrl-C at the terminal does not reach the child
    )
    return Worker(process, caps)
