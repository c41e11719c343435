"""How a suite stands: the runs over it in a store, and what they say about its cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import polars as pl

from assizes.judge.causes.failures import failures
from assizes.judge.config.run import SUITE
from assizes.judge.rows import COMPLETE
from assizes.judge.suites.content import Suite
from assizes.judge.suites.promoted import guarded_causes
from assizes.judge.suites.streaks import CaseStanding, State, run_states, standings
from assizes.judge.verdicts.executions import CASE, collect_rows
from assizes.tasks.embedding.sentence_encoder import encoder_of_run
from assizes.tasks.store import RunRecord, Store
from assizes.tasks.store.listing.run_index import suite_key

LOOK_BACK: Final = 100
"""The most runs over a suite that are read, the newest ones."""

_NAMED: Final = 5
"""The most cases that a sentence names."""

_CASE_COLUMNS: Final = (*CASE, "status", "passed", "flags")


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """A run over a suite."""

    run_id: str
    day: str  # ISO date
    version: str  # of the suite


@dataclass(frozen=True, slots=True)
class JudgeCheck:
    """A run over the conversations that a suite holds: whether its judges still fail them."""

    run: SuiteRun
    passing: tuple[str, ...]  # ids of the cases that the judges pass by now
    failing: int  # cases that they still fail


@dataclass(frozen=True, slots=True)
class SuiteStatus:
    """A suite, the runs over it, and how its cases stand."""

    suite: Suite
    runs: tuple[SuiteRun, ...]  # over new conversations, newest first
    cases: tuple[CaseStanding, ...]  # sorted by id
    judge_check: JudgeCheck | None  # the newest one

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
    if store is None:
        return SuiteStatus(suite, (), tuple(standings(suite.cases, [], {})), None)
    records = _runs_over(store, suite.name, "new")
    states = [(record.run_id, _states(store, record.run_id, suite)) for record in records]
    returned = came_back(store, records[0].run_id, suite) if records else {}
    cases = tuple(standings(suite.cases, states, returned))
    check = None
    for record in _runs_over(store, suite.name, "stored")[:1]:
        found = _states(store, record.run_id, suite)
        failing = sum(state == "failing" for state in found.values())
        check = JudgeCheck(_suite_run(record), _passing(found), failing)
    return SuiteStatus(suite, tuple(map(_suite_run, records)), cases, check)


def suite_lines(store: Store, record: RunRecord, suite: Suite) -> list[str]:
    """What a run shows of the failures that its suite guards against, in sentences.

    They name the causes that came back; or, of a run over the conversations of the suite itself,
    the cases that its judges pass although they failed.
    """
    if record.config[SUITE]["conversations"] == "stored":
        passing = _passing(_states(store, record.run_id, suite))
        lenient = (
            f"the judges pass the conversations of suite {suite.name!r} that failed before: "
            f"{_some(passing)}"
        )
        return [lenient] if passing else []
    names = guarded_causes(suite.cases)
    cases: dict[str, list[str]] = {}
    for case_id, causes in came_back(store, record.run_id, suite).items():
        for cause in causes:
            cases.setdefault(cause, []).append(case_id)
    return [
        f"cause {cause} ({names[cause].name}) of suite {suite.name!r} came back: {_some(ids)}"
        for cause, ids in sorted(cases.items(), key=lambda item: (-len(item[1]), item[0]))
    ]


def came_back(store: Store, run_id: str, suite: Suite) -> dict[str, tuple[str, ...]]:
    """The causes that a suite guards and that failures of a run show, by case id."""
    from assizes.judge.suites.returned import returned_causes  # scikit-learn is slow to import

    of_suite = pl.col("case_id").is_in([case.case_id for case in suite.cases])
    failed = failures(store.scan(run_id, "scores").filter(of_suite))
    encoder = encoder_of_run(store.run(run_id).config)
    return returned_causes(suite.cases, failed, run_id, encoder)


def _runs_over(store: Store, name: str, conversations: str) -> list[RunRecord]:
    """The complete runs over a suite, by its name, newest first."""
    complete = store.run_index().filter(
        pl.col("status") == COMPLETE,
        pl.col("suite") == suite_key((name, conversations)),
        pl.col("cache_use").ne_missing("replay_only"),
    )
    rows = store.rows_of_runs(complete["run_id"].head(LOOK_BACK))
    return [RunRecord.of_row(row, {}) for row in rows.iter_rows(named=True)]


def _states(store: Store, run_id: str, suite: Suite) -> dict[str, State]:
    of_suite = pl.col("case_id").is_in([case.case_id for case in suite.cases])
    cases = store.scan(run_id, "cases").filter(of_suite).select(_CASE_COLUMNS)
    scores = store.scan(run_id, "scores").filter(of_suite, pl.col("part") == "")
    wanted = scores.select("case_id", "metric", "status", "passed")
    return run_states(suite.cases, collect_rows(cases), collect_rows(wanted))


def _suite_run(record: RunRecord) -> SuiteRun:
    return SuiteRun(record.run_id, record.day.isoformat(), record.config[SUITE]["version"])


def _passing(states: Mapping[str, State]) -> tuple[str, ...]:
    return tuple(sorted(case_id for case_id, state in states.items() if state == "passing"))


def _some(case_ids: Sequence[str]) -> str:
    """The first ids, and how many more there are."""
    more = f" and {len(case_ids) - _NAMED} more" if len(case_ids) > _NAMED else ""
    return f"cases {', '.join(case_ids[:_NAMED])}{more}"


def status_document(status: SuiteStatus, passes: int) -> dict[str, Any]:
    """How a suite stands, as plain JSON values; cases are retirable after so many passes."""
    names = guarded_causes(status.suite.cases)
    by_cause = {
        cause_id: [case for case in status.cases if cause_id in case.causes] for cause_id in names
    }
    retirable = status.retirable(passes)
    return {
        "name": status.suite.name,
        "version": status.suite.version,
        "cases": len(status.suite.cases),
        "retired": len(status.suite.retired),
        "runs": [asdict(run) for run in status.runs],
        "judge_check": None if status.judge_check is None else asdict(status.judge_check),
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
