"""Columns of cases are read once while their run stays as it is, and memory has a bound."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from assizes.deployments.web.finding import CaseFinder
from assizes.deployments.web.schemas import CaseQuery
from assizes.judge.config.run import StoreConfig
from assizes.judge.verdicts.executions import CASE
from assizes.tasks.finding.case_filter import CaseFilter, case_rows, matching_cases
from assizes.tasks.finding.kept_cases import PLACE, KeptCases
from assizes.tasks.store import Store, open_store
from tests.tasks.store.rows import COUNTS, run_record, shard

RUN = "nightly-1"


@pytest.fixture(params=["duckdb:///{}/s.duckdb", "{}/lake"], ids=["duckdb", "lake"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> StoreConfig:
    config = StoreConfig(uri=request.param.format(tmp_path))
    with open_store(config, writing=True) as store:
        store.begin(run_record())
        for number in (2, 0, 1):
            add(store, number)
    return config


def add(store: Store, number: int) -> None:
    assert store.commit_shard(RUN, f"s{number}", shard(case_id=f"c{number}"), COUNTS)


def ids(kept: KeptCases, store: Store, wanted: CaseFilter) -> list[str]:
    return matching_cases(store, RUN, wanted, kept)["case_id"].to_list()


def test_columns_are_read_once_and_joined_to_those_of_before(config: StoreConfig) -> None:
    kept = KeptCases()
    with open_store(config) as store:
        first = kept.columns(store, RUN, ["passed"])
        assert kept.columns(store, RUN, ["passed"]).rows is first.rows
        more = kept.columns(store, RUN, ["tags", "passed"])
        expected = store.table(RUN, "cases").sort(CASE).select(*CASE, "passed", "tags")
    assert more.rows["case_id"].to_list() == ["c0", "c1", "c2"]
    assert more.rows.equals(expected)
    assert kept.size() == more.size() > 0


def test_a_shard_and_a_forgotten_case_are_seen_at_once(config: StoreConfig) -> None:
    kept = KeptCases()
    wanted = CaseFilter(sort="-case_id", failure_code="wrong_amount")
    with open_store(config, writing=True) as store:
        assert ids(kept, store, wanted) == ["c2", "c1", "c0"]
        add(store, 3)
        assert ids(kept, store, wanted) == ["c3", "c2", "c1", "c0"]
        store.forget(RUN, ["c1"])
        assert ids(kept, store, wanted) == ["c3", "c2", "c0"]


def test_a_condition_on_scores_is_read_once(config: StoreConfig) -> None:
    kept = KeptCases()
    readings = []

    def read() -> pl.DataFrame:
        readings.append(1)
        return pl.DataFrame({"case_id": ["c2", "c2", "gone"], "repetition": [0, 0, 0]}).cast(
            {"repetition": pl.Int32}
        )

    with open_store(config) as store:
        cases = kept.columns(store, RUN, CASE)
        for _ in range(2):
            mask = kept.mask(RUN, cases, ("metric", "tone"), read)
            assert mask.to_list() == [False, False, True]
            cases = kept.columns(store, RUN, ["tags"])  # further columns keep it
    assert len(readings) == 1


def test_what_takes_more_than_the_bound_is_found_and_not_kept(config: StoreConfig) -> None:
    kept = KeptCases(most_bytes=10)
    with open_store(config) as store:
        assert ids(kept, store, CaseFilter(sort="case_id")) == ["c0", "c1", "c2"]
    assert kept.size() == 0


def test_only_given_places_match_in_either_order(config: StoreConfig) -> None:
    kept = KeptCases()
    places = pl.Series(PLACE, [2, 0], dtype=pl.UInt32)
    with open_store(config) as store:
        for sort, expected in (("case_id", ["c0", "c2"]), ("-case_id", ["c2", "c0"])):
            found = matching_cases(store, RUN, CaseFilter(sort=sort), kept, places)
            assert found["case_id"].to_list() == expected


def test_a_list_of_a_run_that_grows_has_what_is_committed(config: StoreConfig) -> None:
    finder = CaseFinder(config)

    def listed() -> list[str]:
        blocks = finder.blocks(RUN, CaseQuery(sort="-case_id"), ["case_id"])
        return [case_id for block in blocks for case_id in block["case_id"]]

    assert listed() == ["c2", "c1", "c0"]
    with open_store(config, writing=True) as store:
        add(store, 3)
    assert listed() == ["c3", "c2", "c1", "c0"]


LINE = ["case_id", "repetition", "summary", "overall_score"]


def lines(kept: KeptCases, store: Store, keys: pl.DataFrame) -> pl.DataFrame | None:
    return kept.lines(store, RUN, keys, LINE)


def test_lines_of_a_list_are_kept_until_the_run_changes(config: StoreConfig) -> None:
    kept, wanted = KeptCases(), CaseFilter(sort="-case_id")
    with open_store(config, writing=True) as store:
        keys = matching_cases(store, RUN, wanted, kept)
        expected = case_rows(store, RUN, keys, LINE)
        assert case_rows(store, RUN, keys, LINE, kept).equals(expected)
        listed = lines(kept, store, keys)
        assert listed is not None
        assert listed.equals(expected)
        store.forget(RUN, ["c1"])
        # Its places are of before: nothing is shown of a case that is gone, nor of its neighbour.
        assert lines(kept, store, keys) is None
        left = case_rows(store, RUN, keys, LINE, kept)
        assert left["case_id"].to_list() == ["c2", "c0"]
        add(store, 3)
        keys = matching_cases(store, RUN, wanted, kept)
        assert lines(kept, store, keys) is not None
        assert ids(kept, store, wanted) == ids(KeptCases(), store, wanted)


def test_lines_that_are_too_long_to_be_kept_are_read_for_each_page(config: StoreConfig) -> None:
    kept = KeptCases(most_bytes=60)
    with open_store(config) as store:
        keys = matching_cases(store, RUN, CaseFilter(), kept)
        expected = case_rows(store, RUN, keys, LINE)
        for _ in range(2):
            assert case_rows(store, RUN, keys, LINE, kept).equals(expected)
        assert lines(kept, store, keys) is None
        assert kept.size() <= 60


def test_lists_of_one_run_are_told_apart_and_labels_are_never_kept(config: StoreConfig) -> None:
    kept = KeptCases()
    with open_store(config) as store:
        for _ in range(2):
            assert ids(kept, store, CaseFilter(sort="case_id")) == ["c0", "c1", "c2"]
            assert ids(kept, store, CaseFilter(sort="-case_id")) == ["c2", "c1", "c0"]
            assert ids(kept, store, CaseFilter(sort="case_id", search="1")) == ["c1"]
            assert ids(kept, store, CaseFilter(sort="case_id", label="none")) == ["c0", "c1", "c2"]
        assert CaseFilter(sort="case_id") in kept.columns(store, RUN, CASE).orders
        assert not any(
            isinstance(wanted, CaseFilter) and wanted.label
            for wanted in kept.columns(store, RUN, CASE).orders
        )
