"""Statements that try to read files, write files or open connections; none succeeds."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from assizes.judge.protocol import Query, QueryResult
from assizes.tasks.sandbox.sql_runner import SandboxSqlRunner
from tests.tasks.sandbox.databases import CANARY, both, duckdb_file, sqlite_file
from tests.tasks.sandbox.normal_queries import NORMAL

SQLITE = (
    "ATTACH DATABASE '{outside}/secret.sqlite' AS other",
    "ATTACH DATABASE '{outside}/new.sqlite' AS other",
    "ATTACH 'file:{outside}/secret.sqlite?mode=ro' AS other",
    "DETACH DATABASE main",
    "VACUUM",
    "VACUUM INTO '{outside}/new.sqlite'",
    "SELECT load_extension('{outside}/secret.txt')",
    "SELECT * FROM guest WHERE load_extension('libm.so.6', 'sin') IS NULL",
    "SELECT readfile('{outside}/secret.txt')",
    "SELECT writefile('{outside}/new.txt', 'x')",
    "SELECT edit('x', 'touch {outside}/new.txt')",
    "SELECT fts3_tokenizer('simple')",
    "SELECT fts3_tokenizer('own', x'4141414141414141')",
    "CREATE VIRTUAL TABLE v USING fts5(body)",
    "CREATE VIRTUAL TABLE temp.v USING csv(filename='{outside}/secret.csv')",
    "CREATE TEMP TABLE t AS SELECT * FROM guest",
    "CREATE TEMP TRIGGER t AFTER INSERT ON guest BEGIN SELECT 1; END",
    "INSERT INTO guest VALUES (4, 'Eve', 0)",
    "REPLACE INTO guest VALUES (1, 'Eve', 0)",
    "UPDATE guest SET name = 'Eve'",
    "DELETE FROM guest",
    "WITH e AS (SELECT 4) DELETE FROM guest",
    "INSERT INTO guest VALUES (4, 'Eve', 0) RETURNING *",
    "UPDATE sqlite_master SET sql = 'x'",
    "DROP TABLE guest",
    "ALTER TABLE guest RENAME TO host",
    "CREATE INDEX i ON guest (id)",
    "REINDEX",
    "ANALYZE",
    "BEGIN EXCLUSIVE",
    "PRAGMA writable_schema = ON",
    "PRAGMA temp_store_directory = '{outside}'",
    "PRAGMA journal_mode = WAL",
    "PRAGMA hard_heap_limit = 0",
    "PRAGMA trusted_schema = ON",
    "SELECT * FROM pragma_database_list",
    "SELECT * FROM pragma_hard_heap_limit(0)",
    "SELECT * FROM pragma_journal_mode('wal')",
    "SELECT 1; DROP TABLE guest",
    "SELECT 1;; SELECT 2",
    "/* SELECT */ DROP TABLE guest",
    "-- SELECT\nATTACH DATABASE '{outside}/secret.sqlite' AS other",
    "EXPLAIN SELECT 1",
)

DUCKDB = (
    "SELECT * FROM read_text('{outside}/secret.txt')",
    "SELECT * FROM read_blob('{outside}/secret.txt')",
    "SELECT * FROM read_csv('{outside}/secret.csv')",
    "SELECT * FROM read_json('{outside}/secret.csv')",
    "SELECT * FROM read_parquet('{outside}/secret.parquet')",
    "SELECT * FROM '{outside}/secret.csv'",
    "FROM '{outside}/secret.csv'",
    "SELECT * FROM sniff_csv('{outside}/secret.csv')",
    "SELECT * FROM glob('{outside}/*')",
    "SELECT * FROM glob('/**')",
    "SELECT * FROM parquet_metadata('{outside}/secret.parquet')",
    "SELECT * FROM read_duckdb('{outside}/secret.duckdb')",
    "SELECT * FROM read_text('/proc/self/environ')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_csv('{url}/leak?x=1')",
    "SELECT * FROM '{url}/leak.parquet'",
    "SELECT * FROM read_text('s3://bucket/key')",
    "SELECT getenv('ASSIZES_CANARY')",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM rows",
    "SELECT * FROM environ",
    "SELECT * FROM sql",
    "ATTACH '{outside}/secret.duckdb' AS other",
    "ATTACH '{outside}/new.duckdb' AS other",
    "COPY guest TO '{outside}/new.csv'",
    "COPY (SELECT 1) TO '{outside}/new.parquet' (FORMAT parquet)",
    "COPY guest FROM '{outside}/secret.csv'",
    "EXPORT DATABASE '{outside}/new'",
    "IMPORT DATABASE '{outside}'",
    "INSTALL httpfs",
    "LOAD '{outside}/secret.txt'",
    "FORCE INSTALL spatial FROM '{url}'",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "RESET memory_limit",
    "SELECT set_config('memory_limit', '90GB', false)",
    "PRAGMA enable_profiling",
    "PRAGMA profiling_output = '{outside}/new.json'",
    "CALL enable_logging(storage = 'file', storage_path = '{outside}/new')",
    "SELECT * FROM enable_logging(storage = 'file', storage_path = '{outside}/new')",
    "SELECT * FROM enable_profile(save_location = '{outside}/new.json')",
    "SELECT * FROM query('COPY guest TO ''{outside}/new.csv''')",
    "CREATE SECRET s (TYPE s3, KEY_ID 'x', SECRET 'y')",
    "CREATE TEMP TABLE t AS SELECT * FROM guest",
    "CREATE MACRO m() AS 1",
    "INSERT INTO guest VALUES (4, 'Eve', 0)",
    "UPDATE guest SET name = 'Eve'",
    "DELETE FROM guest",
    "DROP TABLE guest",
    "ALTER TABLE guest RENAME TO host",
    "CHECKPOINT",
    "VACUUM",
    "PREPARE p AS SELECT 1",
    "BEGIN TRANSACTION",
    "SELECT 1; SELECT 2",
    "SELECT 1; COPY guest TO '{outside}/new.csv'",
    "EXPLAIN ANALYZE SELECT 1",
)

HARMLESS = (
    ("sqlite", "SELECT sqlite_log(1, '{outside}')"),
    ("sqlite", "SELECT * FROM sqlite_master"),
    ("sqlite", "SELECT * FROM dbstat"),
    ("sqlite", "SELECT * FROM pragma_table_info('guest')"),
    ("duckdb", "SELECT * FROM duckdb_settings()"),
    ("duckdb", "SELECT * FROM duckdb_databases()"),
    ("duckdb", "SELECT * FROM pragma_database_list"),
    ("duckdb", "SELECT write_log('{outside}')"),
    ("duckdb", "SELECT current_setting('secret_directory')"),
)
"""Statements that are answered and do no harm: they only read about the private copy."""


@dataclass
class AttackSite:
    """An SQL runner over one folder, files with a canary in another folder, and a listening server."""

    runner: SandboxSqlRunner
    outside: Path
    server: socket.socket

    async def table(self, engine: str, statement: str):
        url = f"http://127.0.0.1:{self.server.getsockname()[1]}"
        text = statement.replace("{outside}", str(self.outside)).replace("{url}", url)
        result = await self.runner.look_up(Query(f"guests.{engine}", (text,)))
        assert isinstance(result, QueryResult)
        return result.tables[0]

    def files(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in sorted(self.outside.rglob("*"))}

    def was_called(self) -> bool:
        try:
            self.server.accept()[0].close()
        except BlockingIOError:
            return False
        return True


@pytest.fixture(scope="module")
def canary_in_environment() -> Iterator[None]:
    os.environ["ASSIZES_CANARY"] = CANARY
    yield
    del os.environ["ASSIZES_CANARY"]


@pytest_asyncio.fixture(scope="module")
async def site(
    tmp_path_factory: pytest.TempPathFactory, canary_in_environment: None
) -> AsyncIterator[AttackSite]:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.txt").write_text(CANARY)
    (outside / "secret.csv").write_text(f"name\n{CANARY}\n")
    sqlite_file(outside / "secret.sqlite", f"CREATE TABLE s AS SELECT '{CANARY}' AS name")
    duckdb_file(
        outside / "secret.duckdb",
        f"CREATE TABLE s AS SELECT '{CANARY}' AS name",
        f"COPY s TO '{outside}/secret.parquet'",
    )
    server = socket.create_server(("127.0.0.1", 0))
    server.setblocking(False)
    runner = SandboxSqlRunner(both(tmp_path_factory.mktemp("inside")))
    yield AttackSite(runner, outside, server)
    await runner.aclose()
    server.close()


@pytest.mark.row("002-28")
@pytest.mark.parametrize(
    ("engine", "statement"),
    [*(("sqlite", one) for one in SQLITE), *(("duckdb", one) for one in DUCKDB)],
)
async def test_an_attack_is_an_error_and_leaves_no_trace(site: AttackSite, engine, statement):
    before = site.files()
    table = await site.table(engine, statement)
    assert table.error is not None
    assert table.rows == ()
    assert CANARY not in table.error
    assert site.files() == before
    assert not site.was_called()


@pytest.mark.row("002-28")
@pytest.mark.parametrize(("engine", "statements"), [("sqlite", SQLITE), ("duckdb", DUCKDB)])
async def test_where_statements_may_write_none_reaches_out_of_its_copy(
    site: AttackSite, engine, statements
):
    before = site.files()
    runner = SandboxSqlRunner(site.runner._base, writes_allowed=True)
    writer = AttackSite(runner, site.outside, site.server)
    try:
        shown = [await writer.table(engine, statement) for statement in statements]
    finally:
        await runner.aclose()
    assert CANARY not in repr([(table.rows, table.error) for table in shown])
    assert site.files() == before
    assert not site.was_called()
    whole = (await site.table(engine, "SELECT count(*), max(name) FROM guest")).rows
    assert whole == ((3, "Cyd"),)


def test_there_are_as_many_attacks_and_normal_queries_as_promised():
    assert min(len(set(SQLITE)), len(set(DUCKDB))) >= 40
    assert 2 * len(set(NORMAL)) >= 100


@pytest.mark.parametrize("engine", ["sqlite", "duckdb"])
async def test_no_normal_query_is_blocked(site: AttackSite, engine):
    answers = [await site.table(engine, statement) for statement in NORMAL]
    strange = [one.error for one in answers if one.error]
    assert strange == []


@pytest.mark.parametrize(("engine", "statement"), HARMLESS)
async def test_what_is_answered_tells_nothing_of_the_machine(site: AttackSite, engine, statement):
    before = site.files()
    table = await site.table(engine, statement)
    told = repr(table.rows)
    assert table.error is None
    assert CANARY not in told
    assert str(site.runner._base) not in told
    assert str(Path.home()) + "/" not in told
    assert site.files() == before


@pytest.mark.row("002-28")
@pytest.mark.parametrize("engine", ["sqlite", "duckdb"])
async def test_the_fixture_is_as_it_was_after_every_attack(site: AttackSite, engine):
    table = await site.table(engine, "SELECT * FROM guest ORDER BY id")
    assert table.rows == ((1, "Ada", 10.5), (2, "Ben", None), (3, "Cyd", 7.25))


async def test_a_child_has_no_environment_and_stands_in_an_empty_folder(site: AttackSite):
    await site.table("sqlite", "SELECT 1")
    (pid, *_) = site.runner.pids
    names = {
        item.split("=")[0]
        for item in Path(f"/proc/{pid}/environ").read_text().split("\x00")
        if item
    }
    folder = Path(f"/proc/{pid}/cwd").resolve()
    assert names <= {"LC_CTYPE"}
    assert list(folder.iterdir()) == []
    assert folder not in (Path.cwd(), Path.home())


async def test_a_child_never_imports_the_rest_of_the_project(site: AttackSite):
    await site.table("duckdb", "SELECT 1")
    heavy = ("prefect", "litellm", "polars", "pydantic", "_pydantic_core")
    assert site.runner.pids
    for pid in site.runner.pids:
        mapped = Path(f"/proc/{pid}/maps").read_text()
        assert [name for name in heavy if name in mapped] == []
