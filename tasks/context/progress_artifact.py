"""The progress of a long run as an artifact in the Prefect UI, from what it tells its watcher."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

from assizes.tasks.context.run_context import watcher
from assizes.tasks.reports.render.artifacts import artifact_key
from assizes.tasks.runtime.progress import EVERY_S, Progress

KEY: Final = "assizes-progress"

LONG_S: Final = 10.0
"""A run that takes no longer has no such artifact."""


@dataclass
class _Count:
    """What was told last."""

    stage: str = ""
    done: int = 0
    total: int = 0

    def note(self, stage: str, done: int, total: int) -> None:
        """As a watcher is told: `total` above 0 begins a stage or says anew how many are done."""
        if total or stage != self.stage:
            self.stage, self.done, self.total = stage, done, total
        else:
            self.done += done

    def line(self, began: float, now: float) -> str:
        """How far it is, and how long the rest takes at the speed so far."""
        said = f"{self.stage}: {self.done} of {self.total} cases"
        left = self.total - self.done
        if self.done and left:
            said += f", about {(now - began) * left / self.done / 60:.1f} minutes left"
        return said


@asynccontextmanager
async def progress_shown(name: str, after_s: float = LONG_S) -> AsyncIterator[None]:
    """Show how far a run is, at most once a second; whoever watches already is told as before.

    Args:
        name: of the run; its artifact keeps one key.
        after_s: only for a run that takes longer.
    """
    before = watcher.get()
    count = _Count()

    def report(stage: str, done: int, total: int) -> None:
        before(stage, done, total)
        count.note(stage, done, total)

    token = watcher.set(report)
    shown = _Shown(Progress(f"{KEY}-{artifact_key(name)}"), count)
    showing = asyncio.create_task(shown.keep(after_s))
    try:
        yield
    finally:
        watcher.reset(token)
        showing.cancel()
        with suppress(asyncio.CancelledError):
            await showing
        await shown.end()


class _Shown:
    """The artifact of one run, once the run has taken long enough."""

    def __init__(self, progress: Progress, count: _Count) -> None:
        self._progress = progress
        self._count = count
        self._began = time.monotonic()
        self._told: tuple[str, int, int] | None = None

    async def keep(self, after_s: float) -> None:
        """Tell what has changed, until cancelled."""
        await asyncio.sleep(after_s)
        while True:
            await self._tell()
            await asyncio.sleep(EVERY_S)

    async def end(self) -> None:
        """Tell the end of what was shown."""
        if self._told is not None:
            await self._tell()
            await self._progress.end()

    async def _tell(self) -> None:
        count = self._count
        now = (count.stage, count.done, count.total)
        if count.total and now != self._told:
            self._told = now
            line = count.line(self._began, time.monotonic())
            await self._progress.tell(count.done / count.total, line)
