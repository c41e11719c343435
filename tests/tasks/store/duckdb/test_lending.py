"""A DuckDB file between a writer and readers: who has it, for how long, and what a forked child gets."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from assizes.judge.errors import ConfigurationError, StoreBusy
from assizes.tasks.store import open_store, query_store
from assizes.tasks.store.duckdb_lending import LendingTimes, LentConnection
from assizes.tasks.store.duckdb_turns import ReadLock, Turns
from assizes.tasks.store.queries.query_limits import QueryLimits
from tests.command import ROOT
from tests.tasks.store.rows import COUNTS, run_record, shard

ENDLESS = "with recursive a as (select 1 x union all select x + 1 from a) select count(*) from a"
WAIT_S = 60  # for another process on a busy machine

WRITER = """
import sys
from pathlib import Path
from assizes.tasks.store.duckdb_lending import LendingTimes, LentConnection
times = LendingTimes(lend_wait_s=float(sys.argv[2]), min_hold_s=0)
path = Path(sys.argv[1])
file = LentConnection(f"duckdb:///{path}", path, writing=True, prepare=lambda con: None, times=times)
with file.exclusive() as con:
    con.execute("create table _identity as select 'a' as store")
    con.execute("create table _commits as select 1 as number")
    con.execute("create table runs (finished_at timestamp)")
file.allow_lending()
print("ready", flush=True)
for line in sys.stdin:
    try:
        with file.exclusive() as con:
            con.execute("insert into _commits values (2)")
            print(con.execute("select count(*) from _commits").fetchone()[0], flush=True)
    except Exception as error:
        print(type(error).__name__, flush=True)
file.close()
"""


@contextmanager
def writer(path: Path, lend_wait_s: float = WAIT_S) -> Iterator[subprocess.Popen[str]]:
    """A process that has the file; for each line that it reads it inserts a row, and counts them."""
    command = [sys.executable, "-c", WRITER, str(path), str(lend_wait_s)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as process:
        try:
            assert answer(process) == "ready"
            yield process
        finally:
            process.kill()


def ask(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def reader(path: Path, read_limit_s: float = 0.2) -> LentConnection:
    times = LendingTimes(read_wait_s=WAIT_S, read_limit_s=read_limit_s)
    file = LentConnection(
        f"duckdb:///{path}", path, writing=False, prepare=lambda _: None, times=times
    )
    file.allow_lending()
    return file


def test_a_reader_that_keeps_the_writer_waiting_loses_the_file_and_the_writer_goes_on(tmp_path):
    with writer(tmp_path / "a.duckdb") as process:
        file = reader(tmp_path / "a.duckdb")
        ask(process)
        with (
            pytest.raises(StoreBusy, match=r"reading took longer than 0 s"),
            file.exclusive() as con,
        ):
            con.execute(ENDLESS)
        assert answer(process) == "2"
        with pytest.raises(StoreBusy, match="read again"), file.exclusive():
            pass


def test_a_reader_that_does_nothing_loses_the_file_too(tmp_path):
    with writer(tmp_path / "a.duckdb") as process:
        file = reader(tmp_path / "a.duckdb")
        ask(process)
        assert answer(process) == "2"
        file.close()


def compute_then_read(file: LentConnection) -> None:
    """Read on after the moment of the cut, in which no statement ran."""
    with file.exclusive() as con:
        while not file._is_cut:
            time.sleep(0.01)
        time.sleep(0.1)
        con.execute(ENDLESS)


def test_a_reader_is_cut_between_two_of_its_statements(tmp_path):
    with writer(tmp_path / "a.duckdb") as process:
        file = reader(tmp_path / "a.duckdb")
        ask(process)
        with pytest.raises(StoreBusy):
            compute_then_read(file)
        assert answer(process) == "2"


def test_a_query_on_a_connection_of_its_own_is_cut_as_well(tmp_path):
    with writer(tmp_path / "a.duckdb") as process:
        file = reader(tmp_path / "a.duckdb")
        ask(process)
        with pytest.raises(StoreBusy, match="while a run writes"), file.query_connection() as con:
            con.execute(ENDLESS)
        assert answer(process) == "2"


def test_a_query_that_ends_by_itself_keeps_its_own_error(tmp_path):
    with writer(tmp_path / "a.duckdb"):
        file = reader(tmp_path / "a.duckdb", WAIT_S)
        with pytest.raises(duckdb.CatalogException), file.query_connection() as con:
            con.execute("select * from nothing")
        with file.query_connection() as con:
            assert con.execute("select count(*) from _commits").fetchone() == (1,)
        file.close()


def test_a_reader_whom_no_writer_waits_for_keeps_the_file(tmp_path):
    with writer(tmp_path / "a.duckdb"):
        file = reader(tmp_path / "a.duckdb", 0)
        time.sleep(1)
        with file.exclusive() as con:
            assert con.execute("select count(*) from _commits").fetchone() == (1,)
        file.close()


def test_a_writer_gives_up_in_the_end_and_goes_on_when_a_foreign_program_has_closed_the_file(
    tmp_path,
):
    with writer(tmp_path / "a.duckdb", lend_wait_s=0.5) as process:
        reader(tmp_path / "a.duckdb", WAIT_S).close()
        turns = Turns(tmp_path / "a.duckdb")
        with turns.turn(WAIT_S):  # so that the writer lends the file
            foreign = open_foreign(tmp_path / "a.duckdb")
        ask(process)
        assert answer(process) == "StoreBusy"
        foreign.close()
        ask(process)
        assert answer(process) == "2"  # nothing is there twice, and the failed row is not there


def open_foreign(path: Path) -> duckdb.DuckDBPyConnection:
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            return duckdb.connect(path, read_only=True)
        except duckdb.IOException:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_forked_child_has_no_lock_of_its_parent_and_takes_none_away(tmp_path):
    turns = Turns(tmp_path / "a.duckdb")
    mark = turns.become_writer(WAIT_S)
    assert mark is not None
    release, hold = os.pipe()
    is_ready, say_ready = os.pipe()
    with turns.turn(WAIT_S):
        if (child := os.fork()) == 0:
            os.close(hold)
            turns.leave(mark)  # as at the end of an interpreter
            os.write(say_ready, b".")
            os.read(release, 1)  # lives on behind its parent's use of the file
            os._exit(0)
    try:
        os.read(is_ready, 1)
        assert not turns.is_wanted()
        assert turns.has_writer()
        turns.leave(mark)
        assert not turns.has_writer()
        again = turns.become_writer(WAIT_S)
        assert again is not None
        turns.leave(again)
    finally:
        for pipe in (hold, release, is_ready, say_ready):
            os.close(pipe)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


OUTLIVED = """
import os, sys, time
from pathlib import Path
from assizes.tasks.store.duckdb_turns import ReadLock, Turns
Turns(Path(sys.argv[1])).become_writer(0)
if child := os.fork():
    time.sleep(600)
print(os.getpid(), flush=True)
time.sleep(600)
"""


def test_a_child_that_outlives_a_killed_writer_keeps_nobody_out(tmp_path):
    command = [sys.executable, "-c", OUTLIVED, str(tmp_path / "a.duckdb")]
    turns = Turns(tmp_path / "a.duckdb")
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        child = int(answer(process))
        try:
            assert turns.has_writer()
            process.kill()
            process.wait()
            assert not turns.has_writer()
            with open_store(f"duckdb:///{tmp_path}/a.duckdb", writing=True) as store:
                store.begin(run_record())
                assert store.commit_shard("nightly-1", "s0", shard(), COUNTS)
        finally:
            os.kill(child, signal.SIGKILL)


def test_the_time_of_a_query_ends_it_with_a_line_of_its_own(duckdb_place):
    with open_store(duckdb_place, writing=True) as store:
        store.begin(run_record())
    with pytest.raises(ConfigurationError, match=r"the query ran for 0\.2 s and was ended"):
        query_store(duckdb_place, ENDLESS, limits=QueryLimits(time_s=0.2))


def opens_for_writing(path: Path) -> bool:
    """Whether another process can open a DuckDB file for writing now."""
    code = "import duckdb, sys; duckdb.connect(sys.argv[1])"
    command = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0 or "Conflicting lock" in done.stderr
    return done.returncode == 0


def test_a_reader_locks_the_file_before_duckdb_looks_at_it(tmp_path):
    path = tmp_path / "rows.duckdb"
    duckdb.connect(path).close()
    lock = ReadLock(path)
    assert not opens_for_writing(path)
    lock.release()
    assert opens_for_writing(path)
    with duckdb.connect(path):
        command = [sys.executable, "-c", LOCK_FOR_READING, str(path)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"written by {os.getpid()}"


LOCK_FOR_READING = """
import sys
from assizes.tasks.store.duckdb_turns import FileIsWritten, ReadLock
try:
    ReadLock(sys.argv[1])
except FileIsWritten as error:
    print("written by", error.pid)
"""


def test_one_of_two_readers_of_a_process_that_closes_leaves_the_lock_to_the_other(tmp_path):
    path = tmp_path / "rows.duckdb"
    duckdb.connect(path).close()

    def reader() -> LentConnection:
        return LentConnection(str(path), path, writing=False, prepare=lambda con: None)

    first, second = reader(), reader()
    first.close()
    assert not opens_for_writing(path)
    second.close()
    assert opens_for_writing(path)
