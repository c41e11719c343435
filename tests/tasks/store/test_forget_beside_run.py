"""`assizes store forget` while another process works on the run: it refuses, or waits until that ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

from assizes.judge.config.run import StoreConfig
from assizes.tasks.store import open_store
from tests.command import assizes
from tests.outward import PYTHONPATH
from tests.tasks.store.rows import run_record, shard

COUNTS = {"read": 1, "judged": 1}  # of a shard

WORKER = """
import sys
from datetime import UTC, datetime, timedelta
from assizes.tasks.store import open_store
with open_store(sys.argv[1], writing=True) as store:
    store.acquire_lock("nightly-1", datetime.now(UTC) + timedelta(seconds=90))
    print("locked", flush=True)
    input()
    store.release_lock("nightly-1")
"""


@pytest.fixture(params=["duckdb", "folder"])
def place(request: pytest.FixtureRequest) -> StoreConfig:
    found: StoreConfig = request.getfixturevalue(f"{request.param}_place")
    with open_store(found, writing=True) as store:
        store.begin(run_record())
        store.commit_shard("nightly-1", "s0", shard(case_id="c0"), COUNTS)
        store.commit_shard("nightly-1", "s1", shard(case_id="c1"), COUNTS)
    return found


@pytest.fixture
def worker(place: StoreConfig):
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, place.uri],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": PYTHONPATH},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    yield process
    process.kill()
    process.communicate()


def case_ids(place: StoreConfig) -> list[str]:
    with open_store(place) as store:
        return sorted(store.table("nightly-1", "cases")["case_id"])


def test_it_refuses_in_one_line_that_names_the_process(place, worker, tmp_path):
    answer = assizes("store", "forget", "c0", "--yes", "--store", place.uri, cwd=tmp_path)
    assert (answer.code, answer.out) == (2, "")
    assert len(answer.err.splitlines()) == 1
    assert f"process {worker.pid} on " in answer.err
    worker.communicate("\n", timeout=30)
    assert case_ids(place) == ["c0", "c1"]
    answer = assizes("store", "forget", "c0", "--yes", "--store", place.uri, cwd=tmp_path)
    assert answer.code == 0, answer.err
    assert case_ids(place) == ["c1"]


@pytest.mark.full
def test_with_wait_it_deletes_when_the_process_has_ended(place, worker, tmp_path):
    waiting = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "assizes.deployments.cli",
            "store",
            "forget",
            "c0",
            "--yes",
            "--wait",
            "--store",
            place.uri,
        ],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": PYTHONPATH},
    )
    assert waiting.stderr is not None
    assert "waiting: " in (line := waiting.stderr.readline())
    assert f"process {worker.pid} on " in line
    worker.communicate("\n", timeout=30)
    out, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, err) == (0, ""), err
    assert "rows in 1 runs deleted" in out
    assert case_ids(place) == ["c1"]


def test_cases_that_were_deleted_in_mid_run_are_counted(place):
    with open_store(place, writing=True) as store:
        assert store.forgotten_cases("nightly-1") == 0
        before = store.shard_counts("nightly-1")
        store.forget("nightly-1", ["c0", "unknown"])
        assert store.shard_counts("nightly-1") == before
        assert store.forgotten_cases("nightly-1") == 1
