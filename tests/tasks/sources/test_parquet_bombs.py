"""Parquet files that grow when they are read, and what a process that is killed leaves behind."""

from __future__ import annotations

import resource
from pathlib import Path

import polars as pl
import pytest

from assizes.judge.errors import DataError
from assizes.tasks.sources.unpacking import BOMB_FLOOR_BYTES, ObjectBounds, parquet_to_lines


def bytes_on_disk(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "table",
    [
        pl.DataFrame({"a": pl.Series([None] * 300_000, dtype=pl.String)}),
        pl.DataFrame({"a": ["x"] * 300_000}),
        pl.DataFrame({"a": ["x" * 100_000]}).select(pl.col("a").repeat_by(5_000).explode()),
    ],
    ids=["rows of nothing", "rows of one word", "one long text many times"],
)
def test_a_small_file_that_holds_much_is_a_bomb(tmp_path: Path, table: pl.DataFrame):
    bomb, out = tmp_path / "b.parquet", tmp_path / "out"
    table.write_parquet(bomb, compression="zstd", row_group_size=1_000_000)
    assert bomb.stat().st_size < 100_000
    out.mkdir()
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    with pytest.raises(DataError) as caught:
        parquet_to_lines(bomb, out / "lines", ObjectBounds())
    assert caught.value.code == "bomb"
    assert bytes_on_disk(out) <= BOMB_FLOOR_BYTES
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss - before < 3_000_000  # kB


def test_a_table_of_ten_thousand_honest_rows_is_read(tmp_path: Path):
    table = pl.DataFrame({"id": range(10_000), "text": ["the same words"] * 10_000})
    table.write_parquet(tmp_path / "t.parquet")
    parquet_to_lines(tmp_path / "t.parquet", tmp_path / "lines", ObjectBounds())
    assert (tmp_path / "lines").read_bytes().count(b"\n") == 10_000
