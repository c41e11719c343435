"""How a suite stands: the runs over it in a store, and what they say about its cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from assizes.judge.causes.failures import failures
from assizes.judge.config.run import SUITE, suite_name
from assizes.judge.rows import COMPLETE
from assizes.judge.suites.content import Suite
from assizes.judge.suites.promoted import guarded_causes
from assizes.judge.suites.streaks import CaseStanding, run_states, standings
from assizes.judge.verdicts.executions import CASE, collect_rows
from assizes.tasks.runs.stored_runs import cache_use
from assizes.tasks.store import RunRecord, Store

LOOK_BACK: Final = 100
"""The most runs over a suite that are read, the newest ones."""

_CASE_COLUMNS: Final = (*CASE, "status", "passed", "flags")


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """A run over a suite."""

    run_id: str
    day: str  # ISO date
    version: str  # of the suite


@dataclass(frozen=True, slots=True)
class SuiteStatus:
    """A suite, the runs over it, and how its cases stand."""

    suite: Suite
    runs: tuple[SuiteRun, ...]  # newest first
    cases: tuple[CaseStanding, ...]  # sorted by id

    def retirable(self, passes: int) -> list[str]:
        """The ids of the cases that pass now and have passed so many times in a row."""
        return [
            case.case_id for case in self.cases if case.state == "passing" and case.passes >= passes
        ]


def suite_status(store: Store | None, suite: Suite) -> SuiteStatus:
    """How a suite stands after the complete runs over it in a store; `None`: there is no store.

    Runs that only replayed cached replies say nothing new, and do not count.

    Raises:
        StoreError: the store cannot be reached.
    """
    records = [] if store is None else _runs_over(store, suite.name)
    states = []
    for record in records:
        assert store is not None  # it has the records
        cases, scores = _rows(store, record.run_id, suite)
        states.append((record.run_id, run_states(suite.cases, cases, scores)))
    returned: Mapping[str, tuple[str, ...]] = {}
    if store is not None and records:
        returned = came_back(store, records[0].run_id, suite)
    runs = [
        SuiteRun(record.run_id, record.day.isoformat(), record.config[SUITE]["version"])
        for record in records
    ]
    return SuiteStatus(suite, tuple(runs), tuple(standings(suite.cases, states, returned)))


def came_back(store: Store, run_id: str, suite: Suite) -> dict[str, tuple[str, ...]]:
    """The causes that a suite guards and that failures of a run show, by case id."""
    from assizes.judge.suites.returned import returned_causes  # scikit-learn is slow to import

    of_suite = pl.col("case_id").is_in([case.case_id for case in suite.cases])
    failed = failures(store.scan(run_id, "scores").filter(of_suite))
    return returned_causes(suite.cases, failed, run_id)


def came_back_lines(store: Store, run_id: str, suite: Suite) -> list[str]:
    """A sentence for each cause that a suite guards and that came back in a run."""
    names = guarded_causes(suite.cases)
    cases: dict[str, list[str]] = {}
    for case_id, causes in came_back(store, run_id, suite).items():
        for cause in causes:
            cases.setdefault(cause, []).append(case_id)
    return [
        f"cause {cause} ({names[cause].name}) came back in {len(ids)} cases of suite "
        f"{suite.name!r}: {', '.join(ids[:3])}"
        for cause, ids in sorted(cases.items(), key=lambda item: (-len(item[1]), item[0]))
    ]


def _runs_over(store: Store, name: str) -> list[RunRecord]:
    """The complete runs over a suite, by its name, newest first."""
    complete = store.runs().filter(
        pl.col("status") == COMPLETE, pl.col("config").str.contains(SUITE)
    )
    records = [
        RunRecord.of_row(row, {})
        for row in complete.iter_rows(named=True)
        if cache_use(row) != "replay_only"
    ]
    return [record for record in records if suite_name(record.config) == name][:LOOK_BACK]


def _rows(store: Store, run_id: str, suite: Suite) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows of tables `cases` and `scores` of a run that `run_states` takes."""
    of_suite = pl.col("case_id").is_in([case.case_id for case in suite.cases])
    cases = store.scan(run_id, "cases").filter(of_suite).select(_CASE_COLUMNS)
    scores = store.scan(run_id, "scores").filter(of_suite, pl.col("part") == "")
    wanted = scores.select("case_id", "metric", "status", "passed")
    return collect_rows(cases), collect_rows(wanted)


def status_document(status: SuiteStatus, passes: int) -> dict[str, Any]:
    """How a suite stands, as plain JSON values; cases are retirable after so many passes."""
    by_cause = {
        cause_id: [case for case in status.cases if cause_id in case.causes]
        for cause_id in guarded_causes(status.suite.cases)
    }
    names = guarded_causes(status.suite.cases)
    retirable = status.retirable(passes)
    return {
        "name": status.suite.name,
        "version": status.suite.version,
        "cases": len(status.suite.cases),
        "retired": len(status.suite.retired),
        "runs": [
            {"run_id": run.run_id, "day": run.day, "version": run.version} for run in status.runs
        ],
        **{
            state: sum(case.state == state for case in status.cases)
            for state in ("passing", "failing", "undecided")
        },
        "never_judged": [case.case_id for case in status.cases if case.state is None],
        "came_back": [case.case_id for case in status.cases if case.came_back],
        "retirable": retirable,
        "causes": [
            {
                "cause_id": cause_id,
                "name": names[cause_id].name,
                "cases": len(cases),
                "failing": sum(case.state == "failing" for case in cases),
                "came_back": sum(cause_id in case.came_back for case in status.cases),
            }
            for cause_id, cases in sorted(by_cause.items(), key=lambda item: -len(item[1]))
        ],
        "standings": [
            {
                "case_id": case.case_id,
                "state": case.state,
                "run_id": case.run_id,
                "passes": case.passes,
                "retirable": case.case_id in retirable,
                "causes": list(case.causes),
                "came_back": list(case.came_back),
            }
            for case in status.cases
        ],
    }
