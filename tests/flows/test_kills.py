"""The whole command, killed in the middle of its flow, and run again."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from assizes.deployments.samples import sample_cases
from assizes.judge.config.run import StoreConfig
from assizes.tasks.store import open_store
from tests.command import Answer, assizes
from tests.flows.test_evaluate import PER_RUN, written

pytestmark = pytest.mark.full

KILLED = -signal.SIGKILL
EXITED = 86


def run(folder: Path, store: str, server: str, failpoint: str = "") -> Answer:
    folder.mkdir(exist_ok=True)
    settings = {
        "transcripts.uri": str(folder.parent / "t.jsonl"),
        "store.uri": store.format(folder=folder),
        "cache.uri": "replies",
        "report.uri": "reports",
        "thresholds.metrics_pass_threshold": "0",
        "thresholds.cases_pass_threshold": "0",
        "runner.shard_size": "4",
    }
    given = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    (folder / "assizes.toml").write_text('name = "killed"\n', "utf-8")
    environment = {"ASSIZES_FAILPOINT": failpoint, "PREFECT_API_URL": server}
    return assizes("run", "--run-id", "r", *given, cwd=folder, env=environment)


def tables(folder: Path, store: str):
    with open_store(StoreConfig(uri=store.format(folder=folder))) as opened:
        return {name: opened.table("r", name).drop("latency_ms", strict=False) for name in PER_RUN}


@pytest.mark.parametrize(
    ("store", "failpoint", "code"),
    [
        ("duckdb:///{folder}/a.duckdb", "shard.committed:2", KILLED),
        ("{folder}/lake", "lake.mark.before:2", KILLED),
        ("{folder}/lake", "lake.finish.before:1:exit", EXITED),
    ],
)
def test_a_run_killed_in_its_flow_comes_to_the_same_rows(
    tmp_path, prefect_server, store, failpoint, code
):
    written(tmp_path / "t.jsonl", sample_cases()[:12])
    calm = run(tmp_path / "calm", store, prefect_server)
    assert calm.code == 0, calm.err
    killed = run(tmp_path / "killed", store, prefect_server, failpoint)
    assert killed.code == code, killed.err
    again = run(tmp_path / "killed", store, prefect_server)
    assert again.code == 0, again.err
    wanted, found = (tables(tmp_path / name, store) for name in ("calm", "killed"))
    for name, rows in wanted.items():
        assert found[name].equals(rows, null_equal=True), name
