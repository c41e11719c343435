"""The backfill flow: a run for each day, whatever befalls one of them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sqlite3
import time
from contextlib import closing
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterKey,
    FlowRunFilter,
    FlowRunFilterId,
)

from assizes.deployments.api import create_app
from assizes.deployments.samples import with_planted_regression
from assizes.deployments.web.guard import LOOPBACK, Access
from assizes.flows.backfill import backfill
from assizes.flows.nightly import SeriesOutcome
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from assizes.tasks.intake.run_sources import backfill_parts
from assizes.tasks.runs.history import RunRange, stored_trends
from assizes.tasks.store import open_store
from tests.command import ROOT, Started, started
from tests.doubles.fixtures import OPENAI_KEY, OpenAIServer, running_openai_server
from tests.flows.nights import ago, cases_of, dated, ended, lay, rows

pytestmark = pytest.mark.usefixtures("prefect_server")

FIRST, LAST = date(2026, 3, 24), date(2026, 3, 30)
DAYS = [FIRST + timedelta(days=number) for number in range(7)]
EMPTY = date(2026, 3, 26)
BROKEN = date(2026, 3, 29)


def week(folder: Path, count: int = 2) -> None:
    """A week of transcripts, over the day the clocks change: one is empty, one has broken files."""
    for day in DAYS:
        if day == BROKEN:
            lay(folder, day, [], b'{"cut off\n')
        elif day != EMPTY:
            lay(folder, day, cases_of(day, count))


async def filled(config: RunConfig, *args: Any, **kwargs: Any) -> SeriesOutcome:
    found = await ended(await backfill(config, *args, return_state=True, **kwargs))
    assert isinstance(found, SeriesOutcome)
    return found


def no_case_twice(config: RunConfig) -> int:
    """The number of cases in all runs together, each case once."""
    keys = ("run_id", "case_id", "repetition")
    with open_store(config.store) as store:
        tables = [store.table(row["run_id"], "cases") for row in store.runs().to_dicts()]
        scores = [store.table(row["run_id"], "scores") for row in store.runs().to_dicts()]
    cases = pl.concat(tables)
    assert not cases.select(keys).is_duplicated().any()
    assert not pl.concat(scores).select(*keys, "judge", "metric", "part").is_duplicated().any()
    assert not cases.select("case_id").is_duplicated().any()
    return cases.height


def answered(ledger: Path) -> int:
    """The number of answered, and so paid, calls; a call that broke off is not counted."""
    with closing(sqlite3.connect(ledger)) as file:
        calls = file.execute("select count(*) from calls where state = 'settled' and code is null")
        return int(calls.fetchone()[0])


@pytest.mark.full
@pytest.mark.long
async def test_every_day_is_a_run_and_neither_an_empty_nor_a_broken_one_ends_the_others(
    tmp_path: Path,
):
    week(tmp_path, 1)
    config = dated(
        tmp_path, backfill={"in_flight": 4}, comparison={"baseline": "latest", "mode": "rules"}
    )
    state = await backfill(config, FIRST, LAST, return_state=True)
    outcome = await ended(state)
    found = {one.part: one.conclusion for one in outcome.parts}
    assert list(found) == [day.isoformat() for day in DAYS]
    assert {day for day, said in found.items() if said == "NoData"} == {str(EMPTY)}
    assert found[BROKEN.isoformat()] == "Inconclusive"
    assert len({one.run_id for one in outcome.parts}) == 7
    assert (no_case_twice(config), len(rows(config)), outcome.left) == (5, 7, [])
    assert {row["status"] for row in rows(config)} == {"complete"}
    assert state.name == outcome.conclusion
    assert await filled(config, FIRST, LAST) == outcome
    async with get_client() as client:
        run = await client.read_flow_run(state.state_details.flow_run_id)
        assert run.name == "backfill-suite-2026-03-24..2026-03-30"
        progress = await client.read_artifacts(
            artifact_filter=_key("assizes-backfill-progress-suite"),
            flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[run.id])),
        )
        assert {float(one.data) for one in progress} == {100.0}
        tables = await client.read_artifacts(
            artifact_filter=_key("assizes-backfill-suite"),
            flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[run.id])),
        )
        assert len(json.loads(tables[0].data)) == 7


def _key(name: str) -> ArtifactFilter:
    return ArtifactFilter(key=ArtifactFilterKey(any_=[name]))


@pytest.mark.full
async def test_a_day_that_cannot_be_begun_is_told_and_the_others_are_judged(tmp_path: Path):
    days = DAYS[:3]
    lay(tmp_path, days[0], cases_of(days[0]))
    (tmp_path / "logs" / days[1].isoformat()).write_text("a file in the place of a folder")
    lay(tmp_path, days[2], cases_of(days[2]))
    config = dated(tmp_path, transcripts={"uri": f"{tmp_path}/logs/{{date}}/part-*.jsonl"})
    state = await backfill(config, days[0], days[2], return_state=True)
    outcome = await ended(state)
    assert [one.conclusion for one in outcome.parts] == ["Passed", "Failed", "Passed"]
    assert (state.name, outcome.exit_code) == ("Failed", 2)
    assert outcome.reasons[0].startswith(f"{days[1]}: Failed: [transcripts] uri")


@pytest.mark.full
async def test_two_backfills_at_once_over_the_same_days_leave_no_duplicate_and_pay_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI_KEY)
    week(tmp_path)
    with running_openai_server("--latency", "0.2") as model:
        judge = {"model": "openai/gpt-4o-mini", "api_base": model.api_base}
        ahead = dated(tmp_path, judge=judge, backfill={"in_flight": 2})
        behind = dated(tmp_path, judge=judge, backfill={"in_flight": 2, "order": "newest"})
        one, two = await asyncio.gather(
            filled(ahead, DAYS[0], DAYS[4]), filled(behind, DAYS[2], DAYS[6])
        )
    assert no_case_twice(ahead) == answered(tmp_path / "ledger.db") == 2 * 5
    assert len(rows(ahead)) == 7
    shared = {part.part: part for part in one.parts}
    for part in two.parts:
        assert shared.get(part.part, part) == part


PROGRAM = """
import asyncio, datetime, json, sys
from assizes.flows.backfill import backfill
from assizes.judge.config.run import RunConfig
config = RunConfig.model_validate_json(sys.argv[1])
days = [datetime.date.fromisoformat(one) for one in sys.argv[2:]]
asyncio.run(backfill(config, *days, return_state=True))
"""


def started_backfill(config: RunConfig, api_url: str) -> Started:
    own = {"PREFECT_API_URL": api_url, "OPENAI_API_KEY": OPENAI_KEY}
    words = [config.model_dump_json(), FIRST.isoformat(), LAST.isoformat()]
    return started(*words, program=PROGRAM, cwd=ROOT, env=own, new_session=True)


def wait_for(model: OpenAIServer, requests: int) -> None:
    deadline = time.monotonic() + 120
    while int(model.stats()["requests"]) < requests:
        assert time.monotonic() < deadline, "the backfill asks nothing"
        time.sleep(0.02)


@pytest.mark.full
@pytest.mark.row("O9")
async def test_killed_in_the_middle_it_goes_on_and_finished_days_cost_nothing(
    tmp_path: Path, prefect_server: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI_KEY)
    week(tmp_path)
    with running_openai_server("--latency", "0.05") as model:
        judge = {"model": "openai/gpt-4o-mini", "api_base": model.api_base}
        store = {"uri": f"duckdb:///{tmp_path}/rows.duckdb"}
        config = dated(tmp_path, judge=judge, store=store)
        process = started_backfill(config, prefect_server)
        wait_for(model, 5)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        before = len([row for row in rows(config) if row["status"] == "complete"])
        assert 1 < before < 7
        outcome = await filled(config, FIRST, LAST)
        asked = model.stats()["requests"]
        assert await filled(config, FIRST, LAST) == outcome
        assert model.stats()["requests"] == asked
    paid = answered(tmp_path / "ledger.db")
    assert len(outcome.parts) == 7
    assert no_case_twice(config) == 10
    assert 10 - 2 <= paid <= 10  # two of the day in flight may have been paid and not settled
    assert outcome.cost_usd is not None
    assert outcome.cost_usd > 0


@pytest.mark.full
async def test_a_spent_budget_ends_a_backfill_and_a_larger_one_goes_on(
    tmp_path: Path, openai_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI_KEY)
    for day in DAYS[:4]:
        lay(tmp_path, day, cases_of(day))
    judge = {"model": "openai/gpt-4o-mini", "api_base": openai_server.api_base}
    state = await backfill(
        dated(tmp_path, judge=judge, limits={"max_asks_per_day": 3}),
        DAYS[0],
        DAYS[3],
        return_state=True,
    )
    outcome = await ended(state)
    assert (state.name, outcome.exit_code) == ("OverBudget", 5)
    assert [one.conclusion for one in outcome.parts] == ["Passed", "OverBudget"]
    assert outcome.left == [day.isoformat() for day in DAYS[2:4]]
    done = await filled(dated(tmp_path, judge=judge), DAYS[0], DAYS[3])
    assert (done.conclusion, answered(tmp_path / "ledger.db")) == ("Passed", 8)


@pytest.mark.full
@pytest.mark.parametrize("how", [{"order": "newest"}, {"in_flight": 3, "order": "newest"}])
async def test_a_day_is_set_beside_the_day_before_it_whichever_ends_first(
    tmp_path: Path, how: dict[str, Any]
):
    for day in DAYS[:4]:
        lay(tmp_path, day, cases_of(day))
    compared = {"baseline": "latest", "mode": "rules"}
    config = dated(tmp_path, backfill=how, comparison=compared)
    outcome = await filled(config, DAYS[0], DAYS[3])
    assert [one.part for one in outcome.parts] == [str(day) for day in DAYS[:4]]
    assert beside(config) == {str(day): str(before) for before, day in pairwise(DAYS[:4])}
    assert await filled(config, DAYS[0], DAYS[3]) == outcome


@pytest.mark.full
@pytest.mark.row("005-22")
async def test_seven_days_in_any_order_are_the_same_history(tmp_path: Path):
    for number, day in enumerate(DAYS):
        cases = cases_of(day, 24)
        lay(tmp_path, day, with_planted_regression(cases) if number > 4 else cases)
    seen = {}
    for order in ("oldest", "newest"):
        config = dated(
            tmp_path,
            backfill={"order": order},
            comparison={"baseline": "latest", "mode": "rules"},
            series={"reference_runs": 5},
            store={"uri": f"{tmp_path}/{order}/lake"},
            cache={"uri": f"{tmp_path}/{order}/replies"},
            limits={"ledger": f"{tmp_path}/{order}/ledger.db"},
            report={"uri": f"{tmp_path}/{order}/reports"},
        )
        outcome = await filled(config, FIRST, LAST)
        seen[order] = {"outcome": outcome.model_dump_json(), **await history(config)}
        seen[order] = {name: text.replace(f"/{order}/", "/") for name, text in seen[order].items()}
    assert '"state":"persisting"' in seen["oldest"]["trends and incidents"]
    assert seen["newest"].keys() == seen["oldest"].keys()
    differing = [name for name, text in seen["newest"].items() if seen["oldest"][name] != text]
    texts = {name: (seen["oldest"][name], seen["newest"][name]) for name in differing}
    assert texts == {}


async def history(config: RunConfig) -> dict[str, str]:
    """Trends, incidents, comparisons, pages and reports, without the times of judging."""
    with open_store(config.store) as store:
        shown = {
            "trends and incidents": stored_trends(
                store, RunRange(config.name), config.series
            ).model_dump_json(),
            "comparisons": str(store.comparisons().select("baseline", "candidate").rows()),
        }
        ids = store.runs()["run_id"].to_list()
    app = create_app(config, Access(LOOPBACK))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8320") as client:
        pages = ["/", "/runs", "/view/trends", "/view/compare"]
        for page in [*pages, *(f"/view/runs/{run_id}/cases" for run_id in ids)]:
            shown[page] = (await client.get(page)).text.replace(config.store.uri, "STORE")
    shown |= {f"report {run_id}": report_text(config, run_id) for run_id in ids}
    times = re.compile(rf"({ago(1)}|{ago()})[ T]\d\d:\d\d[\d:.]*(Z| UTC)?")
    return {name: times.sub("THEN", text) for name, text in shown.items()}


def report_text(config: RunConfig, run_id: str) -> str:
    """The report of a run, without what its judging took."""
    data = json.loads((Path(config.report.uri) / run_id / "report.json").read_text("utf-8"))
    return json.dumps(data | {"usage": None, "judges": None}, sort_keys=True)


@pytest.mark.full
async def test_a_day_behind_one_that_was_not_begun_is_compared_when_that_is_judged(
    tmp_path: Path, openai_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI_KEY)
    for day in DAYS[:4]:
        lay(tmp_path, day, cases_of(day))
    body = {
        "judge": {"model": "openai/gpt-4o-mini", "api_base": openai_server.api_base},
        "backfill": {"order": "newest"},
        "comparison": {"baseline": "latest", "mode": "rules"},
    }
    poor = dated(tmp_path, limits={"max_asks_per_day": 5}, **body)
    stopped = await filled(poor, DAYS[0], DAYS[3])
    assert (stopped.conclusion, stopped.left) == ("OverBudget", [str(DAYS[0])])
    assert beside(poor) == {}
    whole = await filled(dated(tmp_path, **body), DAYS[0], DAYS[3])
    assert whole.left == []
    assert beside(poor) == {str(day): str(before) for before, day in pairwise(DAYS[:4])}


def beside(config: RunConfig) -> dict[str, str]:
    """The day that each day was compared with."""
    days = {row["run_id"]: json.loads(row["config"])["day"] for row in rows(config)}
    with open_store(config.store) as store:
        found = store.comparisons().to_dicts()
    assert len({one["candidate"] for one in found}) == len(found)
    return {days[one["candidate"]]: days[one["baseline"]] for one in found}


async def test_places_are_judged_as_days_are(tmp_path: Path):
    files = [lay(tmp_path, day, cases_of(day)).as_posix() for day in DAYS[:2]]
    config = dated(tmp_path)
    outcome = await filled(config, uris=[*files, files[0]])
    assert [(one.part, one.cases) for one in outcome.parts] == [(files[0], 2), (files[1], 2)]
    assert [json.loads(row["config"]).get("day") for row in rows(config)] == [None, None]


def test_the_newest_day_comes_first_where_that_is_wanted(tmp_path: Path):
    newest = dated(tmp_path, backfill={"order": "newest"})
    oldest = dated(tmp_path)
    forward = [one.day for one in backfill_parts(oldest, FIRST, LAST, None)]
    assert forward == DAYS
    assert [one.day for one in backfill_parts(newest, FIRST, LAST, None)] == DAYS[::-1]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "give the first day"),
        ({"until": LAST}, "give the first day"),
        ({"since": LAST, "until": FIRST}, "ends 2026-03-24, before it begins 2026-03-30"),
        ({"since": FIRST, "uris": ["a.jsonl"]}, "not both"),
    ],
)
def test_a_range_that_is_none_is_refused(tmp_path: Path, given: dict[str, Any], said: str):
    asked = {"since": None, "until": None, "uris": None, **given}
    with pytest.raises(ConfigurationError, match=said):
        backfill_parts(dated(tmp_path), *asked.values())
