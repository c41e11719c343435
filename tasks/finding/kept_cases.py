"""The cases of stored runs in memory, column by column, until the rows of their run change.

A list of cases needs a few columns of all cases to filter and to sort, and whole rows of one page.
The rows of a run seldom change, so that a server reads each of these columns once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from assizes.judge.verdicts.executions import CASE, collect_rows
from assizes.tasks.store import Store

KEPT_BYTES: Final = 96 << 20
"""Bytes that all kept columns take, at most; a case takes 50 to 250 bytes, by what is asked."""

_MAX_LISTED: Final = 100_000
"""Cases of a run whose whole lines in a list are kept; those of a longer run are read page by page."""

_MAX_ORDERS: Final = 16
"""Lists that are kept for a run, in their order; each takes four bytes for each case in it."""

_MAX_TOO_LONG: Final = 1000  # runs

_MAX_MASKS: Final = 32
"""Conditions on scores that are kept for a run; each takes a bit for each case."""


PLACE: Final = "place"
"""Column with the place of a case among the cases of its run, from 0, by ids and repetitions."""

MaskName = tuple[str, ...]
"""What tells a condition on scores from others."""


@dataclass(frozen=True, slots=True)
class RunCases:
    """Some columns of the cases of a run, as they are at one revision of the run."""

    revision: str  # empty: the run changed meanwhile, and they are not kept
    rows: pl.DataFrame  # in the order of `CASE`, with these columns and others
    masks: dict[MaskName, pl.Series] = field(
        default_factory=dict
    )  # True for each case that matches
    orders: dict[Hashable, pl.Series] = field(
        default_factory=dict
    )  # `PLACE` of each case of a list

    def size(self) -> int:
        """Bytes in memory."""
        return int(self.rows.estimated_size()) + sum(
            int(kept.estimated_size())
            for kept in (*tuple(self.masks.values()), *tuple(self.orders.values()))
        )


class KeptCases:
    """Reads columns of the cases of runs, and keeps those of the runs that were asked for last."""

    def __init__(self, most_bytes: int = KEPT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._kept: OrderedDict[str, RunCases] = OrderedDict()  # by run id, the last asked for last
        self._too_long: OrderedDict[str, str] = OrderedDict()  # revisions of runs, by run id
        self._lock = threading.Lock()

    def size(self) -> int:
        """Bytes that are kept."""
        with self._lock:
            return sum(cases.size() for cases in self._kept.values())

    def columns(self, store: Store, run_id: str, names: Iterable[str]) -> RunCases:
        """The cases of a run (full id) with some columns of table `cases`, and perhaps with others."""
        names = list(dict.fromkeys([*CASE, *names]))
        revision = store.revision(run_id)
        with self._lock:
            cases = self._kept.get(run_id)
        if cases is None or cases.revision != revision:
            cases = RunCases(revision, pl.DataFrame())
        if missing := [name for name in names if name not in cases.rows.columns]:
            read = _sorted_columns(store, run_id, missing)
            if store.revision(run_id) != revision:  # a run that writes: all in one reading
                return RunCases("", _sorted_columns(store, run_id, names))
            joined = cases.rows.hstack(read.select(missing)) if cases.rows.columns else read
            cases = RunCases(revision, joined, cases.masks, cases.orders)
        self._keep(run_id, cases)
        return cases

    def mask(
        self, run_id: str, cases: RunCases, condition: MaskName, read: Callable[[], pl.DataFrame]
    ) -> pl.Series:
        """Which of the cases match a condition, a boolean each; `read` gives the keys that do."""
        mask = cases.masks.get(condition)
        if mask is None:
            keys = read().select(CASE).unique()
            marked = cases.rows.select(CASE).join(
                keys.with_columns(matches=True), on=CASE, how="left", maintain_order="left"
            )
            mask = marked["matches"].fill_null(value=False)
            if cases.revision and len(cases.masks) < _MAX_MASKS:
                cases.masks[condition] = mask
                self._keep(run_id, cases)
        return mask

    def order(
        self, run_id: str, cases: RunCases, wanted: Hashable | None, make: Callable[[], pl.Series]
    ) -> pl.DataFrame:
        """`PLACE` and the keys of the cases of a list, in order; `make` gives their places.

        `wanted` tells lists of a run apart; a list without it is not kept.
        """
        places = cases.orders.get(wanted)
        if places is None:
            places = make()
            if wanted is not None and cases.revision and len(cases.orders) < _MAX_ORDERS:
                cases.orders[wanted] = places
                self._keep(run_id, cases)
        return cases.rows.select(CASE)[places].select(places.alias(PLACE), *CASE)

    def lines(
        self, store: Store, run_id: str, keys: pl.DataFrame, columns: list[str]
    ) -> pl.DataFrame | None:
        """Some cases in some columns, in the order of the keys, which have their `PLACE`.

        `None` where the lines of the run are too long or too many to be kept, or where a case is
        not at its place any more, as the run has changed since its place was told.
        """
        revision = store.revision(run_id)
        with self._lock:
            if self._too_long.get(run_id) == revision:
                return None
        cases = self.columns(store, run_id, CASE)
        if cases.rows.height > _MAX_LISTED or not cases.revision:
            return None
        cases = self.columns(store, run_id, columns)
        if cases.size() > self._most_bytes // 2:  # it would be read again for each request
            with self._lock:
                self._kept.pop(run_id, None)
                self._too_long[run_id] = cases.revision
                while len(self._too_long) > _MAX_TOO_LONG:
                    self._too_long.popitem(last=False)
        if keys.is_empty() or keys[PLACE].max() >= cases.rows.height:  # type: ignore[operator]
            return None
        part = cases.rows[keys[PLACE]]
        return part.select(columns) if part.select(CASE).equals(keys.select(CASE)) else None

    def _keep(self, run_id: str, cases: RunCases) -> None:
        """Keep the cases of a run; those of the runs that were not asked for longest give way."""
        with self._lock:
            self._kept[run_id] = cases
            self._kept.move_to_end(run_id)
            size = sum(kept.size() for kept in self._kept.values())
            while size > self._most_bytes and self._kept:
                size -= self._kept.popitem(last=False)[1].size()


def _sorted_columns(store: Store, run_id: str, names: list[str]) -> pl.DataFrame:
    """Columns of all cases of a run, read now, in the order of ids and repetitions."""
    wanted = list(dict.fromkeys([*CASE, *names]))
    return collect_rows(store.scan(run_id, "cases").select(wanted)).sort(CASE)
