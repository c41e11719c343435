"""What people decide about causes lasts over nights with other words, in every kind of store."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from assizes.judge.causes.edits import CauseEdit
from assizes.judge.config.gates import SeriesConfig
from assizes.judge.errors import ConfigurationError
from assizes.tasks.reports.data.causes import causes_part
from assizes.tasks.runs.edits.cause_edits import add_cause_edit, cause_history, undo_cause_edit
from assizes.tasks.runs.run_causes import causes_of_run
from assizes.tasks.runs.stored_causes import cause_named, stored_causes
from assizes.tasks.store import Store, open_store, query_store
from assizes.tasks.store.cause_tables import RunCauses
from assizes.tasks.tell_incidents import cause_incidents_at
from tests.tasks.store.failing_nights import RUDE_CASES, WRONG_CASES, night

DRIFT = {
    "late": (
        "The refund was promised late.",
        "The refund is promised too late, after the deadline.",
        "A refund promised after the deadline, so it comes late.",
        "Late: the deadline of the refund had passed when it was promised.",
    ),
    "double": (
        "The refund was promised twice.",
        "The refund is promised twice, for one order.",
        "A refund promised twice, so one order is paid double.",
        "Twice the same order: the refund was promised double.",
    ),
    "rude": (
        "The tone of the agent is rude.",
        "A rude tone, harsh words.",
        "Harsh and rude is the tone of the reply.",
        "The reply has a harsh tone and rude words.",
    ),
}
"""Wordings of causes by night; the first two share most of their words."""


def drifting_night(store: Store, number: int, *kinds: str) -> str:
    """A night in which each kind of failure has six cases, told in the words of that night."""
    reasons = {
        10 * place + case: DRIFT[kind][number - 1]
        for place, kind in enumerate(DRIFT)
        if kind in kinds
        for case in range(6)
    }
    return night(store, number, reasons)


def cases_by_cause(found: RunCauses) -> dict[str, set[str]]:
    """The cases of each cause, by its name."""
    names = dict(found.causes.select("cause_id", "name").iter_rows())
    return {
        names[str(key[0])]: set(rows["case_id"])
        for key, rows in found.case_causes.group_by("cause_id")
    }


def ids(first: int) -> set[str]:
    return {f"c{number}" for number in range(first, first + 6)}


LATE, DOUBLE, RUDE = ids(0), ids(10), ids(20)


def edit(store: Store, run_id: str, cause: str, kind, value: str = "", cases=()) -> dict:
    wanted = CauseEdit(cause, kind, value, sorted(cases), "Ada")
    return add_cause_edit(store, run_id, causes_of_run(store, run_id), wanted)


def cause_with(found: RunCauses, case_id: str) -> str:
    (cause_id,) = set(found.case_causes.filter(pl.col("case_id") == case_id)["cause_id"])
    return str(cause_id)


@pytest.mark.full
def test_a_split_lasts_over_three_further_nights_with_other_words(place):
    with open_store(place, writing=True) as store:
        drifting_night(store, 1, "late", "double", "rude")
        first = causes_of_run(store, "night-1")
        refund = cause_with(first, "c0")
        assert refund == cause_with(first, "c10")  # the words do not tell them apart
        edit(store, "night-1", refund, "split", "paid twice", DOUBLE)
        again = causes_of_run(store, "night-1")
        assert cases_by_cause(again)["paid twice"] == DOUBLE
        part = cause_named(again, "paid twice")
        for number in (2, 3, 4):
            run_id = drifting_night(store, number, "late", "double", "rude")
            found = causes_of_run(store, run_id)
            shown = cases_by_cause(found)
            assert shown["paid twice"] == DOUBLE
            assert (cause_with(found, "c0"), cause_with(found, "c10")) == (refund, part)
            assert set(found.causes["state"]) == {"persisting"}
            assert LATE in shown.values()
            assert RUDE in shown.values()


@pytest.mark.full
def test_a_merge_lasts_over_three_further_nights_with_other_words(place):
    with open_store(place, writing=True) as store:
        drifting_night(store, 1, "late", "rude")
        first = causes_of_run(store, "night-1")
        late, rude = cause_with(first, "c0"), cause_with(first, "c20")
        assert late != rude
        edit(store, "night-1", rude, "merge", late)
        edit(store, "night-1", late, "rename", "bad answers")
        for number in (1, 2, 3, 4):
            run_id = "night-1" if number == 1 else drifting_night(store, number, "late", "rude")
            found = causes_of_run(store, run_id)
            assert cases_by_cause(found) == {"bad answers": LATE | RUDE}
            row = found.causes.row(by_predicate=pl.col("name") == "bad answers", named=True)
            assert (row["cases"], row["share"]) == (12, 0.3)
            assert row["state"] == ("first_seen" if number == 1 else "persisting")


@pytest.mark.full
def test_an_edit_also_counts_in_runs_whose_causes_were_found_before(place):
    with open_store(place, writing=True) as store:
        for number in (1, 2, 3):
            causes_of_run(store, drifting_night(store, number, "late", "double", "rude"))
        refund = cause_with(causes_of_run(store, "night-2"), "c0")
        edit(store, "night-2", refund, "split", "paid twice", DOUBLE)
        for number in (1, 2, 3):
            found = stored_causes(store, f"night-{number}")
            assert found is not None
            assert cases_by_cause(found)["paid twice"] == DOUBLE
            row = found.causes.row(by_predicate=pl.col("name") == "paid twice", named=True)
            assert (row["cases"], row["state"]) == (6, "persisting" if number > 1 else "first_seen")
        rude = cause_with(causes_of_run(store, "night-3"), "c20")
        edit(store, "night-3", "paid twice", "merge", rude)
        for number in (1, 2, 3):
            found = causes_of_run(store, f"night-{number}")
            assert DOUBLE | RUDE in cases_by_cause(found).values()


@pytest.mark.full
def test_what_is_undone_no_longer_counts(place):
    with open_store(place, writing=True) as store:
        drifting_night(store, 1, "late", "double", "rude")
        first = causes_of_run(store, "night-1")
        refund, rude = cause_with(first, "c0"), cause_with(first, "c20")
        split = edit(store, "night-1", refund, "split", "paid twice", DOUBLE)
        merge = edit(store, "night-1", rude, "merge", refund)
        named = edit(store, "night-1", refund, "rename", "refunds")
        drifting_night(store, 2, "late", "double", "rude")
        second = cases_by_cause(causes_of_run(store, "night-2"))
        assert second == {"refunds": LATE | RUDE, "paid twice": DOUBLE}
        for entry in (split, merge, named):
            undo_cause_edit(store, entry["edit_id"][:8], "Bo")
        with pytest.raises(ConfigurationError, match="is undone already"):
            undo_cause_edit(store, split["edit_id"], "Bo")
        assert causes_of_run(store, "night-1").causes.equals(first.causes)
        drifting_night(store, 3, "late", "double", "rude")
        third = causes_of_run(store, "night-3")
        assert (cause_with(third, "c0"), cause_with(third, "c10")) == (refund, refund)
        assert cause_with(third, "c20") == rude
        names = dict(third.causes.select("cause_id", "name").iter_rows())
        assert names[refund] == dict(first.causes.select("cause_id", "name").iter_rows())[refund]
        history = cause_history(store, [refund])
        assert [(each["kind"], each["undone"]) for each in history] == [
            ("split", True),
            ("merge", True),
            ("rename", True),
        ]
        assert history[0]["case_ids"] == sorted(DOUBLE)


@pytest.mark.full
def test_names_owners_and_silence_are_the_newest_ones_and_in_sql(place):
    with open_store(place, writing=True) as store:
        drifting_night(store, 1, "rude")
        cause = cause_with(causes_of_run(store, "night-1"), "c20")
        for kind, value in (("rename", "harsh"), ("rename", "manners"), ("assign", "tone team")):
            edit(store, "night-1", cause, kind, value)
        edit(store, "night-1", "manners", "mute")
        drifting_night(store, 2, "rude")
        row = causes_of_run(store, "night-2").causes.row(0, named=True)
        shown = {name: row[name] for name in ("name", "owner", "muted", "state")}
        assert shown == {
            **{"name": "manners", "owner": "tone team", "muted": True, "state": "persisting"}
        }
        edit(store, "night-2", cause[:4], "unmute")
        edit(store, "night-2", cause, "assign", " ")
    sql = "select distinct name, owner, muted from causes"
    assert query_store(place, sql).rows() == [("manners", None, False)]
    assert query_store(place, "select * from cause_edits").height == 6


def test_a_sentence_of_a_person_stands_for_what_a_judge_said_until_it_is_undone(place):
    with open_store(place, writing=True) as store:
        night(store, 1, RUDE_CASES)
        cause = cause_with(causes_of_run(store, "night-1"), "c0")
        edit(store, "night-1", cause, "describe", "The agent is\n rude  to everybody.")
        night(store, 2, RUDE_CASES)
        columns = ("sentence", "described_by")
        shown = causes_of_run(store, "night-2").causes.select(columns).row(0)
        assert shown[0] == "The agent is rude to everybody."
        assert shown[1] is not None
    sql = query_store(place, "select distinct sentence, described_by from causes")
    assert sql.rows() == [shown]
    with open_store(place, writing=True) as store:
        (entry,) = cause_history(store, [cause])
        undo_cause_edit(store, entry["edit_id"], "Bo")
        assert causes_of_run(store, "night-1").causes.select(columns).row(0) == (
            RUDE_CASES[0],
            None,
        )


def test_a_muted_cause_is_listed_but_nobody_is_told(folder_place):
    with open_store(folder_place, writing=True) as store:
        night(store, 1, {})
        night(
            store, 2, dict.fromkeys(range(14), RUDE_CASES[0]) | WRONG_CASES
        )  # both are surely new
        found = causes_of_run(store, "night-2")
        series = SeriesConfig()
        record = replace(store.run("night-2"), trigger="nightly")
        assert len(cause_incidents_at(store, record, series)) == 2
        rude = cause_with(found, "c0")
        edit(store, "night-2", rude, "mute")
        report = causes_part(causes_of_run(store, "night-2").causes, 0)
        assert report is not None
        assert [line.word for line in report.shown if line.cause_id == rude] == ["new, muted"]
        assert [line.cause_id == rude for line in report.first] == [False]
        assert [each.cause_id == rude for each in cause_incidents_at(store, record, series)] == [
            False
        ]


@pytest.mark.full
def test_edits_that_do_not_fit_are_refused(place):
    with open_store(place, writing=True) as store:
        drifting_night(store, 1, "late", "rude")
        found = causes_of_run(store, "night-1")
        late, rude = cause_with(found, "c0"), cause_with(found, "c20")
        name = dict(found.causes.select("cause_id", "name").iter_rows())[late]
        edit(store, "night-1", rude, "merge", late)
        for kind, value, cases, fault in (
            ("merge", rude, (), "already; a merge cannot lead back"),
            ("merge", late, (), "already; a merge cannot lead back"),
            ("merge", "nothing", (), f"no cause is named 'nothing'; the run has {late} "),
            ("rename", " ", (), "a cause has a name"),
            ("rename", "x" * 101, (), "at most 100 characters"),
            ("describe", "x" * 301, (), "a sentence has at most 300 characters"),
            ("split", "part", ("c39",), "case 'c39' does not show cause"),
            ("split", "part", sorted(LATE | RUDE), "takes some of the 12 cases"),
            ("split", "part", (), "takes some of the 12 cases"),
        ):
            with pytest.raises(ConfigurationError, match=fault):
                edit(store, "night-1", late, kind, value, cases)
        edit(store, "night-1", rude, "rename", "manners")
        with pytest.raises(ConfigurationError, match="another cause of this run is named"):
            edit(store, "night-1", rude, "rename", name)
        with pytest.raises(ConfigurationError, match="0 edits of causes have an id that begins"):
            undo_cause_edit(store, "zz", "Bo")


def test_forgotten_cases_leave_a_split(place):
    with open_store(place, writing=True) as store:
        drifting_night(store, 1, "late", "double")
        refund = cause_with(causes_of_run(store, "night-1"), "c0")
        edit(store, "night-1", refund, "split", "paid twice", DOUBLE)
        store.forget("night-1", ["c10"])
        assert "c10" not in store.people.rows("cause_edits")["case_id"]
        (entry, _) = cause_history(store, None)
        assert entry["case_ids"] == sorted(DOUBLE - {"c10"})
        drifting_night(store, 2, "late", "double")
        found = causes_of_run(store, "night-2")
        assert cases_by_cause(found)["paid twice"] == DOUBLE
        remembered = found.remembered.filter(pl.col("run_id") == "night-1")
        assert "c10" not in remembered["case_id"]
