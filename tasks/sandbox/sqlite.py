"""SQLite in the sandbox: runs one statement at a time, each action checked by an authorizer."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from contextlib import suppress
from itertools import takewhile
from typing import Any

from assizes.tasks.sandbox.child import Caps, State, effect, refusal, result, row_text

_READS = frozenset((sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE))
_WRITES = frozenset(
    (
        *(sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE),
        *(sqlite3.SQLITE_CREATE_TABLE, sqlite3.SQLITE_CREATE_INDEX, sqlite3.SQLITE_CREATE_VIEW),
        *(sqlite3.SQLITE_DROP_TABLE, sqlite3.SQLITE_DROP_INDEX, sqlite3.SQLITE_DROP_VIEW),
        *(sqlite3.SQLITE_ALTER_TABLE, sqlite3.SQLITE_REINDEX),
    )
)
_CHANGES = {"insert", "replace", "update", "delete", "create", "alter", "drop"}
_OTHERS = {
    *("analyze", "attach", "begin", "commit", "detach", "end", "explain", "pragma", "reindex"),
    *("release", "rollback", "savepoint", "vacuum"),
}
"""First words of statements that are refused. Any other word but SELECT, WITH and VALUES is a syntax
error, which SQLite explains best.
"""

_SCHEMA_PRAGMAS = frozenset(
    ("table_info", "table_xinfo", "table_list", "index_list", "index_info", "foreign_key_list")
)
_FILE_PRAGMAS = frozenset(("data_version", "page_size"))  # pragmas that full-text tables read

_SCHEMA = frozenset(("sqlite_master", "sqlite_temp_master"))
_UNSAFE_FUNCTIONS = frozenset(("load_extension", "fts3_tokenizer"))
"""`load_extension` loads code; `fts3_tokenizer` returns and takes addresses in memory."""

_LIMITS = (  # as sqlite.org/security.html advises, with wider values
    (sqlite3.SQLITE_LIMIT_LENGTH, 10_000_000),  # bytes of a text, a blob or a row
    (sqlite3.SQLITE_LIMIT_COLUMN, 2_000),
    (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 500),  # SQLite recurses over expressions
    (sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 200),  # SELECTs joined by UNION and the like
    (sqlite3.SQLITE_LIMIT_FUNCTION_ARG, 100),
    (sqlite3.SQLITE_LIMIT_ATTACHED, 0),  # no ATTACH: no other file
    (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000),  # bytes; matching can take quadratic time
    (sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 50),  # triggers that set off each other
    (sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0),
)


class SQLiteDatabase:
    """An open SQLite file: read-only, or copied into memory when statements may write."""

    faults: tuple[type[Exception], ...] = (
        sqlite3.Error,
        sqlite3.Warning,
        MemoryError,
        ValueError,
        OverflowError,
    )

    def __init__(self, path: str, *, writes: bool, caps: Caps) -> None:
        self._caps = caps
        self._writes = writes
        self._connection = _open_connection(path, writes=writes)
        # A text in the file need not be valid UTF-8.
        self._connection.text_factory = lambda text: text.decode("utf-8", "replace")
        self._read_schema()
        heap = f"hard_heap_limit={caps.engine_mb * 1_000_000}"
        # No temporary files; the second checks the pages of a crafted file.
        for pragma in ("temp_store=MEMORY", "cell_size_check=ON", heap):
            self._connection.execute(f"PRAGMA {pragma}")
        for limit, value in _LIMITS:
            self._connection.setlimit(limit, value)
        self._connection.set_authorizer(self._authorize_action)

    def _read_schema(self) -> None:
        """Open every virtual table now, before statements run."""
        # Later no file descriptor can be opened, and the authorizer would refuse the statements
        # that write, which R-trees prepare.
        tables = self._connection.execute(
            "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE%'"
        ).fetchall()
        for (name,) in tables:
            with suppress(sqlite3.Error):
                self._connection.execute(f"SELECT 1 FROM {_quote_name(name)} LIMIT 0")

    def _authorize_action(self, action: int, first: str | None, second: str | None, *_: Any) -> int:
        """SQLite's answer for one action of a statement; the arguments depend on the action."""
        name = (first or "").lower()
        if action == sqlite3.SQLITE_FUNCTION:
            allowed = (second or "").lower() not in _UNSAFE_FUNCTIONS
        elif action == sqlite3.SQLITE_PRAGMA:
            allowed = name in _SCHEMA_PRAGMAS or (name in _FILE_PRAGMAS and second is None)
        elif action == sqlite3.SQLITE_UPDATE and name in _SCHEMA:
            # json_each() and other table functions declare their columns by this action; no
            # statement reaches it, and the file is opened read-only.
            allowed = True
        else:
            allowed = action in _READS or (self._writes and action in _WRITES)
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    def run(self, sql: str) -> dict[str, Any]:
        """The rows of a query, or the effect of a statement that writes.

        Raises:
            RefusedStatement: for a statement of any other kind.
        """
        deadline = time.monotonic() + self._caps.time_s
        # Looks at the clock each 5,000 instructions of SQLite's virtual machine.
        self._connection.set_progress_handler(lambda: time.monotonic() > deadline, 5_000)
        word = first_word(sql)
        if word in (_OTHERS if self._writes else _OTHERS | _CHANGES):
            raise refusal(writes=self._writes)
        if word in _CHANGES or (self._writes and word == "with"):  # WITH may begin a change too
            return self._change_result(sql)
        answer = self._query_result(sql)
        if not answer["columns"]:  # such as an empty text, or a lone comment
            raise refusal(writes=self._writes)
        return answer

    def _change_result(self, sql: str) -> dict[str, Any]:
        """The effect of a statement that may write; the rows of one that only read."""
        before = self._state()
        answer, after = self._query_result(sql), self._state()
        if answer["columns"] and before == after:
            return answer
        return effect(before, after, self._caps)

    def _query_result(self, sql: str) -> dict[str, Any]:
        cursor = self._connection.execute(sql)
        names = [column[0] for column in cursor.description or ()]
        return result(names, iter(cursor), self._caps)

    def _state(self) -> State:
        """All tables and rows of the database, to see what a statement changes."""
        state: State = Counter()
        tables = self._connection.execute(
            "SELECT name, type, coalesce(sql, '') FROM sqlite_master "
            "WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        ).fetchall()
        for name, kind, sql in tables:
            state[name, sql] += 1
            if kind == "table":
                rows = self._connection.execute(f"SELECT * FROM {_quote_name(name)}")
                state.update((name, row_text(row, self._caps)) for row in rows)
        return state

    def fault(self, error: Exception) -> tuple[str, bool]:
        """The message for an error, and whether this process must be ended."""
        text = str(error)
        if text == "interrupted":
            return f"took longer than {self._caps.time_s:g} s", False
        if "one statement at a time" in text or text == "not authorized":
            return str(refusal(writes=self._writes)), False
        if isinstance(error, MemoryError):
            return "took more memory than allowed", True
        return text, False

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _open_connection(path: str, *, writes: bool) -> sqlite3.Connection:
    # Immutable: SQLite looks for no journal and takes no lock.
    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    address = f"file:{quoted}?mode=ro&immutable=1"
    file = sqlite3.connect(address, uri=True, isolation_level=None)
    if not writes:
        return file
    memory = sqlite3.connect(":memory:", isolation_level=None)
    file.backup(memory)
    file.close()
    return memory


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def first_word(sql: str) -> str:
    """The first word of a statement in lower case, after blanks and comments; may be empty."""
    rest = sql.lstrip()
    while rest.startswith(("--", "/*")):
        end = "\n" if rest.startswith("--") else "*/"
        rest = rest.partition(end)[2].lstrip()
    return "".join(takewhile(str.isalpha, rest)).lower()
