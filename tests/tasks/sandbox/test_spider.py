"""Questions of the Spider benchmark through the SQL runner: accuracy as published, no false block."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import duckdb
import pytest
import pytest_asyncio

from assizes.judge.protocol import Query, QueryResult
from assizes.tasks.sandbox.sql_runner import SandboxSqlRunner
from benchmarks.spider import EMPTY_GOLDS, KNOWN, Measured, measured

pytestmark = pytest.mark.data

MORE_QUERIES = (
    "WITH c AS (SELECT * FROM car_names) SELECT count(*) FROM c",
    "SELECT Make, rank() OVER (ORDER BY MakeId) FROM car_names LIMIT 5",
    "SELECT lower(Make) || '; drop table x' FROM car_names LIMIT 1;",
    "VALUES (1, 'attach'), (2, 'pragma')",
)


@pytest.fixture(scope="module")
def spider(data: Path) -> Path:
    return data / "spider_dev_subset"


@pytest_asyncio.fixture(scope="module")
async def found(spider: Path) -> Measured:
    return await measured(spider)


@pytest.mark.parametrize("system", sorted(KNOWN))
async def test_execution_accuracy_is_the_known_one_strict_and_with_columns_in_any_order(
    found: Measured, system
):
    strict, permuted = found.strict[system], found.permuted[system]
    accuracy = tuple(round(sum(passed) / len(passed), 3) for passed in (strict, permuted))
    assert accuracy == KNOWN[system]


async def test_every_prediction_was_run_within_the_limit(found: Measured):
    counts = {system: len(passed) for system, passed in found.strict.items()}
    assert counts == {
        "chatgpt_c3": 99,
        "dail_gpt4": 98,
        "dail_gpt4_self_consistency": 98,
        "falcon": 99,
        "graphix": 98,
        "llama": 99,
    }
    assert found.slowest_s < 5


async def test_the_empty_gold_results_are_flagged(found: Measured):
    assert len(found.empty_golds) == EMPTY_GOLDS
    assert found.weak >= found.empty_golds


async def test_no_normal_query_is_blocked_on_sqlite(spider: Path):
    questions = questions_in(spider)
    queries = [(one["db_id"], one["gold_sql"]) for one in questions]
    queries += [("car_1", sql) for sql in MORE_QUERIES]
    runner = SandboxSqlRunner(spider / "db")
    try:
        answers = [await runner.look_up(Query(f"{db}.sqlite", (sql,))) for db, sql in queries]
    finally:
        await runner.aclose()
    assert len(answers) >= 100
    assert [one for one in answers if not isinstance(one, QueryResult) or one.tables[0].error] == []


@pytest.mark.full
async def test_no_normal_query_is_blocked_on_duckdb(spider: Path, tmp_path: Path):
    questions = questions_in(spider)
    for name in {one["db_id"] for one in questions}:
        as_duckdb(spider / "db" / f"{name}.sqlite", tmp_path / f"{name}.duckdb")
    by_database: dict[str, list[str]] = {"car_1": list(MORE_QUERIES)}
    for one in questions:
        by_database.setdefault(one["db_id"], []).append(one["gold_sql"])
    runner = SandboxSqlRunner(tmp_path)
    try:
        answers = [
            await runner.look_up(Query(f"{name}.duckdb", tuple(statements)))
            for name, statements in sorted(by_database.items())
        ]
    finally:
        await runner.aclose()
    errors = [table.error or "" for one in answers for table in one.tables]
    assert len(errors) >= 100
    # The dialects differ (types, grouping); what counts is that nothing was refused.
    strangers = ("Binder Error", "Conversion Error", "Catalog Error", "Parser Error")
    assert [text for text in errors if text and not text.startswith(strangers)] == []
    assert sum(not text for text in errors) >= 60


def questions_in(spider: Path) -> list[dict[str, str]]:
    text = (spider / "questions.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def as_duckdb(source: Path, target: Path) -> None:
    """Copy a SQLite file to DuckDB; a number in a text column of SQLite stays text."""
    lite = sqlite3.connect(source)
    lite.text_factory = lambda text: text.decode("utf-8", "replace")
    names = [name for (name,) in lite.execute("SELECT name FROM sqlite_master WHERE type='table'")]
    with duckdb.connect(str(target)) as duck:
        duck.execute("BEGIN")
        for name in names:
            cursor = lite.execute(f'SELECT * FROM "{name}"')
            rows = cursor.fetchall()
            types = [
                column_type([row[at] for row in rows]) for at in range(len(cursor.description))
            ]
            columns = ", ".join(
                f'"{column[0]}" {kind}'
                for column, kind in zip(cursor.description, types, strict=True)
            )
            duck.execute(f'CREATE TABLE IF NOT EXISTS "{name}" ({columns})')
            if rows:
                duck.executemany(
                    f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(types))})', rows
                )
        duck.execute("COMMIT")
    lite.close()


def column_type(values: list[object]) -> str:
    kinds = {type(value) for value in values if value is not None}
    return (
        "BIGINT" if kinds == {int} else "DOUBLE" if kinds <= {int, float} and kinds else "VARCHAR"
    )
