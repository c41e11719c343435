"""A test that fails here shows what the Prefect server had to say."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from assizes.tasks.runtime.prefect_server import home

SHOWN_CHARS = 8_000


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the end of the server's log to the report of a test that failed."""
    report = yield
    log = home() / "server.log"
    if report.failed and log.exists():
        text = log.read_text(encoding="utf-8", errors="replace")
        report.sections.append(("end of the Prefect server's log", text[-SHOWN_CHARS:]))
    return report
