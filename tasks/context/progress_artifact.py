"""Shows the progress of a long run as an artifact in the Prefect UI."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

from assizes.tasks.context.run_context import progress_reporter
from assizes.tasks.reports.render.artifacts import artifact_key
from assizes.tasks.runtime.progress import UPDATE_INTERVAL_S, ProgressArtifact

KEY: Final = "assizes-progress"

SHOW_AFTER_S: Final = 10.0
"""Seconds before the artifact appears; a shorter run gets none."""


@dataclass
class _StageCount:
    """The stage of a run, and how many of its cases are done."""

    stage: str = ""
    done: int = 0
    total: int = 0

    def note(self, stage: str, done: int, total: int) -> None:
        """Take in a report, with the arguments of `ProgressReporter`."""
        if total or stage != self.stage:
            self.stage, self.done, self.total = stage, done, total
        else:
            self.done += done

    def line(self, began: float, now: float) -> str:
        """A line about the stage, with an estimate of the time left at the speed so far.

        Args:
            began: when the run began, in seconds of `time.monotonic`.
            now: the present moment on the same clock.
        """
        text = f"{self.stage}: {self.done} of {self.total} cases"
        remaining = self.total - self.done
        if self.done and remaining:
            text += f", about {(now - began) * remaining / self.done / 60:.1f} minutes left"
        return text


@asynccontextmanager
async def show_progress(name: str, after_s: float = SHOW_AFTER_S) -> AsyncIterator[None]:
    """Show how far a run is, at most once a second; an earlier progress reporter is still called.

    Args:
        name: the name of the run series, whose artifact keeps the same key.
        after_s: seconds before the artifact appears.
    """
    before = progress_reporter.get()
    count = _StageCount()

    def report(stage: str, done: int, total: int) -> None:
        before(stage, done, total)
        count.note(stage, done, total)

    token = progress_reporter.set(report)
    display = _ProgressDisplay(ProgressArtifact(f"{KEY}-{artifact_key(name)}"), count)
    update_task = asyncio.create_task(display.send_updates(after_s))
    try:
        yield
    finally:
        progress_reporter.reset(token)
        update_task.cancel()
        with suppress(asyncio.CancelledError):
            await update_task
        await display.end()


class _ProgressDisplay:
    """The artifact of one run, once the run has taken long enough."""

    def __init__(self, progress: ProgressArtifact, count: _StageCount) -> None:
        self._progress = progress
        self._count = count
        self._began = time.monotonic()
        self._last_sent: tuple[str, int, int] | None = None

    async def send_updates(self, after_s: float) -> None:
        """Update the artifact when the progress has changed, until cancelled."""
        await asyncio.sleep(after_s)
        while True:
            await self._send_update()
            await asyncio.sleep(UPDATE_INTERVAL_S)

    async def end(self) -> None:
        """Send the last progress, if the artifact was ever shown."""
        if self._last_sent is not None:
            await self._send_update()
            await self._progress.flush()

    async def _send_update(self) -> None:
        count = self._count
        now = (count.stage, count.done, count.total)
        if count.total and now != self._last_sent:
            self._last_sent = now
            line = count.line(self._began, time.monotonic())
            await self._progress.update(count.done / count.total, line)
