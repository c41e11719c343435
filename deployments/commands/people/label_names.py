"""Names by which `assizes labels list` chooses, checked: an unknown one would just list nothing."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from assizes.judge.config.gates import VERDICT
from assizes.judge.errors import ConfigurationError
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.store import Store

_OPTIONS: Final = {"metric": "--metric", "rater": "--rater", "case_id": "--case"}
_TABLES: Final = {"metric": "scores", "case_id": "cases"}  # of a run, which have the column too
_SHOWN: Final = 5  # names of those that there are


def check_names(store: Store, run_ids: Sequence[str], wanted: Mapping[str, str | None]) -> None:
    """Check that a metric, a person or a case is one that labels or these runs have.

    `wanted` holds a value by column, or `None` for any value. Where there are neither labels nor
    runs, every name passes.

    Raises:
        ConfigurationError: a value is unknown; the message names some that are known.
    """
    labels = store.people.rows("labels")
    for column, value in wanted.items():
        if value is None or value in (known := set(labels[column])):
            continue
        known |= _names_in_runs(store, run_ids, column)
        if known and value not in known:
            who = "neither a label nor a run has it" if column in _TABLES else "no label has it"
            near = difflib.get_close_matches(value, known, 1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigurationError(
                f"{_OPTIONS[column]} {value!r}: {who}; there are {_some(known)}{meant}"
            )


def _names_in_runs(store: Store, run_ids: Sequence[str], column: str) -> set[str]:
    if column not in _TABLES:
        return set()
    tables = [store.scan(run_id, _TABLES[column]) for run_id in run_ids]
    frames = [collect_rows(table.select(pl.col(column).unique())) for table in tables]
    names = {name for frame in frames for name in frame[column]}
    return names | ({VERDICT} if names and column == "metric" else set())


def _some(names: set[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(sorted(names)[:_SHOWN]) + more
