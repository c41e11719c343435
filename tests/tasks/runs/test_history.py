"""Stored runs as series: means, clustered errors, slices; the command over them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from assizes.judge.config.gates import SeriesConfig
from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import ConfigurationError, StoreError
from assizes.judge.statistics.intervals import wilson
from assizes.tasks.runs.history import RunRange, stored_trends
from assizes.tasks.store import Store, open_store
from tests.command import assizes
from tests.tasks.reports.sample import BEGUN, Run, Said, run
from tests.tasks.stored_runs import put


def night(number: int, said: Sequence[Said], **rest) -> Run:
    """The run of one night."""
    made = run(said, run_id=f"nightly-{number:012d}", **rest)
    at = BEGUN + timedelta(days=number)
    return replace(made, record=replace(made.record, started_at=at, finished_at=at))


def cases(passes: int, of: int, intent: str = "refund", first: int = 0) -> list[Said]:
    return [
        Said(
            f"{intent}{first + n}",
            (5, 5) if n < passes else (1, 1),
            done=n < passes,
            tags={"intent": intent},
        )
        for n in range(of)
    ]


def by_name(found) -> dict[tuple[str, str], list[float]]:
    return {(one.series, one.slice_of): [p.value for p in one.points] for one in found.series}


def test_every_number_of_a_run_is_a_point_in_order_of_time(store: Store):
    for number, passes in ((2, 1), (0, 3), (1, 2)):
        put(store, night(number, cases(passes, 4)))
    found = by_name(stored_trends(store, RunRange(), SeriesConfig()))
    assert list(found) == [
        ("pass_rate", ""),
        ("overall_score", ""),
        ("agent_latency_ms", ""),
        ("response_delivery", ""),
        ("task_completion", ""),
        ("tool_routing", ""),
    ]
    assert found["pass_rate", ""] == [0.75, 0.5, 0.25]
    assert found["tool_routing", ""] == pytest.approx([0.8, 0.6, 0.4])
    assert found["agent_latency_ms", ""] == [800.0] * 3


def held_back(one: Run, case_ids: Sequence[str]) -> Run:
    """The run with the passes of some cases held back: they have no verdict, and a flag says why."""
    is_held = pl.col("case_id").is_in(case_ids)
    rows = one.frames["cases"].with_columns(
        passed=pl.when(~is_held).then("passed"),
        flags=pl.when(is_held).then(pl.lit(["pass_flagged"])).otherwise("flags"),
    )
    return replace(one, frames={**one.frames, "cases": rows})


def test_a_pass_that_is_held_back_counts_as_not_passed(store: Store):
    said = cases(3, 4)
    put(store, held_back(night(0, said), [said[0].case_id]))
    only_rate = SeriesConfig(metrics=("pass_rate",), slices=("tags.intent",))
    found = stored_trends(store, RunRange(), only_rate)
    assert [(one.points[0].value, one.points[0].items) for one in found.series] == [(0.5, 4)] * 2


def test_the_standard_error_is_that_of_clusters(store: Store):
    said = [
        replace(one, case_id=f"c{n % 3}", repetition=n // 3) for n, one in enumerate(cases(5, 9))
    ]
    put(store, night(0, said))
    found = stored_trends(store, RunRange(), SeriesConfig(metrics=("pass_rate", "tool_routing")))
    rate, metric = (series.points[0] for series in found.series)
    passed = np.array([float(one.done) for one in said])
    sums = [(passed[n::3] - passed.mean()).sum() for n in range(3)]
    variance = 3 / 2 * sum(one**2 for one in sums) / 9**2
    assert (rate.items, metric.items) == (9, 9)
    # Its values are 1 and 0.2: 0.8 times those of the pass rate, and 0.2.
    half = 1.959964 * 0.8 * variance**0.5
    assert metric.high - metric.value == pytest.approx(half, abs=1e-6)
    effective = rate.value * (1 - rate.value) / variance
    assert (rate.low, rate.high) == pytest.approx(wilson(rate.value, effective, 1.959964), abs=1e-6)


def test_the_pass_rate_of_a_night_without_a_failure_has_an_interval(store: Store):
    put(store, night(0, cases(43, 43)))
    found = stored_trends(store, RunRange(), SeriesConfig(metrics=("pass_rate",)))
    point = found.series[0].points[0]
    assert (point.low, point.high) == (pytest.approx(0.918, abs=5e-4), 1.0)


@pytest.mark.full
def test_trends_are_the_same_to_the_last_digit_in_whatever_order_the_rows_are_stored(
    tmp_path: Path,
):
    said = [
        replace(one, case_id=f"c{n % 9}", repetition=n // 9, latency_ms=1e4 * (n * 0.618 % 1))
        for n, one in enumerate(cases(36, 45))
    ]
    texts = set()
    for seed in range(5):
        with open_store(f"{tmp_path}/{seed}.duckdb", writing=True) as store:
            for number in range(7):
                stored = night(number, said)
                shuffled = {
                    table: rows.sample(fraction=1.0, shuffle=True, seed=seed)
                    for table, rows in stored.frames.items()
                }
                put(store, replace(stored, frames=shuffled))
            trends = stored_trends(store, RunRange(), SeriesConfig(reference_runs=5))
            texts.add(trends.model_dump_json())
    assert len(texts) == 1
    assert "-0.0" not in texts.pop()


def test_slices_by_tag_are_series_of_their_own(store: Store):
    put(store, night(0, [*cases(4, 4, "refund"), *cases(1, 4, "booking"), Said("bare", (5, 5))]))
    found = by_name(
        stored_trends(
            store, RunRange(), SeriesConfig(slices=("tags.intent",), metrics=("pass_rate",))
        )
    )
    assert found == {
        ("pass_rate", ""): [pytest.approx(6 / 9)],
        ("pass_rate", "tags.intent=booking"): [0.25],
        ("pass_rate", "tags.intent=refund"): [1.0],
    }


def test_a_case_is_in_the_series_of_every_tool_it_called(store: Store):
    good = [replace(one, tools=("find", "log")) for one in cases(4, 4, "refund")]
    bad = [replace(one, tools=("log", "pay")) for one in cases(1, 4, "booking")]
    put(store, night(0, [*good, *bad, Said("bare", (5, 5))]))
    of = SeriesConfig(slices=("tool", "agent"), metrics=("pass_rate", "tool_routing"))
    found = by_name(stored_trends(store, RunRange(), of))
    assert {name: values for name, values in found.items() if name[0] == "pass_rate"} == {
        ("pass_rate", ""): [pytest.approx(6 / 9)],
        ("pass_rate", "agent=airline"): [pytest.approx(6 / 9)],
        ("pass_rate", "tool=find"): [1.0],
        ("pass_rate", "tool=log"): [pytest.approx(5 / 8)],
        ("pass_rate", "tool=pay"): [0.25],
    }
    assert found["tool_routing", "tool=pay"] == [pytest.approx(0.4)]


def test_runs_of_other_names_before_a_day_or_incomplete_are_left_out(store: Store):
    for number in range(4):
        put(store, night(number, cases(number, 4)))
    other = night(9, cases(4, 4))
    record = replace(other.record, name="other")
    put(store, replace(other, record=record))
    begun = night(10, cases(4, 4))
    store.begin(replace(begun.record, status="running", finished_at=None, summary=None))
    day = BEGUN + timedelta(days=1)
    of = SeriesConfig(metrics=("pass_rate",))
    span = RunRange("nightly", since=day)
    assert by_name(stored_trends(store, span, of)) == {("pass_rate", ""): [0.25, 0.5, 0.75]}
    span = RunRange("nightly", last=2)
    assert by_name(stored_trends(store, span, of)) == {("pass_rate", ""): [0.5, 0.75]}
    assert stored_trends(store, RunRange(), of).name == "other"


def test_what_is_not_there_is_named(store: Store):
    with pytest.raises(StoreError, match="no complete run named None; there are: none"):
        stored_trends(store, RunRange(), SeriesConfig())
    put(store, night(0, cases(1, 2)))
    with pytest.raises(StoreError, match="no complete run named 'x'; there are: nightly"):
        stored_trends(store, RunRange("x"), SeriesConfig())
    with pytest.raises(ConfigurationError, match=r"unknown series 'tone'; known: agent_latency_ms"):
        stored_trends(store, RunRange(), SeriesConfig(metrics=("tone",)))
    with pytest.raises(ConfigurationError, match=r"unknown slice 'color'; known: agent, agent_v"):
        stored_trends(store, RunRange(), SeriesConfig(slices=("color",)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place, random = tmp_path_factory.mktemp("history"), np.random.default_rng(4)
    with open_store(StoreConfig(uri=f"duckdb:///{place}/assizes.duckdb"), writing=True) as store:
        for number in range(12):
            passes = int(random.binomial(40, 0.85 if number < 8 else 0.4))
            put(store, night(number, cases(passes, 40)))
    return place


def test_the_command_tells_the_incident_and_draws_the_series(folder: Path):
    words = ("trends", "nightly", "--set", "series.reference_runs=6", "--plot", "t.svg")
    answer = assizes(*words, cwd=folder)
    assert answer.code == 0, answer
    assert answer.out.splitlines()[0] == "nightly: 12 runs"
    assert "PERSISTING worse [" in answer.out
    line = next(one for one in answer.out.splitlines() if one.startswith("PERSISTING"))
    assert "; since 2026-03-1" in line
    named = line.split("]: ")[1].split(";")[0].split(", ")
    quality = {"pass_rate", "overall_score", "tool_routing", "task_completion"}
    assert set(named) == quality | {"response_delivery"}
    assert (folder / "t.svg").read_text(encoding="utf-8").startswith("<svg")


def test_the_command_as_json_holds_every_point(folder: Path):
    words = ("trends", "--metric", "pass_rate", "--slice", "agent", "--last", "5", "--json")
    found = json.loads(assizes(*words, cwd=folder).out)
    assert [(one["series"], one["slice_of"]) for one in found["series"]] == [
        ("pass_rate", ""),
        ("pass_rate", "agent=airline"),
    ]
    assert [one["state"] for one in found["series"]] == ["learning"] * 2
    assert len(found["series"][0]["points"]) == found["runs"] == 5


def test_a_configured_slice_that_no_case_has_yet_is_waited_for(folder: Path):
    answer = assizes("trends", "--set", 'series.slices=["tags.nope"]', "--json", cwd=folder)
    assert answer.code == 0, answer
    assert {one["slice_of"] for one in json.loads(answer.out)["series"]} == {""}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["other"], "no complete run named 'other'; there are: nightly"),
        (["--metric", "x"], "[series] metrics: unknown series 'x'"),
        (["--slice", "x"], "[series] slices: unknown slice 'x'"),
        (
            ["--slice", "tags.nope"],
            "--slice 'tags.nope': no case of these runs has it; they have agent, agent_version",
        ),
        (["--plot", "none/t.svg"], "--plot 'none/t.svg' cannot be written: No such file"),
        (["--plot", "t.png"], "--plot 't.png': the series are drawn as SVG; name a .svg file"),
        (["--store", "duckdb:///none.duckdb"], "no store at duckdb:///none.duckdb"),
    ],
)
def test_what_cannot_be_shown_is_one_line_and_exit_code_2(
    words: list[str], said: str, folder: Path
):
    answer = assizes("trends", *words, cwd=folder)
    assert answer.code == 2, answer
    assert said in answer.err
    assert answer.err.count("\n") == 1
