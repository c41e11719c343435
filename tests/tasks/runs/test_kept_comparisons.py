"""A comparison is computed once while both runs stay, and anew once cases of one are forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from assizes.judge.comparison.compare import RunComparison, compare
from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import NotComparable, UnknownRun
from assizes.judge.rows import frame
from assizes.tasks.runs.kept_comparisons import KeptComparisons
from assizes.tasks.runs.stored_comparison import kept_comparison, run_data
from assizes.tasks.store import Store, open_store
from tests.tasks.reports.sample import Said, run

THRESHOLDS = ComparisonConfig()
RUNS = ("old", "new")


def keep(store: Store, run_id: str, *scores: tuple[int, int], status: str = "complete") -> None:
    said = [Said(f"c{number}", each) for number, each in enumerate(scores)]
    one = run(said, run_id=run_id)
    store.begin(replace(one.record, status="running", finished_at=None, summary=None))
    store.commit_shard(run_id, "s0", one.frames, {"judged": len(said)})
    store.finish(replace(one.record, status=status), frame("run_metrics", []))


@pytest.fixture(params=["duckdb:///{}/s.duckdb", "{}/lake"], ids=["duckdb", "lake"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    config = StoreConfig(uri=request.param.format(tmp_path))
    with open_store(config, writing=True) as opened:
        keep(opened, "old", (5, 4), (4, 4))
        keep(opened, "new", (2, 2), (4, 4))
        keep(opened, "late", (2, 2), status="incomplete")
        yield opened


class Counted:
    """Compares two runs of a store, and counts how often it was computed."""

    def __init__(self, store: Store, most_cases: int = 100) -> None:
        self.store = store
        self.kept = KeptComparisons(most_cases)
        self.times = 0

    def __call__(
        self, baseline: str = "old", candidate: str = "new", thresholds: object = THRESHOLDS
    ) -> RunComparison:
        assert isinstance(thresholds, ComparisonConfig)

        def make() -> RunComparison:
            self.times += 1
            return fresh(self.store, baseline, candidate, thresholds)

        return self.kept.comparison(self.store, (baseline, candidate), thresholds, make)


def fresh(
    store: Store, baseline: str, candidate: str, thresholds: ComparisonConfig
) -> RunComparison:
    return compare(run_data(store, baseline), run_data(store, candidate), thresholds)


def test_it_is_computed_once_for_each_order_of_runs_and_each_thresholds(store: Store) -> None:
    compared = Counted(store)
    assert compared() == compared() == fresh(store, *RUNS, THRESHOLDS)
    assert compared.times == 1
    assert compared("new", "old").baseline_run_id == "new"
    other = ComparisonConfig(max_avg_score_drop=33.0)
    assert compared(thresholds=other) == fresh(store, *RUNS, other)
    assert compared.times == 3


def test_a_forgotten_case_is_gone_at_once(store: Store) -> None:
    compared = Counted(store)
    assert "c0" in {case.test_case_id for case in compared().test_case_comparisons}
    store.forget("new", ["c0"])
    after = compared()
    assert after == fresh(store, *RUNS, THRESHOLDS)
    assert "c0" not in {case.test_case_id for case in after.test_case_comparisons}
    assert "c0" in after.baseline_only_test_cases
    assert kept_comparison(store, *RUNS, THRESHOLDS) == after


def test_a_run_that_changes_while_it_is_compared_is_not_kept(store: Store) -> None:
    kept, times = KeptComparisons(), []

    def make() -> RunComparison:
        made = fresh(store, *RUNS, THRESHOLDS)
        if not times:
            store.forget("new", ["c0"])
        times.append(made)
        return made

    for _ in range(3):
        last = kept.comparison(store, RUNS, THRESHOLDS, make)
    assert len(times) == 2
    assert last == fresh(store, *RUNS, THRESHOLDS)


def test_memory_has_a_bound(store: Store) -> None:
    compared = Counted(store, most_cases=3)  # each lists two
    for _ in range(2):
        compared()
        compared("new", "old")
    assert compared.times == 4
    assert compared.kept.listed_cases() <= 3


def test_what_cannot_be_compared_is_an_error_each_time(store: Store) -> None:
    compared = Counted(store)
    for _ in range(2):
        with pytest.raises(NotComparable):
            compared("old", "late")
        with pytest.raises(UnknownRun):
            compared("old", "none")
