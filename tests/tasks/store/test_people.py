"""Rows of people: durable, never twice, also while a run writes, in every kind of store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import StoreBusy, StoreError
from assizes.judge.rows import PEOPLE_TABLES
from assizes.tasks.store import open_store, query_store, rebuild_store
from assizes.tasks.store.people import MAX_ROW_BYTES, people_tables
from assizes.tasks.store.upkeep import DataSubject, find_subject, forget_subject
from tests.tasks.store.rows import BEGAN, COUNTS, ended, run_metrics, run_record, shard


def label(label_id: str, **changed: Any) -> dict[str, Any]:
    kept = dict.fromkeys(PEOPLE_TABLES["labels"]) | {
        "label_id": label_id,
        "run_id": "nightly-1",
        "case_id": "c0",
        "repetition": 0,
        "metric": "verdict",
        "rater": "ann",
        "role": "rater",
        "kind": "label",
        "value": 1.0,
        "note": "naïve ≠ wrong",
        "at": BEGAN,
        "blind": True,
        "shown": "{}",
        "queue_id": "",
    }
    return kept | changed


def fill(place: StoreConfig) -> None:
    with open_store(place, writing=True) as store:
        begun = store.begin(run_record())
        for number in range(3):
            store.commit_shard("nightly-1", f"s{number}", shard(case_id=f"c{number}"), COUNTS)
        store.finish(ended(begun), run_metrics())


def test_rows_come_back_as_they_were_written_in_order_of_time(place):
    fill(place)
    people = people_tables(place)
    assert people.rows("labels").is_empty()
    later = label("b", at=BEGAN + timedelta(seconds=1), value=None, kind="skip")
    people.add("labels", [later])
    people.add("labels", [label("a")])
    assert people.rows("labels").to_dicts() == [label("a"), later]
    with open_store(place) as store:
        assert store.people.rows("labels").to_dicts() == [label("a"), later]
        assert store.people.rows("annotations").is_empty()


def test_the_same_row_again_changes_nothing(place):
    fill(place)
    people = people_tables(place)
    people.add("labels", [label("a"), label("b")])
    people.add("labels", [label("a"), label("b")])
    people.add("labels", [label("a", value=0.0, at=BEGAN + timedelta(days=1))])  # the oldest stays
    assert people.rows("labels").to_dicts() == [label("a"), label("b")]


def test_of_rows_with_one_key_that_come_at_once_one_is_new_and_the_others_get_it(place):
    fill(place)
    people = people_tables(place)
    people.add("labels", [label("z")])
    wanted = [label("a", note="x" * 2000, rater=f"rater {number}") for number in range(12)]
    with ThreadPoolExecutor(12) as threads:
        held = list(threads.map(lambda row: people.add_new("labels", row), wanted))
    stored = people.rows("labels").filter(label_id="a").to_dicts()
    assert len(stored) == 1
    assert held.count(None) == 1
    assert [row for row in held if row is not None] == stored * 11
    assert people.add_new("labels", label("b")) is None


def test_labels_are_stored_while_another_process_writes_a_run(duckdb_place):
    fill(duckdb_place)
    with Writer(duckdb_place):
        with pytest.raises(StoreBusy):
            open_store(duckdb_place, writing=True)
        people_tables(duckdb_place).add("labels", [label("a")])
        assert people_tables(duckdb_place).rows("labels").height == 1
    with open_store(duckdb_place) as store:
        assert store.people.rows("labels").to_dicts() == [label("a")]


class Writer:
    """A process that holds the DuckDB file of a store open for writing."""

    def __init__(self, place: StoreConfig) -> None:
        code = (
            "import sys; from assizes.tasks.store import open_store\n"
            "with open_store(sys.argv[1], writing=True): print('open', flush=True); input()"
        )
        self._words = [sys.executable, "-c", code, place.uri]

    def __enter__(self) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self._words, stdin=pipe, stdout=pipe, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "open\n"

    def __exit__(self, *_: object) -> None:
        self._process.communicate("\n", timeout=30)


APPENDER = """
import sys
from assizes.judge.config.run import StoreConfig
from assizes.tasks.store.people import people_tables
from tests.tasks.store.test_people import label
people = people_tables(StoreConfig(uri=sys.argv[1]))
for number in range(int(sys.argv[3])):
    key = f"{sys.argv[2]}{number}"
    people.add("labels", [label(key, note="x" * 2000)])
    print(key, flush=True)
"""


def appender(place: StoreConfig, name: str, count: int) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", APPENDER, place.uri, name, str(count)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("kind", ["duckdb_place", "folder_place"])
def test_processes_that_append_at_once_lose_nothing(kind: str, request: pytest.FixtureRequest):
    place = request.getfixturevalue(kind)
    fill(place)
    processes = [appender(place, name, 40) for name in "abc"]
    acknowledged = [key for process in processes for key in process.communicate()[0].split()]
    assert len(acknowledged) == 120
    assert sorted(people_tables(place).rows("labels")["label_id"]) == sorted(acknowledged)


@pytest.mark.parametrize("kind", ["duckdb_place", "folder_place"])
def test_a_killed_process_loses_no_acknowledged_row(kind: str, request: pytest.FixtureRequest):
    place = request.getfixturevalue(kind)
    fill(place)
    process = appender(place, "k", 100_000)
    assert process.stdout is not None
    acknowledged = [process.stdout.readline().strip() for _ in range(25)]
    os.kill(process.pid, signal.SIGKILL)
    acknowledged += process.communicate()[0].splitlines()
    people = people_tables(place)
    people.add("labels", [label("after")])
    stored = set(people.rows("labels")["label_id"])
    assert {*filter(None, acknowledged), "after"} <= stored
    assert len(stored) <= len(acknowledged) + 2  # one more may have been on its way


def test_a_line_that_was_cut_short_is_passed_over(duckdb_place):
    fill(duckdb_place)
    people = people_tables(duckdb_place)
    people.add("labels", [label("a")])
    people.add("labels", [label("b")])
    path = Path(duckdb_place.uri.removeprefix("duckdb:///") + ".people")
    os.truncate(path, path.stat().st_size - 9)
    assert people.rows("labels")["label_id"].to_list() == ["a"]
    people.add("labels", [label("c")])
    assert people.rows("labels")["label_id"].to_list() == ["a", "c"]


def test_a_row_that_is_too_large_or_has_other_columns_is_refused(place):
    fill(place)
    people = people_tables(place)
    with pytest.raises(StoreError, match=f"at most {MAX_ROW_BYTES:,}"):
        people.add("labels", [label("a", note="x" * MAX_ROW_BYTES)])
    with pytest.raises(StoreError, match="table labels has no column mood"):
        people.add("labels", [label("a", mood="good")])
    assert people.rows("labels").is_empty()


def test_what_people_said_about_a_forgotten_case_is_deleted_too(place):
    fill(place)
    people = people_tables(place)
    people.add("labels", [label("a"), label("b", case_id="c1"), label("c", run_id="other")])
    note = dict.fromkeys(PEOPLE_TABLES["annotations"]) | {"annotation_id": "n", "at": BEGAN}
    people.add("annotations", [note | {"run_id": "nightly-1", "case_id": "c0", "text": "private"}])
    with open_store(place, writing=True) as store:
        (subject,) = find_subject(store, DataSubject("c0", {}))
        assert (subject.rows["labels"], subject.rows["annotations"]) == (1, 1)
        forget_subject(store, [subject])
        assert store.people.rows("labels")["label_id"].to_list() == ["b", "c"]
        assert store.people.rows("annotations").is_empty()
    if place.uri.startswith("duckdb"):
        path = Path(place.uri.removeprefix("duckdb:///") + ".people")
        assert b"private" not in path.read_bytes()


def test_the_tables_can_be_queried_of_all_runs_and_of_one(place):
    fill(place)
    people = people_tables(place)
    people.add("labels", [label("a"), label("b", run_id="nightly-0")])
    statement = "select count(*) as n, max(note) as note from labels"
    assert query_store(place, statement).rows() == [(2, "naïve ≠ wrong")]
    assert query_store(place, statement, "nightly-1").rows() == [(1, "naïve ≠ wrong")]
    assert (
        query_store(place, "select * from queues").schema.keys() == PEOPLE_TABLES["queues"].keys()
    )


def test_a_store_whose_folder_is_gone_is_one_line(tmp_path: Path):
    people = people_tables(StoreConfig(uri=f"duckdb:///{tmp_path}/none/s.duckdb"))
    assert people.rows("labels").is_empty()
    with pytest.raises(StoreError, match="its folder does not exist"):
        people.add("labels", [label("a")])


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"at": None}, "has no at"),
        ({"run_id": None}, "has no run_id"),
        ({"at": "yesterday"}, "`at` is a time with its zone"),
        ({"at": BEGAN.replace(tzinfo=None)}, "`at` is a time with its zone"),
        ({"value": float("nan")}, "numbers are finite"),
        ({"probability": 7.0}, "a probability is 0 to 1"),
        ({"repetition": "first"}, "cannot be stored"),
    ],
)
def test_a_row_that_could_not_be_read_back_is_refused(
    duckdb_place, changed: dict[str, Any], reason: str
):
    fill(duckdb_place)
    people = people_tables(duckdb_place)
    with pytest.raises(StoreError, match=reason):
        people.add("labels", [label("a", **changed)])
    people.add("labels", [label("b")])
    assert people.rows("labels")["label_id"].to_list() == ["b"]


def test_a_store_in_memory_keeps_no_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with (
        open_store("duckdb:///:memory:", writing=True) as store,
        pytest.raises(StoreError, match="a store in memory keeps no labels"),
    ):
        store.people.add("labels", [label("a")])
    assert list(tmp_path.iterdir()) == []


def test_a_rebuilt_store_has_the_labels_of_the_copy(duckdb_place, folder_place):
    fill(duckdb_place)
    fill(folder_place)
    people_tables(folder_place).add("labels", [label("a")])
    file = Path(duckdb_place.uri.removeprefix("duckdb:///"))
    file.write_bytes(b"broken" + file.read_bytes()[6:])
    rebuild_store(duckdb_place, folder_place)
    assert people_tables(duckdb_place).rows("labels").to_dicts() == [label("a")]
