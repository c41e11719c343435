"""Incidents after each run of a history: new once, persisting while they last, resolved once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from assizes.judge.config.gates import SeriesConfig
from assizes.judge.history.trends import Incident
from assizes.tasks.store import Store
from assizes.tasks.tell_incidents import EVENTS, incidents_at
from tests.tasks.reports.sample import BEGUN, Said, run
from tests.tasks.stored_runs import put

WATCHED = SeriesConfig(reference_runs=6, metrics=("pass_rate", "overall_score"))
USUAL = (34, 33, 35, 34, 36, 32, 34, 34)


def heard(store: Store, number: int, passes: int, config: SeriesConfig = WATCHED) -> list[Incident]:
    """One more night of other forty cases, and what is told after it."""
    said = [
        Said(f"n{number}c{n}", (5, 5) if n < passes else (1, 1), done=n < passes) for n in range(40)
    ]
    made = run(said, run_id=f"nightly-{number:012d}")
    at = BEGUN + timedelta(days=number)
    made = replace(made, record=replace(made.record, started_at=at, finished_at=at))
    return incidents_at(store, store.run(put(store, made)), config)


def test_one_problem_is_one_incident_from_its_first_run_to_its_end(store: Store):
    told = [heard(store, n, passes) for n, passes in enumerate((*USUAL, 12, 13, 12, *USUAL[:5]))]
    states = [[one.state for one in found] for found in told]
    assert states[:8] == [[]] * 8
    assert states[8:11] == [["new"], ["persisting"], ["persisting"]]
    after = [state for found in states[11:] for state in found]
    assert after.count("resolved") == 1
    assert after == ["persisting"] * after.index("resolved") + ["resolved"]
    assert len({one.incident for found in told for one in found}) == 1
    assert set(told[8][0].series) == {"pass_rate", "overall_score"}
    assert told[8][0].line().startswith("NEW worse [")


@pytest.mark.full
def test_a_rise_is_no_problem_and_an_older_run_tells_nothing(store: Store):
    told = [heard(store, n, passes) for n, passes in enumerate((*USUAL, 40, 40, 40, 12))]
    assert told[8:11] == [[], [], []]
    assert [one.state for one in told[11]] == ["new"]
    assert incidents_at(store, store.run(f"nightly-{9:012d}"), WATCHED) == []


def test_nothing_is_told_where_it_is_turned_off_or_the_reference_is_learnt(store: Store):
    for number, passes in enumerate(USUAL):
        heard(store, number, passes)
    silent = WATCHED.model_copy(update={"announce": False})
    assert heard(store, 8, 12, silent) == []
    learning = WATCHED.model_copy(update={"reference_runs": 20})
    assert heard(store, 9, 12, learning) == []
    assert set(EVENTS) == {"new", "persisting", "resolved"}


def test_a_name_that_never_had_a_case_tells_nothing(store: Store):
    config = SeriesConfig(reference_runs=6)
    for number in range(8):
        at = BEGUN + timedelta(days=number)
        made = run([], run_id=f"nightly-{number:012d}")
        record = replace(made.record, started_at=at, finished_at=at)
        put(store, replace(made, record=record))
    assert incidents_at(store, store.run(f"nightly-{7:012d}"), config) == []


@pytest.mark.row("005-22")
def test_a_night_tells_its_incidents_beside_runs_about_other_days(store: Store):
    """A run by hand after midnight takes nothing from the night; a later night does."""
    for number, passes in enumerate((*USUAL, 12, 13)):
        dated(store, number, passes)
    dated(store, 11, 34, trigger="adhoc")
    (incident,) = incidents_at(store, store.run("nightly-000000000009"), WATCHED)
    assert (incident.state, incident.runs) == ("persisting", 2)
    assert f"{incident.opened_at:%Y-%m-%d}" == "2026-03-10"
    assert incidents_at(store, store.run("nightly-000000000008"), WATCHED) == []


def dated(store: Store, number: int, passes: int, trigger: str = "nightly") -> None:
    """The run about one day, judged the day after; a run by hand has no day of its own."""
    said = [
        Said(f"n{number}c{n}", (5, 5) if n < passes else (1, 1), done=n < passes) for n in range(40)
    ]
    made = run(said, run_id=f"nightly-{number:012d}")
    at = BEGUN + timedelta(days=number)
    day = at.date() if trigger == "nightly" else None
    snapshot = {**made.record.config, **({"day": day.isoformat()} if day else {})}
    begun = at + timedelta(days=1) if day else at
    times = {"started_at": begun, "finished_at": begun}
    record = replace(made.record, trigger=trigger, config=snapshot, **times)
    put(store, replace(made, record=record))
