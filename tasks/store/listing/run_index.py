"""The index of the runs of a store: what lists of runs show, without their settings and summaries.

A row of the index holds for as long as the store says that the run is in the same state. The runs
that began or ended since the index was written are read from the store, and the index is written
again. So a writer that was killed before it wrote the index, and two writers of which one undoes the
other's row, cost the next reader a few runs to read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import polars as pl

from assizes.judge.config.run import FINGERPRINTS, suite_series
from assizes.judge.rows import COMPLETE, TABLES, as_json
from assizes.tasks.store.listing.tables import DerivedTables
from assizes.tasks.store.record import DAY, SEQUENCE, newest_first

_RUNS: Final = TABLES["runs"]

RUN_INDEX: Final[dict[str, Any]] = {
    **{name: kind for name, kind in _RUNS.items() if name not in ("config", "counts", "summary")},
    "dated": pl.Boolean,  # whether the run is about one day, which is then `day`
    "sequence": pl.Int64,  # its number in the store; 0 in runs from before there were numbers
    "cache_use": pl.String,  # the setting [cache] use
    "baseline": pl.String,  # the setting [comparison] baseline
    "suite": pl.String,  # name and conversations of its suite as JSON; None: it was over none
    "again": pl.String,  # the run whose records it judged again
    "rubrics": pl.String,  # digest of the hashes of its rubrics
    "ended": pl.Boolean,  # whether it has a summary; the numbers below are those of the summary
    "outcome": pl.String,
    "surely_failed": pl.Boolean,
    "weighted_metrics_score_pct": pl.Float64,
    "cases_pass_rate_pct": pl.Float64,
    "coverage": pl.Float64,
    "total_executions": pl.Int64,
    "total_platform_cost_usd": pl.Float64,
}
"""The columns of the index of runs."""

UNKNOWN_STATE: Final = ""
"""The state of a run that has to be read each time."""

_NAME: Final = "runs"
_STORED: Final = {**RUN_INDEX, "state": pl.String}
_BATCH: Final = 256  # runs that are read together, so that their summaries do not add up
_SUMMARY: Final = tuple(RUN_INDEX)[tuple(RUN_INDEX).index("outcome") :]
_ORDER: Final = ("day", "started_at", "run_id")


_MAX_CHECKED: Final = 8  # stores


class _Checked(NamedTuple):
    """An index that this process has compared with its store."""

    mark: str  # of the runs of the store, before it was compared
    rows: pl.DataFrame  # with their states
    unfinished: Sequence[str]  # the runs that are not complete, or have no row yet


_checked: Final[dict[str, _Checked]] = {}  # by the place of the tables


class RunSource(Protocol):
    """The runs of a store, as the index needs them."""

    def runs_mark(self) -> str | None:
        """A text that differs once a run came or went; `None` where that is not known."""

    def run_states(
        self, known: Mapping[str, str], among: Sequence[str] | None = None
    ) -> dict[str, str]:
        """The state of each run of the store, or of some, by run id; `known` are those of the index.

        It differs wherever the row of the run may differ; `UNKNOWN_STATE` where asking costs as much
        as reading, and for a run that has no row yet.
        """

    def rows_of_runs(self, run_ids: Collection[str]) -> pl.DataFrame:
        """Rows of table runs, in any order."""

    def settled_state(self, row: Mapping[str, Any], state: str) -> str:
        """The state to store for a run whose row was read after its state."""


class RunIndex:
    """The index of one store."""

    def __init__(self, tables: DerivedTables, source: RunSource) -> None:
        self._tables = tables
        self._source = source

    def rows(self) -> pl.DataFrame:
        """A row of `RUN_INDEX` for each run, those about the newest day first."""
        stored = self._tables.read(_NAME, _STORED)
        mark = self._source.runs_mark()  # before the states: a run that begins now is found next
        checked = _checked.get(self._tables.where)
        among = None
        # `read` gives the same table for the same bytes.
        if checked is not None and checked.mark == mark and checked.rows is stored:
            among = checked.unfinished
        rows, unread = self._update(stored, among)
        _checked.pop(self._tables.where, None)
        if mark is not None:
            while len(_checked) >= _MAX_CHECKED:
                _checked.pop(next(iter(_checked)), None)
            unfinished = rows.filter(pl.col("status") != COMPLETE)["run_id"].to_list()
            _checked[self._tables.where] = _Checked(mark, rows, [*unfinished, *unread])
        return rows.drop("state")

    def _update(
        self, stored: pl.DataFrame, among: Sequence[str] | None
    ) -> tuple[pl.DataFrame, list[str]]:
        """The rows of now, and the runs that have none yet.

        With `among`, only these runs can differ from what is stored.
        """
        asked = stored if among is None else stored.filter(pl.col("run_id").is_in(list(among)))
        known = dict(asked.select("run_id", "state").iter_rows())
        states = self._source.run_states(known, among)
        stale = [run_id for run_id, state in states.items() if _is_stale(known.get(run_id), state)]
        gone = known.keys() - states.keys()
        if not stale and not gone:
            return stored, []
        kept = stored.filter(~pl.col("run_id").is_in([*stale, *gone]))
        merged = pl.concat([kept, *self._read(stale, states)]).sort(
            _ORDER, descending=[True, True, False]
        )
        unread = pl.Series(stale, dtype=pl.String)
        unread = unread.filter(~unread.is_in(merged["run_id"].implode()))
        if merged.equals(stored):
            return stored, unread.to_list()
        self._tables.write(_NAME, merged)
        return merged, unread.to_list()

    def drop(self, run_id: str) -> None:
        """Forget a run that begins anew under an id that the index may know from before."""
        stored = self._tables.read(_NAME, _STORED)
        kept = stored.filter(pl.col("run_id") != run_id)
        if kept.height < stored.height:
            self._tables.write(_NAME, kept)

    def _read(self, run_ids: Sequence[str], states: Mapping[str, str]) -> Iterator[pl.DataFrame]:
        for first in range(0, len(run_ids), _BATCH):
            read = newest_first(self._source.rows_of_runs(run_ids[first : first + _BATCH]))
            rows = [
                {**index_row(row), "state": self._source.settled_state(row, states[row["run_id"]])}
                for row in read.iter_rows(named=True)
            ]
            yield pl.DataFrame(rows, schema=_STORED, orient="row")


def indexed_run_ids(tables: DerivedTables) -> frozenset[str]:
    """The ids in the index as it was written last; newer runs may be missing."""
    return frozenset(tables.read(_NAME, _STORED)["run_id"])


def _is_stale(known: str | None, state: str) -> bool:
    return known is None or known != state or state == UNKNOWN_STATE


def suite_key(series: tuple[str, str] | None) -> str | None:
    """The text in column `suite` for the name and the conversations of a suite."""
    return None if series is None else json.dumps(series)


def index_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row of the index for a row of table runs."""
    config = json.loads(row["config"])
    summary = json.loads(row["summary"]) if row["summary"] else {}
    return {
        **{name: row[name] for name in _RUNS if name in RUN_INDEX},
        "dated": config.get(DAY) is not None,
        "sequence": config.get(SEQUENCE, 0),
        "cache_use": config.get("cache", {}).get("use"),
        "baseline": config.get("comparison", {}).get("baseline"),
        "suite": suite_key(suite_series(config)),
        "again": (config.get("transcripts", {}).get("again") or {}).get("run"),
        "rubrics": _rubrics_digest(config),
        "ended": bool(row["summary"]),
        **{name: summary.get(name) for name in _SUMMARY},
    }


def _rubrics_digest(config: Mapping[str, Any]) -> str:
    prints = config.get(FINGERPRINTS) or {}
    rubrics = {name: value for name, value in prints.items() if name.startswith("metric:")}
    return hashlib.blake2b(as_json(rubrics).encode(), digest_size=8).hexdigest()
