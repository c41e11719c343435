"""Calibration records are stored beside the runs, in every kind of store."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb

from assizes.judge.config.run import StoreConfig
from assizes.judge.rows import frame
from assizes.tasks.store import open_store, query_store
from tests.tasks.store.rows import BEGAN, run_record


def row(**changed: Any) -> dict[str, Any]:
    kept = {
        "fingerprint": "0123456789abcdef",
        "metric": "verdict",
        "labels_hash": "aa",
        "run_id": None,
        "at": BEGAN,
        "record": '{"kappa":0.7}',
    }
    return kept | changed


def test_records_come_back_in_order_of_time(place):
    later = row(at=BEGAN + timedelta(days=1), run_id="r-1", fingerprint="00")
    with open_store(place, writing=True) as store:
        assert store.calibrations().is_empty()
        store.add_calibration(later)
        store.add_calibration(row())
    with open_store(place) as reader:
        assert reader.calibrations().equals(frame("calibrations", [row(), later]))


def test_the_same_record_again_changes_nothing_not_even_its_time(place):
    with open_store(place, writing=True) as store:
        store.add_calibration(row())
        store.add_calibration(row(at=BEGAN + timedelta(days=9)))
        store.add_calibration(row(record='{"kappa":0.8}'))
        found = store.calibrations()
    assert found["at"].to_list() == [BEGAN, BEGAN]
    assert sorted(found["record"]) == ['{"kappa":0.7}', '{"kappa":0.8}']


def test_a_file_from_before_there_were_calibrations_is_read_and_written(tmp_path: Path):
    file = tmp_path / "old.duckdb"
    place = StoreConfig(uri=f"duckdb:///{file}")
    with open_store(place, writing=True) as store:
        store.begin(run_record())
    with duckdb.connect(file) as old:
        old.execute("drop table calibrations")
    with open_store(place) as reader:
        assert reader.calibrations().is_empty()
    for run_id in (None, "nightly-1"):
        shown = query_store(place, "select * from calibrations", run_id)
        assert shown.schema == frame("calibrations", []).schema
        assert shown.is_empty()
    with open_store(place, writing=True) as store:
        store.add_calibration(row())
        assert store.calibrations().height == 1
