"""Statements that would take all time or memory end soon, and cost the parent nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tasks.sandbox.bombs import BOMBS
from tests.tasks.sandbox.databases import both

pytestmark = pytest.mark.full

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return both(tmp_path_factory.mktemp("bombs"))


def _took(databases: Path, time_s: int, *only: str):
    command = [
        sys.executable,
        "-m",
        "tests.tasks.sandbox.bombs",
        str(databases),
        str(time_s),
        *only,
    ]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def took(databases: Path):
    return _took(databases, 2)


def test_every_bomb_ends_within_five_seconds(took):
    assert len(took["bombs"]) == len(BOMBS) >= 12
    assert [one for one in took["bombs"] if one["seconds"] > 5] == []


def test_no_child_took_more_memory_than_one_and_a_half_gigabytes(took):
    assert took["child_mb"] <= 1_500


def test_the_parent_grew_by_less_than_fifty_megabytes(took):
    assert took["parent_mb"] <= 50


def test_bombs_are_told_by_what_they_would_have_taken(took, databases):
    said = {one["bomb"]: one["said"] for one in took["bombs"]}
    assert said["SELECT sleep_ms(60000)"] == "took longer than 2 s"
    assert said["SELECT hex(zeroblob(1000000000))"] == "string or blob too big"
    hungry = "SELECT len(range(100000000))"  # on a busy machine, 2 s end before the memory does
    (one,) = _took(databases, 60, hungry)["bombs"]
    assert one["said"] == "took more memory than allowed"


def test_no_child_is_left(took):
    assert took["left"] == []
