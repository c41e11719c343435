"""The limits of the operating system on a statement, should the locks of an engine fail."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
HEAD = """
import os, socket, subprocess, sys
import duckdb
from assizes.tasks.sandbox.child import confine_process, limit_statement
from assizes.tasks.sandbox.child import Caps
caps = Caps(time_s=0.5)
open_already = open(sys.argv[1], "ab", buffering=0)
connection = duckdb.connect()
confine_process(caps)
with limit_statement(caps):
    try:
        {act}
    except BaseException as error:
        print("refused", type(error).__name__)
    else:
        print("done")
"""


def told(act: str, tmp_path: Path) -> tuple[int, str]:
    program = HEAD.replace("{act}", act)
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "open.txt")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    return done.returncode, done.stdout.strip()


@pytest.mark.parametrize(
    "act",
    [
        "open('/etc/passwd')",
        "os.open('/', os.O_RDONLY)",
        "open(sys.argv[1] + '.new', 'w')",
        "socket.socket()",
        "os.pipe()",
        "os.memfd_create('x')",
        "subprocess.run(['true'])",
        "open_already.write(b'x')",
        "connection.execute(\"select * from read_text('/etc/passwd')\").fetchall()",
        "connection.execute(\"copy (select 1) to 'new.csv'\")",
        "bytearray(2_000_000_000)",
    ],
)
def test_no_file_no_socket_no_process_and_no_memory_is_given(act, tmp_path):
    code, text = told(act, tmp_path)
    assert (code, text.split()[0]) == (0, "refused")
    assert [(path.name, path.stat().st_size) for path in tmp_path.iterdir()] == [("open.txt", 0)]


@pytest.mark.parametrize(
    ("act", "signal"), [("import time; time.sleep(30)", 14), ("exec('while 1: pass')", 14)]
)
def test_the_clock_ends_the_process_without_its_parent(act, signal, tmp_path):
    assert told(act, tmp_path) == (-signal, "")
