"""Pages and commands read a DuckDB file while a real run writes to it, also when one is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from assizes.deployments.samples import sample_cases
from assizes.tasks.store import open_store
from tests.command import assizes, started
from tests.deployments.web.conftest import STORE, ask, environment_without_prefect, serving
from tests.doubles.fixtures import running_openai_server
from tests.flows.test_evaluate import written

CASES = 24
LOOKS = 100


class SlowRun:
    """A run of the command beside the demo's two, over a model that takes two seconds a call."""

    def __init__(self, folder: Path, prefect_server: str, api_base: str) -> None:
        self.folder = folder
        settings = {
            "transcripts.uri": str(folder / "t.jsonl"),
            "store.uri": STORE,
            "cache.uri": "replies",
            "report.uri": "reports",
            "judge.model": "openai/gpt-4o-mini",
            "judge.api_base": api_base,
            "limits.max_in_flight": "4",
            "runner.shard_size": "1",
            "runner.shards_in_flight": "2",
            "thresholds.metrics_pass_threshold": "0",
            "thresholds.cases_pass_threshold": "0",
        }
        given = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        env = {"OPENAI_API_KEY": "any", "PREFECT_API_URL": prefect_server}
        self.process = started("run", "--run-id", "new", *given, cwd=folder, env=env)

    def is_running(self) -> bool:
        return self.process.poll() is None

    def end(self) -> int:
        return self.process.wait(300)

    def log(self) -> str:
        return self.process.out() + self.process.err()


@pytest.fixture
def slow_model() -> Iterator[str]:
    with running_openai_server("--latency", "2") as server:
        yield server.api_base


@pytest.fixture
def place(demo: tuple[Path, str, str], tmp_path: Path) -> Path:
    """A folder with a copy of the demo's store, and cases to judge."""
    shutil.copytree(demo[0] / ".assizes", tmp_path / ".assizes")
    (tmp_path / "assizes.toml").write_text('name = "slow"\n', "utf-8")
    written(tmp_path / "t.jsonl", sample_cases()[:CASES])
    return tmp_path


@contextmanager
def running(place: Path, prefect_server: str, api_base: str) -> Iterator[SlowRun]:
    run = SlowRun(place, prefect_server, api_base)
    try:
        yield run
    finally:
        run.process.kill()
        run.process.wait(20)


def until_committed(run: SlowRun, url: str, cases: int) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        assert run.is_running(), run.log()
        reply = ask(f"{url}/runs/new/progress")
        if reply.status == 200 and reply.json["done"] >= cases:
            return
        time.sleep(0.2)
    raise AssertionError("the run commits nothing")


def old_paths(url: str, demo: tuple[Path, str, str]) -> dict[str, str]:
    """Paths about runs that have ended, each with a text that its answer holds."""
    _, baseline, candidate = demo
    case_id = ask(f"{url}/runs/{candidate}/cases?limit=1").json["data"][0]["case_id"]
    return {
        "/": candidate,
        "/runs": f'"{candidate}"',
        f"/view/runs/{candidate}": candidate,
        f"/view/runs/{candidate}/cases": case_id,
        f"/view/runs/{candidate}/cases/{quote(case_id)}": case_id,
        f"/view/compare?baseline={baseline}&candidate={candidate}": baseline,
        "/view/trends": "Trends",
        f"/runs/{candidate}": f'"run_id":"{candidate}"',
        f"/runs/{candidate}/cases": '"count"',
        f"/runs/compare?baseline={baseline}&candidate={candidate}": '"verdict"',
    }


@pytest.mark.full
def test_every_look_at_old_runs_succeeds_while_a_run_writes(
    place, demo, slow_model, prefect_server
):
    environment = environment_without_prefect(place)
    with serving(place, **environment) as url, running(place, prefect_server, slow_model) as run:
        paths = old_paths(url, demo)
        until_committed(run, url, 1)
        took, during = [], 0
        while len(took) < LOOKS:
            path, text = list(paths.items())[len(took) % len(paths)]
            during += run.is_running()
            began = time.monotonic()
            reply = ask(url + path)
            took.append(time.monotonic() - began)
            assert reply.status == 200, (path, reply.text[:300])
            assert text in reply.text, path
        p95 = statistics.quantiles(took, n=20)[-1]
        # Each path at least once while the run wrote, however slow the machine is.
        assert during >= len(paths), f"{LOOKS} looks, p95 {p95 * 1000:.0f} ms"
        assert run.end() == 0, run.log()
        assert "Traceback" not in run.log()
        assert ask(f"{url}/runs/new").json["status"] == "complete"
    with open_store(f"duckdb:///{place}/.assizes/demo/demo.duckdb") as store:
        assert store.table("new", "cases").height == CASES
        assert store.table("new", "cases")["case_id"].n_unique() == CASES
    assert not list(place.rglob("*.duckdb.writer")) + list(place.rglob("*.duckdb.turn"))


def test_progress_is_live_on_pages_in_json_and_in_the_terminal(place, prefect_server):
    environment = environment_without_prefect(place)
    with (
        running_openai_server("--latency", "8") as model,  # the run outlasts two commands
        serving(place, **environment) as url,
        running(place, prefect_server, model.api_base) as run,
    ):
        until_committed(run, url, 2)
        progress = ask(f"{url}/runs/new/progress").json
        assert (progress["status"], progress["due"], progress["failed"]) == ("running", CASES, 0)
        assert progress["cases_per_minute"] > 0
        assert progress["spent_usd"] > 0
        assert progress["ends_at"] > progress["seen_at"]
        for path in ("/", "/view/runs/new"):
            page = ask(url + path).text
            assert f"of {CASES} cases done, 0 failed" in page, path
            assert "cases a minute" in page, path
        shown = assizes("show", "new", "--store", STORE, cwd=place)
        assert f"of {CASES} cases done" in shown.out, shown.err
        listed = assizes("runs", "--store", STORE, cwd=place)
        assert f"of {CASES} cases done" in listed.out, listed.err
        assert run.is_running()


@pytest.mark.full
def test_a_killed_run_is_said_to_be_interrupted_stays_readable_and_resumes(
    place, demo, slow_model, prefect_server
):
    environment = environment_without_prefect(place)
    with serving(place, **environment) as url:
        paths = old_paths(url, demo)
        with running(place, prefect_server, slow_model) as run:
            until_committed(run, url, 3)
            os.kill(run.process.pid, signal.SIGKILL)
            run.process.wait(20)
        for path in paths:
            assert ask(url + path).status == 200, path
        killed = ask(f"{url}/runs/new/progress").json
        assert killed["status"] == "interrupted"
        assert 3 <= killed["done"] < CASES
        assert "No process works on it" in ask(f"{url}/view/runs/new").text
        resumed = assizes(
            *("resume", "new", "--json", "--store", STORE),
            cwd=place,
            env={"PREFECT_API_URL": prefect_server, "OPENAI_API_KEY": "any"},
        )
        assert resumed.code == 0, resumed.err
        assert json.loads(resumed.out)["summary"]["counts"]["judged"] == CASES
        assert ask(f"{url}/runs/new/cases").json["count"] == CASES


@pytest.mark.full
def test_a_server_killed_while_it_reads_does_not_hurt_the_run(place, slow_model, prefect_server):
    environment = environment_without_prefect(place)
    with running(place, prefect_server, slow_model) as run:
        for _ in range(3):
            server = serving(place, **environment)
            with server as url:
                until_committed(run, url, 1)
                readers = [
                    subprocess.Popen(["curl", "-s", "-o", os.devnull, f"{url}/view/runs/new"])
                    for _ in range(4)
                ]
                time.sleep(0.05)
                server.process.kill()
                for reader in readers:
                    reader.wait(20)
        assert run.end() == 0, run.log()
    with open_store(f"duckdb:///{place}/.assizes/demo/demo.duckdb") as store:
        assert store.table("new", "cases").height == CASES
