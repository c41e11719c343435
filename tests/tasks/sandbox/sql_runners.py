"""A clerk asked for tables."""

from __future__ import annotations

from assizes.judge.protocol import Query, QueryResult, Table
from assizes.tasks.sandbox.sql_runner import SandboxClerk


async def tables(clerk: SandboxClerk, database: str, *statements: str) -> tuple[Table, ...]:
    found = await clerk.look_up(Query(database, statements))
    assert isinstance(found, QueryResult), found
    return found.tables
