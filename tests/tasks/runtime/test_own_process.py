"""Processes of ours collect garbage seldom and end at once; other programs keep their own settings."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

import pytest

from assizes.tasks.runtime.own_process import SELDOM

PYTHONS = gc.get_threshold()  # when this module is read; later the tests set theirs

LOOK = "import atexit, gc; atexit.register(lambda: print(*gc.get_threshold()))\n"
COMMAND = (
    "import sys; from assizes.deployments.cli import main; sys.argv = ['assizes', '-h']; main()"
)
FLOW_RUN = "from assizes.tasks.runtime.process import prepare_process; prepare_process()"

ENDING = """
import atexit, sys, threading, time
from assizes.tasks.runtime.own_process import end_process

class LeftToTheEnd:
    def __del__(self):
        print("taken apart")

left = LeftToTheEnd()
atexit.register(print, "asked to leave")
threading.Thread(target=lambda: (time.sleep(0.2), print("the thread is done"))).start()
print("the last line", end=" ")
"""


def run(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "PREFECT__FLOW_RUN_ID"}
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("program", "variables", "thresholds"),
    [
        pytest.param(COMMAND, {}, SELDOM, id="a command"),
        pytest.param(FLOW_RUN, {"PREFECT__FLOW_RUN_ID": "0"}, SELDOM, id="a worker's flow run"),
        pytest.param(FLOW_RUN, {}, PYTHONS, id="a program that calls a flow"),
    ],
)
def test_only_processes_of_ours_collect_seldom(program, variables, thresholds):
    done = run(LOOK + program, **variables)
    assert (done.returncode, done.stderr) == (0, "")
    assert tuple(map(int, done.stdout.splitlines()[-1].split())) == thresholds


@pytest.mark.parametrize(
    ("exited", "code", "said"),
    [
        ("", 0, ""),
        ("SystemExit()", 0, ""),
        ("SystemExit(3)", 3, ""),
        ("SystemExit('no')", 1, "no\n"),
    ],
)
def test_a_process_ends_as_python_does_but_takes_nothing_apart(exited, code, said):
    done = run(f"{ENDING}end_process({exited})")
    assert (done.returncode, done.stderr) == (code, said)
    assert done.stdout == "the last line the thread is done\nasked to leave\n"


def test_a_process_without_output_ends_too():
    program = "from assizes.tasks.runtime.own_process import end_process; end_process()"
    done = subprocess.run(["sh", "-c", '"$0" -c "$1" >&-', sys.executable, program], check=False)
    assert done.returncode == 0


def test_output_that_nobody_reads_is_told_by_the_exit_code():
    program = "from assizes.tasks.runtime.own_process import end_process; print('x'); end_process()"
    reader, writer = os.pipe()
    os.close(reader)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    with os.fdopen(writer, "w") as closed:
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env=environment, stdout=closed, check=False)
    assert done.returncode == 120
