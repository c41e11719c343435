"""One flipped bit in any file of a store is told by the name of the file, or changes no answer."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import StoreError
from assizes.judge.rows import CAUSE_TABLES, PEOPLE_TABLES
from assizes.tasks.runs.run_causes import causes_of_run
from assizes.tasks.store import open_store, query_store
from assizes.tasks.store.record import RUN_TABLES
from tests.tasks.store.failing_nights import RUDE_CASES, WRONG_CASES, night
from tests.tasks.store.rot import silent_flips
from tests.tasks.store.rows import ENDED
from tests.tasks.store.test_people import label

EACH = int(os.environ.get("ASSIZES_ROT_FLIPS", "4"))
"""Flips of each class of bytes of each file; `make torture` makes more."""

SEED = 20261126


def filled(place: StoreConfig) -> None:
    with open_store(place, writing=True) as store:
        night(store, 1, RUDE_CASES)
        night(store, 2, RUDE_CASES | WRONG_CASES)
        causes_of_run(store, "latest")
        store.people.add("labels", [label("a"), label("b", case_id="c1")])
        store.people.add("labels", [label("c", case_id="c2")])
        row = {"baseline": "night-1", "candidate": "night-2", "at": ENDED}
        store.add_comparison(row | {"verdict": '{"a":1}', "thresholds": "{}"})
        store.add_calibration(
            {
                "run_id": "night-2",
                "fingerprint": "f",
                "at": ENDED,
                "metric": "m",
                "labels_hash": "h",
                "record": "{}",
            }
        )


def everything(place: StoreConfig) -> list[Any]:
    """All that a reader can ask of a store."""
    with open_store(place) as store:
        runs = store.runs()
        answer: list[Any] = [runs.rows(), store.comparisons().rows(), store.calibrations().rows()]
        for run_id in sorted(runs["run_id"]):
            answer += [store.run(run_id), store.plan(run_id), store.shard_counts(run_id)]
            for table in RUN_TABLES:
                answer.append(sorted(map(repr, store.scan(run_id, table).collect().rows())))
        answer += [store.people.rows(table).rows() for table in PEOPLE_TABLES]
        for table in CAUSE_TABLES:
            answer.append(store.causes.rows(table, sorted(runs["run_id"])).rows())
        for run_id in sorted(store.causes.run_ids()):
            found = store.causes.read(run_id)
            answer += [rows.rows() for rows in found or ()]
    return answer


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    filled(StoreConfig(uri=str(folder / "lake")))
    filled(StoreConfig(uri=f"duckdb:///{folder}/file/store.duckdb"))
    return folder


def kinds(folder: Path) -> list[Path]:
    """One file of each kind: of those with the same folder and the same beginning of their name.

    Without the derived tables, which are made again where they are damaged (test_run_index.py).
    """
    every = (path for path in folder.rglob("*") if path.is_file())
    files = sorted(path for path in every if path.parent.name != "index")
    one = {}
    for path in files:
        place = path.relative_to(folder).parent.as_posix().replace("night-1", "night-2")
        one[place, path.name.partition("-")[0] if "parts" in place else path.suffix] = path
        if path.suffix == ".json" and "runs" in place:
            one[place, path.name if path.parent.name.startswith("night") else ""] = path
    return sorted(set(one.values()))


@pytest.mark.full
def test_a_bit_that_flips_in_a_lake_is_told(whole, tmp_path):
    shutil.copytree(whole / "lake", tmp_path / "lake")
    place = StoreConfig(uri=str(tmp_path / "lake"))
    files = kinds(tmp_path / "lake")
    assert len(files) == 13
    for file in files:
        found, told = silent_flips(file, lambda: everything(place), each=EACH, seed=SEED)
        assert (file.name, found) == (file.name, [])
        assert told > EACH, file.name  # most, if not all


@pytest.mark.full
def test_a_bit_that_flips_in_a_duckdb_file_or_beside_it_is_told(whole, tmp_path):
    shutil.copytree(whole / "file", tmp_path / "file")
    place = StoreConfig(uri=f"duckdb:///{tmp_path}/file/store.duckdb")
    files = kinds(tmp_path / "file")
    assert {file.suffix for file in files} >= {".duckdb", ".people", ".commits", ".parquet"}
    for file in files:
        found, told = silent_flips(file, lambda: everything(place), each=EACH, seed=SEED)
        assert (file.name, found) == (file.name, [])
        assert told or file.suffix == ".commits", file.name  # which only lists what the file has


@pytest.mark.parametrize("verify", [False, True])
def test_sql_hashes_the_parts_of_a_lake_on_demand(whole, tmp_path, verify):
    shutil.copytree(whole / "lake", tmp_path / "lake")
    place = StoreConfig(uri=str(tmp_path / "lake"))
    (part,) = (tmp_path / "lake" / "runs" / "night-1" / "parts").glob("scores-*")
    data = bytearray(part.read_bytes())
    data[data.index(b"Polars (python)")] ^= 1  # says who wrote it: no row differs
    part.write_bytes(data)
    query = "select count(*) from scores"
    if verify:
        with pytest.raises(StoreError, match=part.name):
            query_store(place, query, verify=True)
    else:
        assert query_store(place, query).item() > 0
