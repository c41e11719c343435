"""What runs over a suite say about its cases: who passes now, how often in a row, what came back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import polars as pl

from assizes.judge.case import Case
from assizes.judge.suites.promoted import Provenance, provenance_of
from assizes.judge.verdicts.executions import executions

PASSES: Final = 10
"""Passes in a row after which a case can be retired, unless the user gives another number."""

State = Literal["passing", "failing", "undecided"]
"""`undecided`: the case could not be judged, or was not judged for what it failed at."""


@dataclass(frozen=True, slots=True)
class CaseStanding:
    """How a case of a suite stands."""

    case_id: str
    state: State | None  # in the latest run that has the case; `None`: no run has it
    run_id: str | None  # that run
    passes: int  # in a row up to the latest run; runs that could not decide do not count
    causes: tuple[str, ...]  # ids of the causes that the case guards
    came_back: tuple[str, ...]  # causes of the suite that its failures in the latest run show


def run_states(cases: Sequence[Case], rows: pl.DataFrame, scores: pl.DataFrame) -> dict[str, State]:
    """The state of each case of a suite that a run has, by id.

    A case passes if every repetition passes, and if each metric that it failed at when it was
    promoted was scored and does not fail.

    Args:
        cases: of the suite.
        rows: of table `cases`; those of other cases are left out.
        scores: the headline rows of table `scores` with `case_id`, `metric`, `status`, `passed`.
    """
    promoted = {case.case_id: provenance_of(case) for case in cases}
    by_case: dict[str, list[str]] = {}
    for case_id, state in executions(rows.lazy()).select("case_id", "state").collect().iter_rows():
        if case_id in promoted:
            by_case.setdefault(case_id, []).append(state)
    scored: dict[str, dict[str, bool]] = {}  # case -> metric -> whether no score of it fails
    for row in scores.filter(pl.col("status") == "scored").iter_rows(named=True):
        metrics = scored.setdefault(row["case_id"], {})
        metrics[row["metric"]] = metrics.get(row["metric"], True) and row["passed"] is not False
    return {
        case_id: _state(states, promoted[case_id], scored.get(case_id, {}))
        for case_id, states in by_case.items()
    }


def _state(states: list[str], provenance: Provenance | None, scored: Mapping[str, bool]) -> State:
    guarded = frozenset[str]() if provenance is None else provenance.metrics
    if "failed" in states or not all(scored.get(metric, True) for metric in guarded):
        return "failing"
    decided = all(state == "passed" for state in states) and guarded <= scored.keys()
    return "passing" if decided else "undecided"


def standings(
    cases: Iterable[Case],
    states: Sequence[tuple[str, Mapping[str, State]]],
    returned: Mapping[str, tuple[str, ...]],
) -> list[CaseStanding]:
    """How each case stands after some runs.

    Args:
        cases: of the suite.
        states: the id of each run over the suite and what `run_states` says of it, newest first.
        returned: the causes that came back in the newest run, by case id.
    """
    found = []
    for case in cases:
        own = [(run, of_run[case.case_id]) for run, of_run in states if case.case_id in of_run]
        decided = [state for _, state in own if state != "undecided"]
        passes = next((n for n, state in enumerate(decided) if state == "failing"), len(decided))
        provenance = provenance_of(case)
        guarded = () if provenance is None else tuple(each.cause_id for each in provenance.causes)
        run_id, state = own[0] if own else (None, None)
        is_latest = bool(states) and run_id == states[0][0]
        back = returned.get(case.case_id, ()) if is_latest else ()
        found.append(CaseStanding(case.case_id, state, run_id, passes, guarded, back))
    return found
