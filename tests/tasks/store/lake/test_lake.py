"""What only the Parquet lake does: its layout, parts, commit marks, and URIs that it refuses."""

from __future__ import annotations

import json
import socket
from unittest.mock import ANY

import polars as pl
import pytest

from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import SchemaVersion, StoreError
from assizes.judge.rows import SHARD_TABLES, frame
from assizes.tasks.store import open_store
from tests.tasks.store.lake.lakes import Place, _fill
from tests.tasks.store.rows import COUNTS, ended, run_record, shard


@pytest.fixture
def lake(lake_place, s3) -> Place:
    """A lake with one run that has one committed shard and has ended."""
    with open_store(lake_place, writing=True) as store:
        _fill(store)
    return Place(lake_place, s3.client)


def test_the_layout_is_the_published_one(lake):
    objects = lake.objects()
    mark = json.loads(objects["runs/nightly-1/commits/s0.json"])
    parts = [f"runs/nightly-1/parts/{part['name']}" for part in mark["parts"].values()]
    assert sorted(objects) == sorted(
        [
            "_assizes.json",
            "runs/nightly-1/SUCCESS.json",
            "runs/nightly-1/commits/s0.json",
            "runs/nightly-1/input.json",
            "runs/nightly-1/run.json",
            *parts,
        ]
    )
    assert json.loads(objects["_assizes.json"]) == {"hash": ANY, "schema_version": 2}
    assert json.loads(objects["runs/nightly-1/input.json"]) == {"hash": ANY, **run_record().plan}
    assert (mark["shard"], mark["counts"], sorted(mark["parts"])) == (
        "s0",
        COUNTS,
        ["cases", "rejects", "scores"],
    )
    for table, part in mark["parts"].items():
        assert part["name"] == f"{table}-s0-{mark['attempt']}.parquet"
        assert part["bytes"] == len(objects[f"runs/nightly-1/parts/{part['name']}"])
        assert part["rows"] == shard()[table].height


def test_ending_twice_leaves_every_object_as_it_is(lake, lake_place):
    before = lake.objects()
    with open_store(lake_place, writing=True) as store:
        _fill(store)
    assert lake.objects() == before


def test_the_same_rows_make_the_same_parts_wherever_they_lie(folder_place, s3_place, s3):
    contents = []
    for place in (folder_place, s3_place):
        with open_store(place, writing=True) as store:
            _fill(store)
        objects = Place(place, s3.client).objects()
        mark = json.loads(objects["runs/nightly-1/commits/s0.json"])
        attempt, seal = mark["attempt"], mark["hash"]  # the hash is of the attempt as well
        said = {
            name.replace(attempt, ""): data.replace(attempt.encode(), b"").replace(
                seal.encode(), b""
            )
            for name, data in objects.items()
            if not name.endswith("SUCCESS.json")  # holds a digest over the marks
        }
        contents.append(said)
    assert contents[0] == contents[1]


@pytest.mark.full
def test_parts_without_a_mark_are_not_seen_and_the_shard_can_be_committed(lake, lake_place):
    lake.delete("runs/nightly-1/commits/s0.json")
    lake.delete("runs/nightly-1/SUCCESS.json")
    with open_store(lake_place, writing=True) as store:
        assert store.shard_counts("nightly-1") == {}
        for table in SHARD_TABLES:
            assert store.table("nightly-1", table).equals(frame(table, []))
            assert store.scan("nightly-1", table).collect().is_empty()
        other = shard(case_id="c9")
        assert store.commit_shard("nightly-1", "s0", other, {"read": 1}) is True
        for table in SHARD_TABLES:
            assert store.table("nightly-1", table).equals(other[table])


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda data: data[:-1], r"has \d+ bytes, its commit mark says \d+ bytes"),
        (lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:], "its hash differs"),
        (None, "is missing, its commit mark says"),
    ],
)
def test_a_damaged_part_is_told_before_its_rows_are_believed(lake, lake_place, damage, told):
    name = next(name for name in lake.objects() if "/scores-" in name)
    if damage is None:
        lake.delete(name)
    else:
        lake.put(name, damage(lake.objects()[name]))
    with open_store(lake_place) as store:
        with pytest.raises(StoreError, match=f"{name} .*{told}"):
            store.table("nightly-1", "scores")
        with pytest.raises(StoreError, match=f"{name} .*{told}"):
            store.scan("nightly-1", "scores")
        assert store.table("nightly-1", "cases").height == 1


def test_documents_of_another_version_or_no_json_are_told_by_name(lake, lake_place):
    lake.put("runs/nightly-1/commits/s1.json", b'{"schema_version":1}')
    with open_store(lake_place) as store:
        with pytest.raises(SchemaVersion, match="schema version 1, this assizes reads version 2"):
            store.shard_counts("nightly-1")
        lake.put("runs/nightly-1/commits/s1.json", b"{")
        with pytest.raises(StoreError, match=r"runs/nightly-1/commits/s1\.json is not JSON"):
            store.table("nightly-1", "scores")


def test_an_orphaned_plan_is_held_to(lake_place, s3):
    open_store(lake_place, writing=True).close()
    with open_store(lake_place, writing=True) as store:
        store.begin(run_record("other"))
        Place(lake_place, s3.client).delete("runs/other/run.json")
        assert store.runs().is_empty()
        assert store.plan("other") == run_record().plan
        with pytest.raises(StoreError, match="was planned over other input"):
            store.begin(run_record("other", plan={}))
        assert store.begin(run_record("other")) == run_record("other")


def test_a_folder_keeps_no_drafts_and_its_uri_may_name_the_scheme(tmp_path):
    with open_store(StoreConfig(uri=f"file://{tmp_path}/lake"), writing=True) as store:
        _fill(store)
    with open_store(StoreConfig(uri=f"{tmp_path}/lake")) as store:
        assert store.run("nightly-1") == ended(run_record())
    assert not list(tmp_path.rglob(".*"))


def test_a_scan_of_a_folder_reads_only_what_it_needs_and_survives_odd_names(tmp_path):
    place = StoreConfig(uri=str(tmp_path / "lake [1]*"))
    with open_store(place, writing=True) as store:
        _fill(store)
        mean = store.scan("nightly-1", "scores").select(pl.col("weight").sum())
        assert mean.collect().item() == pytest.approx(2 / 3)
        assert "PROJECT 1/19 COLUMNS" in mean.explain()


def test_a_folder_that_cannot_be_written_is_told_in_one_line(tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(StoreError) as caught:
        open_store(StoreConfig(uri=str(tmp_path / "taken")), writing=True)
    assert str(caught.value).startswith(f"{tmp_path}/taken: cannot write '_assizes.json': ")
    assert "\n" not in str(caught.value)


def test_any_file_system_of_fsspec_will_do():
    place = StoreConfig(uri="memory://assizes-test/lake")
    with open_store(place, writing=True) as store:
        _fill(store)
        assert store.commit_shard("nightly-1", "s0", shard(case_id="late"), {}) is False
    with open_store(place) as store:
        assert store.run("night") == ended(run_record())
        assert store.table("nightly-1", "scores").equals(shard()["scores"])
        assert store.scan("nightly-1", "scores").collect().height == 3


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("duckdb://store.duckdb", "names no file; accepted: duckdb:///file.duckdb"),
        ("duckdb:///", "names no file; accepted: duckdb:///file.duckdb"),
        ("postgres://localhost/db", "cannot be opened: Protocol not known: postgres"),
    ],
)
def test_a_uri_of_no_known_kind_is_refused_with_those_accepted(uri, told):
    with pytest.raises(StoreError, match=f"{uri!r} {told}"):
        open_store(StoreConfig(uri=uri), writing=True)


def test_a_bucket_that_is_not_there_is_named_with_its_endpoint(s3):
    place = StoreConfig(uri="s3://no-such-bucket/lake", storage_options=s3.storage_options)
    for writing in (False, True):
        with pytest.raises(StoreError) as caught:
            open_store(place, writing=writing)
        act = "write" if writing else "read"
        assert str(caught.value) == (
            f"s3://no-such-bucket/lake at {s3.endpoint_url}: cannot {act} '_assizes.json': "
            "The specified bucket does not exist"
        )


def test_missing_credentials_are_told_in_one_line(s3, s3_place, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(StoreError) as caught:
        open_store(s3_place, writing=True)
    assert str(caught.value) == (
        f"{s3_place.uri} at {s3.endpoint_url}: cannot write '_assizes.json': "
        "Unable to locate credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    )


def test_a_server_that_is_not_there_is_told_in_one_line(s3_place):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{unused.getsockname()[1]}"
        options = {"endpoint_url": endpoint, "config_kwargs": {"retries": {"max_attempts": 0}}}
        with pytest.raises(StoreError) as caught:
            open_store(StoreConfig(uri=s3_place.uri, storage_options=options))
    assert "Could not connect to the endpoint URL" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.full
def test_the_password_in_a_url_is_never_told(s3_place):
    options = {
        "endpoint_url": "http://ada:hunter2@127.0.0.1:9",
        "config_kwargs": {"retries": {"max_attempts": 0}},
    }
    with pytest.raises(StoreError) as caught:
        open_store(StoreConfig(uri=s3_place.uri, storage_options=options))
    assert "http://***@127.0.0.1:9" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    with pytest.raises(StoreError, match="'postgres://\\*\\*\\*@localhost/db' cannot be opened"):
        open_store(StoreConfig(uri="postgres://ada:hunter2@localhost/db"), writing=True)


def test_a_complete_run_that_has_lost_a_mark_is_not_read_as_a_smaller_one(lake, lake_place):
    lake.delete("runs/nightly-1/commits/s0.json")
    with open_store(lake_place) as store:
        assert store.run("nightly-1").status == "complete"
        for ask in (
            lambda: store.shard_counts("nightly-1"),
            lambda: store.table("nightly-1", "scores"),
            lambda: store.scan("nightly-1", "cases"),
        ):
            with pytest.raises(StoreError, match=r"complete with 1 commit marks and has 0 of them"):
                ask()


def test_a_file_of_another_kind_is_named_as_such(tmp_path):
    (tmp_path / "notes.txt").write_text("no store")
    for uri in (f"{tmp_path}/notes.txt", f"file://{tmp_path}/notes.txt"):
        with pytest.raises(StoreError) as caught:
            open_store(StoreConfig(uri=uri))
        assert str(caught.value) == (
            f"{uri} is a file and no store; accepted: a .duckdb file, a folder or a URI; [store] uri, "
            "or --store, names another place"
        )
