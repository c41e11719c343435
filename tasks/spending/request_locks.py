"""One asks, the others wait: the same ask is not paid for by two that share a reply cache.

The processes of a machine lock a byte of one file, chosen by the reply's key, for as long as they
ask. The system takes the lock from a process that dies, so nothing has to be cleared up after one.
Such a lock belongs to the process, and goes when the process closes the file anywhere: rooms of one
process share the open file, and what they hold of it is kept beside it.
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

FILE: Final = ".turns"
"""Lies in the reply cache's folder, and stays empty."""

_FIRST_S: Final = 0.02
_LONGEST_S: Final = 0.25
_KEY_DIGITS: Final = 15


@dataclass
class _Opened:
    """A file of turns as this process has it open: who uses it, and the places that are taken."""

    number: int
    users: int = 0
    held: set[int] = field(default_factory=set)


_opened: Final[dict[str, _Opened]] = {}
_guard: Final = threading.Lock()


class FileTurns(Closing):
    """Turns at the asks of one local reply cache; implements `assizes.judge.engine.reply_cache.Turns`.

    Where the file system knows no locks, everybody asks: that costs money, and no row.
    """

    def __init__(self, folder: str) -> None:
        """Open nothing yet."""
        self._path = Path(folder) / FILE
        self._name = ""
        self._file: _Opened | None = None
        self._own: set[int] = set()
        self._fault = False

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        """Be the only one that asks for the reply of this key, 64 hex digits."""
        place = int(key[:_KEY_DIGITS], 16)
        wait_s = _FIRST_S
        while not self._taken(place):
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_S)
        try:
            yield
        finally:
            with _guard:
                self._give_back(place)

    def close(self) -> None:
        """Let go of every turn; closing again does nothing."""
        with _guard:
            for place in list(self._own):
                self._give_back(place)
            file, self._file = self._file, None
            if file is None:
                return
            file.users -= 1
            if not file.users:
                del _opened[self._name]
                os.close(file.number)

    def _taken(self, place: int) -> bool:
        """Whether the turn is ours now; also where there are no turns to be had."""
        if self._fault:
            return True
        with _guard:
            try:
                file = self._file = self._file or self._open()
                if place in file.held:
                    return False
                fcntl.lockf(file.number, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            except (BlockingIOError, PermissionError) as error:
                # Some systems say "permission denied" for a lock that another process holds.
                return False if self._file is not None else self._without(error)
            except OSError as error:
                return self._without(error)
            file.held.add(place)
            self._own.add(place)
        return True

    def _open(self) -> _Opened:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._name = os.path.realpath(self._path)
        if (file := _opened.get(self._name)) is None:
            number = os.open(self._name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            file = _opened[self._name] = _Opened(number)
        file.users += 1
        return file

    def _give_back(self, place: int) -> None:
        if self._file is None or place not in self._own:
            return
        self._own.discard(place)
        self._file.held.discard(place)
        fcntl.lockf(self._file.number, fcntl.LOCK_UN, 1, place)

    def _without(self, error: OSError) -> bool:
        self._fault = True
        log.warning(
            "[cache] %s cannot be locked: %s; another process at the same run may pay for the same "
            "reply",
            self._path,
            error,
        )
        return True
