"""Every name under which a run can be asked for, in each kind of store."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime

import pytest
from polars.testing import assert_frame_equal

from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import UnknownRun
from assizes.judge.history.anchors import ANCHORS
from assizes.tasks.runs.anchor_runs import CANARIES
from assizes.tasks.store import Store, open_store
from assizes.tasks.store.run_names import SIDE_RUNS, RunName, names_in_ids, resolve_run
from tests.tasks.store.rows import ended, run_metrics, run_record, shard

RUNS = [  # id, name, day of its data, hour at which it began on 2026-11-22
    ("nightly-0aaaaaaaaaaa", "nightly", "2026-11-18", 1),
    ("nightly-1f2eaaaaaaaa", "nightly", "2026-11-20", 2),
    ("nightly-1f2ebbbbbbbb", "nightly", "2026-11-20", 3),  # the same night, judged again
    ("nightly-9a8bbbbbbbbb", "nightly", "2026-11-21", 4),
    ("nightly-9a8bbbbbbbbb-anchors", "nightly-anchors", "2026-11-21", 5),
    ("weekly-2cccccccccccc", "weekly", "2026-11-14", 6),
    ("by-hand", "nightly-eu", "2026-11-10", 7),
]

NAMED = {
    "latest": "nightly-9a8bbbbbbbbb",
    "latest~1": "nightly-1f2ebbbbbbbb",
    "latest@2026-11-14": "weekly-2cccccccccccc",
    "nightly": "nightly-9a8bbbbbbbbb",
    "nightly~0": "nightly-9a8bbbbbbbbb",
    "nightly~": "nightly-1f2ebbbbbbbb",
    "nightly~1": "nightly-1f2ebbbbbbbb",
    "nightly~3": "nightly-0aaaaaaaaaaa",
    "nightly@2026-11-20": "nightly-1f2ebbbbbbbb",
    "nightly@2026-11-20~1": "nightly-1f2eaaaaaaaa",
    "nightly@2026-11-20~2": "nightly-0aaaaaaaaaaa",
    "nightly-1f2ea": "nightly-1f2eaaaaaaaa",
    "nightly-1f2ea~1": "nightly-0aaaaaaaaaaa",
    "nightly-9a8b": "nightly-9a8bbbbbbbbb",  # and no anchor run of it
    "nightly-9a8bbbbbbbbb": "nightly-9a8bbbbbbbbb",
    "nightly-9a8bbbbbbbbb-a": "nightly-9a8bbbbbbbbb-anchors",
    "nightly-anchors": "nightly-9a8bbbbbbbbb-anchors",
    "nightly-eu": "by-hand",
    "week": "weekly-2cccccccccccc",
    "by": "by-hand",
}


@pytest.fixture
def store(place: StoreConfig) -> Iterator[Store]:
    with open_store(place, writing=True) as opened:
        for run_id, name, day, hour in RUNS:
            start = datetime(2026, 11, 22, hour, tzinfo=UTC)
            opened.begin(run_record(run_id, name=name, config={"day": day}, started_at=start))
        yield opened


@pytest.mark.full
def test_a_run_has_many_names(store: Store):
    assert {name: store.run(name).run_id for name in NAMED} == NAMED


def test_rows_are_read_by_such_a_name_too(place: StoreConfig):
    with open_store(place, writing=True) as store:
        store.begin(run_record())
        store.commit_shard("nightly-1", "s0", shard(), {})
        store.finish(ended(run_record()), run_metrics())
        for name in ("latest", "nightly", "night"):
            assert_frame_equal(store.table(name, "scores"), shard()["scores"])
            assert_frame_equal(store.scan(name, "cases").collect(), shard()["cases"])
            assert_frame_equal(store.table(name, "run_metrics"), run_metrics())


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("monthly", "no run 'monthly' in .*; it holds nightly-9a8b.* and 2 more "),
        ("nightly-1f2e", "2 runs in .* start with 'nightly-1f2e': .*; give more of the id"),
        ("nightly-1f2e~1", "2 runs in .* start with 'nightly-1f2e'"),
        (
            "nightly@2026-11-19",
            "the nearest days are 2026-11-18, 2026-11-20, 2026-11-21$",
        ),
        ("nightly@20.11.2026", r"'20\.11\.2026' is no day; write NAME@2026-11-20"),
        ("nightly@", "'' is no day"),
        ("nightly~4", "nightly-9a8bbbbbbbbb has 3 earlier runs of the name 'nightly'"),
        ("weekly~99999999999999999999", "no run 'weekly~9"),
        ("nightly~x", "no run 'nightly~x'"),
        ("~1", "no run '~1'"),
        ("@2026-11-20", "no run '@2026-11-20'"),
        ("../by-hand", r"no run '\.\./by-hand'"),
    ],
)
def test_a_name_of_no_run_is_refused_with_what_would_do(store: Store, name: str, fault: str):
    with pytest.raises(UnknownRun, match=fault):
        store.run(name)


def test_the_id_of_a_run_is_stronger_than_any_other_name(place: StoreConfig):
    with open_store(place, writing=True) as store:
        store.begin(run_record("latest", name="weekly", config={"day": "2026-01-01"}))
        store.begin(run_record("nightly", name="weekly", config={"day": "2026-01-02"}))
        store.begin(run_record("nightly-1", config={"day": "2026-01-03"}))
        assert [store.run(name).run_id for name in ("latest", "nightly")] == ["latest", "nightly"]


def test_an_empty_store_has_no_latest_run(place: StoreConfig):
    with (
        open_store(place, writing=True) as store,
        pytest.raises(UnknownRun, match="no run 'latest' in .*; it holds no run at all"),
    ):
        store.run("latest")


def test_names_are_read_from_ids_where_only_ids_are_known():
    ids = [
        "nightly-9a8b7c6d5e4f-anchors",
        "nightly-9a8b7c6d5e4f-r2",
        "nightly-9a8b7c6d5e4f",
        "by-hand",
    ]
    names = names_in_ids(ids)
    assert [name.name for name in names] == ["nightly-anchors", "nightly", "nightly", "by-hand"]
    assert resolve_run("latest", names, "here") == "nightly-9a8b7c6d5e4f-r2"
    assert resolve_run("nightly~1", names, "here") == "nightly-9a8b7c6d5e4f"
    with pytest.raises(UnknownRun, match=r"here knows no days; give an id \(`assizes runs`\)"):
        resolve_run("nightly@2026-11-20", names, "here")


def test_runs_of_a_name_that_only_looks_like_a_side_run_are_found_as_others_are():
    runs = [RunName("a-1", "safety-anchors", date(2026, 1, 1))]
    assert resolve_run("latest", runs, "here") == "a-1"
    assert SIDE_RUNS == (ANCHORS, CANARIES)
