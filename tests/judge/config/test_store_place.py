"""[store] uri: what is taken for a DuckDB file, and what for a place of Parquet files."""

from __future__ import annotations

import pytest

from assizes.judge.config.run import StoreConfig


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("x.duckdb", "duckdb:///x.duckdb"),
        ("./runs/x.db", "duckdb:///./runs/x.db"),
        ("/data/x.ddb", "duckdb:////data/x.ddb"),
        ("~/x.duckdb", "duckdb:///~/x.duckdb"),
        ("file:///data/x.duckdb", "duckdb:////data/x.duckdb"),
        ("duckdb:///x.duckdb", "duckdb:///x.duckdb"),
        ("duckdb:///rows", "duckdb:///rows"),
        ("rows", "rows"),
        ("file:///data/rows", "file:///data/rows"),
        ("s3://bucket/x.duckdb", "s3://bucket/x.duckdb"),
    ],
)
def test_a_path_is_taken_where_a_uri_is_expected(written: str, meant: str):
    assert StoreConfig(uri=written).uri == meant
    assert StoreConfig(storage_options={"anon": True}).at(written) == StoreConfig(
        uri=meant, storage_options={"anon": True}
    )
    assert StoreConfig(uri=meant).uri == meant, "a stored configuration stays what it is"
