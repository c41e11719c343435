"""[store], [cache] and [report]: where rows, paid replies and reports are kept."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from assizes.judge.config.table import ConfigTable


class StoreConfig(ConfigTable):
    """[store]: where rows are stored, `duckdb:///file`, or a folder or s3:// URI for Parquet."""

    uri: str = "duckdb:///assizes.duckdb"
    storage_options: dict[str, Any] = Field(default_factory=dict)


class CacheConfig(ConfigTable):
    """[cache]: where paid replies are cached, as any fsspec URI."""

    uri: str = ".assizes/replies"
    use: Literal["read_write", "refresh", "replay_only"] = Field(
        default="read_write",
        description="refresh: ask anew what other runs were answered; replay_only: ask no model",
    )
    storage_options: dict[str, Any] = Field(default_factory=dict)


class ReportConfig(ConfigTable):
    """[report]: where reports are written, each run in a folder of its own."""

    uri: str = "reports"
    metrics: str | None = Field(
        default=None,
        description="folder of a Prometheus textfile collector; each run replaces its file there",
    )
    storage_options: dict[str, Any] = Field(default_factory=dict)
