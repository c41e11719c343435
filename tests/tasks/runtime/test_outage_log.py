"""What Prefect writes about a server that does not answer, and the line that stands in its place."""

from __future__ import annotations

import logging
import socket

import httpx
import pytest

from assizes.tasks.runtime.outage_log import REPEAT_AFTER_S, OutageFilter


@pytest.fixture
def refused() -> str:
    """The address of a port at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}/"


class Lines(logging.Handler):
    """Keeps what is written."""

    def __init__(self) -> None:
        """Begin with no line."""
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line as a formatter would write it."""
        self.lines.append(f"{record.levelname} {logging.Formatter().format(record)}")


def test_an_outage_is_one_line_and_other_errors_stay_as_they_are(refused: str):
    now = [0.0]
    logger, written = logging.Logger("prefect.any"), Lines()
    logger.addHandler(written)
    logger.addFilter(OutageFilter(lambda: now[0]))

    def fail_to_send() -> None:
        try:
            httpx.get(refused)
        except httpx.HTTPError as error:
            logger.exception("Service %r failed to process item %r", "EventsWorker", "x" * 3000)
            logger.warning("websocket failed", exc_info=error)

    fail_to_send()
    fail_to_send()
    assert len(written.lines) == 1
    assert written.lines[0].startswith("WARNING the Prefect server does not answer (ConnectError)")
    assert "\n" not in written.lines[0]
    now[0] = REPEAT_AFTER_S + 1
    fail_to_send()
    assert len(written.lines) == 2

    try:
        int("x")
    except ValueError:
        logger.exception("a defect")
    logger.error("a plain one")
    assert len(written.lines) == 4
    assert "ValueError" in written.lines[2]
    assert written.lines[3] == "ERROR a plain one"
