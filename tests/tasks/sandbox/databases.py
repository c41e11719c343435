"""Small fixture databases of both engines, and what an attacker would like to have."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import duckdb

CANARY = "canary-7f3a"
"""A text in every file around the fixtures and in the parent's environment, never in a fixture."""

SCHEMA = "CREATE TABLE guest (id INTEGER, name VARCHAR, paid DOUBLE)"
ROWS = "INSERT INTO guest VALUES (1, 'Ada', 10.5), (2, 'Ben', NULL), (3, 'Cyd', 7.25)"


def sqlite_file(path: Path, *statements: str) -> Path:
    """Make a SQLite file by some statements."""
    connection = sqlite3.connect(path)
    for statement in statements or (SCHEMA, ROWS):
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path


def duckdb_file(path: Path, *statements: str) -> Path:
    """Make a DuckDB file by some statements."""
    with duckdb.connect(str(path)) as connection:
        for statement in statements or (SCHEMA, ROWS):
            connection.execute(statement)
    return path


def both(folder: Path) -> Path:
    """A folder with `guests.sqlite` and `guests.duckdb`, three rows each."""
    sqlite_file(folder / "guests.sqlite")
    duckdb_file(folder / "guests.duckdb")
    return folder
