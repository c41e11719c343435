"""`assizes causes`: what failures have in common, what became of it, and which cases show it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assizes.judge.config.run import StoreConfig
from assizes.tasks.store import open_store
from tests.command import assizes
from tests.tasks.store.failing_nights import RUDE, RUDE_CASES, WRONG_CASES, night


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    config = StoreConfig(uri=f"duckdb:///{tmp_path}/assizes.duckdb")
    with open_store(config, writing=True) as store:
        night(store, 1, RUDE_CASES | {39: "Something that no other case has."})
        night(store, 2, RUDE_CASES | WRONG_CASES)
        night(store, 3, {})
        night(store, 4, RUDE_CASES, complete=False)
    return tmp_path


def test_causes_are_printed_with_their_state_and_cases(folder: Path):
    answer = assizes("causes", "night-2", cwd=folder)
    assert (answer.code, answer.err) == (0, "")
    assert "persisting" in answer.out
    assert "new" in answer.out
    assert RUDE in answer.out
    assert "cases c0, c1, c2" in answer.out
    first = assizes("causes", "night-1", cwd=folder)
    assert first.out.splitlines()[-1] == "1 failed cases are in no cause"


def test_causes_are_one_json_document(folder: Path):
    answer = assizes("causes", "night-2", "--json", cwd=folder)
    document = json.loads(answer.out)
    assert document["failed_cases_without_cause"] == 0
    states = {row["state"]: (row["cases"], row["share"]) for row in document["causes"]}
    assert states == {"new": (10, 0.25), "persisting": (8, 0.2)}
    again = assizes("causes", "night-2", "--json", cwd=folder)
    assert json.loads(again.out) == document


def test_what_is_gone_is_named_and_a_run_that_has_not_ended_is_refused(folder: Path):
    document = json.loads(assizes("causes", "night-3", "--json", cwd=folder).out)
    assert {row["state"] for row in document["causes"]} == {"gone"}
    refused = assizes("causes", "night-4", cwd=folder)
    assert refused.code == 2
    assert refused.err.startswith(
        "assizes: run night-4 is running; causes are found in complete runs;"
    )
