"""Processes that share a reply cache take locks: no two of them ask for the same reply at once."""

from __future__ import annotations

import asyncio
import select
import subprocess
import sys
from pathlib import Path

from assizes.tasks.spending.reply_cache import LOCK_FILE, FileLocks

ROOT = Path(__file__).resolve().parents[3]
KEY, OTHER = "0a" * 32, "0b" * 32

HOLDER = """
import asyncio, sys
from assizes.tasks.spending.reply_cache import FileLocks
async def hold():
    async with FileLocks(sys.argv[1]).lock(sys.argv[2]):
        print("mine", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
asyncio.run(hold())
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    """Another process whose turn it is, until it reads a line."""
    process = waiter(folder)
    assert process.stdout is not None
    assert process.stdout.readline() == "mine\n"
    return process


async def taken(locks: FileLocks, key: str, within_s: float) -> bool:
    async def take() -> None:
        async with locks.lock(key):
            pass

    try:
        await asyncio.wait_for(take(), within_s)
    except TimeoutError:
        return False
    return True


async def test_a_turn_of_another_process_is_waited_for_and_other_replies_are_not(tmp_path: Path):
    with holder(tmp_path / "replies") as other, FileLocks(str(tmp_path / "replies")) as locks:
        assert await taken(locks, OTHER, within_s=30)
        assert not await taken(locks, KEY, within_s=0.3)
        other.communicate("go\n")
        assert await taken(locks, KEY, within_s=30)
    assert (tmp_path / "replies" / LOCK_FILE).read_bytes() == b""


async def test_a_process_that_is_killed_leaves_its_turn_to_the_next(tmp_path: Path):
    with holder(tmp_path) as other, FileLocks(str(tmp_path)) as locks:
        other.kill()
        other.wait()
        assert await taken(locks, KEY, within_s=30)


async def test_where_nothing_can_be_locked_everybody_asks_and_is_told_once(tmp_path: Path, caplog):
    (tmp_path / "file").write_text("in the way")
    locks = FileLocks(str(tmp_path / "file" / "replies"))
    for _ in range(2):
        assert await taken(locks, KEY, within_s=30)
    assert ["cannot be locked" in one.message for one in caplog.records] == [True]


async def test_two_rooms_of_one_process_take_turns_as_two_processes_do(tmp_path: Path):
    with FileLocks(str(tmp_path)) as one, FileLocks(str(tmp_path / "." / "")) as two:
        async with one.lock(KEY):
            assert await taken(two, OTHER, within_s=30)
            assert not await taken(two, KEY, within_s=0.3)
        assert await taken(two, KEY, within_s=30)


async def test_a_room_that_closes_leaves_another_its_turn(tmp_path: Path):
    with FileLocks(str(tmp_path)) as one:
        async with one.lock(KEY):
            with FileLocks(str(tmp_path)) as two:
                assert await taken(two, OTHER, within_s=30)
            waiting = waiter(tmp_path)
            early = await asyncio.to_thread(said, waiting, 2.0)
        with waiting:
            late = await asyncio.to_thread(said, waiting, 10.0)
            waiting.communicate("go\n")
    assert (early, late) == (False, True)


async def test_a_room_that_closes_in_its_turn_gives_it_back(tmp_path: Path):
    with FileLocks(str(tmp_path)) as two:
        assert await taken(two, OTHER, within_s=30)
        one = FileLocks(str(tmp_path))
        async with one.lock(KEY):
            one.close()
            assert await taken(two, KEY, within_s=30)
            with holder(tmp_path) as other:
                other.communicate("go\n")


def waiter(folder: Path) -> subprocess.Popen[str]:
    """Another process that wants the turn."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder), KEY],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def said(process: subprocess.Popen[str], within_s: float) -> bool:
    """Whether it says within a time that it is its turn."""
    return bool(select.select([process.stdout], [], [], within_s)[0])
