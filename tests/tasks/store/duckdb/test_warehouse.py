"""What only a DuckDB store does: one writer, one transaction per shard, SQL over public tables."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import StoreBusy, StoreError
from assizes.judge.rows import TABLES
from assizes.tasks.store import existing_store, open_store
from assizes.tasks.store.duckdb_file import IN_MEMORY
from assizes.tasks.store.duckdb_rows import insert_rows, restore_row_order
from assizes.tasks.store.warehouse import DuckDBStore
from tests.tasks.store.rows import COUNTS, ended, run_metrics, run_record, shard

ROOT = Path(__file__).resolve().parents[4]

HOLD = """
import sys
from assizes.judge.config.run import StoreConfig
from assizes.tasks.store import open_store
store = open_store(StoreConfig(uri=sys.argv[1]), writing=sys.argv[2] == "writing")
print("open", flush=True)
sys.stdin.read()
store.close()
"""

COMMIT_AND_DIE = """
import os, signal, sys
from assizes.judge.config.run import StoreConfig
from assizes.tasks.store import open_store
from tests.tasks.store.rows import COUNTS, run_record, shard
store = open_store(StoreConfig(uri=sys.argv[1]), writing=True)
store.begin(run_record())
store.commit_shard("nightly-1", "s0", shard(), COUNTS)
os.kill(os.getpid(), signal.SIGKILL)
"""

SHOW = """
import sys
from assizes.judge.config.run import StoreConfig
from assizes.tasks.store import open_store
store = open_store(StoreConfig(uri=sys.argv[1]))
print(store.runs().height, store.table("nightly-1", "scores").height)
print([name for name in ("fsspec", "s3fs", "prefect", "litellm", "pyarrow") if name in sys.modules])
"""


def _file(place: StoreConfig) -> Path:
    return Path(place.uri.removeprefix("duckdb:///"))


def _python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@contextmanager
def _held(place: StoreConfig, how: str) -> Iterator[int]:
    """Open the store in another process; yields the id of that process."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, place.uri, how],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        yield other.pid


def test_a_second_writer_is_refused_naming_the_first_and_what_to_do(duckdb_place):
    with _held(duckdb_place, "writing") as owner:
        with pytest.raises(StoreBusy) as caught:
            open_store(duckdb_place, writing=True)
        assert str(caught.value) == (
            f"{duckdb_place.uri} is in use by process {owner} on {socket.gethostname()}; wait until it ends or stop it, "
            "or point [store] uri to a folder, which takes several writers"
        )
    open_store(duckdb_place, writing=True).close()


def test_a_reader_is_let_in_while_another_process_writes(duckdb_place):
    with _held(duckdb_place, "writing"):
        for _ in range(3):
            with open_store(duckdb_place) as store:
                assert store.runs().height == 0


def test_a_writer_waits_for_one_who_only_looks(duckdb_place):
    open_store(duckdb_place, writing=True).close()
    with _held(duckdb_place, "reading") as pid:
        threading.Timer(0.5, os.kill, (pid, signal.SIGKILL)).start()
        open_store(duckdb_place, writing=True).close()


def test_a_store_that_is_there_is_waited_for_and_none_is_made(duckdb_place):
    with pytest.raises(StoreError, match="no store at"):
        existing_store(duckdb_place)
    with open_store(duckdb_place, writing=True):
        existing_store(duckdb_place).close()
    with _held(duckdb_place, "writing") as pid:
        threading.Timer(0.5, os.kill, (pid, signal.SIGKILL)).start()
        existing_store(duckdb_place).close()


def test_several_processes_read_at_once(duckdb_place):
    open_store(duckdb_place, writing=True).close()
    with _held(duckdb_place, "reading"), open_store(duckdb_place) as store:
        assert store.runs().height == 0


def test_the_same_process_cannot_read_what_it_is_writing_through_another_store(duckdb_place):
    with (
        open_store(duckdb_place, writing=True),
        pytest.raises(StoreBusy, match=rf"in this process \(process {os.getpid()}\)"),
    ):
        open_store(duckdb_place)


def test_a_committed_shard_outlives_the_sudden_death_of_its_writer(duckdb_place):
    died = _python(COMMIT_AND_DIE, duckdb_place.uri)
    assert died.returncode == -9, died.stderr
    for writing in (False, True):
        with open_store(duckdb_place, writing=writing) as store:
            assert store.shard_counts("nightly-1") == {"s0": COUNTS}
            assert store.table("nightly-1", "scores").equals(shard()["scores"])


def test_the_journal_of_one_file_says_nothing_of_another_put_in_its_place(tmp_path):
    place, other = (StoreConfig(uri=f"duckdb:///{tmp_path}/{name}") for name in ("a.db", "b.db"))
    for store_place, shard_ids in ((place, ("s0", "s1")), (other, ("s0", "s2"))):
        with open_store(store_place, writing=True) as store:
            store.begin(run_record())
            for shard_id in shard_ids:
                store.commit_shard("nightly-1", shard_id, shard(case_id=shard_id), COUNTS)
    shutil.copy(_file(place), tmp_path / "kept.db")
    for file, shard_ids in ((_file(other), {"s0", "s2"}), (tmp_path / "kept.db", {"s0", "s1"})):
        shutil.copy(file, _file(place))
        for writing in (False, True, True, False):
            with open_store(place, writing=writing) as store:
                assert store.shard_counts("nightly-1").keys() == shard_ids


def test_a_file_put_in_the_place_of_another_is_damaged_when_it_lacks_its_own_commits(tmp_path):
    place, other = (StoreConfig(uri=f"duckdb:///{tmp_path}/{name}") for name in ("a.db", "b.db"))
    open_store(place, writing=True).close()
    with open_store(other, writing=True) as store:
        store.begin(run_record())
        store.commit_shard("nightly-1", "s0", shard(), COUNTS)
    shutil.copy(_file(other), _file(place))
    open_store(place, writing=True).close()
    with duckdb.connect(_file(place)) as file:
        file.execute("delete from _commits")
    with pytest.raises(StoreError, match=r"its journal lists 1 shard of run nightly-1 \(s0\)"):
        open_store(place)


def test_a_shard_that_fails_half_way_leaves_nothing(duckdb_place):
    open_store(duckdb_place, writing=True).close()
    _sql(duckdb_place, "alter table cases alter column tags set not null")
    with open_store(duckdb_place, writing=True) as store:
        store.begin(run_record())
        with pytest.raises(StoreError, match=r"^duckdb:///.*NOT NULL constraint failed"):
            store.commit_shard("nightly-1", "s0", shard(), COUNTS)
        assert store.shard_counts("nightly-1") == {}
        assert store.table("nightly-1", "scores").is_empty()
        assert store.commit_shard("nightly-1", "s1", {"scores": shard()["scores"]}, {}) is True


def test_ending_twice_leaves_the_file_as_it_is(duckdb_place):
    def finished() -> dict[str, str]:
        with open_store(duckdb_place, writing=True) as store:
            begun = store.begin(run_record())
            store.commit_shard("nightly-1", "s0", shard(), COUNTS)
            store.finish(ended(begun), run_metrics())
        files = sorted(_file(duckdb_place).parent.iterdir())
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    before = finished()
    assert finished() == before
    assert list(before) == ["store.duckdb", "store.duckdb.commits"]


def test_the_public_tables_are_there_for_sql(duckdb_place):
    with open_store(duckdb_place, writing=True) as store:
        store.begin(run_record())
        store.commit_shard("nightly-1", "s0", shard(), COUNTS)
    columns = "select column_name from information_schema.columns where table_name = '{}' order by ordinal_position"
    for table, schema in TABLES.items():
        assert [name for (name,) in _sql(duckdb_place, columns.format(table))] == list(schema)
    assert _sql(duckdb_place, "select turns from scores where metric = 'accuracy'") == [
        ([0, 3, 2_147_483_647],)
    ]
    mark = "select run_id, shard, length(sha), counts, rows from _commits"
    assert _sql(duckdb_place, mark) == [("nightly-1", "s0", 64, '{"judged":2,"read":2}', 5)]


def _sql(place: StoreConfig, query: str) -> list[tuple[object, ...]]:
    connection = duckdb.connect(_file(place))
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def test_reading_is_quiet_and_loads_no_file_systems(duckdb_place):
    with open_store(duckdb_place, writing=True) as store:
        store.begin(run_record())
        store.commit_shard("nightly-1", "s0", shard(), COUNTS)
    shown = _python(SHOW, duckdb_place.uri)
    assert (shown.stdout, shown.stderr, shown.returncode) == ("1 3\n[]\n", "", 0)


def test_a_file_of_another_kind_is_refused_in_one_line(tmp_path):
    (tmp_path / "notes.txt").write_text("not a database\n" * 1000)
    uri = f"duckdb:///{tmp_path}/notes.txt"
    for writing in (False, True):
        with pytest.raises(StoreError) as caught:
            open_store(StoreConfig(uri=uri), writing=writing)
        assert str(caught.value) == (
            f"{uri} is not a DuckDB file; [store] uri, or --store, names another"
        )


def test_a_database_without_a_store_is_told_from_one_whose_tables_would_clash(duckdb_place):
    _file(duckdb_place).parent.mkdir()
    _sql(duckdb_place, "create table customers (id integer)")
    with pytest.raises(StoreError, match=r"no store at .*, a DuckDB file without one: run"):
        open_store(duckdb_place)
    _sql(duckdb_place, "create table runs (id integer)")
    with pytest.raises(StoreError, match=r"holds other tables named runs; point .* to a new file"):
        open_store(duckdb_place, writing=True)
    _sql(duckdb_place, "drop table runs")
    with open_store(duckdb_place, writing=True) as store:
        assert store.runs().is_empty()
    assert _sql(duckdb_place, "select count(*) from customers") == [(0,)]


def test_a_folder_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(StoreError, match="cannot make its folder: "):
        open_store(StoreConfig(uri=f"duckdb:///{tmp_path}/taken/a.duckdb"), writing=True)


def test_a_closed_store_says_so(duckdb_place):
    store = open_store(duckdb_place, writing=True)
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.runs()


def test_three_slashes_are_relative_to_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    open_store(StoreConfig(uri="duckdb:///here/a.duckdb"), writing=True).close()
    assert (tmp_path / "here" / "a.duckdb").is_file()


def test_memory_holds_a_store_while_it_is_open():
    with open_store(StoreConfig(uri="duckdb:///:memory:")) as store:
        store.begin(run_record())
        assert store.run("nightly-1") == run_record()


def test_many_rows_go_in_whole_or_not_at_all_and_the_order_is_kept_again():
    order = "select current_setting('preserve_insertion_order')"
    many = pl.DataFrame({"case_id": [f"case-{n}" for n in range(300_000)], "value": 1.0})
    wrong = many.with_columns(value=pl.when(case_id="case-299999").then(9.0).otherwise("value"))
    with duckdb.connect() as con:
        con.execute("create table scores (case_id varchar, value double check (value < 2))")
        con.begin()
        with pytest.raises(duckdb.ConstraintException):
            insert_rows(con, "scores", wrong)
        con.rollback()
        restore_row_order(con)
        assert con.execute(order).fetchall() == [(True,)]
        insert_rows(con, "scores", many)
        assert con.execute(order).fetchall() == [(True,)]
        count = "select count(distinct case_id) from scores"
        assert con.execute(count).fetchall() == [(300_000,)]


def test_a_store_that_undoes_many_rows_keeps_the_order_of_those_after_them():
    wrong = pl.DataFrame({"run_id": ["nightly-1"] * 300_000, "none_of_ours": "x"})
    with DuckDBStore("duckdb:///:memory:", IN_MEMORY, writing=True) as store:
        with pytest.raises(StoreError, match="columns"), store._transaction() as con:
            insert_rows(con, "cases", wrong)
        with store._transaction() as con:
            order = con.execute("select current_setting('preserve_insertion_order')").fetchall()
        assert order == [(True,)]


@pytest.mark.parametrize("every", [1, 2, 100, 90_000])
def test_a_scan_keeps_the_order_of_the_rows_that_meet_a_condition(every: int):
    count = 40_000  # more than one block of rows
    rows = shard()["scores"][[1] * count]
    numbered = rows.with_columns(case_id=pl.format("case-{}", pl.int_range(count) // every))
    turned = numbered.with_columns(repetition=pl.int_range(count, dtype=pl.Int32) % every)
    with open_store(StoreConfig(uri="duckdb:///:memory:"), writing=True) as store:
        store.begin(run_record())
        store.commit_shard("nightly-1", "s0", {"scores": turned}, COUNTS)
        scan = store.scan("nightly-1", "scores").filter(repetition=every - 1)
        wanted = turned.filter(repetition=every - 1)
        assert_frame_equal(scan.collect(), wanted)
        assert_frame_equal(scan.select("case_id").head(3).collect(), wanted.select("case_id")[:3])


def test_queries_of_a_small_run_agree_from_the_first_to_the_last():
    rows = pl.concat([shard(case_id=f"c{number}")["scores"] for number in range(40)])
    with open_store(StoreConfig(uri="duckdb:///:memory:"), writing=True) as store:
        store.begin(run_record())
        store.commit_shard("nightly-1", "s0", {"scores": rows}, COUNTS)
        scan, is_odd = store.scan("nightly-1", "scores"), pl.col("case_id").str.ends_with("7")
        for query in (
            lambda frame: frame,
            lambda frame: frame.filter(is_odd),
            lambda frame: frame.filter(is_odd).select("metric", "case_id"),
            lambda frame: frame.select("value").head(3),
            lambda frame: frame.select(pl.len()),
            lambda frame: frame.filter(case_id="nobody"),
        ):
            once, again = query(scan).collect(engine="streaming"), query(scan).collect()
            assert_frame_equal(once, query(rows.lazy()).collect())
            assert_frame_equal(once, again)
        store.forget("nightly-1", ["c7"])
        assert store.scan("nightly-1", "scores").filter(case_id="c7").collect().is_empty()


COMMIT_FOREVER = """
import sys
from assizes.judge.config.run import StoreConfig
from assizes.tasks.store import open_store
from tests.tasks.store.rows import COUNTS, run_record, shard
store = open_store(StoreConfig(uri=sys.argv[1]), writing=True)
store.begin(run_record())
for number in range(100_000):
    store.commit_shard("nightly-1", f"s{number}", shard(case_id=f"c{number}"), COUNTS)
    print(number, flush=True)
"""


@pytest.mark.full
@pytest.mark.long
def test_readers_beside_a_writer_never_take_its_last_commits_for_lost(duckdb_place):
    # DuckDB reads the header before it locks the file: about one of a thousand readers was told
    # that the file is damaged, more often on a busy machine.
    for number in range(3):
        place = StoreConfig(uri=f"{duckdb_place.uri}-{number}")
        command = [sys.executable, "-c", COMMIT_FOREVER, place.uri]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            try:
                acknowledged = int(writer.stdout.readline())
                for _ in range(60):
                    with open_store(place) as store:
                        shards = len(store.shard_counts("nightly-1"))
                        assert shards > acknowledged
            finally:
                writer.kill()


def test_a_writer_killed_between_and_in_lendings_loses_and_doubles_nothing(duckdb_place):
    command = [sys.executable, "-c", COMMIT_FOREVER, duckdb_place.uri]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        try:
            acknowledged = int(writer.stdout.readline())
            for _ in range(5):
                with open_store(duckdb_place) as store:
                    assert len(store.shard_counts("nightly-1")) > acknowledged
        finally:
            writer.kill()
        numbers = [int(line) for line in writer.stdout.read().splitlines() if line]
    with open_store(duckdb_place) as store:
        shards = store.shard_counts("nightly-1")
        assert {f"s{number}" for number in (acknowledged, *numbers)} <= shards.keys()
        cases = store.table("nightly-1", "cases")["case_id"]
        assert cases.n_unique() == cases.len() == len(shards)
