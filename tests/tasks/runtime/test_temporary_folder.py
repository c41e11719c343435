"""Temporary folders: what a process that is killed leaves, the next one removes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from assizes.tasks.runtime.temporary_folder import LOCK_NAME, MIN_AGE_S, TemporaryFolder
from tests.conftest import ROOT
from tests.outward import PYTHONPATH

HOLDER = """
import time
from assizes.tasks.runtime.temporary_folder import TemporaryFolder
folder = TemporaryFolder()
(folder.path / "lines").write_bytes(b"x" * 1000)
print(folder.path, flush=True)
time.sleep(600)
"""


def test_the_next_start_removes_what_a_killed_process_left_and_nothing_that_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH, "TMPDIR": str(tmp_path)}
    holders = [
        subprocess.Popen(
            [sys.executable, "-c", HOLDER], env=environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    try:
        folders = [Path(holder.stdout.readline().strip()) for holder in holders if holder.stdout]
        holders[0].send_signal(signal.SIGKILL)
        holders[0].wait()
        assert folders[0].is_dir()
        old = time.time() - 2 * MIN_AGE_S
        for folder in folders:
            os.utime(folder / LOCK_NAME, (old, old))
        with TemporaryFolder() as mine:
            assert not folders[0].exists()
            assert folders[1].is_dir()
            assert mine.path.is_dir()
        assert not mine.path.exists()
    finally:
        for holder in holders:
            holder.kill()
            holder.communicate()


def test_every_folder_for_texts_of_users_is_one_that_a_later_process_removes():
    own = "tasks/runtime/temporary_folder.py"
    passing = "judge/alignment/rejudging.py"  # a rubric, for the moment of one function call
    makers = {
        file.relative_to(ROOT).as_posix()
        for room in ("judge", "tasks", "flows", "deployments")
        for file in (ROOT / room).rglob("*.py")
        if re.search(r"mkdtemp|TemporaryDirectory\((?!dir=)", file.read_text(encoding="utf-8"))
    }
    assert makers == {own, passing}
