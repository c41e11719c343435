"""`assizes stop` on a real process: no new call, calls in flight are stored, the run can go on."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from assizes.deployments.samples import sample_cases
from assizes.judge.config.judging import LimitsConfig
from assizes.judge.config.run import StoreConfig
from assizes.judge.formats import native_line
from assizes.tasks.spending.ledger import SqliteLedger
from assizes.tasks.store import open_store
from tests.command import assizes
from tests.doubles.fixtures import OPENAI_KEY, OpenAIServer, running_openai_server
from tests.flows.test_interrupt import asked, left_over, started_run
from tests.soak.damage import fill
from tests.tasks.store.rows import run_record

CASES = 24
LATENCY_S = 0.4
WITHIN_S = 2.0
"""Seconds between a stop and the last call that may begin."""

CONFIG = """
[transcripts]
uri = "t.jsonl"
[judge]
model = "openai/gpt-4o-mini"
api_base = "{api_base}"
[limits]
max_in_flight = 4
requests_per_minute = {rpm}
[runner]
shard_size = 6
[thresholds]
metrics_pass_threshold = 0
cases_pass_threshold = 0
"""


def folder_with(folder: Path, server: OpenAIServer, rpm: int) -> None:
    cases = sample_cases()[:CASES]
    (folder / "t.jsonl").write_bytes(b"".join(native_line(case) for case in cases))
    (folder / "assizes.toml").write_text(CONFIG.format(api_base=server.api_base, rpm=rpm))


def calls(folder: Path) -> list[tuple[str, str | None]]:
    with closing(sqlite3.connect(folder / ".assizes" / "ledger.db")) as file:
        return file.execute("select state, code from calls").fetchall()


@pytest.mark.full
def test_a_stopped_run_makes_no_new_call_and_goes_on_later(tmp_path: Path, prefect_server: str):
    with running_openai_server("--latency", str(LATENCY_S)) as model:
        folder_with(tmp_path, model, rpm=120)
        process = started_run(tmp_path, prefect_server)
        asked(model, 6)
        answer = assizes("stop", "evaluation", "--json", cwd=tmp_path)
        stopped_at = time.monotonic()
        assert answer.code == 0, answer
        run_id = json.loads(answer.out)["stopped"]
        stopped = process.answer(60)
        ended_s = time.monotonic() - stopped_at

        assert stopped.code == 130, stopped
        assert ended_s < 30, "what waits for the limit on requests must not be waited for"
        assert "HALTED" in stopped.out
        assert "(`assizes stop`)" in stopped.out
        assert "Traceback" not in stopped.err
        assert left_over(process.pid) == []
        assert max(at for at, _ in model.timeline()) <= stopped_at + WITHIN_S
        counts = model.stats()
        assert counts["disconnects"] == 0, "a call in flight was thrown away"
        assert calls(tmp_path) == [("settled", None)] * counts["requests"]
        assert 6 <= counts["requests"] < CASES

        text = (tmp_path / "assizes.toml").read_text().replace("= 120", "= 6000")
        (tmp_path / "assizes.toml").write_text(text)
        process = started_run(tmp_path, prefect_server)
        done = process.answer(120)
        assert done.code == 0, done
        assert f"assizes: warning: run {run_id} was stopped at " in done.err
        assert "PASSED" in done.out
        assert model.stats()["requests"] == CASES


@pytest.mark.full
def test_after_a_stop_of_all_runs_none_begins_until_it_is_lifted(
    tmp_path: Path, judge_server, prefect_server: str
):
    folder_with(tmp_path, judge_server, rpm=6000)
    env = {"PREFECT_API_URL": prefect_server, "OPENAI_API_KEY": OPENAI_KEY}
    assert assizes("stop", "--all", cwd=tmp_path).code == 0
    refused = assizes("run", cwd=tmp_path, env=env)
    assert refused.code == 130
    (line,) = refused.err.splitlines()
    assert "all runs were stopped at " in line
    assert "`assizes stop --lift`" in line
    doctor = assizes("doctor", "--json", cwd=tmp_path, env=env)
    states = {check["name"]: check["state"] for check in json.loads(doctor.out)}
    assert states["ledger"] == "fault"

    lifted = assizes("stop", "--lift", cwd=tmp_path)
    assert lifted.out == "runs may begin again\n"
    assert assizes("run", "--limit", "1", cwd=tmp_path, env=env).code == 0
    assert judge_server.stats()["requests"] == 1


ONE_OF = "name a run (`assizes stop latest`), or give --all or --lift"


@pytest.mark.parametrize(
    ("args", "fault"),
    [
        ((), f"stop: {ONE_OF}"),
        (("a", "--all"), f"stop: a run and --all were given, which is unclear; {ONE_OF}"),
        (("--all", "--lift"), f"stop: --all and --lift were given, which is unclear; {ONE_OF}"),
        (
            ("a", "--lift"),
            "stop: --lift ends a stop of all runs, and takes no run; `assizes resume a` goes on with one",
        ),
    ],
)
def test_it_must_be_said_what_to_stop(tmp_path: Path, args: tuple[str, ...], fault: str):
    answer = assizes("stop", *args, cwd=tmp_path)
    assert (answer.code, answer.err) == (2, f"assizes: {fault}\n")
    assert not (tmp_path / ".assizes").exists()


@pytest.mark.parametrize("has_paid", [True, False])
@pytest.mark.parametrize("uri", ["duckdb:///rows.duckdb", "lake"])
def test_a_complete_run_cannot_be_stopped(tmp_path: Path, uri: str, has_paid: bool):
    (tmp_path / "assizes.toml").write_text(f'[store]\nuri = "{uri}"\n')
    place = uri.replace("///", f"///{tmp_path}/") if "//" in uri else str(tmp_path / uri)
    with open_store(StoreConfig(uri=place), writing=True) as store:
        fill(store, "night-1")
        store.begin(run_record("night-2"))
    (tmp_path / ".assizes").mkdir()
    ledger = str(tmp_path / ".assizes" / "ledger.db")
    for run_id in ("night-1", "night-2") if has_paid else ():
        SqliteLedger(ledger, run_id, LimitsConfig()).close()
    done = assizes("stop", "night-1", cwd=tmp_path)
    fault = "run night-1 is complete, so there is nothing to stop; `assizes show night-1` shows it"
    assert (done.code, done.out, done.err) == (2, "", f"assizes: {fault}\n")
    other = assizes("stop", "night-2", cwd=tmp_path)
    assert other.code == (0 if has_paid else 2)
    assert "complete" not in other.err


def test_a_run_that_the_ledger_does_not_know_cannot_be_stopped(tmp_path: Path):
    (tmp_path / ".assizes").mkdir()
    for run_id in ("night-1", "night-2"):
        SqliteLedger(str(tmp_path / ".assizes" / "ledger.db"), run_id, LimitsConfig()).close()
    unknown = assizes("stop", "day", cwd=tmp_path)
    assert unknown.code == 2
    assert "no run 'day' in ledger '.assizes/ledger.db'; it holds night-2, night-1" in unknown.err
    assert "2 runs" in assizes("stop", "night", cwd=tmp_path).err
    nameless = assizes("stop", "", cwd=tmp_path)
    assert (nameless.code, nameless.out) == (2, ""), "an unset variable must not stop all runs"
    assert assizes("stop", "night-1", cwd=tmp_path).code == 0
