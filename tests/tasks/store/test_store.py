"""The promises of the protocol `Store`, tested with each kind of store."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import SchemaVersion, StoreError, UnknownRun
from assizes.judge.rows import SHARD_TABLES, TABLES, as_json, frame
from assizes.tasks.store import open_store
from tests.tasks.store.rows import (
    BEGAN,
    COUNTS,
    ENDED,
    ended,
    joined,
    run_metrics,
    run_record,
    shard,
)


def test_a_run_begins_is_committed_ends_and_is_read_back_by_another_reader(place):
    first, second = shard(case_id="c1"), shard(case_id="c0")
    with open_store(place, writing=True) as store:
        begun = store.begin(run_record())
        assert store.commit_shard("nightly-1", "s1", first, COUNTS) is True
        assert store.commit_shard("nightly-1", "s0", second, {"read": 1}) is True
        store.finish(ended(begun), run_metrics())
    with open_store(place) as reader:
        assert reader.uri == place.uri
        assert reader.run("nightly-1") == ended(run_record())
        assert reader.plan("nightly-1") == run_record().plan
        assert reader.shard_counts("nightly-1") == {"s0": {"read": 1}, "s1": COUNTS}
        for table in SHARD_TABLES:
            assert_frame_equal(reader.table("nightly-1", table), joined(table, first, second))
        assert_frame_equal(reader.table("nightly-1", "run_metrics"), run_metrics())


def test_times_come_back_in_utc_to_the_microsecond(place):
    with open_store(place, writing=True) as store:
        store.begin(run_record())
        store.commit_shard("nightly-1", "s0", shard(), COUNTS)
        store.finish(ended(run_record()), run_metrics())
        run, cases = store.run("nightly-1"), store.table("nightly-1", "cases")
    assert (run.started_at, run.started_at.tzinfo) == (BEGAN, UTC)
    assert run.finished_at == ENDED
    assert cases["started_at"].to_list() == [BEGAN]
    assert cases.schema["started_at"] == pl.Datetime("us", "UTC")


def test_scan_gives_the_rows_of_table(place):
    with open_store(place, writing=True) as store:
        store.begin(run_record())
        store.commit_shard("nightly-1", "s0", shard(case_id="c1"), COUNTS)
        store.commit_shard("nightly-1", "s1", shard(case_id="c2"), COUNTS)
        for table in (*SHARD_TABLES, "run_metrics"):
            lazy = store.scan("nightly-1", table).collect()
            expected = store.table("nightly-1", table)
            assert_frame_equal(lazy, expected, check_row_order=False)


def test_all_kinds_of_store_return_the_same_bytes(duckdb_place, folder_place, s3_place):
    def content(place: StoreConfig) -> list[bytes]:
        frames = []
        with open_store(place, writing=True) as store:
            for run_id in ("r-1", "r-2"):
                begun = store.begin(run_record(run_id))
                for number in (2, 0, 1):
                    rows = shard(run_id, case_id=f"c{number}")
                    store.commit_shard(run_id, f"s{number}", rows, COUNTS)
                store.finish(ended(begun), run_metrics(run_id))
            for _ in range(2):
                frames += [store.table("r-2", name) for name in (*SHARD_TABLES, "run_metrics")]
                frames += [store.runs(), store.comparisons()]
        return [_parquet(found) for found in frames]

    ours = [content(place) for place in (duckdb_place, folder_place, s3_place)]
    assert ours[0] == ours[1] == ours[2]
    assert ours[0][:7] == ours[0][7:]


def _parquet(rows: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    rows.write_parquet(buffer)
    return buffer.getvalue()


def test_a_run_without_rows_reads_as_empty_tables_of_the_public_schema(place):
    with open_store(place, writing=True) as store:
        store.begin(run_record())
        assert store.commit_shard("nightly-1", "s0", {}, {}) is True
        assert store.shard_counts("nightly-1") == {"s0": {}}
        for table in (*SHARD_TABLES, "run_metrics"):
            assert_frame_equal(store.table("nightly-1", table), frame(table, []))
            assert_frame_equal(store.scan("nightly-1", table).collect(), frame(table, []))


def test_an_empty_store_lists_nothing(place):
    with open_store(place, writing=True) as store:
        assert_frame_equal(store.runs(), frame("runs", []))
        assert_frame_equal(store.comparisons(), frame("comparisons", []))
        assert store.plan("nightly-1") is None


def test_runs_are_listed_newest_first_with_those_still_running(place):
    old = run_record("old", started_at=BEGAN.replace(year=2025))
    twin = run_record("another")
    with open_store(place, writing=True) as store:
        for run in (old, run_record("new"), twin):
            store.begin(run)
        store.finish(ended(old), run_metrics("old"))
        listed = store.runs()
    assert listed.schema == pl.Schema(TABLES["runs"])
    assert listed.select("run_id", "status").rows() == [
        ("another", "running"),
        ("new", "running"),
        ("old", "complete"),
    ]
    assert listed.row(2, named=True) == ended(old).row()


def test_a_shard_is_committed_once(place):
    with open_store(place, writing=True) as store:
        store.begin(run_record())
        assert store.commit_shard("nightly-1", "s0", shard(), COUNTS) is True
        assert store.commit_shard("nightly-1", "s0", shard(), COUNTS) is False
        assert store.commit_shard("nightly-1", "s0", shard(case_id="other"), {"read": 9}) is False
    with open_store(place, writing=True) as store:
        assert store.commit_shard("nightly-1", "s0", shard(case_id="third"), {}) is False
        assert store.shard_counts("nightly-1") == {"s0": COUNTS}
        for table in SHARD_TABLES:
            assert_frame_equal(store.table("nightly-1", table), shard()[table])


def test_of_racing_writers_one_wins_each_shard_and_only_its_rows_are_read(place):
    writers, shards = 4, [f"s{n}" for n in range(6)]
    won: dict[str, list[int]] = {name: [] for name in shards}
    start = threading.Barrier(writers)

    with open_store(place, writing=True) as store:
        store.begin(run_record())

        def write(writer: int) -> None:
            start.wait()
            for name in shards:
                rows = shard(case_id=name, reason=f"by {writer}")
                if store.commit_shard("nightly-1", name, rows, {"writer": writer}):
                    won[name].append(writer)

        threads = [threading.Thread(target=write, args=(n,)) for n in range(writers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        counts = store.shard_counts("nightly-1")
        scores = store.table("nightly-1", "scores")
    assert {name: [counts[name]["writer"]] for name in shards} == won
    reasons = dict(scores.filter(metric="tone").select("case_id", pl.len().over("case_id")).rows())
    assert reasons == dict.fromkeys(shards, 1)
    by_case = scores.filter(metric="accuracy").select("case_id", "reason").rows()
    assert by_case == [(name, f"by {won[name][0]}") for name in shards]


def test_resuming_returns_the_run_as_it_was_frozen(place):
    later = run_record(name="other", started_at=ENDED.replace(year=2027))
    with open_store(place, writing=True) as store:
        store.begin(run_record())
        store.commit_shard("nightly-1", "s0", shard(), COUNTS)
    with open_store(place, writing=True) as store:
        assert store.begin(later) == run_record()
        assert store.shard_counts("nightly-1") == {"s0": COUNTS}


def test_a_run_id_with_another_configuration_is_refused_naming_what_differs(place):
    other = {**run_record().config, "judge": {"model": "offline/lexical", "temperature": 0.7}}
    changed = run_record(config_hash="fedcba9876543210", config=other)
    told = r"begun with another configuration: judge\.temperature differ; `assizes resume "
    with open_store(place, writing=True) as store:
        store.begin(run_record())
        with pytest.raises(StoreError, match=told):
            store.begin(replace(changed, plan={}))
        with pytest.raises(StoreError, match=told):
            store.finish(ended(changed), run_metrics())


def test_a_run_id_whose_judges_have_changed_is_refused(place):
    judged, rejudged = (
        run_record(config={**run_record().config, "fingerprints": {"metric:tone": version}})
        for version in ("1", "2")
    )
    with open_store(place, writing=True) as store:
        store.begin(judged)
        with pytest.raises(StoreError, match=r"fingerprints\.metric:tone differ"):
            store.begin(rejudged)
        assert store.begin(judged) == judged


def test_a_run_id_with_another_plan_is_refused(place):
    with open_store(place, writing=True) as store:
        store.begin(run_record())
        with pytest.raises(StoreError, match=r"'nightly-1' .* was planned over other input"):
            store.begin(run_record(plan={**run_record().plan, "content_hash": "größe-8"}))
        assert store.plan("nightly-1") == run_record().plan


def test_the_same_input_cut_otherwise_is_resumed_with_the_stored_plan(place):
    with open_store(place, writing=True) as store:
        store.begin(run_record())
        finer = run_record(plan={**run_record().plan, "shards": ["s0a", "s0b", "s1"]})
        assert store.begin(finer) == run_record()
        assert store.plan("nightly-1") == run_record().plan


def test_ending_again_keeps_what_is_there_to_the_first_finished_at(place):
    later = ended(run_record(), finished_at=ENDED.replace(year=2027), plan={})
    with open_store(place, writing=True) as store:
        store.begin(run_record())
        store.finish(ended(run_record()), run_metrics())
        store.finish(later, run_metrics())
        assert store.run("nightly-1") == ended(run_record())


@pytest.mark.parametrize(
    ("changed", "metrics", "named"),
    [
        ({"counts": {"read": 5}}, 81.6, "counts"),
        ({"summary": None, "status": "failed"}, 81.6, "status, summary"),
        ({}, 81.7, "run_metrics"),
        ({}, None, "run_metrics"),
    ],
)
def test_a_complete_run_is_frozen(place, changed, metrics, named):
    with open_store(place, writing=True) as store:
        store.begin(run_record())
        store.finish(ended(run_record()), run_metrics())
        with pytest.raises(StoreError, match=f"complete and frozen; {named} would change"):
            store.finish(ended(run_record(), **changed), run_metrics(first=metrics))
        assert store.run("nightly-1") == ended(run_record())


def test_a_run_that_stopped_is_resumed_and_ends_anew(place):
    stopped = ended(run_record(), status="incomplete", summary=None)
    with open_store(place, writing=True) as store:
        store.begin(run_record())
        store.finish(stopped, run_metrics(first=1.0))
        assert store.run("nightly-1") == stopped
        store.finish(replace(stopped, status="failed"), run_metrics(first=2.0))
        assert store.table("nightly-1", "run_metrics").equals(run_metrics(first=2.0))
        assert store.begin(run_record()) == replace(stopped, status="failed")
        store.commit_shard("nightly-1", "s0", shard(), COUNTS)
        store.finish(ended(run_record()), run_metrics())
        assert store.run("nightly-1") == ended(run_record())
        assert store.runs()["status"].to_list() == ["complete"]
        assert store.table("nightly-1", "run_metrics").equals(run_metrics())


def test_an_ending_must_be_one(place):
    with open_store(place, writing=True) as store:
        store.begin(run_record())
        with pytest.raises(StoreError, match="cannot end as 'running'; accepted: complete, "):
            store.finish(run_record(), run_metrics())
        with pytest.raises(StoreError, match=r"'weighted_metrics_score_pct' .* is nan"):
            store.finish(ended(run_record()), run_metrics(first=float("nan")))
        assert store.run("nightly-1") == run_record()


def test_a_run_is_found_by_the_beginning_of_its_id(place):
    with open_store(place, writing=True) as store:
        for run_id in ("night-1", "night-12", "adhoc"):
            store.begin(run_record(run_id))
        assert store.run("a") == run_record("adhoc")
        assert store.run("night-1") == run_record("night-1")
        with pytest.raises(StoreError, match=r"2 runs in .* start with 'night': night-1, night-12"):
            store.run("night")


@pytest.mark.parametrize("run_id", ["nightly-2", "", "../nightly-1", "Nightly"])
def test_an_unknown_run_is_named_with_those_there(place, run_id):
    with open_store(place, writing=True) as store:
        store.begin(run_record())
        wanted = rf"no run '{run_id}' in .*; it holds nightly-1$"
        with pytest.raises(UnknownRun, match=wanted):
            store.run(run_id)
        for ask in (
            lambda: store.table(run_id, "scores"),
            lambda: store.scan(run_id, "scores"),
            lambda: store.shard_counts(run_id),
            lambda: store.commit_shard(run_id, "s0", {}, {}),
            lambda: store.finish(ended(run_record(run_id)), run_metrics(run_id)),
        ):
            with pytest.raises(UnknownRun, match=wanted):
                ask()
        assert store.plan(run_id) is None


@pytest.mark.parametrize("odd", ["", ".hidden", "a/b", "..", "-x", "größe", "x" * 129, "a\n"])
def test_an_id_that_could_leave_its_folder_is_refused(place, odd):
    with open_store(place, writing=True) as store:
        store.begin(run_record())
        with pytest.raises(StoreError, match=r"run id .* cannot name a stored object"):
            store.begin(run_record(odd))
        with pytest.raises(StoreError, match=r"shard id .* cannot name a stored object"):
            store.commit_shard("nightly-1", odd, shard(), COUNTS)


def test_rows_that_do_not_belong_are_refused_and_nothing_of_the_shard_is_seen(place):
    other = {**shard(), "rejects": shard("stray")["rejects"]}
    wrong = {**shard(), "cases": shard()["cases"].drop("tags")}
    with open_store(place, writing=True) as store:
        store.begin(run_record())
        with pytest.raises(StoreError, match="'rejects' in run 'nightly-1' belong to run 'stray'"):
            store.commit_shard("nightly-1", "s0", other, COUNTS)
        with pytest.raises(StoreError, match="rows of 'cases' in run 'nightly-1' have the columns"):
            store.commit_shard("nightly-1", "s0", wrong, COUNTS)
        with pytest.raises(StoreError, match="table 'runs' is not kept here; accepted: scores, "):
            store.commit_shard("nightly-1", "s0", {"runs": store.runs()}, COUNTS)
        assert store.shard_counts("nightly-1") == {}
        assert store.table("nightly-1", "scores").is_empty()


def test_only_tables_of_a_run_can_be_asked_for(place):
    with open_store(place, writing=True) as store:
        store.begin(run_record())
        for ask in (store.table, store.scan):
            with pytest.raises(StoreError, match="'_plans' is not kept here; accepted: scores, "):
                ask("nightly-1", "_plans")


def test_comparisons_are_kept_once_each_and_sorted(place):
    row = {
        "baseline": "r-1",
        "candidate": "r-2",
        "at": ENDED,
        "verdict": as_json({"regressed": True, "why": "größe"}),
        "thresholds": as_json({"max_pass_rate_drop": 0.0}),
    }
    strict = row | {"thresholds": as_json({"max_pass_rate_drop": 0.1})}
    early = row | {"at": BEGAN.replace(microsecond=0), "verdict": None}
    with open_store(place, writing=True) as store:
        for added in (strict, row, early, row):
            store.add_comparison(added)
        found = store.comparisons()
    assert_frame_equal(found, frame("comparisons", [early, row, strict]))


def test_reading_where_nothing_was_stored_says_what_to_do(place):
    with pytest.raises(StoreError) as caught:
        open_store(place)
    assert str(caught.value) == f"no store at {place.uri}: run `assizes run` first"


def test_a_store_of_another_schema_version_is_refused_both_ways(place, s3):
    open_store(place, writing=True).close()
    _set_version(place, s3.client, 1)
    for writing in (False, True):
        with pytest.raises(SchemaVersion, match="schema version 1, this assizes reads version 2"):
            open_store(place, writing=writing)


def _set_version(place: StoreConfig, client, version: int) -> None:
    if place.uri.startswith("duckdb:"):
        code = (
            f"import duckdb; con = duckdb.connect({place.uri.removeprefix('duckdb:///')!r});"
            f"con.execute('update _meta set schema_version = {version}'); con.close()"
        )
        subprocess.run([sys.executable, "-c", code], check=True)
        return
    _put(place, client, "_assizes.json", json.dumps({"schema_version": version}).encode())


def _put(place: StoreConfig, client, name: str, data: bytes) -> None:
    if place.uri.startswith("s3:"):
        bucket, prefix = place.uri.removeprefix("s3://").split("/")
        client.put_object(Bucket=bucket, Key=f"{prefix}/{name}", Body=data)
    else:
        Path(place.uri, name).write_bytes(data)


def test_closing_twice_is_fine(place):
    store = open_store(place, writing=True)
    store.close()
    store.close()
