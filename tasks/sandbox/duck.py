"""DuckDB in the sandbox: runs one statement at a time, with DuckDB's configuration locked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb

from assizes.tasks.sandbox.child import Caps, State, effect, refusal, result, row_text

_KINDS = duckdb.StatementType
_QUERIES = (_KINDS.SELECT,)
_CHANGES = (  # only on a copy in memory
    *(_KINDS.INSERT, _KINDS.UPDATE, _KINDS.DELETE, _KINDS.MERGE_INTO),
    *(_KINDS.CREATE, _KINDS.DROP, _KINDS.ALTER),
)
_LOCKS = (
    "TimeZone='UTC'",  # the same times on every machine
    "autoinstall_known_extensions=false",  # no code from the network
    "autoload_known_extensions=false",  # nor from the disk
    "allow_community_extensions=false",
    "python_enable_replacements=false",  # no variable of Python is a table
    "max_temp_directory_size='0KB'",  # no spilling to the disk
    "enable_external_access=false",  # no file, no URL, no ATTACH
    "lock_configuration=true",  # the last: no statement undoes the others
)
_EVERY_TYPE = (
    "SELECT TIMESTAMPTZ '2000-01-01 00:00:00+00', TIMESTAMP '2000-01-01', DATE '2000-01-01', "
    "TIME '00:00', INTERVAL 1 DAY, uuid(), 1.5::DECIMAL(9, 2), 'x'::BLOB"
)
"""Reading a value of each type imports the Python modules for it now: while statements run, no file
can be opened.
"""


class DuckDBDatabase:
    """An open DuckDB file: read-only, or copied into memory when statements may write."""

    faults: tuple[type[Exception], ...] = (
        duckdb.Error,
        MemoryError,
        RuntimeError,
        ValueError,
        ArithmeticError,
    )

    def __init__(self, path: str, *, writes: bool, caps: Caps) -> None:
        self._caps = caps
        self._writes = writes
        self._connection = duckdb.connect(
            ":memory:" if writes else path,
            read_only=not writes,
            config={"threads": 1, "memory_limit": f"{caps.engine_mb}MB", "temp_directory": ""},
        )
        if writes:
            quoted = path.replace("'", "''")
            self._connection.execute(f"ATTACH '{quoted}' AS fixture (READ_ONLY)")
            self._connection.execute("COPY FROM DATABASE fixture TO memory")
            self._connection.execute("DETACH fixture")
        for setting in _LOCKS:
            self._connection.execute(f"SET {setting}")
        self._connection.execute(_EVERY_TYPE).fetchall()

    def run(self, sql: str) -> dict[str, Any]:
        """The rows of a query, or the effect of a statement that writes.

        Raises:
            RefusedStatement: for a statement of any other kind, or several statements in one text.
        """
        statements = self._connection.extract_statements(sql)  # by DuckDB's own parser
        allowed = _QUERIES + _CHANGES if self._writes else _QUERIES
        if len(statements) != 1 or statements[0].type not in allowed:
            raise refusal(writes=self._writes)
        if statements[0].type in _QUERIES:
            self._connection.execute(statements[0])
            names = [column[0] for column in self._connection.description or ()]
            return result(names, self._rows(), self._caps)
        before = self._state()
        self._connection.execute(statements[0])
        return effect(before, self._state(), self._caps)

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        while batch := self._connection.fetchmany(1_000):  # as Python values, a batch at a time
            yield from batch

    def _state(self) -> State:
        """All tables and rows of the database, to see what a statement changes."""
        state: State = Counter()
        tables = self._connection.execute(
            "SELECT schema_name, table_name, sql FROM duckdb_tables() WHERE NOT internal"
        ).fetchall()
        for schema, name, sql in tables:
            state[name, sql] += 1  # the table itself, for CREATE, ALTER and DROP
            quoted = ".".join('"' + part.replace('"', '""') + '"' for part in (schema, name))
            self._connection.execute(f"SELECT * FROM {quoted}")
            state.update((name, row_text(row, self._caps)) for row in self._rows())
        return state

    def fault(self, error: Exception) -> tuple[str, bool]:
        """The message for an error, and whether this process must be ended."""
        if isinstance(error, duckdb.OutOfMemoryException | MemoryError):
            return "took more memory than allowed", True
        return str(error), False

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
