"""A temporary Prefect server, and a run that a script started, end when they should."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import prefect_home
from tests.outward import PYTHONPATH

pytestmark = pytest.mark.promised  # each test starts processes

PARENT = """
import time
from assizes.tasks.runtime.process import prepare_process
from assizes.tasks.runtime.temporary_server import tie_server_to_process
prepare_process()
tie_server_to_process()
from prefect.server.api.server import SubprocessASGIServer
server = SubprocessASGIServer()
server.start(timeout=240)
pid = server.server_process.pid
server.running = False  # as where the server listened, and took too long to answer
server.start(timeout=240)
assert server.server_process.pid == pid
print(pid, flush=True)
time.sleep(600)
"""
BACKGROUND = """
import asyncio, sys
from assizes.tasks.runtime.process import interrupt_on_sigterm

async def work():
    print("working", flush=True)
    try:
        await asyncio.sleep(30)
    finally:
        print("in order", flush=True)

with interrupt_on_sigterm():
    try:
        asyncio.run(work())
    except KeyboardInterrupt:
        sys.exit(130)
"""


def start(code: str, folder: Path, ready: Callable[[], None] | None = None) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH, "PREFECT_HOME": str(folder)}
    prefect_home.fill(folder)
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=ready,  # noqa: PLW1509  # no thread runs here
    )


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
def test_the_server_ends_with_a_process_that_is_killed(tmp_path: Path):
    with start(PARENT, tmp_path) as parent:
        assert parent.stdout is not None
        server = int(parent.stdout.readline())
        assert is_running(server)
        parent.kill()
    deadline = time.monotonic() + 60
    while is_running(server) and time.monotonic() < deadline:
        time.sleep(0.1)
    if is_running(server):
        os.kill(server, signal.SIGKILL)
        pytest.fail("the server outlived its parent")


def test_sigterm_ends_a_run_that_was_started_with_sigint_ignored(tmp_path: Path):
    ignored = lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)  # noqa: E731
    with start(BACKGROUND, tmp_path, ignored) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "working\n"
        began = time.monotonic()
        run.terminate()
        rest, _ = run.communicate(timeout=60)
    assert (run.returncode, rest) == (130, "in order\n")
    assert time.monotonic() - began < 25  # it slept for 30 s
