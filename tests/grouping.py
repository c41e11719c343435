"""Tests of one `xdist_group` run in one process, as `--dist loadgroup` of xdist promises.

xdist 3.8 tells the groups in the ids of the tests, which pytest 9.2 no longer lets it change: without a word, every
test is given out by itself, and each process sets up again what a file shares (pytest-xdist, issue 1386). Here each
process writes the groups to a file of the one that gives the tests out.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadGroupScheduling

FOLDER = "ASSIZES_TESTS_GROUPS"
"""Names a folder of the process that gives out the tests (tests/conftest.py)."""

FILE = "groups.json"


def group_of(item: pytest.Item) -> str | None:
    """The group of a test; of several, as xdist does, all together."""
    names = {str(mark.args[0]) for mark in item.iter_markers("xdist_group")}
    return "_".join(sorted(names)) or None


def pytest_configure(config: pytest.Config) -> None:
    """Have xdist give out the tests in the order of this module."""
    config.option.loadscopereorder = False


@pytest.hookimpl(trylast=True)  # after `-m` has chosen
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long comes first, so that no process works on it when the others have ended.

    Groups and tests with the mark `long` are first, then large groups, then the tests of no group.
    """
    units = [group_of(item) or item.nodeid for item in items]
    sizes = Counter(units)
    long = {
        unit for item, unit in zip(items, units, strict=True) if item.get_closest_marker("long")
    }
    order = {
        item: (unit not in long, -sizes[unit]) for item, unit in zip(items, units, strict=True)
    }
    items.sort(key=order.__getitem__)


@pytest.hookimpl(tryfirst=True)  # before xdist says that the tests are known
def pytest_collection_finish(session: pytest.Session) -> None:
    """Write the groups of the tests; every process writes the same."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    groups = {item.nodeid: group for item in session.items if (group := group_of(item))}
    folder = Path(os.environ[FOLDER])
    own = folder / f"{FILE}.{os.getpid()}"
    own.write_text(json.dumps(groups), encoding="utf-8")
    own.replace(folder / FILE)


class Scheduling(LoadGroupScheduling):
    """Gives out groups as a whole, and the tests of no group one by one."""

    @cached_property
    def _groups(self) -> dict[str, str]:
        text = Path(os.environ[FOLDER], FILE).read_text(encoding="utf-8")
        found: dict[str, str] = json.loads(text)
        return found

    def _split_scope(self, nodeid: str) -> str:
        """The group, or the test itself."""
        return self._groups.get(nodeid, nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling | None:
    """Take the place of the scheduler of `--dist loadgroup`."""
    return Scheduling(config, log) if config.getvalue("dist") == "loadgroup" else None
