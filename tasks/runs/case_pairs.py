"""Reads one case of two stored runs, and the cases whose verdict turned around it."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from assizes.judge.comparison.cases import flipped_cases
from assizes.judge.errors import UnknownCase
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.runs.stored_cases import StoredExecution, stored_executions
from assizes.tasks.store import RunRecord, Store

_COMPARED = (
    *("case_id", "repetition", "status", "passed", "flags", "overall_score"),
    *("agent_latency_ms", "duration_ms"),
)
"""The columns of table `cases` by which two runs are compared case by case."""


@dataclass(frozen=True, slots=True)
class StoredSide:
    """A run and what it holds of one case."""

    record: RunRecord
    executions: tuple[StoredExecution, ...]  # every repetition, in order; none: not in this run
    repetition: int  # the one that is shown

    @property
    def shown(self) -> StoredExecution | None:
        """The execution that is shown; `None` where this run lacks it."""
        same = (one for one in self.executions if one.case["repetition"] == self.repetition)
        return next(same, None)


@dataclass(frozen=True, slots=True)
class StoredPair:
    """One case in two runs."""

    case_id: str
    baseline: StoredSide
    candidate: StoredSide
    flips: tuple[str, ...]  # ids of the cases whose verdict turned, in the order of a comparison


def stored_pair(
    store: Store, baseline: str, candidate: str, case_id: str, repetition: int
) -> StoredPair:
    """Read one case of two runs, which are named by their ids or other names.

    Raises:
        UnknownRun: the store has no such run.
        UnknownCase: neither run has such a case.
    """
    before, after = (
        _stored_side(store, run_id, case_id, repetition) for run_id in (baseline, candidate)
    )
    if not before.executions and not after.executions:
        runs = f"{before.record.run_id!r} nor run {after.record.run_id!r}"
        raise UnknownCase(f"neither run {runs} has a case {case_id!r}")
    if before.shown is None and after.shown is None:
        raise UnknownCase(f"case {case_id!r} has no repetition {repetition} in these runs")
    rows = [_compared_rows(store, side.record.run_id) for side in (before, after)]
    return StoredPair(case_id, before, after, tuple(flipped_cases(rows[0], rows[1])))


def _stored_side(store: Store, run_id: str, case_id: str, repetition: int) -> StoredSide:
    record = store.run(run_id)
    try:
        executions = stored_executions(store, record.run_id, case_id, None)
    except UnknownCase:  # a run may lack a case that the other has
        executions = []
    return StoredSide(record, tuple(executions), repetition)


def _compared_rows(store: Store, run_id: str) -> pl.LazyFrame:
    """The rows of a run's cases, in memory, as a comparison of cases reads them several times."""
    return collect_rows(store.scan(run_id, "cases").select(_COMPARED)).lazy()
