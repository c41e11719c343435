"""What became of a cause since the baseline: said only where it is no chance."""

from __future__ import annotations

import random

import polars as pl
import pytest

from assizes.judge.causes.described import RunWithCauses, cause_rows
from assizes.judge.causes.failures import FAILURES
from assizes.judge.causes.identity import FoundCauses
from assizes.judge.causes.presence import JudgedCases, cause_changes

COLUMNS = {"case_id": pl.String, "repetition": pl.Int64, "cluster": pl.String}


def judged(ids: range, *, repetitions: int = 1, size: int = 1) -> JudgedCases:
    """Cases named by numbers, `size` of them in each cluster."""
    rows = [
        {"case_id": f"c{n:04d}", "repetition": r, "cluster": f"g{n // size}" if size > 1 else None}
        for n in ids
        for r in range(repetitions)
    ]
    return JudgedCases(pl.DataFrame(rows, schema_overrides={"cluster": pl.String}))


def shown(*numbers: int, repetition: int = 0) -> pl.DataFrame:
    rows = {"case_id": [f"c{n:04d}" for n in numbers], "repetition": [repetition] * len(numbers)}
    return pl.DataFrame(rows, schema={"case_id": pl.String, "repetition": pl.Int64})


CASES = judged(range(100))


def state(before: pl.DataFrame, now: pl.DataFrame, cases: JudgedCases = CASES) -> str:
    ids = cases.ids.to_list()
    changes = cause_changes(
        {"x": cases.presence(now)}, {"x": cases.presence(before)}, (ids, ids), 0.05
    )
    return changes["x"].state


@pytest.mark.parametrize(
    ("before", "now", "word"),
    [
        (0, 10, "new"),
        (0, 2, "first_seen"),
        (10, 0, "gone"),
        (2, 0, "not_seen"),
        (10, 12, "persisting"),
        (5, 30, "worse"),
        (30, 5, "better"),
    ],
)
def test_a_change_gets_the_word_that_its_size_allows(before: int, now: int, word: str):
    assert state(shown(*range(before)), shown(*range(now))) == word


def test_cases_of_one_cluster_count_as_one():
    assert state(shown(), shown(*range(10))) == "new"
    assert state(shown(), shown(*range(10)), judged(range(100), size=10)) == "first_seen"


def test_runs_over_other_cases_are_compared_as_two_samples():
    before, now = judged(range(100)), judged(range(1000, 1100))
    ids = (now.ids.to_list(), before.ids.to_list())
    sides = ({"x": now.presence(shown(*range(1000, 1020)))}, {"x": before.presence(shown())})
    change = cause_changes(*sides, ids, 0.05)["x"]
    assert (change.state, change.share, change.baseline_share) == ("new", 0.2, 0)
    assert change.change is not None
    assert 0 < change.change.low < 0.2 < change.change.high


def test_a_case_counts_by_the_share_of_its_repetitions():
    cases = judged(range(10), repetitions=2)
    assert cases.executions == 20
    assert cases.presence(shown(0, 1)).mean == pytest.approx(0.1)


def test_without_a_baseline_every_cause_is_first_seen():
    change = cause_changes({"x": CASES.presence(shown(1, 2))}, {}, None, 0.05)["x"]
    assert (change.state, change.baseline_share, change.change) == ("first_seen", None, None)
    assert change.span is not None
    assert change.span.low < 0.02 < change.span.high


@pytest.mark.promised
def test_among_many_causes_chance_alone_rarely_makes_one_new():
    draw, ids, false = random.Random(5), CASES.ids.to_list(), 0
    for _ in range(80):
        sides = []
        for _ in range(2):
            rates = [shown(*(n for n in range(100) if draw.random() < 0.05)) for _ in range(12)]
            sides.append({str(n): CASES.presence(rows) for n, rows in enumerate(rates)})
        states = {c.state for c in cause_changes(*sides, (ids, ids), 0.05).values()}
        false += bool(states & {"new", "gone", "worse", "better"})
    assert false <= 10  # of 80 at 5 %, binomial at 99.5 %


def counted(count: int) -> JudgedCases:
    """So many cases, or none at all."""
    return judged(range(count)) if count else JudgedCases(pl.DataFrame(schema=COLUMNS))


@pytest.mark.parametrize(("own", "theirs", "states"), [(30, 0, ["first_seen"]), (0, 30, [])])
def test_a_run_in_which_nothing_was_judged_says_nothing_of_causes(
    own: int, theirs: int, states: list[str]
):
    columns = {**FAILURES, "cause_id": pl.String}
    row = {"case_id": "c0000", "repetition": 0, "metric": "m", "reason": "A promise was broken."}
    shown = pl.DataFrame([row | {"cause_id": "x"}], schema=columns, orient="row")
    runs = [
        RunWithCauses(name, cases, shown if cases.ids.len() else shown.clear())
        for name, cases in (("new", counted(own)), ("old", counted(theirs)))
    ]
    found = FoundCauses(runs[0].failures, {})

    rows = cause_rows(runs[0], found, runs[1], {}, 0.05)

    assert rows["state"].to_list() == states
