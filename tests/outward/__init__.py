"""Watches that no process of the tests speaks to the outside: `watch()` here, a `sitecustomize` in children."""

from __future__ import annotations

import os
from pathlib import Path

from tests.outward import sitecustomize

FOLDER = Path(__file__).parent
_ROOT = FOLDER.parents[1]
PYTHONPATH = os.pathsep.join((str(FOLDER), str(_ROOT / "src"), str(_ROOT)))
"""For processes that tests start: the guard, then the packages of this tree."""


def watch(log: Path) -> None:
    """In this process, and in those that take over its environment."""
    os.environ[sitecustomize.LOG] = str(log)
    os.environ["PYTHONPATH"] = PYTHONPATH
    sitecustomize.watch(log)


def attempts(log: Path) -> list[str]:
    """What was tried so far: process, event and address."""
    return log.read_text(encoding="utf-8").splitlines() if log.exists() else []
