"""A Prefect server that dies while a command works: one line, exit code 70, and nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import astuple
from pathlib import Path

import pytest

from assizes.deployments.samples import sample_cases
from tests.command import assizes, started
from tests.doubles.fixtures import OPENAI_KEY, running_openai_server
from tests.flows.test_evaluate import written
from tests.server.house import descendants

pytestmark = [pytest.mark.full, pytest.mark.long]

CASES = 24
CONFIG = """
name = "dead"
[transcripts]
uri = "t.jsonl"
[judge]
model = "openai/gpt-4o-mini"
api_base = "{api_base}"
[limits]
max_in_flight = 1
[runner]
shard_size = 4
[thresholds]
metrics_pass_threshold = 0
cases_pass_threshold = 0
[store]
uri = "lake"
"""


def kill_server(home: Path, pid: int) -> None:
    """Kill the server of `assizes up`, or else the temporary one of the process of this id."""
    if (record := home / "server.json").exists():
        os.killpg(int(json.loads(record.read_text())["pid"]), signal.SIGKILL)
        return
    commands = {child: Path(f"/proc/{child}/cmdline").read_bytes() for child in descendants(pid)}
    (server,) = (child for child, command in commands.items() if b"temporary_server" in command)
    os.kill(server, signal.SIGKILL)


@pytest.mark.parametrize("which", ["up", "temporary"])
def test_a_server_that_dies_ends_a_run_within_a_minute_and_the_same_command_goes_on(
    tmp_path: Path, which: str
):
    own = {
        "ASSIZES_HOME": str(tmp_path / "home"),
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "OPENAI_API_KEY": OPENAI_KEY,
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "WARNING",
    }
    written(tmp_path / "t.jsonl", sample_cases()[:CASES])
    try:
        if which == "up":
            assert assizes("up", cwd=tmp_path, env=own).code == 0
        with running_openai_server("--latency", "1") as model:
            (tmp_path / "assizes.toml").write_text(CONFIG.format(api_base=model.api_base))
            process = started("run", cwd=tmp_path, env=own, warmly=False)
            deadline = time.monotonic() + 120
            while model.stats()["requests"] < 6:
                assert time.monotonic() < deadline, "nothing is asked"
                time.sleep(0.1)
            kill_server(tmp_path / "home", process.pid)
            killed_at = time.monotonic()
            code, _, errors = astuple(process.answer(120))
            took_s = time.monotonic() - killed_at
            assert code == 70, errors
            assert took_s < 60
            ours = [line for line in errors.splitlines() if line.startswith("assizes: the Pref")]
            assert len(ours) == 1, errors
            assert "has died" in ours[0]
            assert "the same command again goes on" in ours[0]
            assert "Event(" not in errors
            assert "Traceback" not in errors
            assert model.stats()["requests"] < CASES
            again = assizes("run", cwd=tmp_path, env=own)
            assert again.code == 0, again.err
            assert model.stats()["requests"] <= CASES + 1  # the call in flight
    finally:
        assizes("down", cwd=tmp_path, env=own)
