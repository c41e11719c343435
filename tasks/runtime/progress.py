"""How far a long flow is, as an artifact in the Prefect UI."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import UUID

import httpx
from prefect.artifacts import acreate_progress_artifact, aupdate_progress_artifact

log = logging.getLogger(__name__)

UPDATE_INTERVAL_S: Final = 1.0
"""Told no more often than this; what was left untold is told at the end."""


@contextmanager
def ignore_server_errors(what: str) -> Iterator[None]:
    """What is shown is a view of the work: without the server the work goes on."""
    try:
        yield
    except httpx.HTTPError as error:
        log.warning("%s cannot be shown in Prefect: %s", what, type(error).__name__)


class ProgressArtifact:
    """A progress artifact; it is created with the first that is told.

    What a server that is away was not told, it is told with the next, or at the end.
    """

    def __init__(self, key: str) -> None:
        """Under a stable key, so that the UI keeps a timeline."""
        self._key = key
        self._artifact: UUID | None = None
        self._sent_at = 0.0
        self._pending: tuple[float, str] | None = None

    async def update(self, share: float, line: str) -> None:
        """How much is done, 0..1, and a line about it."""
        self._pending = (share, line)
        if self._artifact is None or time.monotonic() - self._sent_at >= UPDATE_INTERVAL_S:
            await self.flush()

    async def flush(self) -> None:
        """Tell what was last to be told."""
        if self._pending is None:
            return
        share, line = self._pending
        self._sent_at = time.monotonic()
        percent = round(100 * share, 1)
        with ignore_server_errors("the progress"):
            if self._artifact is None:
                self._artifact = await acreate_progress_artifact(percent, self._key, line)
            else:
                await aupdate_progress_artifact(self._artifact, percent, line)
            self._pending = None
