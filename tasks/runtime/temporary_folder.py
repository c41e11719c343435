"""Temporary folders that do not outlive their process for long.

A process holds a lock on a file in its folder. The system lets go of the lock whatever ends the
process; the next process that makes a folder removes those without a holder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from assizes.tasks.runtime.process import Closing

PREFIX: Final = "assizes-"
LOCK_NAME: Final = ".held"

MIN_AGE_S: Final = 60.0
"""Seconds for which a folder without a holder is kept: its maker may be about to lock it."""


class TemporaryFolder(Closing):
    """A new folder for temporary files, deleted when it is closed or by a later process."""

    def __init__(self) -> None:
        """Make the folder, and remove those that ended processes left."""
        remove_leftovers()
        self._folder = tempfile.TemporaryDirectory(prefix=PREFIX)
        self.path = Path(self._folder.name)
        self._lock = os.open(self.path / LOCK_NAME, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def close(self) -> None:
        """Delete the folder with all that it holds."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        self._folder.cleanup()


def remove_leftovers() -> None:
    """Remove the temporary folders of this user that no process holds any more."""
    for lock_path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{LOCK_NAME}"):
        with suppress(OSError):  # of another user, or removed by another process meanwhile
            state = lock_path.stat(follow_symlinks=False)
            if state.st_uid != os.getuid() or time.time() - state.st_mtime < MIN_AGE_S:
                continue
            lock = os.open(lock_path, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # `BlockingIOError`: it is held
                shutil.rmtree(lock_path.parent)
            finally:
                os.close(lock)
