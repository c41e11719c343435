"""Time is the data's time: a history goes by the days that its runs are about.

A week that is judged in any order has the same trends, incidents, baselines and pages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import httpx
import polars as pl
import pytest

from assizes.deployments.api import create_app
from assizes.deployments.web.guard import LOOPBACK, Access
from assizes.judge.config.gates import ComparisonConfig, SeriesConfig
from assizes.judge.config.run import RunConfig, StoreConfig
from assizes.judge.config.transcripts import RerunConfig
from assizes.judge.formats import native_line
from assizes.judge.summary.run_summary import RunSummary
from assizes.tasks.plan import RunRequest
from assizes.tasks.publish_report import run_events
from assizes.tasks.reports.render.trend_chart import trend_chart
from assizes.tasks.reports.stored import json_report, read_report
from assizes.tasks.runs.history import RunRange, stored_trends
from assizes.tasks.runs.stored_comparison import baseline_id, compare_stored, stored_comparison
from assizes.tasks.runs.stored_runs import is_about_newest_day
from assizes.tasks.store import RunRecord, Store, open_store
from assizes.tasks.tell_incidents import incidents_at
from tests.builders import agent, case, user
from tests.command import assizes
from tests.tasks.intake.test_selected_runs import run as judge_really
from tests.tasks.reports.sample import Said, run
from tests.tasks.stored_runs import put

WEEK = [date(2026, 3, 2) + timedelta(days=number) for number in range(7)]
PASSES = dict(zip(WEEK, (34, 33, 35, 34, 33, 12, 11), strict=True))  # of 40 cases
JUDGED = datetime(2026, 4, 20, 1, 0, tzinfo=UTC)
TIMES_OF_JUDGING = re.compile(r"2026-04-2\d[ T]\d\d:\d\d(:\d\d)?(Z|\+00:00| UTC)?")
SERIES = SeriesConfig(reference_runs=5)
LATEST = ComparisonConfig(baseline="latest")
ORDERS = {
    "oldest": WEEK,
    "newest": WEEK[::-1],
    "several at once": [WEEK[n] for n in (2, 0, 1, 5, 6, 3, 4)],
}


def judge_day(store: Store, day: date, number: int) -> str:
    """Store the run about a day, as the one of this number that the store begins."""
    passes = PASSES[day]
    said = [
        Said(f"{day}-{n}", (5, 5) if n < passes else (1, 1), done=n < passes) for n in range(40)
    ]
    made = run(said, run_id=f"nightly-{day:%Y%m%d}", comparison=LATEST.model_dump())
    begun = JUDGED + timedelta(hours=number)
    record = replace(
        made.record,
        trigger="backfill",
        config={**made.record.config, "day": day.isoformat(), "sequence": number},
        started_at=begun,
        finished_at=begun + timedelta(minutes=3, seconds=20),
    )
    # A page of a run fetches its transcripts: these are not there.
    cases = made.frames["cases"].with_columns(transcript_uri=pl.lit("none.jsonl"))
    return put(store, replace(made, record=record, frames={**made.frames, "cases": cases}))


def judge_week(folder: Path, days: Sequence[date], kind: str = "duckdb") -> RunConfig:
    """A store with a run for each day, judged in this order and then compared as a backfill does."""
    uri = {"duckdb": f"duckdb:///{folder}/week.duckdb", "lake": f"{folder}/lake"}[kind]
    config = StoreConfig(uri=uri)
    with open_store(config, writing=True) as store:
        for number, day in enumerate(days, 1):
            judge_day(store, day, number)
        for day in WEEK:
            record = store.run(f"nightly-{day:%Y%m%d}")
            baseline = baseline_id(store, "latest", record)
            if baseline is not None:
                compare_stored(store, baseline, record.run_id, LATEST)
    return RunConfig.model_validate(
        {
            "name": "nightly",
            "transcripts": {"uri": "none"},
            "store": config.model_dump(),
            "series": SERIES.model_dump(),
        }
    )


async def views(config: RunConfig) -> dict[str, str]:
    """What people see of the history, without the times at which it was judged."""
    with open_store(config.store) as store:
        trends = stored_trends(store, RunRange("nightly"), SERIES)
        records = [store.run(run_id) for run_id in store.runs()["run_id"]]
        shown = {
            "trends": trends.model_dump_json(),
            "chart": trend_chart(trends),
            "baselines": str(store.comparisons().select("baseline", "candidate").rows()),
            **{f"incidents {r.run_id}": str(incidents_at(store, r, SERIES)) for r in records},
            **{f"report {r.run_id}": report(store, r) for r in records},
        }
    app = create_app(config, Access(LOOPBACK))
    pages = ["/", "/runs", "/view/trends", "/view/compare"]
    pages += [f"/view/runs/{record.run_id}" for record in records]
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8320") as client:
        for page in pages:
            answer = await client.get(page)
            assert answer.status_code == 200, answer.text
            shown[page] = answer.text.replace(config.store.uri, "STORE")
    return {name: TIMES_OF_JUDGING.sub("THEN", text) for name, text in shown.items()}


def report(store: Store, record: RunRecord) -> str:
    return json_report(read_report(store, record, stored_comparison(store, record)).data)


@pytest.mark.row("005-22")
@pytest.mark.full
@pytest.mark.parametrize("kind", ["duckdb", "lake"])
async def test_a_week_judged_in_any_order_has_the_same_trends_incidents_and_pages(
    tmp_path: Path, kind: str
):
    seen = {}
    for name, order in ORDERS.items():
        (folder := tmp_path / name.replace(" ", "-")).mkdir()
        seen[name] = await views(judge_week(folder, order, kind))

    assert "PERSISTING" not in seen["oldest"]["/view/trends"]
    assert "persisting worse" in seen["oldest"]["/view/trends"]
    for name in ORDERS:
        differing = [view for view, text in seen[name].items() if seen["oldest"][view] != text]
        assert (name, differing) == (name, [])


@pytest.mark.full
@pytest.mark.row("005-22")
def test_a_backfill_of_the_newest_day_first_opens_an_incident_on_its_day(tmp_path: Path):
    config = judge_week(tmp_path, WEEK[::-1])
    with open_store(config.store) as store:
        trends = stored_trends(store, RunRange("nightly"), SERIES)
    (series,) = [item for item in trends.series if item.series == "pass_rate"]
    assert [point.value * 40 for point in series.points] == list(PASSES.values())
    assert [point.at for point in series.points] == [
        datetime(day.year, day.month, day.day, tzinfo=UTC) for day in WEEK
    ]
    labels = re.findall(r">(\d\d Mar)<", trend_chart(trends))
    assert labels[:4] == ["02 Mar", "04 Mar", "06 Mar", "08 Mar"]
    (incident,) = trends.incidents
    assert (incident.opened_run, incident.state) == ("nightly-20260307", "persisting")
    assert "; since 2026-03-07 (run nightly-20260307), 2 runs" in incident.line()


@pytest.mark.row("005-22")
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_latest_is_the_run_about_the_day_before_whenever_it_was_judged(
    tmp_path: Path, order: list[date]
):
    config = judge_week(tmp_path, order)
    with open_store(config.store, writing=True) as store:
        compared = dict(store.comparisons().select("candidate", "baseline").rows())
        assert compared == {
            f"nightly-{day:%Y%m%d}": f"nightly-{before:%Y%m%d}" for before, day in pairwise(WEEK)
        }
        # Of a run about no one day too: it was begun today, and the newest day is nearest to it.
        made = run([Said("c1", (5, 5))], run_id="by-hand", comparison=LATEST.model_dump())
        snapshot = {**made.record.config, "sequence": 8}
        times = {name: JUDGED + timedelta(days=1) for name in ("started_at", "finished_at")}
        record = replace(made.record, trigger="adhoc", config=snapshot, **times)
        by_hand = store.run(put(store, replace(made, record=record)))
        assert baseline_id(store, "latest", by_hand) == "nightly-20260308"


def test_a_run_by_hand_over_an_earlier_day_is_set_beside_no_later_day(tmp_path: Path):
    config = judge_week(tmp_path, WEEK)
    with open_store(config.store, writing=True) as store:
        made = run([Said("c1", (5, 5))], run_id="by-hand", comparison=LATEST.model_dump())
        snapshot = {**made.record.config, "sequence": 8, "day": "2026-03-05"}
        times = {name: JUDGED + timedelta(days=1) for name in ("started_at", "finished_at")}
        record = replace(made.record, trigger="adhoc", config=snapshot, **times)
        by_hand = store.run(put(store, replace(made, record=record)))
        assert baseline_id(store, "latest", by_hand) == "nightly-20260305"


def test_runs_about_one_day_are_in_the_order_in_which_they_began(tmp_path: Path):
    with open_store(StoreConfig(uri=f"{tmp_path}/lake"), writing=True) as store:
        judge_day(store, WEEK[1], 1)
        for number, run_id in ((2, "z"), (3, "a")):
            made = run([Said("c1", (5, 5))], run_id=run_id)
            snapshot = {**made.record.config, "day": WEEK[0].isoformat(), "sequence": number}
            begun = JUDGED + timedelta(hours=number)
            record = replace(made.record, config=snapshot, started_at=begun)
            put(store, replace(made, record=record))
        assert store.runs()["run_id"].to_list() == ["nightly-20260303", "a", "z"]
        trends = stored_trends(store, RunRange("nightly"), SERIES)
        assert [point.run_id for point in trends.series[0].points] == ["z", "a", "nightly-20260303"]


def test_the_commands_and_the_report_name_the_day_beside_the_time_of_judging(tmp_path: Path):
    config = judge_week(tmp_path, WEEK[::-1])
    words = ("--store", config.store.uri)
    listed = assizes("runs", *words, cwd=tmp_path).out.splitlines()
    first = next(line for line in listed if "nightly-20260308" in line)
    assert first in listed[1:4], "the newest day is the first, though it was judged first"
    assert "2026-03-08" in first
    assert "2026-04-20 02:00" in first
    shown = assizes("show", "nightly-20260308", *words, cwd=tmp_path).out
    assert "about 2026-03-08, started 2026-04-20 02:00 UTC" in shown
    with open_store(config.store) as store:
        head = read_report(store, store.run("nightly-20260308"), None).data["run"]
    assert (head["day"], head["started_at"]) == ("2026-03-08", "2026-04-20 02:00:00 UTC")


def test_the_numbers_for_prometheus_are_those_of_the_newest_day_not_of_the_last_judged(
    tmp_path: Path,
):
    config = judge_week(tmp_path, WEEK[::-1])
    with open_store(config.store) as store:
        records = [store.run(f"nightly-{day:%Y%m%d}") for day in WEEK]
        newest = [one.day for one in records if is_about_newest_day(store, one, ["backfill"])]
    assert newest == WEEK[-1:]


@pytest.mark.full
def test_the_events_of_a_run_name_its_day(tmp_path: Path):
    config = judge_week(tmp_path, WEEK)
    with open_store(config.store) as store:
        record = store.run("nightly-20260304")
        data = read_report(store, record, None).data
    _, payload = run_events(record, RunSummary.model_validate(record.summary), data, None)
    assert payload["day"] == "2026-03-04"


async def test_a_run_is_stored_with_its_day_and_a_rerun_with_that_of_the_run_it_goes_over(
    tmp_path: Path,
):
    (tmp_path / "in").mkdir()
    good, mended = (
        native_line(case(user("Is my seat booked?"), agent("Yes, 12A."), case_id=case_id))
        for case_id in ("c1", "c2")
    )
    (tmp_path / "in/2026-03-02.jsonl").write_bytes(good + b"{broken\n")
    config = RunConfig.model_validate(
        {
            "transcripts": {"uri": f"{tmp_path}/in/{{date}}.jsonl"},
            "store": {"uri": f"{tmp_path}/lake"},
            "cache": {"uri": f"{tmp_path}/replies"},
            "limits": {"ledger": f"{tmp_path}/ledger.db"},
        }
    )
    night, _ = await judge_really(config, RunRequest("backfill", date=WEEK[0]))
    (tmp_path / "in/2026-03-02.jsonl").write_bytes(good + mended)
    again = RerunConfig(run=night, only="quarantined")
    transcripts = config.transcripts.model_copy(update={"again": again})
    rerun_config = config.model_copy(update={"name": "rerun", "transcripts": transcripts})
    rerun, _ = await judge_really(rerun_config)
    by_hand = config.transcripts.model_copy(update={"uri": f"{tmp_path}/in/*.jsonl"})
    undated, _ = await judge_really(config.model_copy(update={"transcripts": by_hand}))
    with open_store(config.store) as store:
        days = {run_id: store.run(run_id).day for run_id in (night, rerun, undated)}
        begun = store.run(undated).started_at.date()
    assert days == {night: WEEK[0], rerun: WEEK[0], undated: begun}
