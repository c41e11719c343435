"""A disk that is full is called that, costs nothing that was committed, and can be cleared."""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest

from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import StoreError
from assizes.judge.rows import SHARD_TABLES, frame
from assizes.tasks.store import Store, open_store
from tests.tasks.store.rows import run_record, score_row


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """A limit in bytes on the size of the files of this process: a write over it fails."""
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)


def shard(number: int) -> dict[str, pl.DataFrame]:
    tables = {name: frame(name, []) for name in SHARD_TABLES}
    cases = [f"case-{number}-{place}" for place in range(500)]
    tables["scores"] = frame("scores", [score_row("nightly-1", case) for case in cases])
    return tables


def commit_shards(store: Store, count: int) -> None:
    for number in range(1, count):
        store.commit_shard("nightly-1", f"s{number}", shard(number), {"judged": 500})


def test_a_full_disk_is_no_damage_and_loses_no_shard_that_was_committed(tmp_path: Path):
    path = tmp_path / "s.duckdb"
    place = StoreConfig(uri=f"duckdb:///{path}")
    with open_store(place, writing=True) as store:
        store.begin(run_record())
        store.commit_shard("nightly-1", "s0", shard(0), {"judged": 500})
        with files_of_at_most(1_500_000):
            with pytest.raises(StoreError) as raised:
                commit_shards(store, 40)
            text = str(raised.value)
            assert "the disk is full" in text
            assert not re.search("damaged|rebuild", text)
        committed = store.shard_counts("nightly-1")

    with open_store(place, writing=True) as store:
        assert store.shard_counts("nightly-1") == committed
        assert store.table("nightly-1", "scores").height == 500 * len(committed)
        store.commit_shard("nightly-1", "s99", shard(99), {"judged": 500})
        assert len(store.shard_counts("nightly-1")) == len(committed) + 1
