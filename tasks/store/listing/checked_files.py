"""What a reader found whole is not read again: the commits of a DuckDB file and its journal.

A file that changed in any way has another mark, and is checked again; so is a copy of it.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Final

import polars as pl

from assizes.tasks.store.listing.kept_folders import TICK_NS
from assizes.tasks.store.listing.tables import DerivedTables

_PARTS: Final = ("", ".wal", ".commits")
"""What follows the name of a file in the names of its parts: itself, its log and its journal."""

_TABLE: Final = "checked"
_SCHEMA: Final[dict[str, Any]] = {"mark": pl.String}  # of the parts when they were checked


def file_mark(path: Path) -> str | None:
    """A text that differs once a DuckDB file, its log or its journal changed or was replaced.

    It is `None` where that is not known: when one of them changed a moment ago, as the next change
    may then have the same time.
    """
    marks, now_ns = [], time.time_ns()
    for part in _PARTS:
        try:
            stat = os.stat(f"{path}{part}")  # noqa: PTH116  # a Path takes as long as the call
        except FileNotFoundError:
            marks.append("none")
            continue
        except OSError:
            return None
        if now_ns - max(stat.st_mtime_ns, stat.st_ctime_ns) <= TICK_NS:
            return None
        # No program can set the second time, so that a file that is put back has another mark.
        times = f"{stat.st_mtime_ns}-{stat.st_ctime_ns}"
        marks.append(f"{stat.st_size}-{times}-{stat.st_dev}-{stat.st_ino}")
    return " ".join(marks)


def is_checked(tables: DerivedTables, mark: str | None) -> bool:
    """Whether a file was found whole when it had this mark."""
    return mark is not None and tables.read(_TABLE, _SCHEMA)["mark"].to_list() == [mark]


def keep_checked(tables: DerivedTables, mark: str | None) -> None:
    """Remember that a file with this mark was found whole; with `None`, do nothing."""
    if mark is not None:
        tables.write(_TABLE, pl.DataFrame({"mark": [mark]}, schema=_SCHEMA))
