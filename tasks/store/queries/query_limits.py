"""The bounds of one query over a store: which statements run, what they read, time and memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import polars as pl
from duckdb import DuckDBPyConnection as Connection

from assizes.judge.errors import ConfigurationError
from assizes.tasks.store.queries.query_types import frame_of
from assizes.tasks.store.record import ArrowView

MAX_STATEMENT: Final = 100_000  # characters of a statement

_ACCEPTED: Final = "accepted: one SELECT"
_EXPLAIN: Final = "EXPLAIN "
_RESULT: Final = "_rows_of_the_query"
_READ_NODES: Final = frozenset(
    {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
)
"""The nodes of a parsed query that only read, by DuckDB's names. DuckDB also parses `WITH x AS (COPY
... TO ...) SELECT` as a SELECT.
"""

_LOCKS: Final = (
    "autoload_known_extensions=false",
    "allow_community_extensions=false",
    "python_enable_replacements=false",  # no variable of this program is a table
    "max_temp_directory_size='0KB'",  # a query that needs more memory fails; nothing is written
    "enable_external_access=false",  # no file, no URL, no ATTACH
    "lock_configuration=true",  # the last: no statement undoes the others
)


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """What one query may take."""

    time_s: float = 300.0  # seconds of wall clock
    memory_mb: int = 4_000  # of DuckDB, in 10^6 bytes; the rows of the result are among them


def checked_query(con: Connection, statement: str) -> str:
    """The text of a statement that only reads: one SELECT, perhaps behind EXPLAIN [ANALYZE].

    Raises:
        ConfigurationError: when the statement is of another kind, at any depth.
        duckdb.Error: when DuckDB cannot parse the statement.
    """
    if len(statement) > MAX_STATEMENT:
        raise ConfigurationError(
            f"the query has {len(statement):,} characters; accepted: at most {MAX_STATEMENT:,}"
        )
    kinds = _statement_kinds(con, statement)
    begin = ""
    if kinds == ["EXPLAIN"]:
        begin, statement = _split_explain(statement)
        kinds = _statement_kinds(con, statement)
    if kinds != ["SELECT"]:
        raise ConfigurationError(
            f"the query holds {begin}{', '.join(kinds) or 'no statement'}; {_ACCEPTED}"
        )
    if writing := sorted(_nodes(_parsed_query(con, statement)) - _READ_NODES):
        inner = ", ".join(node.removesuffix("_NODE").removesuffix("_QUERY") for node in writing)
        raise ConfigurationError(f"the query holds {inner} within a SELECT; {_ACCEPTED}")
    return begin + statement


def lock_connection(con: Connection, limits: QueryLimits, files: Sequence[str]) -> None:
    """Bound a connection for good: its memory, and of all files only `files` can be read."""
    names = ", ".join("'" + path.replace("'", "''") + "'" for path in files)
    con.execute(f"set allowed_paths=[{names}]")
    con.execute(f"set memory_limit='{limits.memory_mb}MB'")
    for setting in _LOCKS:
        con.execute(f"set {setting}")


def run_within(con: Connection, query: str, limits: QueryLimits) -> pl.DataFrame:
    """The rows of a query that `checked_query` returned.

    Raises:
        ConfigurationError: when the query takes more time or memory than the limits.
        duckdb.Error: when DuckDB refuses the query.
    """
    timer = threading.Timer(limits.time_s, con.interrupt)
    timer.daemon = True
    timer.start()
    try:
        if not query.startswith(_EXPLAIN):  # what that returns is short, and makes no table
            # The rows of a table count within DuckDB's memory limit; those of a result do not.
            con.execute(f"create temp table {_RESULT} as {query}")
            return frame_of(con, _RESULT)
        return pl.DataFrame(ArrowView(con.sql(query)))
    except duckdb.InterruptException as error:
        raise ConfigurationError(
            f"the query ran for {limits.time_s:g} s and was ended; ask for less, or allow more with "
            "--timeout SECONDS"
        ) from error
    except duckdb.OutOfMemoryException as error:
        raise ConfigurationError(
            f"the query takes more than {limits.memory_mb:,} MB of memory; ask for less (LIMIT, fewer "
            "columns), or allow more with --memory MB"
        ) from error
    finally:
        timer.cancel()


def _statement_kinds(con: Connection, statement: str) -> list[str]:
    parsed = con.extract_statements(statement)  # by DuckDB's own parser
    return [str(each.type).rpartition(".")[2] for each in parsed]


def _split_explain(statement: str) -> tuple[str, str]:
    """A statement `EXPLAIN ...` as its begin, written anew, and the statement that it explains."""
    tokens = [
        (at, kind) for at, kind in duckdb.tokenize(statement) if kind != duckdb.token_type.comment
    ]
    words = [_first_word(statement[at:]) for at, _ in tokens[:2]]
    is_analyzed = words[1:] in (["analyze"], ["analyse"])
    behind = 2 if is_analyzed else 1
    rest = statement[tokens[behind][0] :] if len(tokens) > behind else ""
    return _EXPLAIN + ("ANALYZE " if is_analyzed else ""), rest


def _first_word(text: str) -> str:
    return text.split(maxsplit=1)[0].partition("(")[0].partition("/")[0].partition("-")[0].lower()


def _parsed_query(con: Connection, statement: str) -> Any:
    """The parse tree of a SELECT as JSON values."""
    ((text,),) = con.execute("select json_serialize_sql(?)", [statement]).fetchall()
    try:
        parsed = json.loads(text)
    except RecursionError as error:
        raise ConfigurationError("the query is nested too deeply") from error
    if parsed["error"]:
        raise ConfigurationError(f"the query cannot be run: {parsed['error_message']}")
    return parsed


def _nodes(tree: Any) -> set[str]:
    """The kinds of all nodes of a parse tree, as DuckDB names them."""
    return {value["type"] for value in _dicts(tree) if str(value.get("type")).endswith("_NODE")}


def _dicts(tree: Any) -> Iterator[dict[str, Any]]:
    waiting = [tree]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
