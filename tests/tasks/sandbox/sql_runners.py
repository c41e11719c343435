"""A clerk asked for tables."""

from __future__ import annotations

from assizes.judge.protocol import Query, QueryResult, SqlTable
from assizes.tasks.sandbox.sql_runner import SandboxSqlRunner


async def tables(clerk: SandboxSqlRunner, database: str, *statements: str) -> tuple[SqlTable, ...]:
    found = await clerk.look_up(Query(database, statements))
    assert isinstance(found, QueryResult), found
    return found.tables
