"""Who may open a DuckDB file now: the two lock files beside it, which a dead process frees.

`<file>.writer` is locked by the one process that may write, from its first opening of the file to its
last closing. It says which process that is, and on which runs it works. `<file>.turn` is locked for
moments by whoever is about to open the file: so a writer sees that a reader waits, and a writer who
waits for readers lets no further reader in. Only a writer makes these files, and it removes them at
its end.

A reader also locks the DuckDB file itself before DuckDB looks at it (`ReadLock`).
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

log = logging.getLogger(__name__)

_RETRY_S: Final = 0.005  # seconds between two tries to get a lock
_MAX_MARK_BYTES: Final = 1 << 20  # of `<file>.writer`, a line about each run in work


@dataclass(slots=True)
class WriterMark:
    """What a writer says in `<file>.writer`, and its lock on that file."""

    path: Path
    fd: int  # open as long as this process may write
    users: int = 1  # the stores of this process that have the file open for writing
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)  # about runs in work, by run id

    def put_run(self, run_id: str, lock: dict[str, Any] | None) -> None:
        """Say that this process works on a run, or no longer (None)."""
        with _marks_lock:
            if lock is None:
                self.runs.pop(run_id, None)
            else:
                self.runs[run_id] = lock
            self.publish()

    def publish(self) -> None:
        """Write the mark anew, so that other processes see it."""
        content = {"pid": os.getpid(), "host": socket.gethostname(), "runs": self.runs}
        data = json.dumps(content).encode()
        os.pwrite(self.fd, data, 0)
        os.ftruncate(self.fd, len(data))


_marks: dict[Path, WriterMark] = {}  # of this process, by path of `<file>.writer`
_marks_lock = threading.Lock()
_locks: set[int] = set()  # the descriptors with a lock that this process has


class Turns:
    """The turns of processes at one DuckDB file."""

    def __init__(self, path: Path) -> None:
        real = Path(os.path.realpath(path))  # a link must lead to the same lock files
        self._turn = real.with_name(f"{real.name}.turn")
        self._writer = real.with_name(f"{real.name}.writer")

    def become_writer(self, wait_s: float) -> WriterMark | None:
        """Become the writer, or one more store of the writing process; None: another process is.

        Raises:
            OSError: the lock files cannot be made.
        """
        deadline = time.monotonic() + wait_s
        self._writer.parent.mkdir(parents=True, exist_ok=True)
        while True:
            with _marks_lock:
                if (mark := _marks.get(self._writer)) is not None:
                    mark.users += 1
                    return mark
                if (fd := _lock_now(self._writer, creates=True)) is not None:
                    mark = _marks[self._writer] = WriterMark(self._writer, fd)
                    mark.publish()
                    os.close(os.open(self._turn, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666))
                    return mark
            if time.monotonic() > deadline:
                return None
            time.sleep(_RETRY_S)

    def leave(self, mark: WriterMark) -> None:
        """Give up one use of the mark; with the last one, other processes may write."""
        with _marks_lock:
            if _marks.get(mark.path) is not mark:
                return  # in a child that was forked: the mark is that of its parent
            mark.users -= 1
            if mark.users == 0:
                del _marks[mark.path]
                # Removed while they are locked: whoever waits for them finds that they are gone.
                for path in (self._turn, self._writer):
                    path.unlink(missing_ok=True)
                _unlock(mark.fd)

    def is_own(self) -> bool:
        """Whether this process is the writer."""
        with _marks_lock:
            return self._writer in _marks

    def has_writer(self) -> bool:
        """Whether a living process is the writer."""
        return self.is_own() or _is_locked(self._writer)

    def writer(self) -> Mapping[str, Any]:
        """What the living writer says: `pid`, `host`, `runs`; empty without a writer."""
        for _ in range(3):  # a mark that is being written may be half of one
            if not self.has_writer():
                return {}
            with suppress(OSError, ValueError), self._writer.open("rb") as file:
                content: dict[str, Any] = json.loads(file.read(_MAX_MARK_BYTES))
                return content
            time.sleep(_RETRY_S)
        return {}

    def is_wanted(self) -> bool:
        """Whether somebody is about to open the file."""
        return _is_locked(self._turn)

    @contextmanager
    def turn(self, wait_s: float) -> Iterator[None]:
        """Wait for the turn at the file, and hold it for the block; after `wait_s`, go on without.

        Without a writer there are no turns: readers open the file together.
        """
        deadline, fd = time.monotonic() + wait_s, None
        with suppress(OSError):  # no such file, or one of another user
            while (fd := _lock_now(self._turn, creates=False)) is None:
                if time.monotonic() > deadline:
                    break
                time.sleep(_RETRY_S)
        try:
            yield
        finally:
            if fd is not None:
                _unlock(fd)


class ReadLock:
    """A lock on a DuckDB file that keeps writers of other processes out until it is released.

    DuckDB reads the header of a file before it locks the file. A writer that commits and closes the
    file in between leaves the reader with a header that is out of date: the last commits seem lost,
    and older blocks may have been written over. So this lock is taken first. It is a lock of the
    open file (`F_OFD_SETLK` of Linux): unlike DuckDB's own, it stays when this process closes
    another descriptor of the file.
    """

    def __init__(self, path: Path) -> None:
        """Lock a file, where the system and the file system have such locks.

        Raises:
            FileIsWritten: a process has the file open for writing.
            OSError: the file cannot be opened.
        """
        self._fd: int | None = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        if not hasattr(fcntl, "F_OFD_SETLK"):  # no Linux: DuckDB's own lock must do
            return
        try:
            fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, _WHOLE_FILE)
        except BlockingIOError:
            found = fcntl.fcntl(self._fd, fcntl.F_OFD_GETLK, _WHOLE_FILE)
            self.release()
            raise FileIsWritten(_FLOCK.unpack(found)[-1]) from None
        except OSError as error:
            log.debug("%s: the file system has no locks of open files: %s", path, error)

    def release(self) -> None:
        """Free the file. DuckDB's lock ends with this one, so DuckDB must have closed the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


class FileIsWritten(Exception):
    """A process has a file open for writing; `pid` is 0 where it freed the file in between."""

    def __init__(self, pid: int) -> None:
        super().__init__(pid)
        self.pid = pid


_FLOCK: Final = struct.Struct("hhqqi")  # `struct flock`: type, whence, start, length, process id
_WHOLE_FILE: Final = _FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)  # length 0: to the end


def _lock_now(path: Path, *, creates: bool) -> int | None:
    """A descriptor with the lock on a file, which closing frees; None while somebody else has it."""
    flags = (os.O_RDWR | os.O_CREAT if creates else os.O_RDONLY) | os.O_CLOEXEC
    while True:
        fd = os.open(path, flags, 0o666)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(path, fd):
                _locks.add(fd)
                return fd
        except BlockingIOError:
            os.close(fd)
            return None
        except OSError:
            os.close(fd)
            raise
        os.close(fd)  # its last holder removed the file in between


def _unlock(fd: int) -> None:
    if fd in _locks:  # else this process was forked from the one that had the lock
        _locks.remove(fd)
        os.close(fd)


def _leave_locks_to_parent() -> None:
    """In a forked child: a lock that it inherited would outlive the parent, and keep writers out."""
    _marks_lock.release()
    _marks.clear()
    while _locks:
        os.close(_locks.pop())


os.register_at_fork(
    before=_marks_lock.acquire,  # else the child might inherit it from another thread, for good
    after_in_parent=_marks_lock.release,
    after_in_child=_leave_locks_to_parent,
)


def _is_locked(path: Path) -> bool:
    """Whether somebody has the lock on a file, another descriptor of this process included."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _is_at(path: Path, fd: int) -> bool:
    with suppress(OSError):
        return os.path.samestat(path.stat(), os.fstat(fd))
    return False
