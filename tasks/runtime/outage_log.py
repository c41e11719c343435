"""One line of ours in place of Prefect's many, while the Prefect server does not answer.

Prefect writes every event that it cannot send as a line of thousands of characters, and a traceback
for each connection that breaks.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from typing import Final

LOGGERS: Final = (
    "prefect._internal.concurrency",  # events that could not be sent
    "prefect.FlowRunCancellingObserver",  # of a worker: which flow runs were cancelled
    "prefect.FlowRunSuspendingObserver",
    "prefect.events.clients",
)
"""The loggers of Prefect that tell of an outage in their own words."""

REPEAT_AFTER_S: Final = 300.0
"""Seconds of an outage after which the line is written again."""

MESSAGE: Final = (
    "the Prefect server does not answer (%s): its pages and automations hear nothing meanwhile; a "
    "judging process keeps its rows, and a worker asks on"
)


def install_outage_filter() -> None:
    """Have Prefect's loggers tell an outage by one line; calling it again changes nothing."""
    for name in LOGGERS:
        if _FILTER not in (logger := logging.getLogger(name)).filters:
            logger.addFilter(_FILTER)


class OutageFilter(logging.Filter):
    """Rewrites the first record about an outage, and leaves out those that follow it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without an outage; `clock` is monotonic time in seconds."""
        super().__init__()
        self._clock = clock
        self._written_at: float | None = None  # when the line was written last

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is written; a record about an outage is changed where it is."""
        error = (record.exc_info or (None, None))[1] or sys.exc_info()[1]
        if record.levelno < logging.WARNING or error is None or not is_connection_error(error):
            return True
        now = self._clock()
        if self._written_at is not None and now - self._written_at < REPEAT_AFTER_S:
            return False
        self._written_at = now
        record.msg, record.args = MESSAGE, (type(error).__name__,)
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        record.exc_info = record.exc_text = None
        return True


def is_connection_error(error: BaseException) -> bool:
    """Whether an error, or what it came from, says that no server is at the other end."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        package = type(current).__module__.partition(".")[0]
        if isinstance(current, OSError) or package in ("httpx", "httpcore", "websockets"):
            return True
        current = current.__cause__ or current.__context__
    return False


_FILTER: Final = OutageFilter()
