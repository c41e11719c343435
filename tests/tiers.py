"""Which tests `make quick`, `make test` and `make test-all` run; each tier holds the one before.

A test says itself that it belongs to the last tier (`@pytest.mark.full`), where it kills processes, needs a server
of its own or a browser, or is a costly variant of a test that `make test` runs. What needs no process beside its
own is quick, unless it says that it takes seconds (`@pytest.mark.promised`).
"""

from __future__ import annotations

import pytest

QUICK_FOLDERS = (
    "tests/judge/",
    "tests/mutation/",
    "tests/tasks/reports/",
    "tests/tasks/runtime/",
    "tests/tasks/forecasts/",
)
PROCESSES = {"prefect_server", "openai_server", "judge_server", "s3", "served", "browser"}
"""Fixtures that start a process."""


def shares_setup(item: pytest.Item) -> bool:
    """Whether a test uses a fixture of its whole file, which each process would set up anew."""
    known = getattr(item, "_fixtureinfo", None)
    if known is None:
        return False
    return any(
        definitions[-1].scope == "module"
        for name, definitions in known.name2fixturedefs.items()
        if not name.startswith("_")  # those of plugins
    )


def tier_of(item: pytest.Item) -> str:
    """The lowest tier that runs a test: `quick`, `promised` or `full`."""
    if item.get_closest_marker("full"):
        return "full"
    needed = PROCESSES & set(getattr(item, "fixturenames", ()))
    if needed or item.get_closest_marker("promised") or not item.nodeid.startswith(QUICK_FOLDERS):
        return "promised"
    return "quick"
