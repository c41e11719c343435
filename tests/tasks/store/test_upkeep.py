"""Collecting garbage, merging parts, deleting a subject's rows: all other rows stay unchanged."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest
from polars.testing import assert_frame_equal

from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import StoreError
from assizes.judge.rows import SHARD_TABLES, as_json
from assizes.tasks.store import open_store, rebuild_store
from assizes.tasks.store.rewrite import Rewriter
from assizes.tasks.store.upkeep import (
    DataSubject,
    collect_garbage,
    compact_run,
    find_subject,
    forget_subject,
    list_garbage,
    remove_garbage,
)
from tests.soak.turns import interleaved
from tests.tasks.store.rows import COUNTS, ended, run_metrics, run_record, shard

DAY = timedelta(hours=24)


def later(hours: float = 25) -> datetime:
    return datetime.now(UTC) + timedelta(hours=hours)


def tagged(case_id: str, **tags: str):
    frames = shard(case_id=case_id)
    rows = [{**row, "tags": as_json(tags)} for row in frames["cases"].to_dicts()]
    return {
        **frames,
        "cases": frames["cases"]
        .clear()
        .vstack(type(frames["cases"])(rows, schema=frames["cases"].schema)),
    }


def filled(store, count: int = 5) -> None:
    begun = store.begin(run_record())
    for number in range(count):
        frames = tagged(f"c{number}", customer="ada" if number % 2 else "bob")
        store.commit_shard("nightly-1", f"s{number}", frames, COUNTS)
    store.finish(ended(begun), run_metrics())


def tables(store):
    return {name: store.table("nightly-1", name) for name in (*SHARD_TABLES, "run_metrics")}


@pytest.mark.full
def test_whatever_the_order_of_acts_no_part_that_counts_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # no power is cut here
    wrong = {seed: interleaved(tmp_path / str(seed), seed) for seed in range(60)}
    assert {seed: said for seed, said in wrong.items() if said} == {}


def test_what_dead_writers_left_is_removed_once_it_is_old_and_nothing_else(lake_place):
    with open_store(lake_place, writing=True) as store:
        filled(store)
        before = tables(store)
        store.objects.create("runs/nightly-1/parts/scores-s9-dead.parquet", b"half an attempt")
        store.objects.create("probes/dead", b"once")
        assert list_garbage(store.objects, store.manifest, datetime.now(UTC)) == []
        found = list_garbage(store.objects, store.manifest, later())
        assert [(one.kind, one.name, one.size) for one in found] == [
            ("probe", "probes/dead", 4),
            ("part", "runs/nightly-1/parts/scores-s9-dead.parquet", 15),
        ]
        remove_garbage(store.objects, found)
        assert list_garbage(store.objects, store.manifest, later(1e5)) == []
        for name, rows in before.items():
            assert_frame_equal(store.table("nightly-1", name), rows)


def test_drafts_of_killed_writers_are_garbage_of_a_folder(folder_place):
    with open_store(folder_place, writing=True) as store:
        filled(store)
        root = Path(folder_place.uri)
        for folder in (root, root / "runs/nightly-1", root / "runs/nightly-1/commits"):
            (folder / ".0123").write_bytes(b"{")
        found = list_garbage(store.objects, store.manifest, later())
        assert [one.kind for one in found] == ["draft"] * 3
        remove_garbage(store.objects, found)
    assert not list(root.rglob(".*"))


def test_nothing_is_garbage_of_a_run_that_has_lost_a_mark(folder_place):
    with open_store(folder_place, writing=True) as store:
        filled(store)
    (Path(folder_place.uri) / "runs/nightly-1/commits/s1.json").unlink()
    with open_store(folder_place) as store, pytest.raises(StoreError, match="commit marks"):
        collect_garbage(store, older_than=timedelta(0), removing=True)
    assert len(list(Path(folder_place.uri).rglob("*-s1-*.parquet"))) == 3


def test_merging_parts_changes_no_row_and_is_done_once(lake_place):
    with open_store(lake_place, writing=True) as store:
        filled(store)
        before, bytes_before = tables(store), store.run("nightly-1")
        done = compact_run(store, "nightly")
        assert (done.before, done.after) == (15, 3)
        assert compact_run(store, "nightly").after == 3
        for name, rows in before.items():
            assert_frame_equal(store.table("nightly-1", name), rows)
            scanned = store.scan("nightly-1", name).collect()
            assert_frame_equal(scanned, rows, check_row_order=False)
        assert store.run("nightly-1") == bytes_before
        assert len(store.shard_counts("nightly-1")) == 5
    with open_store(lake_place, writing=True) as other:  # a finished run again: nothing to do
        filled(other)
        assert_frame_equal(other.table("nightly-1", "scores"), before["scores"])


def test_parts_are_merged_where_the_first_has_lost_all_its_rows(lake_place):
    with open_store(lake_place, writing=True) as store:
        filled(store)
        forget_subject(store, find_subject(store, DataSubject("c0", {})))
        before = tables(store)
        assert compact_run(store, "nightly-1").after == 3
        for name, rows in before.items():
            assert_frame_equal(store.table("nightly-1", name), rows)
        assert "c0" not in store.table("nightly-1", "cases")["case_id"].to_list()


def test_replaced_parts_stay_for_who_is_reading_and_go_a_day_after_they_were_replaced(lake_place):
    with open_store(lake_place, writing=True) as store:
        filled(store)
        compact_run(store, "nightly-1")
        published = store.objects.entries("runs/nightly-1/generations")[0].modified
        assert (
            list_garbage(store.objects, store.manifest, published + DAY - timedelta(hours=1)) == []
        )
        found = list_garbage(store.objects, store.manifest, later())
        assert {one.kind for one in found} == {"part"}
        assert len(found) == 15
        before = tables(store)
        remove_garbage(store.objects, found)
        for name, rows in before.items():
            assert_frame_equal(store.table("nightly-1", name), rows)


def test_only_a_complete_run_is_merged_and_a_file_has_no_parts(lake_place, duckdb_place):
    with open_store(lake_place, writing=True) as store:
        store.begin(run_record())
        with pytest.raises(StoreError, match="is running; only a complete run is compacted"):
            compact_run(store, "nightly-1")
    with open_store(duckdb_place, writing=True) as store:
        assert collect_garbage(store, removing=True) == []
        with pytest.raises(StoreError, match="is a DuckDB file; only Parquet stores need"):
            compact_run(store, "nightly-1")


def test_of_two_that_rewrite_a_run_at_once_one_is_refused_and_changes_nothing(lake_place):
    with open_store(lake_place, writing=True) as store:
        filled(store)
        slow = Rewriter(store.objects, store.manifest, "nightly-1")
        forget_subject(store, find_subject(store, DataSubject("c0", {})))
        parts = store.objects.names("runs/nightly-1/parts")
        with pytest.raises(StoreError, match="rewritten by another process; nothing was changed"):
            slow.compact(store.run("nightly-1"))
        assert store.objects.names("runs/nightly-1/parts") == parts
        assert "c0" not in store.table("nightly-1", "cases")["case_id"].to_list()


def test_a_forgotten_case_is_in_no_row_and_in_no_byte_of_a_part(place, s3):
    with open_store(place, writing=True) as store:
        filled(store)
        before = tables(store)
        (found,) = find_subject(store, DataSubject("c1", {}))
        counts = {name: count for name, count in found.rows.items() if count}
        assert counts == {"scores": 3, "cases": 1}
        assert tables(store)["cases"].equals(before["cases"]), "finding changes nothing"
        forget_subject(store, [found])
        assert find_subject(store, DataSubject("c1", {})) == []
        for name in ("scores", "cases"):
            kept = before[name].filter(case_id="c1").height
            assert kept > 0
            assert_frame_equal(
                store.table("nightly-1", name),
                before[name].remove(case_id="c1"),
            )
        assert_frame_equal(store.table("nightly-1", "rejects"), before["rejects"])
        assert store.shard_counts("nightly-1").keys() == {f"s{n}" for n in range(5)}
        assert store.run("nightly-1").status == "complete"
        if not place.uri.startswith("duckdb:"):
            names = store.objects.names("runs/nightly-1/parts")
            assert not [name for name in names if name.startswith(("cases-s1-", "scores-s1-"))]
    with open_store(place, writing=True) as store:
        filled(store)  # going on with the run does not bring it back
        assert "c1" not in store.table("nightly-1", "cases")["case_id"].to_list()


def test_a_subject_is_found_by_tags_in_every_run_or_in_one(place):
    with open_store(place, writing=True) as store:
        filled(store)
        store.begin(run_record("other"))
        frames = {"cases": tagged("x", customer="ada", site="a'b\"c")["cases"]}
        rows = frames["cases"].with_columns(
            run_id=frames["cases"]["run_id"].replace("nightly-1", "other")
        )
        store.commit_shard("other", "s0", {"cases": rows}, COUNTS)
        ada = DataSubject(None, {"customer": "ada"})
        assert {one.run_id: one.case_ids for one in find_subject(store, ada)} == {
            "nightly-1": ["c1", "c3"],
            "other": ["x"],
        }
        assert [one.run_id for one in find_subject(store, ada, "oth")] == ["other"]
        both = DataSubject(None, {"customer": "ada", "site": "a'b\"c"})
        assert [one.case_ids for one in find_subject(store, both)] == [["x"]]
        assert find_subject(store, DataSubject("c1", {"customer": "bob"})) == []
    with pytest.raises(StoreError, match="no case is named; give a case id or --tag"):
        DataSubject(None, {})


def test_a_shard_committed_while_its_run_is_rewritten_is_there_once(lake_place):
    with open_store(lake_place, writing=True) as store:
        store.begin(run_record())
        store.commit_shard("nightly-1", "s0", tagged("c0"), COUNTS)
        store.commit_shard("nightly-1", "s1", tagged("c1"), COUNTS)
        store.forget("nightly-1", ["c0"])
        store.commit_shard("nightly-1", "s2", tagged("c2"), COUNTS)
        assert store.table("nightly-1", "cases")["case_id"].to_list() == ["c1", "c2"]
        store.forget("nightly-1", ["c2"])
        assert store.table("nightly-1", "cases")["case_id"].to_list() == ["c1"]
        assert store.table("nightly-1", "rejects").height == 3


def test_a_file_that_falls_back_behind_a_deletion_is_told(duckdb_place):
    file = Path(duckdb_place.uri.removeprefix("duckdb:///"))
    with open_store(duckdb_place, writing=True) as store:
        filled(store)
    old = file.read_bytes()
    with open_store(duckdb_place, writing=True) as store:
        store.forget("nightly-1", ["c1"])
    file.write_bytes(old)
    with pytest.raises(StoreError, match="journal lists 5 shards of run nightly-1"):
        open_store(duckdb_place)
    rebuild_store(duckdb_place, None)
    with open_store(duckdb_place, writing=True) as store:
        store.forget("nightly-1", ["c1"])
        assert "c1" not in store.table("nightly-1", "cases")["case_id"].to_list()


def test_deleting_stays_deleted_for_other_readers_of_the_file(duckdb_place):
    with open_store(duckdb_place, writing=True) as store:
        filled(store)
        store.forget("nightly-1", ["c1", "c2"])
    with duckdb.connect(duckdb_place.uri.removeprefix("duckdb:///"), read_only=True) as con:
        assert con.sql("select count(*) from scores where case_id in ('c1', 'c2')").fetchall() == [
            (0,)
        ]
        assert con.sql("select count(distinct case_id) from scores").fetchall() == [(3,)]


def test_garbage_of_a_store_is_the_same_told_or_removed(folder_place):
    with open_store(folder_place, writing=True) as store:
        filled(store)
        compact_run(store, "nightly-1")
    place = StoreConfig(uri=folder_place.uri)
    with open_store(place) as store:
        told = collect_garbage(store, older_than=timedelta(0), removing=False)
        assert len(told) == 15
        assert collect_garbage(store, older_than=timedelta(0), removing=True) == told
        assert collect_garbage(store, older_than=timedelta(0), removing=True) == []
