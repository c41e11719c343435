"""The index of runs: it says what the runs say, whatever happened to it."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Thread

import polars as pl
import pytest

from assizes.judge.config.run import StoreConfig
from assizes.tasks.store import Store, open_store, query_store
from assizes.tasks.store.listing import kept_folders, lake_runs, run_index, tables
from assizes.tasks.store.listing.run_index import RUN_INDEX, index_row
from tests.tasks.store.rows import COUNTS, ENDED, ended, run_metrics, run_record, shard

RUNS = 4


@pytest.fixture(autouse=True)
def _nothing_remembered():
    """What a process remembers of a store is no part of these tests."""
    tables._remembered.clear()
    run_index._checked.clear()
    kept_folders._kept.clear()


def begin(store: Store, number: int, **changed) -> None:
    run_id = f"nightly-{number}"
    store.begin(run_record(run_id, config={**run_record().config, "sequence": number}, **changed))


def finish(store: Store, number: int, **changed) -> None:
    run = store.run(f"nightly-{number}")
    store.finish(ended(run, **changed), run_metrics(run.run_id))


def filled(place: StoreConfig) -> None:
    with open_store(place, writing=True) as store:
        for number in range(RUNS):
            begin(store, number)
            if number:
                finish(store, number)


def index_file(place: StoreConfig) -> Path:
    if place.uri.startswith("duckdb:"):
        return Path(f"{place.uri.removeprefix('duckdb:///')}.index/index/runs.parquet")
    return Path(place.uri) / "index" / "runs.parquet"


def check_index(place: StoreConfig) -> pl.DataFrame:
    """The index of a store, which must say what table runs says."""
    with open_store(place) as store:
        index, runs = store.run_index(), store.runs()
        expected = pl.DataFrame(
            [index_row(row) for row in runs.iter_rows(named=True)], schema=RUN_INDEX, orient="row"
        )
        assert index.equals(expected)
        return index


def test_the_index_has_a_row_for_each_run_in_the_order_of_the_table(place: StoreConfig):
    filled(place)
    index = check_index(place)
    assert index.height == RUNS
    assert index["coverage"].null_count() == 1  # of the run that has not ended
    assert check_index(place).equals(index)  # now from its file


@pytest.mark.full
def test_runs_that_began_or_ended_since_are_found(place: StoreConfig):
    filled(place)
    check_index(place)
    with open_store(place, writing=True) as store:
        finish(store, 0, status="incomplete")
        begin(store, 9)
    index = check_index(place)
    statuses = dict(index.select("run_id", "status").iter_rows())
    assert (statuses["nightly-0"], statuses["nightly-9"]) == ("incomplete", "running")
    with open_store(place, writing=True) as store:  # an incomplete run may end again
        finish(store, 0, status="failed", finished_at=ENDED, counts={"read": 5})
    assert check_index(place).filter(run_id="nightly-0")["status"].item() == "failed"


@pytest.fixture(params=["duckdb", "folder"])
def local_place(request: pytest.FixtureRequest) -> StoreConfig:
    """A store on this disk, of each kind in turn."""
    found: StoreConfig = request.getfixturevalue(f"{request.param}_place")
    return found


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "text"])
def test_a_damaged_index_names_itself_and_is_made_again(
    local_place: StoreConfig, damage: str, caplog: pytest.LogCaptureFixture
):
    filled(local_place)
    check_index(local_place)
    path = index_file(local_place)
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.write_bytes(
        {
            "flipped": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
            "cut": whole[:middle],
            "empty": b"",
            "text": b"no table",
        }[damage]
    )
    with caplog.at_level(logging.WARNING):
        check_index(local_place)
    told = [line for line in caplog.messages if "index/runs.parquet is damaged" in line]
    assert len(told) == (damage != "empty")
    caplog.clear()
    check_index(local_place)
    assert caplog.messages == []
    assert pl.read_parquet(path).height == RUNS


def test_a_store_without_an_index_gets_one_and_an_index_of_other_columns_is_replaced(
    local_place: StoreConfig,
):
    filled(local_place)
    path = index_file(local_place)
    shutil.rmtree(path.parent, ignore_errors=True)  # as a store of an older version
    check_index(local_place)
    assert path.exists()
    with open_store(local_place) as store:
        store.derived.write("runs", pl.DataFrame({"run_id": ["nightly-1"], "other": [1]}))
    check_index(local_place)
    assert "state" in pl.read_parquet(path).columns


def test_an_index_that_lies_about_a_run_does_not_count(local_place: StoreConfig):
    """As a writer leaves it that was killed between the end of a run and the index."""
    filled(local_place)
    check_index(local_place)
    path = index_file(local_place)
    before = path.read_bytes()
    with open_store(local_place, writing=True) as store:
        finish(store, 0)
        begin(store, 7)
    check_index(local_place)
    path.write_bytes(before)  # the other of two writers came last
    check_index(local_place)


def test_a_run_that_was_removed_and_begun_again_is_read_again(folder_place: StoreConfig):
    filled(folder_place)
    check_index(folder_place)
    shutil.rmtree(Path(folder_place.uri) / "runs" / "nightly-2")
    assert check_index(folder_place).height == RUNS - 1
    with open_store(folder_place, writing=True) as store:
        begin(store, 2, started_at=ENDED)
        finish(store, 2, finished_at=ENDED + timedelta(hours=1))
    assert check_index(folder_place).filter(run_id="nightly-2")["started_at"].item() == ENDED


def test_a_store_that_may_not_be_written_keeps_its_index_in_memory(
    folder_place: StoreConfig, monkeypatch: pytest.MonkeyPatch
):
    filled(folder_place)
    shutil.rmtree(Path(folder_place.uri) / "index", ignore_errors=True)
    Path(folder_place.uri, "index").write_bytes(b"")  # no folder: nothing can be written below it
    check_index(folder_place)
    reads: list[str] = []
    read = lake_runs.LakeRuns.rows_of_runs

    def counted(self, run_ids):
        reads.extend(run_ids)
        return read(self, run_ids)

    monkeypatch.setattr(lake_runs.LakeRuns, "rows_of_runs", counted)
    with open_store(folder_place) as store:
        assert store.run_index().height == RUNS
    assert reads == []


def test_the_index_reads_no_run_twice(place: StoreConfig, monkeypatch: pytest.MonkeyPatch):
    filled(place)
    check_index(place)
    reads: list[str] = []
    with open_store(place) as store:
        source = store._index._source
        read = type(source).rows_of_runs

        def counted(self, run_ids):
            reads.extend(run_ids)
            return read(self, run_ids)

        monkeypatch.setattr(type(source), "rows_of_runs", counted)
        store.run_index()
    assert set(reads) <= {"nightly-0"}  # in a bucket, only the run that has not ended


def test_two_writers_at_once_lose_no_run(folder_place: StoreConfig):
    def write(first: int) -> None:
        with open_store(folder_place, writing=True) as store:
            for number in range(first, first + 8):
                begin(store, number)
                store.run_index()
                finish(store, number)
                store.run_index()

    open_store(folder_place, writing=True).close()
    writers = [Thread(target=write, args=(first,)) for first in (100, 200)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert check_index(folder_place).height == 16


KILLED = """
import sys
from assizes.tasks.runtime.failpoints import arm_from_environment
from assizes.tasks.store import open_store
arm_from_environment()
with open_store(sys.argv[1]) as store:
    store.run_index()
"""


@pytest.mark.parametrize(
    "place_of_death", ["folder.replace.before", "folder.replace.written", "folder.create.half"]
)
def test_a_process_that_is_killed_while_it_writes_the_index_does_no_harm(
    local_place: StoreConfig, place_of_death: str
):
    filled(local_place)
    shutil.rmtree(index_file(local_place).parent, ignore_errors=True)
    command = [sys.executable, "-c", KILLED, local_place.uri]
    env = {**os.environ, "ASSIZES_FAILPOINT": f"{place_of_death}:1:kill"}
    assert subprocess.run(command, env=env, check=False).returncode == -9
    check_index(local_place)


def test_rows_of_some_runs_are_those_of_the_table(place: StoreConfig):
    filled(place)
    with open_store(place) as store:
        wanted = ["nightly-3", "nightly-1", "no-such-run"]
        rows = store.rows_of_runs(wanted)
        assert rows.equals(store.runs().filter(pl.col("run_id").is_in(wanted)))
        assert store.rows_of_runs([]).is_empty()


def test_comparisons_of_some_candidates_are_those_of_the_table(place: StoreConfig):
    rows = [
        {"baseline": baseline, "candidate": candidate, "at": ENDED, "verdict": "{}"}
        for baseline, candidate in [("a", "b"), ("b", "c"), ("a", "x..b"), ("a..b", "c")]
    ]
    with open_store(place, writing=True) as store:
        for row in rows:
            store.add_comparison({**row, "thresholds": "{}"})
        for candidate, count in [("b", 1), ("c", 2), ("x..b", 1), ("y", 0)]:
            found = store.comparisons([candidate])
            assert found.equals(store.comparisons().filter(candidate=candidate))
            assert found.height == count


def test_the_revision_of_the_rows_changes_with_a_deletion(place: StoreConfig):
    with open_store(place, writing=True) as store:
        run = run_record("nightly-1")
        store.begin(run)
        frames = shard("nightly-1", "s0")
        store.commit_shard("nightly-1", "s0", frames, COUNTS)
        store.finish(replace(ended(run)), run_metrics("nightly-1"))
        before = store.row_revisions(["nightly-1"])
        assert before == store.row_revisions(["nightly-1"])
        store.forget("nightly-1", [frames["cases"]["case_id"][0]])
        assert store.row_revisions(["nightly-1"]) != before


def test_sql_still_sees_every_run(local_place: StoreConfig):
    filled(local_place)
    rows = query_store(local_place, "select count(*) as n from runs")
    assert rows["n"].item() == RUNS
