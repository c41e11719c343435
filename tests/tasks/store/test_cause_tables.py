"""Causes of a run lie beside its rows, in every kind of store, and are forgotten with its cases."""

from __future__ import annotations

import io
import json

import polars as pl
import pytest

from assizes.judge.errors import ConfigurationError
from assizes.judge.rows import CAUSE_TABLES
from assizes.tasks.runs import run_causes
from assizes.tasks.runs.run_causes import causes_of_run
from assizes.tasks.runs.stored_causes import unexplained_cases
from assizes.tasks.store import open_store, query_store
from tests.tasks.store.failing_nights import RUDE, RUDE_CASES, WRONG_CASES, night


@pytest.fixture
def nights(place):
    with open_store(place, writing=True) as store:
        night(store, 1, RUDE_CASES | {39: "Something that no other case has."})
        night(store, 2, RUDE_CASES | WRONG_CASES)
        night(store, 3, WRONG_CASES)
    return place


def states(causes: pl.DataFrame) -> dict[str, str]:
    kinds = {"rude": "tone", "prices": "sum"}
    named = causes.select("name", "state").rows()
    return {
        next(kind for word, kind in kinds.items() if word in name): state for name, state in named
    }


def test_a_cause_keeps_its_id_over_nights_and_its_state_says_what_became_of_it(nights):
    with open_store(nights) as store:
        third = causes_of_run(store, "latest")
        second, first = (causes_of_run(store, f"night-{n}") for n in (2, 1))
        assert unexplained_cases(store, "night-1", first) == 1
        assert unexplained_cases(store, "latest", third) == 0
    assert states(first.causes) == {"tone": "first_seen"}
    assert states(second.causes) == {"tone": "persisting", "sum": "new"}
    assert states(third.causes) == {"tone": "gone", "sum": "persisting"}
    (tone,) = set(first.case_causes["cause_id"])
    assert set(second.case_causes.filter(pl.col("case_id") == "c3")["cause_id"]) == {tone}
    row = second.causes.row(by_predicate=pl.col("cause_id") == tone, named=True)
    assert (row["cases"], row["share"], row["first_run"]) == (8, 0.2, "night-1")
    assert (row["points"], row["baseline"], row["baseline_share"]) == (10.0, "night-1", 0.2)
    assert (row["sentence"], len(row["examples"])) == (RUDE, 5)


def test_a_cause_is_stored_with_the_version_that_shows_it(place):
    with open_store(place, writing=True) as store:
        night(store, 1, RUDE_CASES, versions=lambda case: "14" if case < 10 else "13")
        (text,) = causes_of_run(store, "night-1").causes["related"]
    (origin,) = json.loads(text)
    assert (origin["field"], origin["value"]) == ("agent_version", "14")
    assert (origin["cases"], origin["of"], origin["other_cases"], origin["other_of"]) == (
        8,
        10,
        0,
        30,
    )


def test_files_older_than_a_column_are_read_with_null(nights, monkeypatch):
    with open_store(nights) as store:
        with monkeypatch.context() as before:
            before.delitem(CAUSE_TABLES["causes"], "related")
            causes_of_run(store, "latest")
        assert causes_of_run(store, "latest").causes["related"].to_list() == [None, None]


def test_causes_are_tables_for_sql(nights):
    query = "select cause_id, count(*) as cases from case_causes group by all"
    with open_store(nights) as store:
        causes_of_run(store, "latest")
    assert query_store(nights, "select count(*) as n from causes").item() == 5
    assert query_store(nights, query, run_id="night-3")["cases"].to_list() == [10]


def test_forgotten_cases_are_in_no_row_of_causes(nights):
    with open_store(nights, writing=True) as store:
        causes_of_run(store, "latest")
        example = store.causes.rows("causes", ["night-1"])["examples"][0][0]
        store.forget("night-1", [example])
        kept = store.causes.read("night-1")
        assert kept is not None
        assert example not in kept.case_causes["case_id"]
        assert example not in kept.causes["examples"].explode()
        assert kept.causes["sentence"].to_list() == [""]
        for run_id in ("night-1", "night-2", "night-3"):
            found = store.causes.read(run_id)
            assert found is not None
            of_case = (pl.col("run_id") == "night-1") & (pl.col("case_id") == example)
            assert found.remembered.filter(of_case).is_empty()


def test_a_run_that_has_not_ended_has_no_causes(place):
    with open_store(place, writing=True) as store:
        night(store, 1, RUDE_CASES, complete=False)
        with pytest.raises(ConfigurationError, match="night-1 is running; causes are found in"):
            causes_of_run(store, "night-1")


def test_a_run_without_failures_has_no_causes(place):
    with open_store(place, writing=True) as store:
        night(store, 1, {})
        found = causes_of_run(store, "night-1")
    assert (found.causes.height, found.case_causes.height) == (0, 0)


@pytest.mark.full
def test_causes_are_known_from_the_newest_run_that_has_some(place, monkeypatch):
    monkeypatch.setattr(run_causes, "LOOK_BACK", 2)
    with open_store(place, writing=True) as store:
        night(store, 1, RUDE_CASES)
        first = causes_of_run(store, "night-1").causes["cause_id"].to_list()
        for number in range(2, 7):
            night(store, number, RUDE_CASES)
        last = causes_of_run(store, "night-6")
        assert last.causes["cause_id"].to_list() == first
        assert last.causes["baseline"].to_list() == ["night-5"]
        assert store.causes.run_ids() == {"night-1", "night-4", "night-5", "night-6"}


def test_a_store_in_memory_keeps_causes_in_memory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_store("duckdb:///:memory:", writing=True) as store:
        night(store, 1, RUDE_CASES)
        assert causes_of_run(store, "night-1").causes["cases"].to_list() == [8]
        assert store.causes.run_ids() == {"night-1"}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
def test_causes_that_were_stored_before_people_could_edit_them_are_read(nights):
    with open_store(nights) as store:
        causes_of_run(store, "night-1")
        files = store.causes._objects
        name = "causes/causes/night-1.parquet"
        older = io.BytesIO()
        stored = pl.read_parquet(files.read([name])[name])
        stored.drop("owner", "muted").write_parquet(older)
        files.replace(name, older.getvalue())
        row = causes_of_run(store, "night-1").causes.row(0, named=True)
    assert (row["owner"], row["muted"], row["cases"]) == (None, False, 8)
