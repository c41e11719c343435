"""Prefect's database with all of its tables, for servers that tests start on an empty home.

Prefect builds the tables in hundreds of steps: 8 of the 13 seconds of CPU that the first start of a server takes.
What the first one has built is kept, and copied for the others.
"""

from __future__ import annotations

import fcntl
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.metadata import version
from pathlib import Path

KEPT = Path(__file__).resolve().parents[1] / ".pytest_cache" / f"prefect-{version('prefect')}"
"""The folder of the copy, from one run of tests to the next; another version of Prefect has its own."""

DATABASE = "prefect.db"
MEMO = "memo_store.toml"
"""What Prefect has registered in that database, and does not register again."""


def fill(home: Path) -> None:
    """Copy what is kept, if anything is, into a home of Prefect that has no database."""
    if (KEPT / DATABASE).exists() and not (home / DATABASE).exists():
        home.mkdir(parents=True, exist_ok=True)
        for name in (MEMO, DATABASE):
            shutil.copyfile(KEPT / name, home / name)


@contextmanager
def filled(home: Path) -> Iterator[None]:
    """A block that starts a server: its home is filled before, or kept after it, for who comes next."""
    if (KEPT / DATABASE).exists():
        fill(home)
        yield
        return
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the others wait for the first one, and copy
        fill(home)
        yield
        if not (KEPT / DATABASE).exists():
            _keep(home)


def _keep(home: Path) -> None:
    """Copy the database of a server that runs and has nothing in it yet."""
    if not (home / MEMO).exists():  # an empty database would be copied for nothing
        return
    with tempfile.TemporaryDirectory(dir=KEPT) as folder:
        copy = Path(folder, DATABASE)
        with (
            closing(sqlite3.connect(home / DATABASE)) as source,
            closing(sqlite3.connect(copy)) as target,
        ):
            source.backup(target)
        shutil.copyfile(home / MEMO, KEPT / MEMO)
        copy.replace(KEPT / DATABASE)
