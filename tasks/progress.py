"""How far a long flow is, as an artifact in the Prefect UI."""

from __future__ import annotations

import time
from typing import Final
from uuid import UUID

from prefect.artifacts import acreate_progress_artifact, aupdate_progress_artifact

EVERY_S: Final = 1.0
"""Told no more often than this; what was left untold is told at the end."""


class Progress:
    """A progress artifact; it is created with the first that is told."""

    def __init__(self, key: str) -> None:
        """Under a stable key, so that the UI keeps a timeline."""
        self._key = key
        self._artifact: UUID | None = None
        self._told_at = 0.0
        self._untold: tuple[float, str] | None = None

    async def tell(self, share: float, line: str) -> None:
        """How much is done, 0..1, and a line about it."""
        self._untold = (share, line)
        if self._artifact is None or time.monotonic() - self._told_at >= EVERY_S:
            await self.end()

    async def end(self) -> None:
        """Tell what was last to be told."""
        if self._untold is None:
            return
        share, line = self._untold
        self._untold, self._told_at = None, time.monotonic()
        percent = round(100 * share, 1)
        if self._artifact is None:
            self._artifact = await acreate_progress_artifact(percent, self._key, line)
        else:
            await aupdate_progress_artifact(self._artifact, percent, line)
