"""Stores of evaluation rows: a DuckDB file or a lake of Parquet files, behind one protocol."""

from assizes.tasks.store.opening import existing_store, open_store, query_store, rebuild_store
from assizes.tasks.store.protocol import Store
from assizes.tasks.store.record import RunRecord

__all__ = [
    "RunRecord",
    "Store",
    "existing_store",
    "open_store",
    "query_store",
    "rebuild_store",
]
