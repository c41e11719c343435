"""Where search indexes lie, and which of them nobody needs."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from assizes.tasks.store.search_files import (
    delete_index,
    index_path,
    search_folder,
    unused_indexes,
)


def made_index(uri: str, run_id: str, age: timedelta = timedelta()) -> Path:
    path = index_path(uri, run_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    for suffix in ("", "-wal", "-shm", ".lock"):
        path.with_name(f"{path.name}{suffix}").write_bytes(b"x")
    when = (datetime.now(UTC) - age).timestamp()
    os.utime(path, (when, when))
    return path


def test_an_index_lies_beside_a_file_and_else_in_the_folder_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSIZES_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert search_folder(f"duckdb:///{tmp_path}/s.duckdb") == tmp_path / "s.duckdb.search"
    folders = [search_folder(uri) for uri in ("s3://bucket/a", "s3://bucket/b", "lake")]
    assert {folder.parent for folder in folders} == {tmp_path / "home" / "search"}
    assert len(set(folders)) == 3
    assert search_folder(f"{tmp_path}/lake") == folders[2]


def test_a_deleted_index_leaves_no_file(tmp_path: Path) -> None:
    uri = f"duckdb:///{tmp_path}/s.duckdb"
    path = made_index(uri, "nightly-1")
    delete_index(uri, "nightly-1")
    assert list(path.parent.iterdir()) == []
    delete_index(uri, "nightly-1")  # once more does nothing


def test_indexes_of_runs_that_are_gone_or_that_nobody_used_are_unused(tmp_path: Path) -> None:
    uri = f"duckdb:///{tmp_path}/s.duckdb"
    made_index(uri, "used")
    made_index(uri, "gone")
    made_index(uri, "old", age=timedelta(hours=30))
    limit = datetime.now(UTC) - timedelta(hours=24)
    unused = list(unused_indexes(uri, {"used", "old"}, limit))
    assert [index.run_id for index in unused] == ["gone", "old"]
    assert [index.size for index in unused] == [1, 1]
