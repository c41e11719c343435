"""What one query over a store can reach: its rows; no other file, no byte written, no endless time."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import pytest

from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import ConfigurationError
from assizes.tasks.store import query_store
from assizes.tasks.store.queries.query_limits import QueryLimits
from tests.command import assizes
from tests.tasks.store.test_sql import fill

COUNT = "select count(*) from scores"
ENDLESS = "with recursive a as (select 1 x union all select x + 1 from a) select count(*) from a"
WRITING = (
    "explain analyze copy (select 1) to '{file}'",
    "explain /* a */ analyze -- b\n copy (select 1) to '{file}'",
    "EXPLAIN (FORMAT json, ANALYZE) copy (select 1) to '{file}'",
    "explain analyze create table x as select 1",
    "explain analyze delete from scores",
    "with x as (copy (select 1 as a) to '{file}') select * from x",
    "select * from (with x as (copy (select 1 as a) to '{file}') select * from x)",
    "explain analyze with x as (copy (select 1) to '{file}') select 1",
    "with x as (insert into scores (run_id) values ('r-1') returning run_id) select * from x",
    "with x as (delete from scores returning run_id) select * from x",
)
READING = (
    "select content from read_text('{file}')",
    "select * from read_csv('{file}')",
    "select * from glob('{folder}/*')",
    "from '{file}'",
    "select * from query('from read_text(''{file}'')')",
)


@pytest.fixture(params=["duckdb", "lake"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> StoreConfig:
    uri = f"duckdb:///{tmp_path}/s.duckdb" if request.param == "duckdb" else f"{tmp_path}/lake"
    fill(StoreConfig(uri=uri))
    return StoreConfig(uri=uri)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("statement", WRITING)
def test_no_statement_writes_not_even_into_files_of_the_store(
    store: StoreConfig, tmp_path: Path, statement: str
):
    own = next(path for path in contents(tmp_path) if path.suffix in (".duckdb", ".parquet"))
    before = contents(tmp_path)
    for target in (own, tmp_path / "new.csv"):
        with pytest.raises(ConfigurationError, match=r"^the query (holds|cannot be run)"):
            # The table is named too: a view of it would read the files of the lake.
            query_store(store, statement.format(file=target) + f" -- {COUNT}")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("statement", READING)
def test_no_statement_reads_a_file_beside_the_store(
    store: StoreConfig, tmp_path: Path, statement: str
):
    secret = tmp_path / "secret.csv"
    secret.write_text("a,b\n1,2\n")
    with pytest.raises(ConfigurationError, match=r"^the query cannot be run"):
        query_store(store, statement.format(file=secret, folder=tmp_path))


def test_a_query_without_end_is_ended_and_the_message_says_how_to_allow_more(store: StoreConfig):
    began = time.monotonic()
    with pytest.raises(ConfigurationError, match=r"^the query ran for 0\.5 s .*--timeout"):
        query_store(store, ENDLESS, limits=QueryLimits(time_s=0.5))
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    "statement",
    ["select range, range || 'abc' from range(9000000)", "select list(range) from range(30000000)"],
)
def test_a_query_takes_no_more_memory_than_it_may(store: StoreConfig, statement: str):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ConfigurationError, match=r"more than 100 MB of memory.*--memory"):
        query_store(store, statement, limits=QueryLimits(memory_mb=100))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kB


@pytest.mark.parametrize(
    "statement",
    [
        f"explain {COUNT}",
        f"explain analyze {COUNT}",
        f"EXPLAIN/* why */ANALYZE {COUNT}",
        f"with a as ({COUNT}) select * from a union all select 2",
        "describe scores",
        "summarize select value from scores",
        "values (1, 'copy')",
        "select 'COPY_QUERY_NODE' as type",
        "from scores limit 1",
        "with recursive a as (select 1 x union all select x + 1 from a where x < 9) select * from a",
    ],
)
def test_a_statement_that_only_reads_is_run(store: StoreConfig, statement: str):
    assert query_store(store, statement).height > 0


def test_the_command_takes_the_limits(tmp_path: Path):
    fill(StoreConfig(uri=f"{tmp_path}/lake"))
    done = assizes("sql", "lake", ENDLESS, "--timeout", "0.3", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("assizes: the query ran for 0.3 s and was ended")
