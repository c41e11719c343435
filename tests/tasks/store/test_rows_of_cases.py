"""The rows of a page, and the revision by which a reader knows whether a run has changed."""

from __future__ import annotations

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from assizes.judge.rows import KEYS, TABLES
from assizes.tasks.store import open_store
from tests.tasks.store.rows import COUNTS, ended, run_metrics, run_record, shard


@pytest.mark.full
def test_the_rows_of_some_cases_are_read_without_the_others(place):
    with open_store(place, writing=True) as store:
        for run_id in ("r-1", "r-2"):
            store.begin(run_record(run_id))
            for number in range(3):
                rows = shard(run_id, case_id=f"c{number}")
                store.commit_shard(run_id, f"s{number}", rows, COUNTS)
        for table in ("cases", "scores", "asks"):
            wanted = pl.col("case_id").is_in(["c0", "c2"])
            expected = store.table("r-2", table).filter(wanted)
            read = store.rows_of_cases("r-2", table, ["c2", "gone", "c0"])
            assert_frame_equal(read.sort(KEYS[table]), expected)
            some = store.rows_of_cases("r-2", table, ["c1"], ["repetition", "case_id"])
            assert some.columns == ["repetition", "case_id"]
            assert set(some["case_id"]) <= {"c1"}
            assert some.height == expected.height // 2
            assert store.rows_of_cases("r-2", table, []).is_empty()
            assert store.rows_of_cases("r-2", table, ["gone"]).schema == TABLES[table]


def test_a_revision_changes_with_the_rows_of_its_run_only(place):
    with open_store(place, writing=True) as store:
        store.begin(run_record("r-1"))
        store.begin(run_record("r-2"))
        seen = [store.revision("r-1")]
        for number in range(2):
            rows = shard("r-1", case_id=f"c{number}")
            store.commit_shard("r-1", f"s{number}", rows, COUNTS)
            seen.append(store.revision("r-1"))
        store.commit_shard("r-2", "s0", shard("r-2", case_id="c0"), COUNTS)
        store.finish(ended(run_record("r-2")), run_metrics("r-2"))
        assert store.revision("r-1") == seen[-1]
        store.forget("r-1", ["c0"])
        seen.append(store.revision("r-1"))
    assert len(set(seen)) == len(seen)
    with open_store(place) as reader:
        assert reader.revision("r-1") == seen[-1]
