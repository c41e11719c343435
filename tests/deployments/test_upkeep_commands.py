"""`assizes store clean`, `forget` and `compact`, as a person runs them: first without `--yes`, then with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assizes.judge.config.run import StoreConfig
from assizes.tasks.store import open_store
from tests.command import assizes
from tests.tasks.store.test_upkeep import filled

NOTHING_SAID = {"labels": 0, "annotations": 0, "queues": 0, "cause_edits": 0}
"""Rows of people about the cases of a subject."""


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    with open_store(StoreConfig(uri=str(tmp_path / "lake")), writing=True) as store:
        filled(store)
    return tmp_path


def test_forgetting_shows_the_rows_first_and_deletes_them_when_told(lake):
    shown = assizes("store", "forget", "--tag", "customer=ada", "--store", "lake", cwd=lake)
    assert shown.code == 0, shown.err
    assert "rows in 1 runs to delete" in shown.out
    assert "nothing was changed: this is what --yes would do" in shown.out
    answer = assizes(
        "store", "forget", "--tag", "customer=ada", "--store", "lake", "--json", cwd=lake
    )
    assert json.loads(answer.out) == {
        "deleted": False,
        "runs": [
            {
                "run_id": "nightly-1",
                "case_ids": ["c1", "c3"],
                "rows": {"scores": 6, "asks": 0, "cases": 2, **NOTHING_SAID},
            }
        ],
        "elsewhere": {"to_delete": 0},
    }
    done = assizes("store", "forget", "--tag", "customer=ada", "--store", "lake", "--yes", cwd=lake)
    assert "rows in 1 runs deleted" in done.out
    assert "not touched: transcripts, reports already written" in done.out
    again = assizes("store", "forget", "c1", "--store", "lake", "--yes", cwd=lake)
    assert (again.code, again.out) == (2, "")
    assert "lake: no case 'c1' is in any run; nothing was deleted" in again.err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "no case is named; give a case id or --tag key=value"),
        (("--tag", "ada"), "--tag 'ada'; accepted: key=value"),
    ],
)
def test_a_subject_must_be_named(lake, arguments, reason):
    done = assizes("store", "forget", *arguments, "--store", "lake", "--yes", cwd=lake)
    assert (done.code, done.out, done.err) == (2, "", f"assizes: {reason}\n")


def test_an_empty_run_id_is_not_every_run(lake):
    done = assizes("store", "forget", "c1", "--run-id", "", "--store", "lake", "--yes", cwd=lake)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("assizes: no run '' in lake; it holds nightly-1")


def test_merging_leaves_old_parts_that_are_collected_when_told(lake):
    done = assizes("store", "compact", "nightly", "--store", "lake", cwd=lake)
    assert (
        done.out
        == "nightly-1: 15 parts before, 3 now; `assizes store clean` removes the old parts\n"
    )
    young = assizes("store", "clean", "--store", "lake", "--yes", cwd=lake)
    assert young.out == "lake: 0 objects removed\n"
    shown = assizes("store", "clean", "--store", "lake", "--older-than", "0", cwd=lake)
    assert "lake: 15 objects to remove" in shown.out
    assert len(list((lake / "lake" / "runs").rglob("*.parquet"))) == 18
    done = assizes(
        "store", "clean", "--store", "lake", "--older-than", "0", "--yes", "--json", cwd=lake
    )
    assert json.loads(done.out)["removed"] is True
    assert len(list((lake / "lake" / "runs").rglob("*.parquet"))) == 3
    wrong = assizes("store", "clean", "--store", "lake", "--older-than", "-1", cwd=lake)
    assert wrong.err == "assizes: --older-than -1: accepted are hours from 0 on\n"
