"""Incidents of causes: when they open, persist and end."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from assizes.judge.causes.incidents import cause_incidents
from assizes.judge.rows import CAUSE_TABLES


def rows(*states: str | None, cause_id: str = "c1", p_value: float = 0.001) -> list[dict[str, Any]]:
    """A row of the cause for each run; None: the run does not name it."""
    shown = ("new", "worse", "better", "persisting", "first_seen")
    return [
        {
            **{"run_id": f"r{number}", "cause_id": cause_id, "name": "rude", "state": state},
            **{"cases": 4 if state in shown else 0, "share": 0.1 if state in shown else 0.0},
            **{"merged_into": "c0" if state == "merged" else None, "p_value": p_value},
        }
        for number, state in enumerate(states)
        if state is not None
    ]


def incidents(count: int, *made: dict[str, Any]) -> list[tuple[str, str, int]]:
    frame = pl.DataFrame(list(made), schema=CAUSE_TABLES["causes"], orient="row")
    found = cause_incidents(frame, [f"r{number}" for number in range(count)])
    return [(each.cause_id, each.state, each.runs) for each in found]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["new"], [("c1", "new", 1)]),
        (["persisting", "worse"], [("c1", "new", 1)]),
        (["new", "persisting"], [("c1", "persisting", 2)]),
        (["new", "persisting", "gone"], [("c1", "resolved", 3)]),
        (["new", "better"], [("c1", "resolved", 2)]),
        (["new", "gone", None], []),
        (["new", "gone", "new"], [("c1", "new", 1)]),
        (["new", "not_seen", None], [("c1", "persisting", 3)]),
        (["new", "not_seen", None, None], [("c1", "resolved", 4)]),
        (["new", "not_seen", "first_seen", None], [("c1", "persisting", 4)]),
        (["new", "merged"], []),
        (["first_seen", "persisting"], []),
    ],
)
def test_an_incident_opens_with_a_sure_change_and_ends_with_one(
    states: list[str | None], expected: list[tuple[str, str, int]]
):
    assert incidents(len(states), *rows(*states)) == expected


def test_a_change_that_wakes_people_is_surer_than_one_that_a_report_names():
    assert incidents(1, *rows("new", p_value=0.006)) == []
    assert incidents(1, *rows("new", p_value=0.005)) == [("c1", "new", 1)]


def test_each_cause_has_an_incident_of_its_own():
    made = [*rows("new", "persisting"), *rows(None, "worse", cause_id="c2")]
    assert incidents(2, *made) == [("c1", "persisting", 2), ("c2", "new", 1)]


def test_an_incident_is_one_line():
    frame = pl.DataFrame(rows("new", "persisting"), schema=CAUSE_TABLES["causes"], orient="row")
    (incident,) = cause_incidents(frame, ["r0", "r1"])
    line = "PERSISTING cause [c1]: rude; since run r0, 2 runs; 10.0 % of the cases"
    assert incident.line() == line
