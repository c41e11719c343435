"""Tests of one group run in one process; the others are given out one by one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.grouping import FOLDER

ROOT = Path(__file__).resolve().parents[1]
TESTS = """
import os, pathlib, pytest, time

def tell(name):
    time.sleep(0.02)
    with pathlib.Path("told").open("a") as file:
        file.write(f"{name} {os.environ['PYTEST_XDIST_WORKER']}\\n")

@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("group", [pytest.param(n, marks=pytest.mark.xdist_group(n)) for n in "ab"])
def test_of_a_group(group, number):
    tell(group)

@pytest.mark.parametrize("number", range(20))
def test_of_none(number):
    tell("none")

@pytest.mark.long
def test_long():
    tell("long")
"""


@pytest.mark.full
def test_a_group_runs_in_one_process_and_what_takes_long_comes_first(tmp_path: Path):
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = long\n")
    words = ["-q", "-p", "tests.grouping", "-p", "no:randomly", "-n", "2", "--dist", "loadgroup"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), FOLDER: str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "33 passed" in done.stdout
    told = [line.split() for line in (tmp_path / "told").read_text().splitlines()]
    assert "long" in {name for name, _ in told[:2]}
    processes = defaultdict(set)
    for name, worker in told:
        processes[name].add(worker)
    assert (len(processes["a"]), len(processes["b"])) == (1, 1)
    assert len(processes["none"]) == 2
