"""What a test process started ends with it, also when it is killed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.guardian import VARIABLE, kill_recorded, record, recorded_group

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = """
import json, subprocess, sys
from pathlib import Path
from tests.guardian import watch_over
folder = Path(sys.argv[1])
(folder / "assizes").mkdir(parents=True)
stub = [sys.executable, "-c", "import time; time.sleep(300)", sys.argv[2]]
server = subprocess.Popen(stub, start_new_session=True, stdout=subprocess.DEVNULL)
(folder / "assizes" / "server.json").write_text(json.dumps({"pid": server.pid}))
watch_over(folder)
print(server.pid, flush=True)
sys.stdin.read()
"""
PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}


def killed_test_process(folder: Path, server_argument: str) -> int:
    """A process that starts a server and a guardian, and is killed; returns the pid of the server."""
    call = [sys.executable, "-c", PROGRAM, str(folder), server_argument]
    with subprocess.Popen(call, cwd=ROOT, **PIPES) as process:
        pid = int(process.stdout.readline())
        process.kill()
    deadline = time.monotonic() + 60
    while folder.exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return pid


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_killed_test_process_leaves_no_server_and_no_folder(tmp_path: Path):
    pid = killed_test_process(tmp_path / "run", "assizes.deployments.prefect_server")
    assert not is_running(pid)


def test_a_process_that_is_no_server_of_ours_is_left_alone(tmp_path: Path):
    pid = killed_test_process(tmp_path / "run", "something-else")
    assert is_running(pid)
    subprocess.run(["kill", "-9", str(pid)], check=True)


def test_a_damaged_record_names_nobody(tmp_path: Path):
    assert recorded_group(tmp_path) is None
    (tmp_path / "assizes").mkdir()
    (tmp_path / "assizes" / "server.json").write_text("{")
    assert recorded_group(tmp_path) is None


def test_recorded_processes_are_killed_and_later_ones_of_the_same_id_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    sleep = ["sleep", "300"]
    with subprocess.Popen(sleep) as recorded, subprocess.Popen(sleep) as later:
        record(recorded.pid)
        record(later.pid)
        (tmp_path / "processes" / str(later.pid)).write_text("1")
        kill_recorded(tmp_path)
        assert recorded.wait(10) == -9
        assert later.poll() is None
        later.kill()
