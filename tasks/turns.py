"""One process asks, the others wait: the same ask is not paid for by two that share a reply cache.

The processes of a machine lock a byte of one file, chosen by the reply's key, for as long as they
ask. The system takes the lock from a process that dies, so nothing has to be cleared up after one.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tasks.closing import Closing

log = logging.getLogger(__name__)

FILE: Final = ".turns"
"""Lies in the reply cache's folder, and stays empty."""

_FIRST_S: Final = 0.02
_LONGEST_S: Final = 0.25
_KEY_DIGITS: Final = 15


class FileTurns(Closing):
    """Turns at the asks of one local reply cache; implements `judge.kept.Turns`.

    Where the file system knows no locks, everybody asks: that costs money, and no row.
    """

    def __init__(self, folder: str) -> None:
        """Open nothing yet."""
        self._path = Path(folder) / FILE
        self._file: int | None = None
        self._fault = False

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        """Be the only process that asks for the reply of this key, 64 hex digits."""
        place = int(key[:_KEY_DIGITS], 16)
        wait_s = _FIRST_S
        while not self._taken(place):
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_S)
        try:
            yield
        finally:
            if self._file is not None and not self._fault:
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, place)

    def close(self) -> None:
        """Let go of every turn; closing again does nothing."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _taken(self, place: int) -> bool:
        """Whether the turn is ours now; also where there are no turns to be had."""
        if self._fault:
            return True
        try:
            if self._file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except (BlockingIOError, PermissionError) as error:
            # Some systems say "permission denied" for a lock that another process holds.
            if self._file is not None:
                return False
            return self._without(error)
        except OSError as error:
            return self._without(error)
        return True

    def _without(self, error: OSError) -> bool:
        self._fault = True
        log.warning(
            "[cache] %s cannot be locked: %s; another process at the same run may pay for the same "
            "reply",
            self._path,
            error,
        )
        return True
