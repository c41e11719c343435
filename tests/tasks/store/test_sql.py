"""One SELECT over a store: the same answer from every kind of store, and nothing is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import ConfigurationError, StoreError
from assizes.tasks.store import open_store, query_store
from tests.command import assizes
from tests.doubles.s3 import S3
from tests.tasks.store.rows import COUNTS, ENDED, ended, run_metrics, run_record, shard

RUNS = ("r-1", "r-2")


@pytest.fixture(scope="module", params=["duckdb", "folder", "s3"])
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> StoreConfig:
    """A store of each kind in turn, filled once: nothing that is asked here may change it."""
    folder = tmp_path_factory.mktemp("stores")
    if request.param == "s3":
        s3: S3 = request.getfixturevalue("s3")
        place = StoreConfig(uri=f"s3://{s3.bucket()}/lake", storage_options=s3.storage_options)
    else:
        kind = {"duckdb": f"duckdb:///{folder}/store.duckdb", "folder": f"{folder}/lake"}
        place = StoreConfig(uri=kind[request.param])
    fill(place)
    return place


def fill(place: StoreConfig) -> None:
    with open_store(place, writing=True) as store:
        for run_id in RUNS:
            begun = store.begin(run_record(run_id))
            for number in range(3):
                store.commit_shard(run_id, f"s{number}", shard(run_id, f"c{number}"), COUNTS)
            store.finish(ended(begun), run_metrics(run_id))
        row = {
            "baseline": "r-1",
            "candidate": "r-2",
            "at": ENDED,
            "verdict": "{}",
            "thresholds": "{}",
        }
        store.add_comparison(row)


@pytest.mark.parametrize(
    ("statement", "all_runs", "one_run"),
    [
        ("select count(*) as n from scores", 18, 9),
        ("SELECT sum(turn_count) FROM Cases", 24, 12),
        ("select count(*) from asks", 0, 0),
        ("select count(*) from runs", 2, 1),
        ("select count(*) from run_metrics", 6, 3),
        ("select count(*) from comparisons", 1, 1),
        (
            "with a as (select * from scores) select count(*) from a join a b using (case_id)",
            108,
            27,
        ),
        (
            "select count(*) from scores s join runs r using (run_id) where r.status = 'complete'",
            18,
            9,
        ),
        ("select max(turns[3]) from scores", 2_147_483_647, 2_147_483_647),
        ("select 7", 7, 7),
    ],
)
def test_a_query_sees_all_runs_of_a_store_or_one(filled, statement, all_runs, one_run):
    assert query_store(filled, statement).item() == all_runs
    assert query_store(filled, statement, "r-2").item() == one_run


@pytest.mark.parametrize(
    "statement",
    [
        "delete from scores",
        "create table a (x int)",
        "copy scores to 'out.csv'",
        "attach 'other.duckdb'",
        "set threads = 1",
        "select 1; drop table scores",
        "pragma database_size",
        "",
    ],
)
def test_anything_but_one_select_is_refused_with_what_is_accepted(
    filled, statement, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    before = query_store(filled, "select count(*) from scores").item()
    with pytest.raises(ConfigurationError, match=r"^the query .*"):
        query_store(filled, statement)
    assert query_store(filled, "select count(*) from scores").item() == before
    assert not Path("out.csv").exists()


def test_a_fault_of_the_query_is_one_line(filled):
    with pytest.raises(ConfigurationError) as caught:
        query_store(filled, "select nothing_such from scores")
    assert str(caught.value).startswith("the query cannot be run: Binder Error")
    assert "\n" not in str(caught.value)
    for nobody in ("r-9", ""):
        with pytest.raises(StoreError, match=f"no run '{nobody}'"):
            query_store(filled, "select 1", nobody)


def test_a_folder_with_odd_characters_is_read(tmp_path):
    place = StoreConfig(uri=str(tmp_path / "lake [1]* it's"))
    fill(place)
    assert query_store(place, "select count(*) from scores").item() == 18


def test_the_command_prints_a_table_or_json_for_a_run_or_a_store(tmp_path):
    fill(StoreConfig(uri=f"duckdb:///{tmp_path}/a.duckdb"))
    fill(StoreConfig(uri=str(tmp_path / "lake")))
    query = "select metric, count(*) as n, sum(turn_count) as t from scores join cases using (run_id, case_id) group by metric order by metric"
    wanted = [{"metric": metric, "n": 6, "t": 24} for metric in ("accuracy", "tone", "z")]
    for target in ("a.duckdb", "duckdb:///a.duckdb", "./lake", "lake"):
        done = assizes("sql", target, query, "--json", cwd=tmp_path)
        assert (done.code, done.err) == (0, "")
        assert json.loads(done.out) == wanted
    done = assizes("sql", "r-1", query, "--store", "lake", cwd=tmp_path)
    assert [line.split() for line in done.out.splitlines() if "tone" in line] == [
        ["tone", "3", "12"]
    ]
    done = assizes("sql", "lake", "drop table scores", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("assizes: the query holds DROP; accepted: one SELECT; `assizes sql")


def test_a_table_shows_numbers_and_truths_as_sql_has_them(tmp_path):
    fill(StoreConfig(uri=f"duckdb:///{tmp_path}/a.duckdb"))
    query = (
        "select 0.00021::double as cost, true as cached, false as passed, null as gate, 7 as n, "
    )
    query += "12345678901.5::double as at"
    done = assizes("sql", "a.duckdb", query, cwd=tmp_path)
    assert done.out.splitlines()[3].split() == [
        "0.00021",
        "true",
        "false",
        "-",
        "7",
        "12345678901.5",
    ]
