"""The kinds of store, and the places in which a store can be."""

from __future__ import annotations

from pathlib import Path

import pytest

from assizes.judge.config.run import StoreConfig

CONTRACT = ("test_store.py", "test_lake.py", "test_writers.py")
"""What every kind of store promises. Of other tests, those on S3 belong to the last tier: a request
takes as long as a whole test on a folder."""


@pytest.hookimpl(tryfirst=True)  # before tests/conftest.py asks for their tiers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        kind = getattr(item, "callspec", None)
        if (
            kind is None
            or item.path.name in CONTRACT
            or Path(__file__).parent not in item.path.parents
        ):
            continue
        if "s3" in kind.params.values():
            item.add_marker(pytest.mark.full)


@pytest.fixture
def duckdb_place(tmp_path: Path) -> StoreConfig:
    return StoreConfig(uri=f"duckdb:///{tmp_path}/new/store.duckdb")


@pytest.fixture
def folder_place(tmp_path: Path) -> StoreConfig:
    return StoreConfig(uri=str(tmp_path / "new" / "lake"))


@pytest.fixture
def s3_place(s3) -> StoreConfig:
    return StoreConfig(uri=f"s3://{s3.bucket()}/lake", storage_options=s3.storage_options)


@pytest.fixture(params=["duckdb", "folder", "s3"])
def place(request: pytest.FixtureRequest) -> StoreConfig:
    """The configuration of a store that does not exist yet, of each kind in turn."""
    found: StoreConfig = request.getfixturevalue(f"{request.param}_place")
    return found


@pytest.fixture(params=["folder", "s3"])
def lake_place(request: pytest.FixtureRequest) -> StoreConfig:
    """The same for the kinds that take several writers."""
    found: StoreConfig = request.getfixturevalue(f"{request.param}_place")
    return found
