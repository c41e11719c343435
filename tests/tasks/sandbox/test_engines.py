"""The database engines without the sandbox: its process can write no file, not even coverage data."""

from __future__ import annotations

import datetime as dt
import decimal

import pytest

from assizes.tasks.sandbox.child import (
    Caps,
    RefusedStatement,
    UnreadableDatabase,
    cell,
    open_database,
)
from tests.tasks.sandbox.databases import both, duckdb_file, sqlite_file

CAPS = Caps(time_s=2.0, rows=100)
ENGINES = ("sqlite", "duckdb")


@pytest.fixture
def database(tmp_path):
    """Open a file with three guests, or with the tables that some statements make."""
    held = []

    def make(engine, *statements, writes=False, caps=CAPS):
        if statements:
            of = {"sqlite": sqlite_file, "duckdb": duckdb_file}[engine]
            path = of(tmp_path / f"own.{engine}", *statements)
        else:
            path = (
                both(tmp_path) / f"guests.{engine}" if not held else tmp_path / f"guests.{engine}"
            )
        held.append(open_database(str(path), engine, writes=writes, caps=caps))
        return held[-1]

    yield make
    for one in held:
        one.close()


def failed(one, sql):
    with pytest.raises(one.faults) as raised:
        one.run(sql)
    return one.fault(raised.value)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_query_has_columns_and_rows(database, engine):
    found = database(engine).run(
        "-- the guests\n/* all */ SELECT id, name, paid FROM guest ORDER BY id"
    )
    assert found["columns"] == ["id", "name", "paid"]
    assert found["rows"] == [[1, "Ada", 10.5], [2, "Ben", None], [3, "Cyd", 7.25]]
    assert not found["truncated"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "sql", ["DELETE FROM guest", "CREATE TABLE t (n INTEGER)", "PRAGMA database_list"]
)
def test_without_writes_only_a_query_is_run(database, engine, sql):
    with pytest.raises(RefusedStatement, match="only one SELECT is run"):
        database(engine).run(sql)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_statement_that_writes_says_what_it_did_and_the_file_stays(database, engine):
    one = database(engine, writes=True)
    done = one.run("UPDATE guest SET paid = 1.0 WHERE id = 2")
    assert [row[:2] for row in done["rows"]] == [["added", "guest"], ["removed", "guest"]]
    assert one.run("SELECT paid FROM guest WHERE id = 2")["rows"] == [[1.0]]
    assert database(engine).run("SELECT paid FROM guest WHERE id = 2")["rows"] == [[None]]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("sql", ["VACUUM", "BEGIN"])
def test_with_writes_what_moves_no_rows_is_refused(database, engine, sql):
    with pytest.raises(RefusedStatement, match="only one SELECT, INSERT, UPDATE"):
        database(engine, writes=True).run(sql)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_fault_of_a_statement_is_told_in_the_engines_words(database, engine):
    text, spent = failed(database(engine), "SELECT nothing FROM guest")
    assert "nothing" in text
    assert not spent


@pytest.mark.parametrize("engine", ENGINES)
def test_a_result_is_cut_at_the_cap_and_says_so(database, engine):
    found = database(engine, caps=Caps(rows=2)).run("SELECT id FROM guest ORDER BY id")
    assert (found["rows"], found["truncated"]) == ([[1], [2]], True)


@pytest.mark.parametrize("engine", ENGINES)
def test_memory_that_an_engine_refuses_ends_the_process(database, engine):
    one = database(engine)
    assert one.fault(MemoryError()) == ("took more memory than allowed", True)


def test_sqlite_denies_what_reaches_out_of_the_file(database):
    one = database("sqlite")
    text, spent = failed(one, "SELECT load_extension('x')")
    assert (text.partition(" ")[0], spent) in {("only", False), ("not", False)}
    assert "SELECT" in failed(one, "SELECT 1; SELECT 2")[0]
    assert failed(one, "SELEKT 1")[0].startswith('near "SELEKT"')
    assert one.run("SELECT value FROM json_each('[1, 2]')")["rows"] == [[1], [2]]
    assert one.run("SELECT name FROM pragma_table_info('guest')")["rows"][0] == ["id"]


def test_sqlite_stops_a_query_that_does_not_end(database):
    one = database("sqlite", caps=Caps(time_s=0.05))
    text, spent = failed(
        one, "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"
    )
    assert (text, spent) == ("took longer than 0.05 s", False)


def test_sqlite_runs_what_begins_as_a_query_and_writes(database):
    one = database("sqlite", writes=True)
    added = one.run("WITH new(n) AS (SELECT 4) INSERT INTO guest SELECT n, 'Dan', 0 FROM new")
    assert [row[:2] for row in added["rows"]] == [["added", "guest"]]
    assert one.run("WITH a(n) AS (SELECT 7) SELECT n FROM a")["rows"] == [[7]]
    with pytest.raises(RefusedStatement):
        database("sqlite").run("")


def test_sqlite_tables_of_modules_can_be_read(database):
    one = database("sqlite", "CREATE VIRTUAL TABLE pages USING fts5(text)",
                   "INSERT INTO pages VALUES ('late orders')")  # fmt: skip
    assert one.run("SELECT text FROM pages WHERE pages MATCH 'late'")["rows"] == [["late orders"]]


def test_two_statements_in_one_text_are_refused_by_duckdb(database):
    with pytest.raises(RefusedStatement, match="only one SELECT is run"):
        database("duckdb").run("SELECT 1; SELECT 2")


def test_duckdb_values_of_all_kinds_are_told(database):
    sql = "SELECT TIMESTAMP '2026-03-09 12:00:00', DATE '2026-03-09', 'x'::BLOB, [1, 2], 1.5::DECIMAL(9, 2)"
    assert database("duckdb").run(sql)["rows"] == [
        ["2026-03-09 12:00:00", "2026-03-09", "78", "[1, 2]", 1.5]
    ]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (True, True),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (decimal.Decimal("1.5"), 1.5),
        (b"\x00\xff", "00ff"),
        (dt.time(12, 30), "12:30:00"),
        ({"day": dt.date(2026, 3, 9)}, '{"day": "2026-03-09"}'),
        ({dt.date(2026, 3, 9): [{b"\xff": 1}]}, '{"2026-03-09": [{"ff": 1}]}'),
        ({1: {2.5: True}, None: (False,)}, '{"1": {"2.5": true}, "null": [false]}'),
        (dt.timedelta(days=1), "1 day, 0:00:00"),
    ],
)
def test_a_value_is_told_as_json_holds_it(value, told):
    assert cell(value, 100) == told


def test_long_texts_are_cut_and_stay_apart():
    one, other = cell("a" * 50, 10), cell("a" * 49 + "b", 10)
    assert one.startswith("aaaaaaaaaa... (50 characters, sha256 ")
    assert one != other


def test_a_file_that_is_no_database_cannot_be_read(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"no database at all, " * 100)
    for engine in ENGINES:
        with pytest.raises(UnreadableDatabase):
            open_database(str(path), engine, writes=False, caps=CAPS)
