"""What a process that writes a DuckDB file keeps of it, and what it does before it closes the file."""

from __future__ import annotations

from pathlib import Path

from assizes.tasks.store import Store, open_store
from tests.tasks.store.rows import COUNTS, run_record, shard


def test_scans_of_a_writer_see_what_it_commits_and_forgets(duckdb_place):
    """They share a frame, which keeps the rows after its second query."""

    def seen(store: Store) -> list[str]:
        found = [store.scan("nightly-1", "scores").collect()["case_id"].sort() for _ in range(3)]
        assert found[0].equals(found[1])
        assert found[0].equals(found[2])
        return found[0].unique().sort().to_list()

    with open_store(duckdb_place, writing=True) as store:
        store.begin(run_record())
        assert seen(store) == []
        store.commit_shard("nightly-1", "s0", shard(case_id="c1"), COUNTS)
        assert seen(store) == ["c1"]
        store.commit_shard("nightly-1", "s1", shard(case_id="c2"), COUNTS)
        assert seen(store) == ["c1", "c2"]
        store.begin(run_record("nightly-2"))
        store.commit_shard("nightly-2", "s0", shard("nightly-2", case_id="c3"), COUNTS)
        assert seen(store) == ["c1", "c2"]
        store.forget("nightly-1", ["c1"])
        assert seen(store) == ["c2"]


def test_a_store_that_was_settled_has_no_log_beside_it_and_loses_nothing(duckdb_place):
    log = Path(f"{duckdb_place.uri.removeprefix('duckdb:///')}.wal")
    with open_store(duckdb_place, writing=True) as store:
        store.begin(run_record())
        store.commit_shard("nightly-1", "s0", shard(), COUNTS)
        assert log.stat().st_size > 0
        store.settle()
        assert not log.exists() or not log.stat().st_size
        assert store.commit_shard("nightly-1", "s1", shard(case_id="c2"), COUNTS)
    with open_store(duckdb_place) as store:
        assert store.shard_counts("nightly-1") == {"s0": COUNTS, "s1": COUNTS}
