"""Corrected numbers of stored runs: whose labels count, comparisons, rows and trends."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from assizes.judge.config.gates import ComparisonConfig, SeriesConfig
from assizes.judge.config.run import StoreConfig
from assizes.judge.labels import carrying
from assizes.tasks.reports.stored import stored_report_data
from assizes.tasks.runs.corrected import corrected_numbers
from assizes.tasks.runs.corrected_rows import (
    corrected_metrics,
    metrics_of_query,
    trends_with_corrections,
)
from assizes.tasks.runs.history import RunRange, stored_trends
from assizes.tasks.runs.stored_comparison import compare_stored, stored_comparison
from assizes.tasks.store import Store, open_store, query_store
from tests.tasks.reports.sample import BEGUN, Run, Said, run
from tests.tasks.stored_runs import put

OLD, NEW = "nightly-aaaaaaaaaaaa", "nightly-bbbbbbbbbbbb"
CASES = [(f"c{n}", n % 3 > 0) for n in range(90)]  # case id, whether people pass it
DAY = BEGUN + timedelta(days=2)


@pytest.fixture(params=["duckdb", "parquet"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> StoreConfig:
    uri = f"duckdb:///{tmp_path}/s.duckdb" if request.param == "duckdb" else str(tmp_path / "lake")
    return StoreConfig(uri=uri)


def judged(run_id: str, passes: list[bool], *, other_texts: bool = False, **tables: object) -> Run:
    said = [
        Said(case, (5, 5) if good else (1, 1), done=good, tags={"half": str(n % 2)})
        for n, ((case, _), good) in enumerate(zip(CASES, passes, strict=True))
    ]
    one = run(said, run_id=run_id, **tables)
    if other_texts:
        cases = one.frames["cases"].with_columns(pl.col("transcript_hash") + "-other")
        one = replace(one, frames={**one.frames, "cases": cases})
    begun = BEGUN + timedelta(days=run_id == NEW)
    record = replace(one.record, started_at=begun, finished_at=begun + timedelta(minutes=3))
    return replace(one, record=record)


def label(store: Store, run_id: str, count: int, value=lambda n: float(CASES[n][1])) -> None:
    rows = [
        {
            "label_id": f"{run_id}-{n}",
            "run_id": run_id,
            "case_id": CASES[n][0],
            "repetition": 0,
            "metric": "verdict",
            "rater": "ann",
            "role": "rater",
            "kind": "label",
            "value": value(n),
            "at": DAY,
            "shown": "{}",
            "probability": 0.5,
        }
        for n in range(count)
    ]
    store.people.add("labels", rows)


def people_say() -> list[bool]:
    return [good for _, good in CASES]


def all_pass() -> list[bool]:
    return [True] * len(CASES)


def test_labels_are_carried_to_another_judge_of_the_same_conversations(config: StoreConfig):
    with open_store(config, writing=True) as store:
        put(store, judged(OLD, people_say()))
        put(store, judged(NEW, all_pass(), judge={"model": "anthropic/another"}))
        label(store, OLD, 45)
        (number,) = corrected_numbers(store, NEW)
    assert number.number.raw == 1.0
    assert number.number.estimate.low < 2 / 3 < number.number.estimate.high
    assert (number.origin.run_id, number.origin.is_own) == (OLD, False)
    assert not number.origin.same_judge
    lines = list(number.lines())
    assert "45 labels of run nightly-aaaaaaaaaaaa, given on 2026-03-04" in lines[1]
    assert "by another judge; agent version 1.0" in lines[1]


def test_a_pass_that_is_held_back_is_no_pass_of_the_judge(config: StoreConfig):
    held = pl.col("case_id") == CASES[1][0]
    one = judged(OLD, all_pass())
    cases = one.frames["cases"].with_columns(
        passed=pl.when(~held).then("passed"),
        flags=pl.when(held).then(pl.lit(["pass_flagged"])).otherwise("flags"),
    )
    with open_store(config, writing=True) as store:
        put(store, replace(one, frames={**one.frames, "cases": cases}))
        label(store, OLD, 45)
        (number,) = corrected_numbers(store, OLD)
    assert number.number.raw == pytest.approx(89 / 90)
    assert (number.cases, number.number.labels, number.number.left_out) == (90, 45, {})


def test_labels_are_not_carried_to_other_conversations(config: StoreConfig):
    with open_store(config, writing=True) as store:
        put(store, judged(OLD, people_say()))
        put(store, judged(NEW, all_pass(), other_texts=True))
        label(store, OLD, 45)
        (number,) = corrected_numbers(store, NEW)
        assert number.number.estimate is None
        assert number.number.left_out == {carrying.OTHER_CONVERSATION: 45}
        assert f"not counted: 45 {carrying.OTHER_CONVERSATION}" in list(number.lines())[1]
        assert corrected_metrics(store, [NEW]).is_empty()


def test_a_label_of_a_conversation_that_the_run_no_longer_holds_does_not_count(
    config: StoreConfig,
):
    with open_store(config, writing=True) as store:
        put(store, judged(OLD, people_say()))
        row = {"run_id": OLD, "case_id": "c1", "repetition": 0, "metric": "verdict", "value": 1.0}
        row |= {"rater": "ann", "role": "rater", "kind": "label", "at": DAY, "label_id": "x"}
        store.people.add("labels", [row | {"shown": '{"transcript_hash":"another"}'}])
        assert corrected_numbers(store, OLD) == []


def test_a_corrected_comparison_contradicts_a_judge_that_passes_everything(config: StoreConfig):
    worse = [good and n % 2 == 0 for n, (_, good) in enumerate(CASES)]
    with open_store(config, writing=True) as store:
        put(store, judged(OLD, people_say()))
        put(store, judged(NEW, all_pass(), other_texts=True))  # by the judge much better
        label(store, OLD, 90)
        label(store, NEW, 90, lambda n: float(worse[n]))  # by people much worse
        raw = compare_stored(store, OLD, NEW, ComparisonConfig())
        again = compare_stored(store, OLD, NEW, ComparisonConfig(verdict="corrected"))
        stored = stored_comparison(store, store.run(NEW))
        data = stored_report_data(store, store.run(NEW), stored)
        verdicts = set(store.comparisons()["verdict"])
    change = raw.corrected.changes[0]
    assert (change.measure, change.raw_word, change.word) == ("pass_rate", "improved", "regressed")
    assert change.paired_labels == 90
    assert change.low <= change.value <= change.high < 0 < change.raw
    assert (raw.verdict.ending, raw.corrected.ending, raw.corrected.decides) == (
        "fine",
        "regressed",
        False,
    )
    assert raw.corrected.sentence.startswith("Labels of people say something else than the judge")
    assert (again.verdict.ending, again.corrected.decides) == ("regressed", True)
    assert "by labels of people: pass rate" in again.verdict.why[0]
    assert len(verdicts) == 1  # what is stored is the judge's, whoever decides
    assert raw.corrected.sentence in data["corrected"]["first"]
    # Slices that hold all cases, as that of the only agent, say nothing of their own.
    names = [part["name"] for part in data["corrected"]["numbers"][0]["slices"]]
    assert names == ["tags.half=0", "tags.half=1"]


def test_with_labels_in_one_run_alone_the_judge_decides_and_it_says_why(config: StoreConfig):
    with open_store(config, writing=True) as store:
        put(store, judged(OLD, people_say()))
        put(store, judged(NEW, all_pass(), other_texts=True))
        label(store, OLD, 60, lambda n: float(CASES[n][1] and n % 9 != 1))
        found = compare_stored(store, OLD, NEW, ComparisonConfig(verdict="corrected"))
    assert (found.corrected.ending, found.corrected.decides) == (None, False)
    assert found.verdict.ending == "fine"
    assert "only 0 labels count for the candidate" in found.corrected.fell_back
    assert "the judge's own and uncorrected" in found.corrected.fell_back
    assert "if the judge errs there as it does in the baseline" in found.corrected.fell_back


def test_without_labels_a_comparison_has_no_corrected_part(config: StoreConfig):
    with open_store(config, writing=True) as store:
        put(store, judged(OLD, people_say()))
        put(store, judged(NEW, all_pass()))
        assert compare_stored(store, OLD, NEW, ComparisonConfig()).corrected is None


def test_queries_see_corrected_rows_that_follow_from_labels_alone(config: StoreConfig):
    query = "select name, value from run_metrics where name like 'corrected/%' order by name"
    with open_store(config, writing=True) as store:
        put(store, judged(OLD, people_say()))
        stored = store.table(OLD, "run_metrics")
        label(store, OLD, 45)
        assert store.table(OLD, "run_metrics").equals(stored)
        once, twice = (corrected_metrics(store, [OLD]) for _ in range(2))
        assert once.equals(twice)
    for run_id in (OLD, None):
        found = dict(query_store(config, query, run_id, {"run_metrics": metrics_of_query}).rows())
        assert set(found) == {
            f"corrected/pass_rate{end}" for end in ("", "/low", "/high", "/labels")
        }
        assert found["corrected/pass_rate/labels"] == 45
    whole = query_store(
        config, "select count(*) from run_metrics", OLD, {"run_metrics": metrics_of_query}
    )
    assert whole.item() == stored.height + 4


def test_trends_have_the_corrected_value_of_labelled_nights_and_say_why_not_of_others(
    config: StoreConfig,
):
    with open_store(config, writing=True) as store:
        put(store, judged(OLD, people_say()))
        put(store, judged(NEW, all_pass(), other_texts=True))
        label(store, OLD, 45)
        trends = trends_with_corrections(store, stored_trends(store, RunRange(), SeriesConfig()))
    first, last = trends.series[0].points
    assert trends.series[0].series == "pass_rate"
    assert first.corrected.low <= first.corrected.value <= first.corrected.high
    assert "45 labels of this run" in first.corrected.note
    assert (last.value, last.corrected.value) == (1.0, None)
    assert "labels in 10 clusters are needed" in last.corrected.note
    assert carrying.OTHER_CONVERSATION in last.corrected.note
    assert trends.series[-1].points[0].corrected is None  # nobody labelled this metric


def test_a_gate_that_labels_contradict_is_said_first(config: StoreConfig):
    with open_store(config, writing=True) as store:
        put(store, judged(OLD, all_pass(), thresholds={"cases_pass_threshold": 90}))
        label(store, OLD, 60)
        data = stored_report_data(store, store.run(OLD), None)
    first = data["corrected"]["first"]
    assert "below the 90 % that the run must reach; the judge says 100.0 %" in first


def test_time_of_labels_is_in_utc():
    assert datetime(2026, 3, 4, 1, tzinfo=UTC) == DAY
