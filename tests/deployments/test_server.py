"""`assizes up` and `assizes down` with a real server process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import assizes
from tests.outward import PYTHONPATH

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A home of its own for the server; the server ends with the tests."""
    place = tmp_path_factory.mktemp("server")
    env = {"ASSIZES_HOME": str(place / "home"), "PREFECT_HOME": str(place / "prefect")}
    yield env
    assizes("down", cwd=place, env=env)


def state(env: dict[str, str]) -> dict[str, object]:
    return dict(json.loads((Path(env["ASSIZES_HOME"]) / "server.json").read_text()))


@pytest.mark.xdist_group("server")
def test_a_server_that_is_slow_to_answer_is_waited_for_not_doubled(tmp_path: Path, env):
    assert assizes("up", cwd=tmp_path, env=env).code == 0
    first = state(env)
    os.kill(int(str(first["pid"])), 0)
    group = os.getpgid(int(str(first["pid"])))
    os.killpg(group, signal.SIGSTOP)
    try:
        second = subprocess.Popen(
            [sys.executable, "-m", "assizes.deployments.cli", "up"],
            cwd=tmp_path,
            env={**os.environ, **env, "PYTHONPATH": PYTHONPATH},
            stdout=subprocess.PIPE,
            text=True,
        )
        time.sleep(4)
        assert second.poll() is None
        assert state(env) == first
    finally:
        os.killpg(group, signal.SIGCONT)
    out, _ = second.communicate(timeout=60)
    assert second.returncode == 0
    assert f"(pid {first['pid']})" in out
    assert state(env) == first
    assert assizes("down", cwd=tmp_path, env=env).out == "stopped\n"


@pytest.mark.xdist_group("server")
def test_two_that_start_at_once_find_one_server(tmp_path: Path, env):
    environment = {**os.environ, **env, "PYTHONPATH": PYTHONPATH}
    command = [sys.executable, "-m", "assizes.deployments.cli", "up"]
    both = [
        subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=150)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert all(f"(pid {state(env)['pid']})" in output for output in outputs)
    assert assizes("down", cwd=tmp_path, env=env).out == "stopped\n"


def test_a_recorded_process_of_another_program_is_left_alone(tmp_path: Path):
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60) # prefect"]) as other:
        record = {"pid": other.pid, "api_url": "http://127.0.0.1:9/api"}
        (tmp_path / "server.json").write_text(json.dumps(record))
        answer = assizes("down", cwd=tmp_path, env={"ASSIZES_HOME": str(tmp_path)})
        assert (answer.code, answer.out) == (0, "no background server was running\n")
        assert other.poll() is None
        other.kill()
