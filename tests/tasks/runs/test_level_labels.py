"""Labels that are 1 alone: a level where the scale is known, else a pass, and a warning says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from assizes.judge.calibration.record import Calibration
from assizes.judge.config.gates import CalibrationConfig
from assizes.tasks.runs.calibrations import calibrate_run
from assizes.tasks.store import Store
from tests.tasks.reports.sample import BEGUN, Said, run
from tests.tasks.stored_runs import put

METRIC = "tool_routing"
LEVELS = {"a": 5, "b": 1, "c": 4, "d": 1}


def calibrated(store: Store, **settings: Any) -> Calibration:
    """The calibration of a judge that gives the cases their `LEVELS`."""
    run_id = put(store, run([Said(case, (level, level)) for case, level in LEVELS.items()]))
    if settings.get("labels") == "store:":
        rows = [
            {
                **{"label_id": case, "run_id": run_id, "case_id": case, "repetition": 0},
                **{"metric": METRIC, "rater": "ann", "role": "rater", "kind": "label"},
                **{"value": 1 / 5, "at": BEGUN, "shown": "{}"},
            }
            for case in LEVELS
        ]
        store.people.add("labels", rows)
    (found,) = calibrate_run(store, run_id, CalibrationConfig(**settings)).calibrations
    return found


def label_file(folder: Path, label: object) -> str:
    file = folder / "labels.csv"
    rows = [{"case_id": case, "label": label, "metric": METRIC} for case in LEVELS]
    pl.DataFrame(rows).write_csv(file)
    return str(file)


def test_labels_in_a_store_are_levels_also_where_all_are_1(store: Store):
    found = calibrated(store, labels="store:")
    assert found.levels == (1.0, 4.0, 5.0)
    assert found.confusion == ((2, 1, 1), (0, 0, 0), (0, 0, 0))
    assert not any("every label is 1" in line for line in found.warnings)


def test_labels_of_1_are_levels_where_the_settings_name_the_levels(tmp_path: Path, store: Store):
    found = calibrated(store, labels=label_file(tmp_path, 1), levels=(1, 2, 3, 4, 5))
    assert found.confusion[0] == (2, 0, 0, 1, 1)


@pytest.mark.parametrize(("label", "is_warned"), [(1, True), ("pass", False)])
def test_a_file_of_nothing_but_1_is_read_as_passes_and_warned_of(
    label: object, is_warned: bool, tmp_path: Path, store: Store
):
    found = calibrated(store, labels=label_file(tmp_path, label))
    assert found.levels == (0.0, 1.0)
    warned = [line for line in found.warnings if "every label is 1" in line]
    assert len(warned) == is_warned
