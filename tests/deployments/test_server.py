"""`assizes up` and `assizes down` with a real server process."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.command import assizes
from tests.outward import PYTHONPATH

pytestmark = [pytest.mark.full, pytest.mark.long]


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


@pytest.mark.xdist_group("server")
def test_a_server_keeps_its_port_when_it_died_and_when_it_was_stopped_if_nobody_took_it(
    tmp_path: Path, env
):
    assert assizes("up", cwd=tmp_path, env=env).code == 0
    first = state(env)
    os.killpg(int(str(first["pid"])), signal.SIGKILL)
    while Path(f"/proc/{first['pid']}").exists():
        time.sleep(0.1)
    assert assizes("up", cwd=tmp_path, env=env).code == 0
    second = state(env)
    assert second["api_url"] == first["api_url"]
    assert second["pid"] != first["pid"]
    assert assizes("down", cwd=tmp_path, env=env).out == "stopped\n"
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # old connections linger
        other.bind(("127.0.0.1", int(str(first["api_url"]).split(":")[2].split("/")[0])))
        other.listen()
        answer = assizes("up", cwd=tmp_path, env=env)
    assert answer.code == 0
    assert "of the server before is taken" in answer.err
    assert state(env)["api_url"] != first["api_url"]
    assert assizes("down", cwd=tmp_path, env=env).out == "stopped\n"


@pytest.mark.xdist_group("server")
def test_port_0_is_a_free_one_and_a_port_beside_that_of_the_running_server_is_refused(
    tmp_path: Path, env
):
    began = assizes("up", "--port", "0", cwd=tmp_path, env=env)
    address = str(state(env)["api_url"]).removesuffix("/api")
    port = int(address.rpartition(":")[2])
    assert (began.code, port > 0) == (0, True)
    assert began.out.startswith(f"Prefect server on {address} (pid ")
    for asked in ("0", str(port)):
        assert assizes("up", "--port", asked, cwd=tmp_path, env=env).out == began.out
    other = assizes("up", "--port", str(port % 65_535 + 1), cwd=tmp_path, env=env)
    assert (other.code, other.out) == (2, "")
    assert other.err == (
        f"assizes: --port {port % 65_535 + 1}: the Prefect server runs on {address} already; "
        "`assizes down` stops it, and without --port `assizes up` keeps it\n"
    )
    assert assizes("down", cwd=tmp_path, env=env).out == "stopped\n"


@pytest.mark.xdist_group("server")
def test_the_command_that_deploy_prints_starts_a_worker_of_the_server_of_up(tmp_path: Path, env):
    folder = tmp_path / "my nights"
    folder.mkdir()
    (folder / "nights.toml").write_text(
        'name = "printed"\n[transcripts]\nuri = "in"\n[nightly]\ncron = ""\n'
    )
    assert assizes("up", cwd=folder, env=env).code == 0
    answer = assizes("deploy", "-c", "nights.toml", cwd=folder, env=env)
    assert answer.code == 0, answer.err
    ours, theirs = [line.partition(": ")[2] for line in answer.out.splitlines()[-2:]]
    assert ours == "assizes worker -c nights.toml"
    assert theirs.startswith(f"PREFECT_API_URL={state(env)['api_url']} prefect worker start ")
    scripts = Path(sys.executable).parent
    environment = {**os.environ, **env, "PYTHONPATH": PYTHONPATH}
    environment["PATH"] = f"{scripts}:{environment['PATH']}"
    for name in ("PREFECT_API_URL", "PYTHONUNBUFFERED"):  # what it says must not wait in a buffer
        environment.pop(name, None)
    for command in (ours, theirs):
        worker = subprocess.Popen(
            command,
            shell=True,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        too_late = threading.Timer(120, os.killpg, (worker.pid, signal.SIGKILL))
        too_late.start()
        try:
            assert worker.stdout is not None
            seen = ""
            for line in worker.stdout:  # until it ends, or says that it has begun
                seen += line
                if "started!" in line:
                    break
            assert "started!" in seen, seen
        finally:
            too_late.cancel()
            os.killpg(worker.pid, signal.SIGKILL)
            worker.communicate()
    assert assizes("down", cwd=folder, env=env).out == "stopped\n"


@pytest.mark.xdist_group("server")
def test_flows_load_where_the_user_has_folders_of_the_same_names(tmp_path: Path, env):
    for name in ("flows", "tasks"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
        (tmp_path / name / "nightly.py").write_text("mine = True\n")
    (tmp_path / "in").mkdir()
    (tmp_path / "assizes.toml").write_text(
        'name = "shadowed"\n[transcripts]\nuri = "in/{date}"\n[nightly]\ncron = ""\n'
        '[judge]\nmodel = "offline/lexical"\n'
    )
    assert assizes("up", cwd=tmp_path, env=env).code == 0
    answer = assizes("deploy", cwd=tmp_path, env=env)
    assert answer.code == 0, answer.err
    environment = {**os.environ, **env, "PYTHONPATH": PYTHONPATH}
    environment["PREFECT_WORKER_QUERY_SECONDS"] = "1"
    environment.pop("PREFECT_API_URL", None)
    with (tmp_path / "worker.log").open("wb") as sink:
        worker = subprocess.Popen(
            [sys.executable, "-m", "assizes.deployments.cli", "worker"],
            cwd=tmp_path,
            env=environment,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )
    try:
        with httpx.Client(base_url=str(state(env)["api_url"])) as client:
            found = client.get("/deployments/name/nightly/assizes-shadowed").json()
            begun = client.post(f"/deployments/{found['id']}/create_flow_run", json={}).json()
            deadline = time.monotonic() + 120
            while (run := client.get(f"/flow_runs/{begun['id']}").json())["end_time"] is None:
                assert time.monotonic() < deadline, (tmp_path / "worker.log").read_text()
                time.sleep(0.5)
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
    assert run["state"]["name"] == "NoData", run["state"]["message"]
    assert assizes("down", cwd=tmp_path, env=env).out == "stopped\n"


def test_a_recorded_process_of_another_program_is_left_alone(tmp_path: Path):
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60) # prefect"]) as other:
        record = {"pid": other.pid, "api_url": "http://127.0.0.1:9/api"}
        (tmp_path / "server.json").write_text(json.dumps(record))
        answer = assizes("down", cwd=tmp_path, env={"ASSIZES_HOME": str(tmp_path)})
        assert (answer.code, answer.out) == (0, "no background server was running\n")
        assert other.poll() is None
        other.kill()
