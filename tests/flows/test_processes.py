"""A run in several processes of one machine: real processes, a real server, a model over HTTP."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from assizes.deployments.samples import sample_cases
from assizes.flows.shard_process import ORPHAN_GRACE_S
from assizes.judge.config.run import RunConfig
from assizes.tasks.spending.ledger_file import write_stop
from tests.command import KEYS
from tests.doubles.fixtures import OPENAI_KEY, OpenAIServer, running_openai_server
from tests.flows.test_evaluate import config, outcome_of, tables, written
from tests.flows.test_workers import same_rows
from tests.outward import PYTHONPATH

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("prefect_server")]

IN_FLIGHT = 4
NO_OWN = {"requests_per_minute": 60_000}  # with a rate the process of the run judges nothing itself
WAIT_S = 300  # a busy machine takes long to start an interpreter


def shard_processes(of: int) -> list[int]:
    """Ids of the processes that judge shards for a process."""
    listed = subprocess.run(
        ["ps", "-eww", "-o", "pid=,ppid=,stat=,args="], capture_output=True, text=True, check=True
    )
    rows = [line.split(None, 3) for line in listed.stdout.splitlines()]
    return [
        int(pid)
        for pid, parent, stat, args in rows
        if parent == str(of) and "assizes.flows.shard_process" in args and not stat.startswith("Z")
    ]


async def wait_for(model: OpenAIServer, counted: str, at_least: int) -> None:
    """Wait until a model has got so many `requests`, or has `answered` so many."""
    deadline = time.monotonic() + WAIT_S
    while model.stats()[counted] < at_least:
        assert time.monotonic() < deadline, "the run asks nothing"
        await asyncio.sleep(0.05)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI_KEY)
    with running_openai_server("--latency", "0.1") as server:
        yield server


def settings(folder: Path, model: OpenAIServer, cases: int, **changed: Any) -> RunConfig:
    """Shards of four cases, in a store of the folder's own."""
    folder.mkdir(exist_ok=True)
    uri = written(folder.parent / "t.jsonl", sample_cases()[:cases])
    return config(
        folder,
        uri,
        judge={"model": "openai/gpt-4o-mini", "api_base": model.api_base},
        store={"uri": changed.pop("store", "{}/lake").format(folder)},
        limits={"max_in_flight": IN_FLIGHT, **changed.pop("limits", {})},
        runner={"shard_size": 4, "processes": 2, **changed.pop("runner", {})},
        **changed,
    )


@pytest.mark.parametrize("own", [NO_OWN, {}])
@pytest.mark.parametrize("store", ["duckdb:///{}/rows.duckdb", "{}/lake"])
async def test_two_processes_write_the_rows_of_one(tmp_path: Path, model, store, own, caplog):
    alone = settings(
        tmp_path / "alone", model, 24, store=store, runner={"processes": 1}, limits=own
    )
    first = await outcome_of(alone)
    shared = settings(tmp_path / "two", model, 24, store=store, limits=own)
    with caplog.at_level("INFO", "assizes"):
        second = await outcome_of(shared)
    assert first.run_id == second.run_id
    assert "2 processes judge the shards" in caplog.text
    assert model.stats()["requests"] == 48
    assert model.stats()["peak"] <= IN_FLIGHT
    same_rows(*(tables(each.store, first.run_id) for each in (alone, shared)))


async def test_the_process_of_the_run_judges_until_the_others_have_started_and_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog
):
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI_KEY)
    cases = 40
    with running_openai_server("--latency", "3") as slow:
        wanted = settings(tmp_path / "both", slow, cases)
        with caplog.at_level("INFO", "assizes"):
            run = asyncio.create_task(outcome_of(wanted))
            await wait_for(slow, "requests", 1)  # the other may start before an answer
            assert "has started and judges as well" not in caplog.text
            (other,) = shard_processes(os.getpid())
            deadline = time.monotonic() + WAIT_S
            while "has started and judges as well" not in caplog.text:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.1)
            answered = slow.stats()["answered"]
            await wait_for(slow, "answered", answered + IN_FLIGHT)
            os.kill(other, signal.SIGKILL)
            outcome = await run
        stats = slow.stats()
    assert outcome.summary.counts["judged"] == cases
    assert answered < cases - 3 * IN_FLIGHT, "the run is too short to show anything"
    assert stats["peak"] <= IN_FLIGHT
    assert cases <= stats["answered"] <= cases + IN_FLIGHT // 2
    assert "its shards go to others" in caplog.text
    assert not shard_processes(os.getpid())


async def test_the_shards_of_a_killed_process_go_to_another(tmp_path: Path, model, caplog):
    wanted = settings(tmp_path / "killed", model, 40, runner={"shards_in_flight": 1}, limits=NO_OWN)
    run = asyncio.create_task(outcome_of(wanted))
    await wait_for(model, "answered", 6)
    (victim, _) = shard_processes(os.getpid())
    os.kill(victim, signal.SIGKILL)
    outcome = await run
    assert outcome.summary.counts["judged"] == 40
    assert "its shards go to others" in caplog.text
    # What it had in flight is asked again, and nothing else.
    assert 40 <= model.stats()["answered"] <= 40 + IN_FLIGHT // 2
    assert not shard_processes(os.getpid())


async def test_processes_end_with_the_killed_process_of_the_run(
    tmp_path: Path, model, prefect_server
):
    wanted = settings(tmp_path / "orphans", model, 40, limits=NO_OWN)
    folder = tmp_path / "orphans"
    (folder / "assizes.json").write_text(wanted.model_dump_json(), "utf-8")
    program = (
        "import asyncio, pathlib; from assizes.flows.evaluate import evaluate;"
        "from assizes.judge.config.run import RunConfig;"
        "text = pathlib.Path('assizes.json').read_text();"
        "asyncio.run(evaluate(RunConfig.model_validate_json(text), return_state=True))"
    )
    inherited = {name: value for name, value in os.environ.items() if name not in KEYS}
    own = {
        "PYTHONPATH": PYTHONPATH,
        "OPENAI_API_KEY": OPENAI_KEY,
        "PREFECT_API_URL": prefect_server,
    }
    command = [sys.executable, "-c", program]
    with subprocess.Popen(  # noqa: ASYNC220  # begun at once, and waited for only when it was killed
        command, cwd=folder, env={**inherited, **own}
    ) as parent:
        await wait_for(model, "answered", 8)
        orphans = shard_processes(parent.pid)
        parent.kill()
        killed_at = time.monotonic()
    assert len(orphans) == 2
    while any(map(is_alive, orphans)):
        # One that is still importing ends once it has, which a busy machine draws out.
        assert time.monotonic() < killed_at + ORPHAN_GRACE_S + 60
        await asyncio.sleep(0.1)
    assert model.stats()["answered"] < 40
    outcome = await outcome_of(wanted)
    assert outcome.summary.counts["judged"] == 40
    assert model.stats()["answered"] == 40  # calls in flight came to their ends, and were kept


async def test_processes_share_budget_and_rate(tmp_path: Path, model):
    per_minute, most = 60, 12
    limits = {"requests_per_minute": per_minute, "max_asks": most}
    first = await outcome_of(settings(tmp_path / "shared", model, 24, limits=limits))
    assert (first.conclusion, first.exit_code) == ("OverBudget", 5)
    assert model.stats()["requests"] == most
    assert not shard_processes(os.getpid())
    model.reset()
    again = await outcome_of(
        settings(tmp_path / "shared", model, 24, limits={"requests_per_minute": per_minute})
    )
    assert again.summary.counts["judged"] == 24
    assert model.stats()["requests"] == 24 - most
    times = sorted(at for at, _ in model.timeline())
    # Each process makes its first call at once. With the whole rate for each, it would be 5 s.
    wanted_s = (24 - most - 2) * 60 / per_minute
    assert times[-1] - times[0] >= wanted_s - 2.0


async def test_a_stopped_run_ends_in_every_process(tmp_path: Path, model):
    wanted = settings(tmp_path / "stopped", model, 40, limits={"max_in_flight": 2})
    run = asyncio.create_task(outcome_of(wanted, run_id="stopped-run"))
    await wait_for(model, "answered", 4)
    write_stop(wanted.limits.ledger, "stopped-run")
    outcome = await run
    assert outcome.conclusion == "Halted"
    assert model.stats()["requests"] < 40
    assert not shard_processes(os.getpid())
