"""Several writers of one lake, and servers whose answers are lost."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import StoreError
from assizes.tasks.store import open_store
from assizes.tasks.store.bucket import objects_at
from tests.doubles.s3_proxy import Faults, proxied
from tests.tasks.store.lake.lakes import Place, _fill
from tests.tasks.store.rows import COUNTS, run_record, shard


def test_what_another_writer_has_just_committed_is_seen_at_once(lake_place):
    with (
        open_store(lake_place, writing=True) as one,
        open_store(lake_place, writing=True) as other,
    ):
        one.begin(run_record())
        assert other.shard_counts("nightly-1") == {}
        one.commit_shard("nightly-1", "s0", shard(), COUNTS)
        assert other.shard_counts("nightly-1") == {"s0": COUNTS}
        assert other.commit_shard("nightly-1", "s0", shard(case_id="late"), {}) is False
        assert other.table("nightly-1", "cases")["case_id"].to_list() == ["c1"]


def test_two_beginnings_at_once_freeze_one_run(lake_place):
    plans = [{"content_hash": str(n), "objects": [n]} for n in range(4)]
    frozen: list[object] = []
    refused: list[str] = []
    start = threading.Barrier(len(plans))
    with open_store(lake_place, writing=True) as store:

        def begin(plan: dict[str, list[int]]) -> None:
            start.wait()
            try:
                frozen.append(store.begin(run_record(plan=plan)).plan)
            except StoreError as error:
                refused.append(str(error))

        threads = [threading.Thread(target=begin, args=(plan,)) for plan in plans]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert frozen == [store.plan("nightly-1")]
    assert len(refused) == len(plans) - 1
    assert all("was planned over other input" in message for message in refused)


def test_a_commit_whose_acknowledgement_was_lost_is_known_as_our_own(s3, s3_place):
    faults = Faults(lost=b"/commits/s0.json", most=1)
    with proxied(s3.endpoint_url, faults) as endpoint:
        place = StoreConfig(uri=s3_place.uri, storage_options={"endpoint_url": endpoint})
        with open_store(place, writing=True) as store:
            store.begin(run_record())
            assert store.commit_shard("nightly-1", "s0", shard(), COUNTS) is True
            assert store.commit_shard("nightly-1", "s1", shard(case_id="c2"), COUNTS) is True
    assert faults.cut == 1
    with open_store(s3_place) as store:
        assert store.shard_counts("nightly-1") == {"s0": COUNTS, "s1": COUNTS}
        assert store.table("nightly-1", "cases")["case_id"].to_list() == ["c1", "c2"]


def test_a_commit_never_acknowledged_is_read_back(s3, s3_place):
    faults = Faults(lost=b"/commits/s0.json")  # every attempt, so that s3fs gives up
    with proxied(s3.endpoint_url, faults) as endpoint:
        options = {"endpoint_url": endpoint, "config_kwargs": {"retries": {"max_attempts": 0}}}
        place = StoreConfig(uri=s3_place.uri, storage_options=options)
        with open_store(place, writing=True) as store:
            store.begin(run_record())
            assert store.commit_shard("nightly-1", "s0", shard(), COUNTS) is True
            assert store.shard_counts("nightly-1") == {"s0": COUNTS}
    assert faults.cut > 1


def test_who_loses_a_race_leaves_no_part_behind(lake_place, s3, monkeypatch):
    with (
        open_store(lake_place, writing=True) as fast,
        open_store(lake_place, writing=True) as slow,
    ):
        fast.begin(run_record())
        slow.shard_counts("nightly-1")
        written = slow.manifest.write_part

        def overtaken(run_id, stem, rows):
            part = written(run_id, stem, rows)
            fast.commit_shard("nightly-1", "s0", shard(case_id="fast"), COUNTS)
            return part

        monkeypatch.setattr(slow.manifest, "write_part", overtaken)
        assert slow.commit_shard("nightly-1", "s0", shard(case_id="slow"), COUNTS) is False
        assert slow.table("nightly-1", "cases")["case_id"].to_list() == ["fast"]
    parts = [name for name in Place(lake_place, s3.client).objects() if "/parts/" in name]
    assert len(parts) == 3


def test_a_place_that_creates_once_takes_many_writers(lake_place, s3):
    with open_store(lake_place, writing=True) as store:
        assert store.many_writers is True
    assert [name for name in Place(lake_place, s3.client).objects() if "probe" in name] == []


def test_a_server_that_ignores_the_condition_is_found_and_takes_one_writer(s3, s3_place):
    with proxied(s3.endpoint_url, Faults(blind=True)) as endpoint:
        place = StoreConfig(uri=s3_place.uri, storage_options={"endpoint_url": endpoint})
        with open_store(place, writing=True) as store:
            assert store.many_writers is False
            _fill(store)
            assert store.commit_shard("nightly-1", "s0", shard(case_id="late"), {}) is False
            assert store.begin(run_record(name="other")).name == "nightly"
            assert store.table("nightly-1", "cases")["case_id"].to_list() == ["c1"]


def test_a_file_is_on_disk_before_its_name_and_the_name_before_the_answer(tmp_path, monkeypatch):
    acts = []
    fsync, link = os.fsync, Path.hardlink_to

    def synced(handle):
        acts.append(("sync", Path(f"/proc/self/fd/{handle}").readlink().name))
        fsync(handle)

    def linked(self, target):
        acts.append(("link", self.name, target.name))
        link(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "hardlink_to", linked)
    objects_at(str(tmp_path / "lake"), {}).create("runs/r/commits/s0.json", b"{}")
    draft = acts[4][1]
    assert acts == [
        ("sync", "r"),
        ("sync", "runs"),
        ("sync", "lake"),
        ("sync", tmp_path.name),
        ("sync", draft),
        ("link", "s0.json", draft),
        ("sync", "commits"),
    ]


def test_every_part_is_written_before_the_mark_that_names_it(lake_place, monkeypatch):
    created = []
    with open_store(lake_place, writing=True) as store:
        store.begin(run_record())
        create = store.objects.create
        monkeypatch.setattr(
            store.objects,
            "create",
            lambda name, data: (created.append(name), create(name, data))[1],
        )
        store.commit_shard("nightly-1", "s0", shard(), COUNTS)
    assert ["/parts/" in name for name in created] == [True, True, True, False]
    assert created[-1] == "runs/nightly-1/commits/s0.json"
