"""Processes that share a reply cache take turns: no two of them ask for the same reply at once."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from tasks.turns import FILE, FileTurns

ROOT = Path(__file__).resolve().parents[2]
KEY, OTHER = "0a" * 32, "0b" * 32

HOLDER = """
import asyncio, sys
from tasks.turns import FileTurns
async def hold():
    async with FileTurns(sys.argv[1]).turn(sys.argv[2]):
        print("mine", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
asyncio.run(hold())
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    """Another process whose turn it is, until it reads a line."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder), KEY],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "mine\n"
    return process


async def taken(turns: FileTurns, key: str, within_s: float) -> bool:
    async def take() -> None:
        async with turns.turn(key):
            pass

    try:
        await asyncio.wait_for(take(), within_s)
    except TimeoutError:
        return False
    return True


async def test_a_turn_of_another_process_is_waited_for_and_other_replies_are_not(tmp_path: Path):
    with holder(tmp_path / "replies") as other, FileTurns(str(tmp_path / "replies")) as turns:
        assert await taken(turns, OTHER, within_s=5)
        assert not await taken(turns, KEY, within_s=0.3)
        other.communicate("go\n")
        assert await taken(turns, KEY, within_s=5)
    assert (tmp_path / "replies" / FILE).read_bytes() == b""


async def test_a_process_that_is_killed_leaves_its_turn_to_the_next(tmp_path: Path):
    with holder(tmp_path) as other, FileTurns(str(tmp_path)) as turns:
        other.kill()
        other.wait()
        assert await taken(turns, KEY, within_s=5)


async def test_where_nothing_can_be_locked_everybody_asks_and_is_told_once(tmp_path: Path, caplog):
    (tmp_path / "file").write_text("in the way")
    turns = FileTurns(str(tmp_path / "file" / "replies"))
    for _ in range(2):
        assert await taken(turns, KEY, within_s=5)
    assert ["cannot be locked" in one.message for one in caplog.records] == [True]
