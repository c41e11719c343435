"""Child processes of the SQL runner: started, reused, replaced, and none left behind."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from queue import SimpleQueue

import pytest
import pytest_asyncio

from assizes.judge.case import Case, Expected
from assizes.judge.config.run import CacheConfig, RunConfig, StoreConfig
from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.evidence.sql_results import compare_results
from assizes.judge.protocol import NoReply, Query, look_up
from assizes.judge.score import Metric, Scale, Score
from assizes.tasks.context.run_context import open_run_context
from assizes.tasks.sandbox.child import Caps
from assizes.tasks.sandbox.sql_runner import STATEMENTS_PER_CHILD, SandboxSqlRunner
from assizes.tasks.sandbox.worker import Fixture, FixtureCopies
from tests.builders import case as case_of
from tests.tasks.sandbox.databases import both
from tests.tasks.sandbox.sql_runners import tables

ROOT = Path(__file__).resolve().parents[3]
FOUND = Metric("found", Scale.SCORED)
COUNT_FOR_EVER = (
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return both(tmp_path_factory.mktemp("fixtures"))


@pytest_asyncio.fixture(scope="module")
async def runner(folder: Path) -> AsyncIterator[SandboxSqlRunner]:
    runner = SandboxSqlRunner(folder)
    yield runner
    await runner.aclose()


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def test_after_a_lost_copy_the_statements_that_follow_are_not_run(folder):
    runner = SandboxSqlRunner(folder, writes_allowed=True, caps=Caps(time_s=0.3))
    try:
        found = await tables(
            runner, "guests.duckdb", "DELETE FROM guest", "SELECT sleep_ms(60000)", "SELECT 1"
        )
        assert [table.error for table in found] == [
            None,
            "took longer than 0.3 s",
            "not run: the copy was lost with the statement before it",
        ]
    finally:
        await runner.aclose()


async def test_after_a_timeout_the_other_statements_run_in_a_new_child(folder):
    runner = SandboxSqlRunner(folder, caps=Caps(time_s=0.3))
    try:
        found = await tables(
            runner, "guests.duckdb", "SELECT 1", "SELECT sleep_ms(60000)", "SELECT 2"
        )
        assert [table.error for table in found] == [None, "took longer than 0.3 s", None]
        assert found[2].rows == ((2,),)
    finally:
        await runner.aclose()


async def test_sqlite_stops_by_itself_and_its_child_is_kept(folder):
    runner = SandboxSqlRunner(folder, caps=Caps(time_s=0.2))
    try:
        await tables(runner, "guests.sqlite", "SELECT 1")
        before = runner.pids
        (table,) = await tables(runner, "guests.sqlite", COUNT_FOR_EVER)
        assert table.error == "took longer than 0.2 s"
        assert runner.pids == before
    finally:
        await runner.aclose()


async def test_children_start_when_needed_are_at_most_two_and_serve_again(folder):
    runner = SandboxSqlRunner(folder)
    assert runner.pids == set()
    query = Query("guests.sqlite", ("SELECT 1",))
    await asyncio.gather(*(runner.look_up(query) for _ in range(20)))
    pids = runner.pids
    assert 1 <= len(pids) <= 2
    await asyncio.gather(*(runner.look_up(query) for _ in range(20)))
    assert runner.pids == pids
    await runner.aclose()
    assert runner.pids == set()
    assert [pid for pid in pids if is_alive(pid)] == []


async def test_a_child_is_recycled_after_many_statements(folder):
    runner = SandboxSqlRunner(folder, children=1)
    try:
        await tables(runner, "guests.sqlite", "SELECT 1")
        (old,) = runner.pids
        await tables(runner, "guests.sqlite", *["SELECT 1"] * STATEMENTS_PER_CHILD)
        assert not is_alive(old)
        await tables(runner, "guests.sqlite", "SELECT 1")
        assert old not in runner.pids
    finally:
        await runner.aclose()


async def test_a_child_that_died_waiting_is_replaced(folder):
    runner = SandboxSqlRunner(folder, children=1)
    try:
        await tables(runner, "guests.sqlite", "SELECT 1")
        (old,) = runner.pids
        os.kill(old, 9)
        (table,) = await tables(runner, "guests.sqlite", "SELECT 2")
        assert table.rows == ((2,),)
        assert old not in runner.pids
    finally:
        await runner.aclose()


async def test_no_child_is_left_after_a_cancelled_look_up(folder):
    runner = SandboxSqlRunner(folder)
    await tables(runner, "guests.sqlite", "SELECT 1")
    task = asyncio.create_task(runner.look_up(Query("guests.sqlite", (COUNT_FOR_EVER,))))
    await asyncio.sleep(0.2)
    (pid,) = runner.pids
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_alive(pid)
    (table,) = await tables(runner, "guests.sqlite", "SELECT 1")
    assert table.rows == ((1,),)
    await runner.aclose()
    assert runner.pids == set()


@pytest.mark.parametrize("pause", [0.0, 0.005, 0.02, 0.05, 0.1])
async def test_no_child_is_left_when_cancelled_while_it_starts(folder, pause):
    runner = SandboxSqlRunner(folder)
    task = asyncio.create_task(runner.look_up(Query("guests.duckdb", ("SELECT sleep_ms(60000)",))))
    await asyncio.sleep(pause)
    pids = runner.pids
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await runner.aclose()
    assert [pid for pid in pids if is_alive(pid)] == []


async def test_closing_removes_the_copies_and_may_happen_twice(folder):
    runner = SandboxSqlRunner(folder)
    await tables(runner, "guests.sqlite", "SELECT 1")
    (pid,) = runner.pids
    place = Path(f"/proc/{pid}/cwd").resolve().parent
    assert place.is_dir()
    await runner.aclose()
    await runner.aclose()
    assert not place.exists()


def test_a_child_whose_parent_is_killed_does_not_stay(folder, tmp_path):
    program = (
        "import asyncio, sys, pathlib\n"
        "from assizes.judge.protocol import Query\n"
        "from assizes.tasks.sandbox.sql_runner import SandboxSqlRunner\n"
        "from assizes.tasks.sandbox.child import Caps\n"
        "async def main():\n"
        "    runner = SandboxSqlRunner(pathlib.Path(sys.argv[1]), caps=Caps(time_s=0.5))\n"
        "    await runner.look_up(Query('guests.duckdb', ('SELECT 1',)))\n"
        "    print(*runner.pids, flush=True)\n"
        "    await runner.look_up(Query('guests.duckdb', ('SELECT sleep_ms(60000)',)))\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", program, str(folder)]
    # A killed parent cannot remove its copies.
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    deadline = 100
    while is_alive(pid) and deadline:
        deadline -= 1
        asyncio.run(asyncio.sleep(0.1))
    assert not is_alive(pid)


class Looker:
    """A judge that runs one statement and puts the result into its reason."""

    name = "looker"
    version = "1"
    metrics = (FOUND,)

    def missing(self, case: Case) -> str | None:
        return None

    def judge(self, case: Case):
        answer = yield from look_up(Query(case.expected.database or "", ("SELECT 4 AS n",)))
        if isinstance(answer, NoReply):
            return [Score.failed("found", answer.reason, answer.code)]
        return [Score.of(FOUND, answer.tables[0].rows[0][0])]


async def test_the_engine_of_a_run_context_sends_queries_to_its_sql_runner_and_the_context_ends_it(
    folder, tmp_path
):
    config = RunConfig(
        transcripts=TranscriptsConfig(uri=str(tmp_path), databases=str(folder)),
        store=StoreConfig(uri=f"duckdb:///{tmp_path}/runs.duckdb"),
        cache=CacheConfig(uri=str(tmp_path / "replies")),
    )
    case = case_of(expected=Expected(database=str(folder / "guests.sqlite")))
    lost = case_of(expected=Expected(database="nowhere.sqlite"))
    async with open_run_context(config) as room:
        heard = await room.engine_for("run").hear(Looker(), case)
        failed = await room.engine_for("run").hear(Looker(), lost)
        pids = room.sql_runner.pids
    assert [score.raw for score in heard.scores] == [4]
    assert failed.scores == [
        Score.failed("found", "database 'nowhere.sqlite' is not there", "no_database")
    ]
    assert len(pids) == 1
    assert not is_alive(*pids)


async def test_no_case_asks_the_store_of_its_run_however_its_path_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    (both(tmp_path) / "guests.duckdb").rename(tmp_path / "own.duckdb")
    runner = SandboxSqlRunner.of(
        RunConfig(
            transcripts=TranscriptsConfig(uri="t.jsonl", databases=str(tmp_path)),
            store=StoreConfig(uri="duckdb:///~/own.duckdb"),
        )
    )
    try:
        found = await runner.look_up(Query("own.duckdb", ("SELECT 1",)))
        assert isinstance(found, NoReply)
        assert "is hidden, or a file of a run" in found.reason
    finally:
        await runner.aclose()


@pytest.mark.parametrize("engine", ["sqlite", "duckdb"])
async def test_the_runner_of_a_run_compares_statements_that_write_by_their_effect(
    folder: Path, engine: str
):
    databases = TranscriptsConfig(uri="t.jsonl", databases=str(folder))
    runner = SandboxSqlRunner.of(RunConfig(transcripts=databases))
    try:
        asked = await tables(runner, f"guests.{engine}", "UPDATE guest SET paid = 1 WHERE id = 2")
        same, rows = await tables(
            runner,
            f"guests.{engine}",
            "UPDATE guest SET paid = 1.0 WHERE name = 'Ben'",
            "SELECT paid FROM guest WHERE id = 2",
        )
        other = await tables(runner, f"guests.{engine}", "DELETE FROM guest WHERE id = 2")
        untouched = await tables(runner, f"guests.{engine}", "SELECT count(*) FROM guest")
    finally:
        await runner.aclose()
    assert compare_results(asked[0], same).equal
    assert rows.rows == ((1.0,),)
    assert not compare_results(asked[0], other[0]).equal
    assert untouched[0].rows == ((3,),)


def test_threads_that_want_one_copy_at_once_are_lent_the_same(tmp_path: Path):
    path = tmp_path / "large.db"
    with path.open("wb") as file:
        file.truncate(64 << 20)
    copies, fixture = FixtureCopies(), Fixture("large.db", path, "sqlite")
    try:
        with ThreadPoolExecutor(4) as threads:
            lent = list(threads.map(copies.lend_copy, [fixture] * 4))
        assert len({one.path for one in lent}) == 1
        assert [one.name for one in lent[0].path.parent.glob("*.db")] == [lent[0].path.name]
    finally:
        copies.close()


async def test_a_copy_is_given_back_though_nobody_waits_for_it_any_more(tmp_path: Path):
    with closing(sqlite3.connect(tmp_path / "shop.sqlite")) as con:
        con.execute("create table t (a)")
    with (tmp_path / "shop.sqlite").open("ab") as file:
        file.truncate(256 << 20)
    runner = SandboxSqlRunner(tmp_path)
    lending = asyncio.create_task(runner.look_up(Query("shop.sqlite", ("select 1",))))
    await until(lambda: runner._copies and list(runner._copies.empty.parent.glob("*.db")))
    lending.cancel()
    with suppress(asyncio.CancelledError):
        await lending
    assert runner._copies is not None
    lent = runner._copies._lent_counts
    await until(lambda: lent and not any(lent.values()))
    await runner.aclose()


async def until(holds: Callable[[], object], within_s: float = 60.0) -> None:
    over = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < over
        await asyncio.sleep(0.001)


def test_copies_are_lent_while_others_are_taken_back(tmp_path: Path):
    made = [Fixture(f"{number}.db", tmp_path / f"{number}.db", "sqlite") for number in range(12)]
    for fixture in made:
        fixture.path.write_bytes(b"rows")
    copies, lent, faults = FixtureCopies(), SimpleQueue[Fixture | None](), list[BaseException]()

    def take_back() -> None:
        try:
            while (copy := lent.get()) is not None:
                copies.return_copy(copy)
        except RuntimeError as error:
            faults.append(error)

    often = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    taking_back = threading.Thread(target=take_back)
    taking_back.start()
    try:
        for number in range(20_000):
            copy = copies.lend_copy(made[7 * number % 12])
            assert copy.path.exists()
            lent.put(copy)
    finally:
        lent.put(None)
        taking_back.join()
        sys.setswitchinterval(often)
        copies.close()
    assert faults == []
