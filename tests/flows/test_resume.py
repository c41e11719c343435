"""Resuming a run that died: its name, how it goes on, and what it refuses."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from assizes.deployments.samples import sample_cases
from assizes.judge.config.run import StoreConfig
from assizes.tasks.runs.stored_runs import LOCK_DURATION_S, displayed_status, run_lock
from assizes.tasks.store import open_store
from tests.command import Answer, assizes
from tests.flows.test_evaluate import written
from tests.flows.test_kills import KILLED, run

DUCKDB = "duckdb:///{folder}/a.duckdb"
LAKE = "{folder}/lake"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    written(tmp_path / "t.jsonl", sample_cases()[:12])
    return tmp_path / "run"


def told(*arguments: str, folder: Path, store: str, server: str) -> Answer:
    where = ["--store", store.format(folder=folder)]
    return assizes(*arguments, *where, cwd=folder, env={"PREFECT_API_URL": server})


@pytest.mark.full
@pytest.mark.parametrize("store", [DUCKDB, LAKE])
def test_a_killed_run_is_interrupted_and_resumes_by_its_id_alone(folder, prefect_server, store):
    assert run(folder, store, prefect_server, "shard.committed:2").code == KILLED
    with open_store(StoreConfig(uri=store.format(folder=folder)), writing=True) as opened:
        until = opened.locked_until("r")
        if until is not None:  # nobody has to wait for a minute and a half here
            assert until < datetime.now(UTC) + timedelta(seconds=LOCK_DURATION_S)
            for held in (folder / "lake" / "runs" / "r" / "holds").iterdir():
                held.unlink()
    shown = told("runs", "--json", folder=folder, store=store, server=prefect_server)
    assert [one["status"] for one in json.loads(shown.out)] == ["interrupted"]
    hint = told("show", "r", folder=folder, store=store, server=prefect_server)
    assert "no process works on it: `assizes resume r` goes on" in hint.out

    resumed = told("resume", "r", "--json", folder=folder, store=store, server=prefect_server)

    assert resumed.code == 0, resumed.err
    outcome = json.loads(resumed.out)
    assert outcome["run_id"] == "r"
    assert outcome["summary"]["counts"]["judged"] == 12
    shown = told("runs", "--json", folder=folder, store=store, server=prefect_server)
    assert [one["status"] for one in json.loads(shown.out)] == ["complete"]
    assert not list((folder / "lake").rglob("holds/*"))


@pytest.mark.full
def test_a_changed_setting_is_named_and_a_fork_begins_beside(folder, prefect_server):
    assert run(folder, LAKE, prefect_server).code == 0
    changed = ["--set", "thresholds.metrics_pass_threshold=7"]
    refused = told("resume", "r", *changed, folder=folder, store=LAKE, server=prefect_server)
    assert (refused.code, refused.out) == (2, "")
    assert "was begun with another configuration: thresholds.metrics_pass_threshold" in refused.err
    assert "`assizes run` begins another run" in refused.err
    assert len(refused.err.splitlines()) == 1

    given = ["--set", f"transcripts.uri={folder.parent / 't.jsonl'}", "--set", "store.uri=lake"]
    given += ["--set", "thresholds.cases_pass_threshold=0", "--set", "cache.uri=replies", *changed]
    for _ in range(2):  # the second goes on with the fork, it begins no third
        forked = assizes(
            *("run", "--run-id", "r", "--fork", "--json", *given),
            cwd=folder,
            env={"PREFECT_API_URL": prefect_server},
        )
        assert json.loads(forked.out)["run_id"] == "r-f2", forked.err
    alone = assizes("run", "--fork", *given, cwd=folder)
    assert alone.err == "assizes: --fork needs --run-id: the run that another is begun beside\n"


async def test_who_is_at_work_says_so_until_the_work_ends(tmp_path: Path):
    with open_store(StoreConfig(uri=str(tmp_path / "lake")), writing=True) as store:
        assert displayed_status(store, "r", "running") == "interrupted"
        async with run_lock(store, "r"):
            assert displayed_status(store, "r", "running") == "running"
            later = datetime.now(UTC) + timedelta(seconds=LOCK_DURATION_S + 1)
            assert displayed_status(store, "r", "running", later) == "interrupted"
        assert store.locked_until("r") is None
        assert displayed_status(store, "r", "complete") == "complete"


async def test_what_a_dead_process_left_behind_is_cleared_by_the_next(tmp_path: Path):
    uri = str(tmp_path / "lake")
    with open_store(StoreConfig(uri=uri), writing=True) as dead:
        dead.acquire_lock("r", datetime.now(UTC) - timedelta(seconds=1))
    with open_store(StoreConfig(uri=uri), writing=True) as alive:
        async with run_lock(alive, "r"):
            assert len(list(tmp_path.rglob("holds/*.json"))) == 2
    assert not list(tmp_path.rglob("holds/*.json"))
