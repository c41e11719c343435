"""Locks on asks: two processes that share a reply cache do not pay for the same reply.

The first process to ask locks a byte of one file, chosen by the key of the reply, until the reply
has come; the others wait. The system releases the lock of a process that dies, so nothing has to be
cleaned up. A lock of `fcntl` belongs to the process and is lost when the process closes the file
anywhere. So all runs of one process share one open file, and the locked bytes are noted beside it.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from assizes.tasks.runtime.closing import Closing

log = logging.getLogger(__name__)

LOCK_FILE: Final = ".turns"
"""The name of the lock file in the folder of the reply cache; the file stays empty."""

_FIRST_WAIT_S: Final = 0.02
_LONGEST_WAIT_S: Final = 0.25
"""Seconds before another process's lock is tried again: doubled from the first to the longest."""

_KEY_DIGITS: Final = 15
"""Hex digits of a key that choose the byte; 60 bits, because a file offset has 63."""


@dataclass
class _OpenLockFile:
    """A lock file as this process has it open.

    Attributes:
        descriptor: of the open file.
        users: how many `FileLocks` share the descriptor.
        locked_offsets: the bytes that this process has locked.
    """

    descriptor: int
    users: int = 0
    locked_offsets: set[int] = field(default_factory=set)


_open_files: Final[dict[str, _OpenLockFile]] = {}
_guard: Final = threading.Lock()


class FileLocks(Closing):
    """The locks of one local reply cache; implements
    `assizes.judge.engine.reply_cache.RequestLocks`.

    On a file system without locks every process asks: that may cost money, but loses no row.
    """

    def __init__(self, folder: str) -> None:
        self._path = Path(folder) / LOCK_FILE
        self._name = ""
        self._file: _OpenLockFile | None = None
        self._own_offsets: set[int] = set()
        self._is_unlockable = False

    @asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        """Hold the lock of a key of 64 hex digits; waits until no other process holds it."""
        offset = int(key[:_KEY_DIGITS], 16)
        wait_s = _FIRST_WAIT_S
        while not self._try_lock(offset):
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
        try:
            yield
        finally:
            with _guard:
                self._unlock(offset)

    def close(self) -> None:
        """Release all locks; closing again does nothing."""
        with _guard:
            for offset in list(self._own_offsets):
                self._unlock(offset)
            file, self._file = self._file, None
            if file is None:
                return
            file.users -= 1
            if not file.users:
                del _open_files[self._name]
                os.close(file.descriptor)

    def _try_lock(self, offset: int) -> bool:
        """Whether the caller may ask now: the byte is locked, or the file system has no locks."""
        if self._is_unlockable:
            return True
        with _guard:
            try:
                file = self._file = self._file or self._open()
                if offset in file.locked_offsets:
                    return False
                fcntl.lockf(file.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, offset)
            except (BlockingIOError, PermissionError) as error:
                # Some systems answer "permission denied" for a lock that another process holds.
                return False if self._file is not None else self._proceed_without_lock(error)
            except OSError as error:
                return self._proceed_without_lock(error)
            file.locked_offsets.add(offset)
            self._own_offsets.add(offset)
        return True

    def _open(self) -> _OpenLockFile:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._name = os.path.realpath(self._path)
        if (file := _open_files.get(self._name)) is None:
            descriptor = os.open(self._name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            file = _open_files[self._name] = _OpenLockFile(descriptor)
        file.users += 1
        return file

    def _unlock(self, offset: int) -> None:
        if self._file is None or offset not in self._own_offsets:
            return
        self._own_offsets.discard(offset)
        self._file.locked_offsets.discard(offset)
        fcntl.lockf(self._file.descriptor, fcntl.LOCK_UN, 1, offset)

    def _proceed_without_lock(self, error: OSError) -> bool:
        self._is_unlockable = True
        log.warning(
            "[cache] %s cannot be locked: %s; another process at the same run may pay for the same "
            "reply",
            self._path,
            error,
        )
        return True
