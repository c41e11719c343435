"""Rows written before a column was added: both kinds of store read null in that column.

Only the day of a run is known without its column.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import duckdb
import polars as pl
import pytest

from assizes.judge.config.run import StoreConfig
from assizes.judge.rows import CASES, LATER_COLUMNS, add_later_columns, frame
from assizes.tasks.store import open_store, query_store, rebuild_store
from assizes.tasks.store.protocol import Store
from tests.tasks.store.rows import BEGAN, COUNTS, ended, run_metrics, run_record, shard

TOOLS = pl.List(pl.String)


def with_tools(case_id: str, *tools: str) -> dict[str, pl.DataFrame]:
    """The frames of a shard with today's columns."""
    frames = shard(case_id=case_id)
    named = frames["cases"].with_columns(tools=pl.Series([list(tools)], dtype=TOOLS))
    return frames | {"cases": named}


@pytest.fixture
def older(place: StoreConfig, monkeypatch: pytest.MonkeyPatch) -> StoreConfig:
    """A store with one shard, written before table cases had the column `tools`."""
    with monkeypatch.context() as before:
        before.delitem(CASES, "turn_spans")  # put back in the reverse order
        before.delitem(CASES, "system_prompt_hash")
        before.delitem(CASES, "flags")
        before.delitem(CASES, "tools")
        before.delitem(LATER_COLUMNS, "cases")
        with open_store(place, writing=True) as store:
            store.begin(run_record())
            store.commit_shard("nightly-1", "s0", shard(), COUNTS)
            assert "tools" not in store.table("nightly-1", "cases").columns
    return place


def resumed(place: StoreConfig) -> None:
    """Commit the second shard of the run with today's columns, and end the run."""
    with open_store(place, writing=True) as store:
        begun = store.begin(run_record())
        store.commit_shard("nightly-1", "s1", with_tools("c2", "find", "pay"), COUNTS)
        store.finish(ended(begun), run_metrics())


def tools_in(store: Store) -> dict[str, list[str] | None]:
    """Table cases as `table` and as `scan` return it."""
    whole = store.table("nightly-1", "cases")
    assert whole.schema == pl.Schema(CASES)
    lazy = store.scan("nightly-1", "cases")
    assert lazy.collect_schema()["tools"] == TOOLS
    assert lazy.sort("case_id").collect(engine="streaming").equals(whole)
    narrow = lazy.select("case_id", "tools").sort("case_id").collect(engine="streaming")
    assert narrow.equals(whole.select("case_id", "tools"))
    known = lazy.filter(pl.col("tools").is_not_null()).select("case_id").collect()
    assert known.height == whole["tools"].count()
    return dict(whole.select("case_id", "tools").rows())


def test_an_older_store_is_read_with_null_where_rows_hold_no_tools(older):
    for _ in range(2):  # reading changes nothing that would have to be there
        with open_store(older) as store:
            assert tools_in(store) == {"c1": None}


def test_a_run_begun_before_the_column_is_resumed_and_holds_both_kinds_of_rows(older):
    resumed(older)
    with open_store(older) as store:
        assert tools_in(store) == {"c1": None, "c2": ["find", "pay"]}
        assert store.table("nightly-1", "scores").height == 6


def test_sql_over_an_older_store_has_the_column(older):
    assert query_store(older, "select tools from cases").rows() == [(None,)]
    assert query_store(older, "select tools from cases", "nightly-1").rows() == [(None,)]
    resumed(older)
    wanted = "select case_id, tools from cases order by case_id"
    both = [("c1", None), ("c2", ["find", "pay"])]
    assert query_store(older, wanted).rows() == both
    assert query_store(older, wanted, "nightly-1").rows() == both
    calls = "select tool, count(*) from (select unnest(tools) as tool from cases) group by all order by tool"
    assert query_store(older, calls).rows() == [("find", 1), ("pay", 1)]


def test_an_older_file_gets_the_column_when_it_is_next_opened_for_writing(
    duckdb_place, monkeypatch
):
    with monkeypatch.context() as before:
        before.delitem(CASES, "turn_spans")  # put back in the reverse order
        before.delitem(CASES, "system_prompt_hash")
        before.delitem(CASES, "flags")
        before.delitem(CASES, "tools")
        before.delitem(LATER_COLUMNS, "cases")
        open_store(duckdb_place, writing=True).close()
    for _ in range(2):
        open_store(duckdb_place, writing=True).close()
    described = "select column_name from (describe cases)"
    assert query_store(duckdb_place, described)["column_name"].to_list() == list(CASES)


@pytest.mark.parametrize("act", ["compact", "forget"])
def test_parts_of_both_kinds_are_rewritten_together(older, act):
    resumed(older)
    with open_store(older, writing=True) as store:
        if act == "forget":
            store.forget("nightly-1", ["c1"])
            assert tools_in(store) == {"c2": ["find", "pay"]}
            return
        if not older.uri.startswith("duckdb:"):
            assert store.compact("nightly-1").after == 3
        assert tools_in(store) == {"c1": None, "c2": ["find", "pay"]}


def test_a_file_is_rebuilt_from_an_older_parquet_copy(tmp_path: Path, monkeypatch):
    copy = StoreConfig(uri=str(tmp_path / "lake"))
    with monkeypatch.context() as before:
        before.delitem(CASES, "turn_spans")  # put back in the reverse order
        before.delitem(CASES, "system_prompt_hash")
        before.delitem(CASES, "flags")
        before.delitem(CASES, "tools")
        before.delitem(LATER_COLUMNS, "cases")
        with open_store(copy, writing=True) as store:
            store.begin(run_record())
            store.commit_shard("nightly-1", "s0", shard(), COUNTS)
    resumed(copy)
    place = StoreConfig(uri=f"duckdb:///{tmp_path}/made.duckdb")
    assert rebuild_store(place, copy).kept_run_ids == ["nightly-1"]
    with open_store(place) as store:
        assert tools_in(store) == {"c1": None, "c2": ["find", "pay"]}


def drop_days(place: StoreConfig) -> None:
    """Make of a store one that was written before table runs had the column `day`."""
    if place.uri.startswith("duckdb:"):
        with duckdb.connect(place.uri.removeprefix("duckdb:///")) as con:
            con.execute("alter table runs drop column day")
        return
    for file in Path(place.uri).glob("runs/*/*.json"):
        document = json.loads(file.read_text("utf-8"))
        del document["hash"]
        if document.get("run", {}).pop("day", None):
            file.write_text(json.dumps(document), "utf-8")


@pytest.fixture(params=["duckdb", "folder"])
def without_days(request: pytest.FixtureRequest) -> StoreConfig:
    """An older store with a run about a night, and with one that was begun by hand on 1 March."""
    place: StoreConfig = request.getfixturevalue(f"{request.param}_place")
    night = {"day": "2026-02-14", **run_record().config}
    with open_store(place, writing=True) as store:
        for begun in (run_record("night", config=night), run_record("by-hand", trigger="adhoc")):
            store.finish(ended(store.begin(begun)), run_metrics(begun.run_id))
    drop_days(place)
    return place


@pytest.mark.row("005-22")
def test_the_day_of_an_older_run_is_the_one_in_its_configuration_else_that_of_its_start(
    without_days: StoreConfig,
):
    with open_store(without_days) as store:
        rows = store.runs().select("run_id", "day").rows()
        assert rows == [("by-hand", date(2026, 3, 1)), ("night", date(2026, 2, 14))]
        assert store.run("night").day == date(2026, 2, 14)
        assert store.run("by-hand").day == date(2026, 3, 1)


def test_an_older_store_takes_runs_with_a_day(without_days: StoreConfig):
    with open_store(without_days, writing=True) as store:
        begun = store.begin(run_record("new", config={"day": "2026-02-20"}))
        store.finish(ended(begun), run_metrics("new"))
        assert store.runs()["run_id"].to_list() == ["by-hand", "new", "night"]
        assert store.run("new").day == date(2026, 2, 20)
    days = query_store(without_days, "select day from runs where run_id = 'new'").rows()
    assert days == [(date(2026, 2, 20),)]


def test_a_run_of_no_one_day_is_stored_with_the_day_on_which_it_began(duckdb_place):
    with open_store(duckdb_place, writing=True) as store:
        store.begin(replace(run_record(), started_at=BEGAN))  # 02:30 two hours east of UTC
    days = query_store(duckdb_place, "select day, started_at::date from runs").rows()
    assert days == [(date(2026, 3, 1), date(2026, 3, 1))]


def test_rows_that_lack_nothing_are_left_as_they_are():
    today = frame("cases", [{"run_id": "r", "case_id": "c", "repetition": 0, "tools": []}])
    assert add_later_columns("cases", today).equals(today)
    assert add_later_columns("asks", frame("asks", [])).schema == frame("asks", []).schema
