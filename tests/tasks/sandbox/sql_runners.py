"""Asks an SQL runner for the tables of some statements."""

from __future__ import annotations

from assizes.judge.protocol import Query, QueryResult, SqlTable
from assizes.tasks.sandbox.sql_runner import SandboxSqlRunner


async def tables(runner: SandboxSqlRunner, database: str, *statements: str) -> tuple[SqlTable, ...]:
    result = await runner.look_up(Query(database, statements))
    assert isinstance(result, QueryResult), result
    return result.tables
