"""A command from a warm interpreter is the command: the same answer, a process of its own, an end of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from tests import command, warm


@pytest.mark.parametrize(
    "words",
    [
        ("--version",),
        ("run", "--nope"),
        ("plan",),
        ("doctor",),
        ("sql", "SELECT 1 AS one", "--store", "new.duckdb"),
    ],
)
def test_its_answer_is_that_of_a_new_interpreter(
    tmp_path: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
):
    own = {"ASSIZES_HOME": str(tmp_path / "home"), "PREFECT_HOME": str(tmp_path / "prefect")}
    assert warm.fits(command._environment(own))
    new = command.cold_assizes(*words, cwd=tmp_path, env=own)
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")  # there the first command is warm, too
    assert command.assizes(*words, cwd=tmp_path, env=own) == new


def test_prefect_reads_the_environment_of_the_command(tmp_path: Path):
    own = {"PREFECT_API_URL": "http://127.0.0.1:9/api"}
    (tmp_path / "assizes.toml").write_text("")
    answer = command.assizes("doctor", cwd=tmp_path, env=own)
    assert "http://127.0.0.1:9/api" in answer.out


def test_a_program_is_run_as_python_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    program = (
        "import os, sys\n"
        "class Here: pass\n"
        "print(__name__, Here.__module__, sys.argv, os.getcwd(), os.getsid(0) == os.getpid())\n"
        "raise RuntimeError('told')\n"
    )
    ends = [
        command.started("a", cwd=tmp_path, program=program, new_session=True, warmly=warmly)
        for warmly in (True, False)
    ]
    answers = [one.answer() for one in ends]
    assert answers[0].code == answers[1].code == 1
    assert answers[0].out == answers[1].out
    assert all("RuntimeError: told" in answer.err for answer in answers)


def test_what_a_library_reads_while_it_is_imported_needs_a_new_interpreter():
    environment = command._environment(None)
    assert not warm.fits({**environment, "LITELLM_LOG": "DEBUG"})
    assert not warm.fits({**environment, "COVERAGE_PROCESS_CONFIG": "x"})
    assert not warm.fits({name: text for name, text in environment.items() if name != "PATH"})


def test_a_signal_ends_the_command_and_no_other(tmp_path: Path):
    own = {"ASSIZES_HOME": str(tmp_path)}
    whole = {"cwd": str(tmp_path), "env": command._environment(own), "streams": [0, 1, 2]}
    start = partial(warm.interpreter().start, [], program="import time; time.sleep(600)", **whole)
    first, second = start(), start()
    os.kill(first.pid, signal.SIGKILL)
    assert first.wait(60) == -signal.SIGKILL
    os.kill(second.pid, 0)
    os.kill(second.pid, signal.SIGKILL)
    assert second.wait(60) == -signal.SIGKILL


def test_the_interpreter_and_its_commands_end_with_the_process_that_started_it(tmp_path: Path):
    program = (
        "import os, sys, tests.warm as warm\n"
        "started = warm.Interpreter()\n"
        "words, streams = ['sql', '-'], [int(sys.argv[1]), 2, 2]\n"
        "command = started.start(words, cwd=sys.argv[2], env=os.environ, streams=streams)\n"
        "print(started.process.pid, command.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    waiting, held = os.pipe()
    call = [sys.executable, "-c", program, str(waiting), str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "pass_fds": [waiting]}
    with subprocess.Popen(call, cwd=command.ROOT, text=True, **pipes) as process:
        pids = [int(pid) for pid in process.stdout.readline().split()]
        process.kill()
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline, pids
        time.sleep(0.1)
    os.close(waiting)
    os.close(held)


DRAWN = """
import sys, vl_convert
bars = {"data": {"values": [{"n": "a", "x": 1}, {"n": "b", "x": 2}]}, "mark": "bar"}
bars["encoding"] = {"x": {"field": "x", "type": "quantitative"}, "y": {"field": "n", "type": "nominal"}}
sys.stdout.write(vl_convert.vegalite_to_svg(bars, allowed_base_urls=[]))
try:
    vl_convert.vegalite_to_svg({"mark": 5})
except ValueError as error:
    sys.stdout.write(str(error))
"""


def test_charts_are_drawn_as_a_new_interpreter_draws_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    warm_one, new = (
        command.started(cwd=tmp_path, program=DRAWN, warmly=warmly).answer()
        for warmly in (True, False)
    )
    assert warm_one == new
    assert "<svg" in warm_one.out
    assert "</svg>" in warm_one.out


THREADS = """
import os, vl_convert
before = len(os.listdir("/proc/self/task"))
vl_convert.vegalite_to_svg({"data": {"values": [{"n": 1}]}, "mark": "bar"})
print(len(os.listdir("/proc/self/task")) - before)
"""


def test_a_command_starts_no_javascript_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")

    def started_threads(*, warmly: bool) -> int:
        done = command.started(cwd=tmp_path, program=THREADS, warmly=warmly).answer()
        return int(done.out)

    assert started_threads(warmly=False) > 0
    deadline = time.monotonic() + 60  # who draws needs a moment to start
    while (threads := started_threads(warmly=True)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert threads == 0


def test_who_draws_ends_with_the_interpreter():
    started = warm.Interpreter()
    processes = Path(
        "/proc", str(started.process.pid), "task", str(started.process.pid), "children"
    )
    deadline = time.monotonic() + 60
    while not (drawing := processes.read_text().split()) and time.monotonic() < deadline:
        time.sleep(0.05)
    started.close()
    while Path("/proc", drawing[0], "cmdline").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path("/proc", drawing[0], "cmdline").exists()
