"""What a list or a page of one run reads does not grow with the runs that it does not show."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import StoreError
from assizes.tasks.store import Store, duckdb_file, open_store
from assizes.tasks.store.bucket import objects_at
from assizes.tasks.store.listing import checked_files, kept_folders, run_index, tables
from assizes.tasks.store.objects import Folder
from tests.doubles.s3 import S3
from tests.tasks.store.rows import COUNTS, ENDED, ended, run_metrics, run_record, shard

LONG_AGO_NS = 10_000_000_000  # nanoseconds


@pytest.fixture(autouse=True)
def _nothing_remembered():
    """What a process remembers of a store is no part of these tests."""
    for remembered in (tables._remembered, run_index._checked, kept_folders._kept):
        remembered.clear()


@pytest.fixture
def _settled(monkeypatch: pytest.MonkeyPatch):
    """Files count as settled at once, where they have to be two seconds old."""
    for module in (kept_folders, checked_files):
        monkeypatch.setattr(module, "TICK_NS", -LONG_AGO_NS)


def add_runs(store: Store, numbers: range) -> None:
    for number in numbers:
        run = run_record(f"nightly-{number}")
        store.begin(run)
        store.commit_shard(run.run_id, "s0", shard(run.run_id, "s0"), COUNTS)
        store.finish(ended(run), run_metrics(run.run_id))
        row = {"baseline": f"nightly-{number - 1}", "candidate": run.run_id, "at": ENDED}
        store.add_comparison({**row, "verdict": "{}", "thresholds": "{}"})


@pytest.mark.usefixtures("_settled")
def test_a_list_that_is_asked_for_again_reads_no_more_in_a_larger_store(
    folder_place: StoreConfig, monkeypatch: pytest.MonkeyPatch
):
    reads: list[str] = []
    asked = {name: getattr(Folder, name) for name in ("read", "states", "names")}

    def counted(kind: str):
        def call(self: Folder, names):
            reads.extend([f"{kind} {names}"] if kind == "names" else names)
            return asked[kind](self, names)

        return call

    for kind in asked:
        monkeypatch.setattr(Folder, kind, counted(kind))

    def shown() -> list[str]:
        for _ in range(2):
            reads.clear()
            with open_store(folder_place) as store:
                assert store.run_index().height
                assert store.comparisons(["nightly-1"]).height == 1
        return list(reads)

    with open_store(folder_place, writing=True) as store:
        add_runs(store, range(3))
    few = shown()
    with open_store(folder_place, writing=True) as store:
        add_runs(store, range(3, 12))
    assert shown() == few
    assert not [read for read in few if read.startswith("names ")]


@pytest.mark.usefixtures("_settled")
def test_an_unchanged_duckdb_file_is_checked_once_and_a_changed_one_again(
    duckdb_place: StoreConfig, monkeypatch: pytest.MonkeyPatch
):
    checks: list[int] = []
    read = duckdb_file.read_commit_state

    def counted(con):
        state = read(con)
        checks.append(len(state.shards))
        return state

    monkeypatch.setattr(duckdb_file, "read_commit_state", counted)

    def opened() -> list[int]:
        checks.clear()
        for _ in range(3):
            open_store(duckdb_place).close()
            tables._remembered.clear()  # as another process
        return list(checks)

    with open_store(duckdb_place, writing=True) as store:
        add_runs(store, range(2))
    assert opened() == [2]
    assert opened() == []
    with open_store(duckdb_place, writing=True) as store:
        add_runs(store, range(2, 5))
    assert opened() == [5]


@pytest.mark.usefixtures("_settled")
def test_an_older_copy_in_the_place_of_a_checked_file_is_found_out(duckdb_place: StoreConfig):
    path = Path(duckdb_place.uri.removeprefix("duckdb:///"))
    with open_store(duckdb_place, writing=True) as store:
        add_runs(store, range(2))
    older, times = path.read_bytes(), path.stat()
    with open_store(duckdb_place, writing=True) as store:
        add_runs(store, range(2, 4))
    open_store(duckdb_place).close()  # found whole
    path.write_bytes(older)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # as a backup program does
    with pytest.raises(StoreError, match="its journal lists"):
        open_store(duckdb_place)


def test_a_file_that_changed_a_moment_ago_is_not_taken_for_unchanged(duckdb_place: StoreConfig):
    path = Path(duckdb_place.uri.removeprefix("duckdb:///"))
    open_store(duckdb_place, writing=True).close()
    assert checked_files.file_mark(path) is None
    time.sleep(2.1)
    assert checked_files.file_mark(path) is not None


@pytest.mark.usefixtures("_settled")
def test_a_run_that_begins_in_its_old_folder_is_listed(folder_place: StoreConfig):
    with open_store(folder_place, writing=True) as store:
        add_runs(store, range(1))
        run = run_record("nightly-7")
        planned = Path(folder_place.uri, "runs", run.run_id)
        planned.mkdir()  # its writer died before the run began
        (planned / "input.json").write_text("{}")
    with open_store(folder_place) as store:
        assert store.run_index().height == 1
    with open_store(folder_place, writing=True) as store:
        (planned / "input.json").unlink()
        store.begin(run)
    with open_store(folder_place) as store:
        assert set(store.run_index()["run_id"]) == {"nightly-0", "nightly-7"}


def test_what_is_read_from_a_bucket_takes_one_request_for_each_object(s3: S3):
    objects = objects_at(f"s3://{s3.bucket()}/store", s3.storage_options)
    contents = {f"runs/{number}": b"x" * number for number in range(1, 4)}
    for name, data in contents.items():
        assert objects.create(name, data)
    with s3.recorded() as requests:
        assert objects.read([*contents, "runs/none"]) == contents
    assert requests == ["GET"] * 4
