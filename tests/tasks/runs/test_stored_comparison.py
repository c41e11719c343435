"""Which comparison of a run is its own, and what others leave of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import UnknownRun
from assizes.judge.rows import as_json, frame
from assizes.tasks.runs.stored_comparison import baseline_id, compare_stored, stored_comparison
from assizes.tasks.runs.stored_runs import next_sequence
from assizes.tasks.store import Store, open_store
from tests.tasks.reports.sample import BEGUN, Said, run

OWN = ComparisonConfig(baseline="latest")


def keep(
    store: Store,
    run_id: str,
    day: int,
    *,
    status: str = "complete",
    outcome: str = "passed",
    use: str = "read_write",
) -> None:
    one = run([Said("c1", (5, 4))], run_id=run_id, comparison=OWN.model_dump())
    begun = BEGUN + timedelta(days=day)
    config = {**one.record.config, "cache": {"use": use}}
    summary = {**(one.record.summary or {}), "outcome": outcome}
    kept = replace(one.record, config=config, summary=summary)
    record = replace(kept, started_at=begun, finished_at=begun + timedelta(minutes=1))
    if store.runs().filter(run_id=run_id).is_empty():
        store.begin(replace(record, status="running", finished_at=None, summary=None))
        store.commit_shard(run_id, "s0", one.frames, {"judged": 1})
    store.finish(replace(record, status=status), frame("run_metrics", []))


@pytest.fixture
def store(tmp_path: Path):
    with open_store(StoreConfig(uri=f"duckdb:///{tmp_path}/rows.duckdb"), writing=True) as opened:
        keep(opened, "one", 1)
        keep(opened, "two", 2)
        keep(opened, "zero", 0)
        keep(opened, "late", 3, status="incomplete")
        keep(opened, "new", 4)
        yield opened


def reported(store: Store) -> str:
    found = stored_comparison(store, store.run("new"))
    assert found is not None
    return found.baseline_run_id


def test_a_comparison_by_hand_does_not_take_the_place_of_the_runs_own(store: Store):
    compare_stored(store, "two", "new", OWN)
    compare_stored(store, "zero", "new", OWN)
    compare_stored(store, "one", "new", ComparisonConfig(max_avg_score_drop=50))
    assert reported(store) == "two"
    kept = [row["baseline"] for row in store.comparisons().iter_rows(named=True)]
    assert kept == ["one", "two", "zero"]


def test_a_run_keeps_its_baseline_when_an_older_run_ends_later(store: Store):
    compare_stored(store, "two", "new", OWN)
    keep(store, "late", 3)
    assert baseline_id(store, "latest", store.run("new")) == "two"
    compare_stored(store, "late", "new", OWN)
    assert reported(store) == "two"


def test_a_comparison_stored_before_a_setting_was_added_is_still_the_runs_own(store: Store):
    for baseline, thresholds in (("two", {"baseline": "latest"}), ("one", {"mode": "rules"})):
        row = {"baseline": baseline, "candidate": "new", "at": store.run("new").finished_at}
        store.add_comparison(row | {"verdict": "{}", "thresholds": as_json(thresholds)})
    keep(store, "late", 3)
    assert baseline_id(store, "latest", store.run("new")) == "two"
    assert reported(store) == "two"


def test_a_comparison_made_again_changes_nothing(store: Store):
    compare_stored(store, "two", "new", OWN)
    before = store.comparisons()
    compare_stored(store, "two", "new", OWN)
    assert store.comparisons().equals(before)


def test_a_run_beside_itself_is_compared_but_not_kept(store: Store):
    assert not compare_stored(store, "new", "new", OWN).verdict.regression_detected
    assert store.comparisons().is_empty()


def test_a_baseline_that_is_named_is_never_the_run_itself_nor_one_that_is_not_complete(
    store: Store,
):
    new = store.run("new")
    names = {"nightly": "two", "nightly~1": "one", "nightly@2026-03-03": "one", "on": "one"}
    assert {name: baseline_id(store, name, new) for name in names} == names
    assert baseline_id(store, "late", new) == "late", "unless its id is given"
    keep(store, "newer", 5)
    assert baseline_id(store, "nightly", new) == "newer"
    with pytest.raises(UnknownRun, match="no run 'weekly'"):
        baseline_id(store, "weekly", new)


def test_without_one_of_its_own_a_run_shows_the_comparison_made_by_hand(store: Store):
    compare_stored(store, "one", "new", ComparisonConfig())
    assert reported(store) == "one"


@pytest.mark.parametrize("unlike", [{"outcome": "inconclusive"}, {"use": "replay_only"}])
def test_a_run_without_a_verdict_or_over_kept_replies_alone_is_no_latest(store: Store, unlike):
    keep(store, "newer", 3, **unlike)
    assert baseline_id(store, "latest", store.run("new")) == "two"
    keep(store, "failed", 3, outcome="failed")
    assert baseline_id(store, "latest", store.run("new")) == "failed"


def test_latest_goes_by_the_order_in_which_runs_began_not_by_their_clocks(store: Store):
    """D18: the machine of the second run is a day behind, that of the third two days ahead."""
    for number, (run_id, day) in enumerate((("first", 10), ("second", 9), ("third", 12)), 1):
        begin_numbered(store, run_id, number, day)

    found = {run_id: baseline_id(store, "latest", store.run(run_id)) for run_id in NUMBERED}

    assert found == {"first": "new", "second": "first", "third": "second"}
    assert next_sequence(store) == 4


NUMBERED = ("first", "second", "third")


def begin_numbered(store: Store, run_id: str, number: int, day: int) -> None:
    one = run([Said("c1", (5, 4))], run_id=run_id, comparison=OWN.model_dump())
    begun = BEGUN + timedelta(days=day)
    config = {**one.record.config, "sequence": number}
    record = replace(one.record, config=config, started_at=begun, finished_at=begun)
    store.begin(replace(record, status="running", finished_at=None, summary=None))
    store.finish(replace(record, status="complete"), frame("run_metrics", []))
