"""The SQL runner: statements on copies of fixture databases, and the tables they return."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
import pytest_asyncio

from assizes.judge.evidence.sql_results import ResultMatch, compare_results, result_text
from assizes.judge.protocol import NoReply, Query, SqlTable
from assizes.tasks.sandbox.child import Caps
from assizes.tasks.sandbox.sql_runner import SandboxSqlRunner
from tests.tasks.sandbox.databases import both, duckdb_file, sqlite_file
from tests.tasks.sandbox.sql_runners import tables

ENGINES = ("sqlite", "duckdb")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return both(tmp_path_factory.mktemp("fixtures"))


@pytest_asyncio.fixture(scope="module")
async def runner(folder: Path) -> AsyncIterator[SandboxSqlRunner]:
    runner = SandboxSqlRunner(folder)
    yield runner
    await runner.aclose()


@pytest_asyncio.fixture
async def writer(folder: Path) -> AsyncIterator[SandboxSqlRunner]:
    runner = SandboxSqlRunner(folder, writes_allowed=True)
    yield runner
    await runner.aclose()


async def refused(runner: SandboxSqlRunner, database: str) -> str:
    found = await runner.look_up(Query(database, ("SELECT 1",)))
    assert isinstance(found, NoReply)
    assert found.code == "no_database"
    return found.reason


@pytest.mark.row("002-25")
@pytest.mark.parametrize("engine", ENGINES)
async def test_statements_run_in_order_and_each_has_its_table(runner, engine):
    first, second = "SELECT count(*) AS guests FROM guest", "SELECT name FROM guest ORDER BY id"
    assert await tables(runner, f"guests.{engine}", first, second) == (
        SqlTable(first, ("guests",), ((3,),), 1),
        SqlTable(second, ("name",), (("Ada",), ("Ben",), ("Cyd",)), 3, ordered=True),
    )


@pytest.mark.row("002-26")
async def test_expected_and_actual_rows_of_a_duckdb_fixture_are_equal(runner, tmp_path):
    duckdb_file(tmp_path / "many.duckdb", "CREATE TABLE n AS SELECT range AS i FROM range(137)")
    shutil.copy(tmp_path / "many.duckdb", runner._base)
    expected, actual = await tables(
        runner, "many.duckdb", "SELECT i FROM n", "SELECT i + 0.0 FROM n ORDER BY i DESC"
    )
    assert compare_results(expected, actual) == ResultMatch(
        equal=True, score=1.0, reason="137 equal rows"
    )
    assert expected.row_count == 137
    assert result_text(expected).splitlines() == [
        "i",
        *(str(number) for number in range(20)),
        "(137 rows, the first 20 shown)",
    ]


@pytest.mark.row("002-27")
@pytest.mark.parametrize(
    ("engine", "message"),
    [("sqlite", "no such column: nmae"), ("duckdb", 'Referenced column "nmae" not found')],
)
async def test_a_bad_statement_is_an_error_in_its_table_and_the_next_one_runs(
    runner, engine, message
):
    bad, good = await tables(
        runner, f"guests.{engine}", "SELECT nmae FROM guest", "SELECT 1 AS one"
    )
    assert message in (bad.error or "")
    assert (bad.columns, bad.rows, bad.row_count) == ((), (), 0)
    assert result_text(bad).startswith("error: ")
    assert good == SqlTable("SELECT 1 AS one", ("one",), ((1,),), 1)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "statement", ["", "  ;", "-- nothing", "SELEC 1", "SELECT 'open", "SELECT 1 +"]
)
async def test_what_is_no_statement_is_an_error(runner, engine, statement):
    (table,) = await tables(runner, f"guests.{engine}", statement)
    assert table.error


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "statement", ["SELECT 1;", "SELECT 1; -- done", "/* a; b */ SELECT 1 ;\n", "\n SELECT 1;  "]
)
async def test_one_statement_may_end_and_be_commented(runner, engine, statement):
    (table,) = await tables(runner, f"guests.{engine}", statement)
    assert (table.error, table.rows) == (None, ((1,),))


async def test_values_are_numbers_text_or_null(runner):
    (lite,) = await tables(
        runner, "guests.sqlite", "SELECT 1, 2.5, 'x', NULL, x'00ff', 9e999, CAST(x'ff41' AS TEXT)"
    )
    (duck,) = await tables(
        runner,
        "guests.duckdb",
        "SELECT true, 1.50::DECIMAL(9, 2), DATE '2024-02-29', TIMESTAMP '2024-02-29 12:30:00', "
        "TIMESTAMPTZ '2024-02-29 12:30:00+02', [1, 2], {'a': DATE '2024-01-01'}, 'nan'::DOUBLE, "
        "170141183460469231731687303715884105727, 'ab'::BLOB",
    )
    assert lite.rows == ((1, 2.5, "x", None, "00ff", "Infinity", "\ufffdA"),)
    assert duck.rows == (
        (
            True,
            1.5,
            "2024-02-29",
            "2024-02-29 12:30:00",
            "2024-02-29 10:30:00+00:00",
            "[1, 2]",
            '{"a": "2024-01-01"}',
            "NaN",
            170141183460469231731687303715884105727,
            "6162",
        ),
    )


async def test_the_keys_of_a_map_are_text(runner):
    (table,) = await tables(
        runner,
        "guests.duckdb",
        "SELECT MAP {DATE '2000-01-01': 1}, [MAP {INTERVAL 1 DAY: 'x'}], {'m': MAP {'b'::BLOB: 1}}, "
        "MAP {1.5: MAP {TIMESTAMP '2000-01-01': 'y'}}, MAP {'a': 1}, MAP {7: 8}, MAP {[1, 2]: 3}",
    )
    assert table.error is None
    assert table.rows == (
        (
            '{"2000-01-01": 1}',
            '[{"1 day, 0:00:00": "x"}]',
            '{"m": {"62": 1}}',
            '{"1.5": {"2000-01-01 00:00:00": "y"}}',
            '{"a": 1}',
            '{"7": 8}',
            '{"key": [[1, 2]], "value": [3]}',
        ),
    )


@pytest.mark.parametrize(
    ("engine", "statement"),
    [
        (
            "sqlite",
            "WITH RECURSIVE c(x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c",
        ),
        ("duckdb", "SELECT range FROM range(100000)"),
    ],
)
async def test_rows_are_cut_at_the_cap(runner, engine, statement):
    (table,) = await tables(runner, f"guests.{engine}", statement)
    assert (table.row_count, len(table.rows), table.truncated) == (10_000, 10_000, True)
    assert table.rows[-1] == (9_999,)


@pytest.mark.row("005-11")
@pytest.mark.parametrize("engine", ENGINES)
async def test_equal_rows_in_another_order_are_equal_beyond_the_cap(tmp_path, engine):
    file = {"sqlite": sqlite_file, "duckdb": duckdb_file}[engine]
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000)"
    made = f"CREATE TABLE t AS {numbers} SELECT i, i / 7.0 AS x, 'name ' || i % 90 AS s FROM n"
    file(tmp_path / "many.db", made)
    async with aclosing(SandboxSqlRunner(tmp_path, caps=Caps(time_s=20))) as runner:
        due, turned, moved, other = await tables(
            runner,
            "many.db",
            "SELECT i, x, s FROM t",
            "SELECT i, x, s FROM t ORDER BY i DESC",
            "SELECT s, i + 0.0, x FROM t ORDER BY s",
            "SELECT i, x, CASE i WHEN 29000 THEN 'y' ELSE s END FROM t ORDER BY i DESC",
        )
    assert compare_results(due, turned) == ResultMatch(
        True, 1.0, "30000 equal rows, by a hash of all"
    )
    assert not compare_results(due, moved).equal
    assert compare_results(due, moved, permute_columns=True).equal
    assert not compare_results(due, other, permute_columns=True).equal


async def test_a_result_without_end_has_no_hash(tmp_path):
    sqlite_file(tmp_path / "a.db")
    endless = "WITH RECURSIVE c(x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c"
    async with aclosing(SandboxSqlRunner(tmp_path, caps=Caps(time_s=1))) as runner:
        (table,) = await tables(runner, "a.db", endless)
    assert (table.truncated, table.digests, table.error) == (True, (), None)


async def test_a_result_is_cut_at_its_bytes_and_a_long_text_keeps_its_identity(runner):
    same, other, many = await tables(
        runner,
        "guests.duckdb",
        "SELECT repeat('x', 5000)",
        "SELECT repeat('x', 4999) || 'y'",
        "SELECT repeat('x', 999) || range FROM range(9000)",
    )
    assert same.rows[0][0].startswith("x" * 1_000 + "... (5000 characters, sha256 ")
    assert same.rows != other.rows
    assert many.truncated
    assert 1_500 < many.row_count < 2_100


async def test_a_statement_of_immoderate_length_is_not_run(runner):
    (table,) = await tables(runner, "guests.sqlite", "SELECT " + " " * 100_000 + "1")
    assert table.error == "longer than 100000 characters"


async def test_full_text_and_json_tables_can_be_read(runner):
    sqlite_file(
        runner._base / "notes.sqlite",
        "CREATE VIRTUAL TABLE note USING fts5(body)",
        "CREATE VIRTUAL TABLE old USING fts4(body)",
        "CREATE VIRTUAL TABLE box USING rtree(id, low, high)",
        "INSERT INTO note VALUES ('late checkout'), ('early bird')",
        "INSERT INTO old VALUES ('late checkout')",
        "INSERT INTO box VALUES (1, 0.0, 2.0)",
        "CREATE VIEW view AS SELECT body FROM note",
    )
    found = await tables(
        runner,
        "notes.sqlite",
        "SELECT body FROM note WHERE note MATCH 'late'",
        "SELECT body FROM old WHERE old MATCH 'late'",
        "SELECT id FROM box WHERE high > 1",
        "SELECT value FROM json_each('[7]')",
        "SELECT count(*) FROM view",
        "SELECT name FROM pragma_table_info('view')",
    )
    assert [table.error for table in found] == [None] * 6
    assert [table.rows for table in found] == [
        (("late checkout",),),
        (("late checkout",),),
        ((1,),),
        ((7,),),
        ((2,),),
        (("body",),),
    ]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nowhere.sqlite", "is not there"),
        ("notes.txt", "is neither a SQLite nor a DuckDB file"),
        ("empty.sqlite", "is neither a SQLite nor a DuckDB file"),
        ("folder", "is not a file"),
        ("fifo", "is not a file"),
        ("../outside.sqlite", "leads out of its folder"),
        ("folder/../../outside.sqlite", "leads out of its folder"),
        ("link.sqlite", "leads out of its folder"),
        ("circle.sqlite", "is not there"),
        ("broken.sqlite", "cannot be opened: "),
        ("busy.sqlite", "is being written: busy.sqlite-wal is not empty"),
        ("", "is no path"),
        ("a\x00b", "is no path"),
        ("\ud800.sqlite", "is no path"),
        ("x" * 5_000, "is not there"),
    ],
)
async def test_a_database_that_cannot_be_had_is_no_reply(tmp_path, name, reason):
    base = tmp_path / "base"
    (base / "folder").mkdir(parents=True)
    sqlite_file(tmp_path / "outside.sqlite")
    (base / "notes.txt").write_text("SQLite format 4")
    (base / "empty.sqlite").touch()
    (base / "broken.sqlite").write_bytes(b"SQLite format 3\x00" + b"\xff" * 4_000)
    (base / "link.sqlite").symlink_to(tmp_path / "outside.sqlite")
    (base / "circle.sqlite").symlink_to(base / "circle.sqlite")
    (sqlite_file(base / "busy.sqlite").parent / "busy.sqlite-wal").write_text("frames")
    os.mkfifo(base / "fifo")
    runner = SandboxSqlRunner(base)
    try:
        assert reason in await refused(runner, name)
    finally:
        await runner.aclose()


async def test_an_absolute_path_outside_the_base_is_refused(runner, tmp_path):
    path = sqlite_file(tmp_path / "own.sqlite")
    assert "leads out of its folder" in await refused(runner, str(path))


async def test_without_a_base_an_absolute_path_is_taken_but_no_link_out_of_its_folder(tmp_path):
    (tmp_path / "links").mkdir()
    path = sqlite_file(tmp_path / "own.sqlite")
    (tmp_path / "links" / "link.sqlite").symlink_to(path)
    runner = SandboxSqlRunner()
    try:
        (table,) = await tables(runner, str(path), "SELECT count(*) FROM guest")
        assert table.rows == ((3,),)
        assert "leads out" in await refused(runner, str(tmp_path / "links" / "link.sqlite"))
        assert "leads out" in await refused(runner, os.path.relpath(path))
    finally:
        await runner.aclose()


async def test_a_changed_fixture_is_copied_anew_and_copies_do_not_pile_up(tmp_path):
    path = sqlite_file(tmp_path / "a.sqlite", "CREATE TABLE t AS SELECT 1 AS x")
    runner = SandboxSqlRunner(tmp_path)
    try:
        assert (await tables(runner, "a.sqlite", "SELECT x FROM t"))[0].rows == ((1,),)
        sqlite_file(path, "UPDATE t SET x = 2")
        os.utime(path, ns=(1, 1))
        assert (await tables(runner, "a.sqlite", "SELECT x FROM t"))[0].rows == ((2,),)
        for number in range(12):
            shutil.copy(path, tmp_path / f"{number}.sqlite")
            await tables(runner, f"{number}.sqlite", "SELECT x FROM t")
        (pid,) = runner.pids
        copies = list(Path(f"/proc/{pid}/cwd").resolve().parent.glob("*.db"))
        assert len(copies) == 8
    finally:
        await runner.aclose()


@pytest.mark.row("002-28")
@pytest.mark.parametrize("engine", ENGINES)
async def test_a_statement_that_writes_answers_with_its_effect_on_a_copy(writer, runner, engine):
    found = await tables(
        writer,
        f"guests.{engine}",
        "UPDATE guest SET paid = 8 WHERE id = 3",
        "INSERT INTO guest VALUES (4, 'Dan', 1)",
        "DELETE FROM guest WHERE id = 1",
        "UPDATE guest SET paid = 8 WHERE id = 99",
        "WITH g AS (SELECT * FROM guest) SELECT id, paid FROM g ORDER BY id",
        "DROP TABLE guest",
    )
    columns = ("change", "table", "row")
    assert [table.error for table in found] == [None] * 6
    assert [table.columns for table in found[:4]] == [columns] * 4
    assert [table.rows for table in found[:5]] == [
        (("added", "guest", '[3, "Cyd", 8.0]'), ("removed", "guest", '[3, "Cyd", 7.25]')),
        (("added", "guest", '[4, "Dan", 1.0]'),),
        (("removed", "guest", '[1, "Ada", 10.5]'),),
        (),
        ((2, None), (3, 8.0), (4, 1.0)),
    ]
    assert [row[:2] for row in found[5].rows] == [("removed", "guest")] * 4
    count = "SELECT count(*), min(paid) FROM guest"
    assert (await tables(runner, f"guests.{engine}", count))[0].rows == ((3, 7.25),)
    assert (await tables(writer, f"guests.{engine}", count))[0].rows == ((3, 7.25),)


@pytest.mark.parametrize("engine", ENGINES)
async def test_equal_effects_of_different_statements_are_equal_results(writer, engine):
    name = f"guests.{engine}"
    (one,) = await tables(writer, name, "UPDATE guest SET paid = 0 WHERE paid IS NULL")
    (same,) = await tables(writer, name, "UPDATE guest SET paid = 0 WHERE name = 'Ben'")
    (other,) = await tables(writer, name, "UPDATE guest SET paid = 0")
    assert compare_results(one, same).equal
    assert not compare_results(one, other).equal


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "statement",
    [
        "ATTACH '{folder}/new.db' AS other",
        "VACUUM INTO '{folder}/new.db'",
        "COPY guest TO '{folder}/new.db'",
        "EXPORT DATABASE '{folder}/new.db'",
        "PRAGMA writable_schema = ON",
        "BEGIN",
        "UPDATE sqlite_master SET sql = 'x'",
        "INSERT INTO guest SELECT * FROM read_csv('{folder}/new.db')",
        "CREATE VIRTUAL TABLE v USING fts5(body)",
        "DELETE FROM guest; DELETE FROM guest",
    ],
)
async def test_a_runner_that_may_write_still_keeps_to_its_copy(writer, folder, engine, statement):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    (table,) = await tables(writer, f"guests.{engine}", statement.replace("{folder}", str(folder)))
    assert table.error is not None
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
