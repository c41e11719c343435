"""Stores of evaluation rows: a DuckDB file or a lake of Parquet files, behind one protocol."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import StoreBusy, StoreError
from assizes.tasks.store.protocol import Store
from assizes.tasks.store.record import RunRecord

if TYPE_CHECKING:
    import polars as pl

    from assizes.tasks.store.queries.query_limits import QueryLimits
    from assizes.tasks.store.rebuild import RebuildResult

__all__ = [
    "RunRecord",
    "Store",
    "existing_store",
    "indexed_runs",
    "open_store",
    "query_store",
    "rebuild_store",
    "store_file",
]

MoreRows = Callable[[Store, "str | None"], "pl.DataFrame"]
"""Reads rows that are kept beside a store, about one run or about all (`None`)."""

_DUCKDB: Final = "duckdb:///"  # begins the URI of a DuckDB store; the path of its file follows


def store_file(uri: str) -> Path | None:
    """The DuckDB file that a store's URI names; None for a store of Parquet files."""
    return Path(uri.removeprefix(_DUCKDB)).expanduser() if uri.startswith(_DUCKDB) else None


def indexed_runs(config: StoreConfig) -> frozenset[str]:
    """The ids of runs in the index beside a DuckDB file, also while another process has the file.

    The index knows what the store held when its runs were last listed; a lake has none beside it.
    """
    from assizes.tasks.store.listing.run_index import indexed_run_ids
    from assizes.tasks.store.listing.tables import DerivedTables

    file = store_file(config.uri)
    if file is None:
        return frozenset()
    return indexed_run_ids(DerivedTables.beside(file, in_memory=False))


def open_store(config: StoreConfig | str, *, writing: bool = False) -> Store:
    """Open the store that a configuration names, or a URI or path: `open_store("assizes.duckdb")`.

    `duckdb:///file` is a DuckDB file relative to the working directory, `duckdb:////file` an
    absolute one; any other URI is a folder or a bucket of Parquet files. Opening for writing makes
    the store where there is none.

    Raises:
        StoreBusy: when another process has the DuckDB file open.
        SchemaVersion: when the store has the schema of another version of this program.
        NoStore: when there is no store to read.
        StoreError: when the store cannot be opened.
    """
    if isinstance(config, str):
        config = StoreConfig(uri=config)
    uri = config.uri
    # Each kind brings its own packages; reading a DuckDB file must not wait for fsspec to load.
    if uri.startswith("duckdb:"):
        from assizes.tasks.store.warehouse import DuckDBStore

        return DuckDBStore(uri, _duckdb_path(uri), writing=writing)
    from assizes.tasks.store.bucket import local_path, objects_at
    from assizes.tasks.store.lake import ParquetStore

    path = None if writing else local_path(uri)
    if path is not None and os.path.isfile(path):  # noqa: PTH113  # pathlib raises for long names
        raise StoreError(
            f"{uri} is a file and no store; accepted: a .duckdb file, a folder or a URI; [store] uri, "
            "or --store, names another place"
        )
    return ParquetStore(uri, objects_at(uri, config.storage_options), writing=writing)


def existing_store(config: StoreConfig) -> Store:
    """Open an existing store for writing; no store is made.

    Raises:
        NoStore: when there is no store.
        StoreBusy: when another process still has the DuckDB file open after a few seconds.
    """
    with suppress(StoreBusy):  # the store exists, and opening it for writing waits for its writer
        open_store(config).close()
    return open_store(config, writing=True)


def query_store(
    config: StoreConfig,
    statement: str,
    run_id: str | None = None,
    more: Mapping[str, MoreRows] = MappingProxyType({}),
    *,
    limits: QueryLimits | None = None,
    verify: bool = False,
) -> pl.DataFrame:
    """The rows of one SELECT over a store, or over one of its runs; nothing is written.

    `more` gives rows of tables that are kept elsewhere, by the name of the table; those of
    run_metrics are shown beside the stored ones. Each function takes the store and `run_id`, and is
    called only for a statement that names its table. Without `limits` those of `QueryLimits()` hold.
    With `verify` the parts of a lake are hashed before they are read.

    Raises:
        ConfigurationError: when the statement is no SELECT, DuckDB refuses it, or it takes more time
            or memory than `limits` allow.
        StoreError: when the store cannot be read.
    """
    from assizes.tasks.store.queries.query_limits import QueryLimits
    from assizes.tasks.store.sql import StoreQuery, run_query

    with open_store(config) as store:
        words = statement.lower()
        rows = {table: read(store, run_id) for table, read in more.items() if table in words}
        query = StoreQuery(statement, limits or QueryLimits(), rows, verify)
        return run_query(store, query, run_id)


def rebuild_store(config: StoreConfig, copy: StoreConfig | None) -> RebuildResult:
    """Build the DuckDB file of a store again, from a Parquet `copy` or else from its readable rows.

    Raises:
        StoreError: when the store is no DuckDB file, the copy is no Parquet store, or there is
            nothing to rebuild.
    """
    from assizes.tasks.store.lake import ParquetStore
    from assizes.tasks.store.rebuild import rebuild

    if not config.uri.startswith("duckdb:"):
        raise StoreError(
            f"{config.uri} is a Parquet store, of which nothing is derived; what is missing there "
            "is named when it is read, and restored from a copy of the files"
        )
    if copy is None:
        return rebuild(config.uri, _duckdb_path(config.uri), None)
    with open_store(copy) as source:
        if isinstance(source, ParquetStore):
            return rebuild(config.uri, _duckdb_path(config.uri), source)
    raise StoreError(f"{copy.uri} is no Parquet store; accepted: a folder, s3://bucket/prefix")


def _duckdb_path(uri: str) -> Path:
    file = Path(uri.removeprefix(_DUCKDB)).expanduser()
    if not uri.startswith(_DUCKDB) or file == Path():  # nothing behind `duckdb:///`
        raise StoreError(
            f"[store] uri {uri!r} names no file; accepted: duckdb:///file.duckdb in the working "
            "directory, duckdb:////path/to/file.duckdb anywhere"
        )
    return file
