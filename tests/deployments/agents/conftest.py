"""The store of three nights, a suite and its run, on which the tools for assistants are tried."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from tests.command import assizes
from tests.outward import PYTHONPATH

ENV = {"PYTHONPATH": PYTHONPATH}


@pytest.fixture(scope="session")
def walked_demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `demo/`, which no test may change."""
    folder = tmp_path_factory.mktemp("agents")
    answer = assizes("demo", "--nights", "--folder", "demo", cwd=folder)
    assert answer.code == 0, answer.err
    return folder


@pytest.fixture
def own_demo(walked_demo: Path, tmp_path: Path) -> Path:
    """A copy that a test may change; transcripts are read from where the demo lies."""
    shutil.copytree(walked_demo / "demo", tmp_path / "demo")
    return tmp_path


def contents(folder: Path) -> dict[str, str]:
    """The hash of every file below a folder, but of the index: readers keep there what they worked out of the rows."""
    files = (
        path for path in sorted(folder.rglob("*")) if path.is_file() and "index" not in path.parts
    )
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
