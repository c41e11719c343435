"""Ctrl-C on a real command, or its end asked for by the system: nothing new is asked, nothing is left running, nothing paid is lost."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from assizes.deployments.samples import sample_cases
from assizes.judge.formats import native_line
from tests.command import Started, started
from tests.doubles.fixtures import OPENAI_KEY, OpenAIServer, running_openai_server

pytestmark = pytest.mark.full

IN_FLIGHT = 4
LATENCY_S = 0.5

CONFIG = """
[transcripts]
uri = "t.jsonl"
[judge]
model = "openai/gpt-4o-mini"
api_base = "{api_base}"
[limits]
max_in_flight = {in_flight}
[runner]
shard_size = 10
[thresholds]
metrics_pass_threshold = 0
cases_pass_threshold = 0
"""


def started_run(folder: Path, api_url: str) -> Started:
    """`assizes run` in a session of its own, so that whatever it leaves behind can be found."""
    own = {"PREFECT_API_URL": api_url, "OPENAI_API_KEY": OPENAI_KEY}
    return started("run", cwd=folder, env=own, new_session=True)


def asked(model: OpenAIServer, at_least: int) -> int:
    """Wait until the server has had some number of requests; returns their number."""
    deadline = time.monotonic() + 120
    while (requests := int(model.stats()["requests"])) < at_least:
        assert time.monotonic() < deadline, "the run asks nothing"
        time.sleep(0.02)
    return requests


def left_over(session: int) -> list[str]:
    """Ids of the processes of a session that are still running."""
    listed = subprocess.run(
        ["ps", "-e", "-o", "sid=,pid=,stat=,args="], capture_output=True, text=True, check=True
    )
    rows = [line.split(None, 3) for line in listed.stdout.splitlines()]
    return [row[3] for row in rows if row[0] == str(session) and not row[2].startswith("Z")]


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_asks_nothing_more_and_goes_on_where_it_was(
    tmp_path: Path, prefect_server: str, sign: signal.Signals
):
    cases = sample_cases()[:40]
    assert len(cases) == 40
    (tmp_path / "t.jsonl").write_bytes(b"".join(native_line(case) for case in cases))
    with running_openai_server("--latency", str(LATENCY_S)) as model:
        text = CONFIG.format(api_base=model.api_base, in_flight=IN_FLIGHT)
        (tmp_path / "assizes.toml").write_text(text)
        process = started_run(tmp_path, prefect_server)
        before = asked(model, 3 * IN_FLIGHT)
        process.send_signal(sign)
        interrupted = process.answer(60)
        after = int(model.stats()["requests"])

        assert interrupted.code == 130, interrupted
        assert after - before <= IN_FLIGHT
        assert left_over(process.pid) == []
        assert "Traceback" not in interrupted.err
        assert "leaked" not in interrupted.err

        process = started_run(tmp_path, prefect_server)
        done = process.answer(120)
        assert done.code == 0, done
        assert "PASSED" in done.out
        assert int(model.stats()["requests"]) == len(cases)  # what was in flight was kept
