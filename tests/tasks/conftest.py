"""What several tests of tasks are given."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from assizes.judge.config.run import StoreConfig
from assizes.tasks.store import Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty DuckDB file, `s.duckdb` in the test's folder, open for writing."""
    with open_store(StoreConfig(uri=f"duckdb:///{tmp_path}/s.duckdb"), writing=True) as opened:
        yield opened
