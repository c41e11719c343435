"""Nights and backfills that stop when they are decided: the same decision, however they went."""

from __future__ import annotations

import asyncio
import random
import signal
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from assizes.flows.backfill import backfill
from assizes.flows.nightly import SeriesOutcome, nightly
from assizes.judge.config.run import RunConfig
from assizes.judge.summary.run_summary import RunSummary
from assizes.tasks.store import open_store
from tests.command import ROOT, started
from tests.flows.decided_runs import decided_config, transcripts_file
from tests.flows.nights import ago, ended, rows
from tests.flows.test_backfill import beside
from tests.flows.test_evaluate import tables
from tests.flows.test_workers import same_rows

pytestmark = pytest.mark.usefixtures("prefect_server")

CASES = 300
STATISTICS = {"baseline": "latest", "mode": "statistics", "margin": 12.0}
SHARES = (0.8, 0.8, 0.2, 0.2, 0.2)
"""The share of passes on each day, the first day first: the third one is a regression."""

DAYS = [ago(len(SHARES) - number) for number in range(len(SHARES))]


def lay_days(folder: Path) -> None:
    for number, (day, share) in enumerate(zip(DAYS, SHARES, strict=True)):
        rng = random.Random(number)
        file = folder / "logs" / day.isoformat() / "part-0.jsonl"
        file.parent.mkdir(parents=True)
        transcripts_file(file, [float(rng.random() < share) for _ in range(CASES)])


def dated_config(folder: Path, place: str = "", **tables: Any) -> RunConfig:
    own = folder / place
    own.mkdir(exist_ok=True)
    store = {"uri": f"duckdb:///{own}/s.duckdb"}
    given = {"comparison": STATISTICS, "store": store, "runner": {"shard_size": 15}, **tables}
    return decided_config(
        own, folder / "logs", transcripts={"uri": f"{folder}/logs/{{date}}/"}, **given
    )


async def night_of(config: RunConfig, on: date) -> SeriesOutcome:
    found = await ended(await nightly(config, on, return_state=True))
    assert isinstance(found, SeriesOutcome)
    return found


async def filled(config: RunConfig) -> SeriesOutcome:
    found = await ended(await backfill(config, DAYS[0], DAYS[-1], return_state=True))
    assert isinstance(found, SeriesOutcome)
    return found


def summary_of(config: RunConfig, run_id: str | None) -> RunSummary:
    with open_store(config.store) as store:
        return RunSummary.model_validate(store.run(run_id or "").summary)


def ends(outcome: SeriesOutcome) -> list[tuple[str | None, str, int]]:
    return [(part.run_id, part.conclusion, part.cases) for part in outcome.parts]


PROGRAM = """
import asyncio, datetime, sys
from assizes.flows.backfill import backfill
from assizes.flows.nightly import nightly
from assizes.judge.config.run import RunConfig
config = RunConfig.model_validate_json(sys.argv[1])
days = [datetime.date.fromisoformat(day) for day in sys.argv[2:]]
flow = nightly if len(days) == 1 else backfill
asyncio.run(flow(config, *days, return_state=True))
"""


def killed_at(failpoint: str, config: RunConfig, api_url: str, *days: date) -> None:
    """Judge these days in a process that dies when it comes to the failpoint."""
    own = {"PREFECT_API_URL": api_url, "ASSIZES_FAILPOINT": failpoint}
    words = [config.model_dump_json(), *map(str, days)]
    done = started(*words, program=PROGRAM, cwd=ROOT, env=own).answer()
    assert done.code == -signal.SIGKILL, done


@pytest.mark.full
async def test_a_night_is_decided_against_the_night_before_it(tmp_path: Path):
    lay_days(tmp_path)
    config = dated_config(tmp_path)
    nights = [await night_of(config, day) for day in DAYS]
    stops = [summary_of(config, night.parts[0].run_id).early_stop for night in nights]
    assert [stop and stop.comparison for stop in stops] == [
        None,  # the first night is the baseline of the next
        *("fine", "regressed"),
        None,  # beside a night that was cut short nothing could be told: a whole baseline again
        "fine",
    ]
    assert [night.conclusion for night in nights] == [
        *("Passed", "Passed", "Regression", "Inconclusive", "Passed"),
    ]
    cases = [night.parts[0].cases for night in nights]
    assert (cases[0], cases[3]) == (CASES, CASES)
    assert max(cases[1], cases[2], cases[4]) < CASES
    assert beside(config) == {str(day): str(before) for before, day in pairwise(DAYS)}


@pytest.mark.full
async def test_a_night_killed_between_its_looks_makes_the_same_decision(
    tmp_path: Path, prefect_server: str
):
    lay_days(tmp_path)
    calm, killed = (dated_config(tmp_path, place) for place in ("calm", "killed"))
    for config in (calm, killed):
        await night_of(config, DAYS[0])
    wanted = await night_of(calm, DAYS[1])
    stop = summary_of(calm, wanted.parts[0].run_id).early_stop
    assert stop is not None
    assert stop.look > 1
    # A wave is 30 cases in 2 shards: once within the first wave, once in the last that is judged.
    for shards in (1, 2 * (stop.look - 1)):
        killed_at(f"shard.committed:{shards}", killed, prefect_server, DAYS[1])
    found = await night_of(killed, DAYS[1])
    assert ends(found) == ends(wanted)
    assert summary_of(killed, found.parts[0].run_id).early_stop == stop
    both = [tables(config.store, found.parts[0].run_id or "") for config in (calm, killed)]
    same_rows(*both)


@pytest.mark.full
@pytest.mark.long
async def test_a_backfill_compares_each_day_on_its_way_and_goes_on_where_it_was_killed(
    tmp_path: Path, prefect_server: str, caplog: pytest.LogCaptureFixture
):
    lay_days(tmp_path)
    nights = dated_config(tmp_path, "nights")
    wanted = [(await night_of(nights, day)).parts[0] for day in DAYS]
    config = dated_config(tmp_path, "backfill", backfill={"in_flight": 4, "order": "newest"})
    killed_at("shard.committed:20", config, prefect_server, DAYS[0], DAYS[-1])
    outcome = await filled(config)
    assert "parts are judged one at a time, the oldest first" in caplog.text
    assert [(part.conclusion, part.cases) for part in outcome.parts] == [
        (part.conclusion, part.cases) for part in wanted
    ]
    for part, night in zip(outcome.parts, wanted, strict=True):
        stops = [summary_of(config, part.run_id), summary_of(nights, night.run_id)]
        assert stops[0].early_stop == stops[1].early_stop
    assert beside(config) == {str(day): str(before) for before, day in pairwise(DAYS)}
    assert await filled(config) == outcome
    assert {row["status"] for row in rows(config)} == {"complete"}


@pytest.mark.full
async def test_a_day_that_another_process_judges_is_waited_for(tmp_path: Path):
    lay_days(tmp_path)
    config = dated_config(tmp_path, store={"uri": f"{tmp_path}/lake"})
    one, two = await asyncio.gather(filled(config), filled(config))
    assert one == two
    assert beside(config) == {str(day): str(before) for before, day in pairwise(DAYS)}
