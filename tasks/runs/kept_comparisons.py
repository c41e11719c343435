"""Comparisons of two complete runs, kept in memory while the rows and the records of both stay.

A server shows the same comparison on the page of a run and on that of two runs. What it is made of is
what a complete run holds, which changes only when cases are forgotten.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from assizes.judge.comparison.compare import RunComparison
from assizes.judge.config.gates import ComparisonConfig
from assizes.tasks.store import RunRecord, Store

KEPT_CASES: Final = 10_000
"""Cases that all kept comparisons list, at most; a comparison lists up to a few thousand."""

_MAX_KEPT: Final = 64  # comparisons


class _Sides(NamedTuple):
    """Both runs of a comparison as they are at one moment."""

    records: tuple[RunRecord, RunRecord]
    revisions: tuple[str, str]


class _Kept(NamedTuple):
    sides: _Sides
    comparison: RunComparison


class KeptComparisons:
    """Comparisons by their runs and thresholds; those that were not asked for longest give way."""

    def __init__(self, most_cases: int = KEPT_CASES) -> None:
        self._most_cases = most_cases
        self._kept: OrderedDict[tuple[str, str, str, str], _Kept] = OrderedDict()
        self._lock = threading.Lock()

    def comparison(
        self,
        store: Store,
        runs: tuple[str, str],
        thresholds: ComparisonConfig,
        make: Callable[[], RunComparison],
    ) -> RunComparison:
        """The comparison of two runs, by their ids or names; `make` computes it from the store.

        Raises:
            UnknownRun: one of the runs is not in the store.
            NotComparable: one of the runs is not complete.
        """
        before = _sides(store, runs)
        baseline, candidate = (record.run_id for record in before.records)
        key = (store.uri, baseline, candidate, thresholds.model_dump_json())
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None and kept.sides == before:
                self._kept.move_to_end(key)
                return kept.comparison
        comparison = make()
        if _sides(store, runs) == before:  # else it may be of rows from before and after a change
            self._keep(key, _Kept(before, comparison))
        return comparison

    def listed_cases(self) -> int:
        """The cases that the kept comparisons list."""
        with self._lock:
            return sum(map(_case_count, self._kept.values()))

    def _keep(self, key: tuple[str, str, str, str], made: _Kept) -> None:
        with self._lock:
            self._kept[key] = made
            self._kept.move_to_end(key)
            listed = sum(map(_case_count, self._kept.values()))
            while self._kept and (listed > self._most_cases or len(self._kept) > _MAX_KEPT):
                listed -= _case_count(self._kept.popitem(last=False)[1])


def _sides(store: Store, runs: tuple[str, str]) -> _Sides:
    baseline, candidate = (store.run(run_id) for run_id in runs)
    revisions = (store.revision(baseline.run_id), store.revision(candidate.run_id))
    return _Sides((baseline, candidate), revisions)


def _case_count(kept: _Kept) -> int:
    comparison = kept.comparison
    only = len(comparison.baseline_only_test_cases) + len(comparison.candidate_only_test_cases)
    return len(comparison.test_case_comparisons) + only
