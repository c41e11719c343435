"""The nightly flow: the time zone of a day, empty nights, missed nights, and baselines."""

from __future__ import annotations

import json
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import get_client

from assizes.deployments.samples import with_planted_regression
from assizes.flows.evaluate import evaluate
from assizes.flows.nightly import SeriesOutcome, nightly
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from assizes.tasks.intake.run_sources import yesterday
from assizes.tasks.list_due_nights import due_nights
from assizes.tasks.store import open_store
from tests.flows.nights import ago, cases_of, dated, ended, lay, rows

pytestmark = pytest.mark.usefixtures("prefect_server")


async def night_of(config: RunConfig, on: date | None = None) -> SeriesOutcome:
    found = await ended(await nightly(config, on, return_state=True))
    assert isinstance(found, SeriesOutcome)
    return found


def baselines(config: RunConfig) -> dict[str, str]:
    """The day of the baseline of each day."""
    days = {row["run_id"]: json.loads(row["config"])["day"] for row in rows(config)}
    with open_store(config.store) as store:
        kept = store.comparisons().iter_rows(named=True)
        return {days[row["candidate"]]: days[row["baseline"]] for row in kept}


@pytest.mark.full
async def test_without_a_day_it_judges_yesterday_and_its_name_says_so(tmp_path: Path):
    lay(tmp_path, ago(1), cases_of(ago(1)))
    config = dated(tmp_path)
    state = await nightly(config, return_state=True)
    outcome = await ended(state)
    assert (state.type.value, state.name) == ("COMPLETED", "Passed")
    assert [one.part for one in outcome.parts] == [ago(1).isoformat()]
    (row,) = rows(config)
    assert (row["trigger"], row["status"]) == ("nightly", "complete")
    assert json.loads(row["config"])["day"] == ago(1).isoformat()
    async with get_client() as client:
        run = await client.read_flow_run(state.state_details.flow_run_id)
    assert run.name == f"nightly-suite-{ago(1)}"


@pytest.mark.full
async def test_the_same_night_again_is_the_same_run(tmp_path: Path):
    lay(tmp_path, ago(1), cases_of(ago(1)))
    config = dated(tmp_path)
    assert await night_of(config) == await night_of(config)
    assert len(rows(config)) == 1


@pytest.mark.parametrize(
    ("moment", "zone", "day"),
    [
        (
            "2026-03-29T22:30+00:00",
            "Europe/Berlin",
            "2026-03-29",
        ),  # 00:30, the day of 23 hours over
        ("2026-03-29T21:30+00:00", "Europe/Berlin", "2026-03-28"),  # 23:30, not over yet
        (
            "2026-10-25T23:30+00:00",
            "Europe/Berlin",
            "2026-10-25",
        ),  # 00:30, the day of 25 hours over
        ("2026-10-25T22:30+00:00", "Europe/Berlin", "2026-10-24"),  # 23:30 of the 25th hour
        ("2026-03-08T08:00+00:00", "America/Los_Angeles", "2026-03-07"),
        ("2026-11-20T23:59+00:00", "UTC", "2026-11-19"),
        ("2026-11-20T23:59+00:00", "Pacific/Auckland", "2026-11-20"),
        ("2027-01-01T00:00+00:00", "UTC", "2026-12-31"),
    ],
)
def test_the_night_is_the_last_whole_day_of_the_time_zone(moment: str, zone: str, day: str):
    assert yesterday(datetime.fromisoformat(moment), zone) == date.fromisoformat(day)


@pytest.mark.full
async def test_a_night_without_transcripts_is_a_run_that_never_passes_and_is_no_baseline(
    tmp_path: Path,
):
    config = dated(tmp_path, comparison={"baseline": "latest"})
    lay(tmp_path, ago(3), cases_of(ago(3)))
    lay(tmp_path, ago(1), cases_of(ago(1)))
    await night_of(config, ago(3))
    state = await nightly(config, ago(2), return_state=True)
    empty = await ended(state)
    assert (state.type.value, state.name, empty.exit_code) == ("FAILED", "NoData", 4)
    (part,) = empty.parts
    assert part.cases == 0
    assert part.reasons == ["no_data: nothing to judge in 0 records read"]
    kept = [row for row in rows(config) if row["run_id"] == part.run_id]
    assert kept[0]["status"] == "complete"
    assert json.loads(kept[0]["summary"])["outcome"] == "inconclusive"
    await night_of(config, ago(1))
    assert baselines(config) == {ago(1).isoformat(): ago(3).isoformat()}
    assert await night_of(config, ago(2)) == empty


@pytest.mark.full
async def test_two_empty_nights_are_two_runs_and_late_transcripts_a_third(tmp_path: Path):
    config = dated(tmp_path)
    (tmp_path / "logs").mkdir()
    first, second = await night_of(config, ago(2)), await night_of(config, ago(1))
    assert first.parts[0].run_id != second.parts[0].run_id
    lay(tmp_path, ago(1), cases_of(ago(1)))
    late = await night_of(config, ago(1))
    assert (late.conclusion, len(rows(config))) == ("Passed", 3)


async def test_a_night_of_broken_files_keeps_what_it_quarantined(tmp_path: Path):
    config = dated(tmp_path)
    lay(tmp_path, ago(1), [], b'{"cut off\n' + b"nothing\n")
    found = await night_of(config, ago(1))
    assert (found.conclusion, found.exit_code) == ("Inconclusive", 4)
    (part,) = found.parts
    assert (part.cases, part.quarantined) == (0, 1)  # the file as a whole
    with open_store(config.store) as store:
        assert store.table(part.run_id, "rejects").height == 1


async def test_missed_nights_are_made_good_oldest_first_but_not_further_back_than_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    config = dated(tmp_path, nightly={"catch_up": 3}, comparison={"baseline": "latest"})
    for days in range(1, 9):
        lay(tmp_path, ago(days), cases_of(ago(days)))
    await night_of(config, ago(8))
    await night_of(config, ago(3))
    outcome = await night_of(config)
    assert [one.part for one in outcome.parts] == [ago(days).isoformat() for days in (4, 2, 1)]
    assert f"3 nights from {ago(7)} to {ago(5)} have no run" in caplog.text
    assert f"--from {ago(7)} --to {ago(5)}" in caplog.text
    assert baselines(config) == {
        ago(3).isoformat(): ago(8).isoformat(),
        ago(4).isoformat(): ago(8).isoformat(),
        ago(2).isoformat(): ago(3).isoformat(),
        ago(1).isoformat(): ago(2).isoformat(),
    }


@pytest.mark.full
async def test_where_no_night_is_made_good_those_missed_are_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    config = dated(tmp_path, nightly={"catch_up": 0})
    lay(tmp_path, ago(5), cases_of(ago(5)))
    await night_of(config, ago(5))
    assert await due_nights.fn(config, ago(2)) == [ago(2)]
    assert f"2 nights from {ago(4)} to {ago(3)} have no run" in caplog.text
    caplog.clear()
    lay(tmp_path, ago(2), cases_of(ago(2)))
    await night_of(config, ago(2))
    assert await due_nights.fn(config, ago(1)) == [ago(1)]
    assert "have no run" not in caplog.text


@pytest.mark.full
async def test_a_night_judged_late_is_set_beside_the_night_before_it_not_beside_later_ones(
    tmp_path: Path,
):
    config = dated(tmp_path, comparison={"baseline": "latest"})
    for days in (1, 2, 3):
        lay(tmp_path, ago(days), cases_of(ago(days)))
    for days in (3, 1, 2):
        await night_of(config, ago(days))
    assert baselines(config) == {
        ago(1).isoformat(): ago(3).isoformat(),
        ago(2).isoformat(): ago(3).isoformat(),
    }


@pytest.mark.full
async def test_an_adhoc_run_over_a_part_of_a_day_is_no_baseline_of_a_night(tmp_path: Path):
    config = dated(tmp_path, comparison={"baseline": "latest"})
    for days in (1, 2):
        lay(tmp_path, ago(days), cases_of(ago(days)))
    some = config.model_copy(
        update={"transcripts": config.transcripts.model_copy(update={"limit": 1})}
    )
    await ended(await evaluate(some, "adhoc", None, ago(2), return_state=True))
    await night_of(config, ago(1))
    assert baselines(config) == {}


async def test_a_regression_names_the_state_and_latest_passed_skips_it(tmp_path: Path):
    def worse(day: date) -> list[Any]:
        return with_planted_regression(cases_of(day, 20))

    lay(tmp_path, ago(3), cases_of(ago(3), 20))
    lay(tmp_path, ago(2), worse(ago(2)))
    lay(tmp_path, ago(1), cases_of(ago(1), 20))
    rules = {"baseline": "latest_passed", "mode": "rules"}
    config = dated(tmp_path, comparison=rules)
    await night_of(config, ago(3))
    state = await nightly(config, ago(2), return_state=True)
    assert (state.type.value, state.name) == ("FAILED", "Regression")
    await night_of(config, ago(1))
    assert baselines(config)[ago(1).isoformat()] == ago(3).isoformat()


async def test_transcripts_that_are_not_in_days_are_refused(tmp_path: Path):
    config = dated(tmp_path, transcripts={"uri": f"{tmp_path}/logs/"})
    with pytest.raises(ConfigurationError, match="has no place for a day"):
        await night_of(config)


async def test_a_night_that_has_not_begun_is_refused_and_leaves_no_run(tmp_path: Path):
    config = dated(tmp_path)
    with pytest.raises(ConfigurationError, match="lies in the future"):
        await night_of(config, ago(-2))
    assert not (tmp_path / "lake").exists()


async def test_a_place_that_is_not_there_at_all_is_no_empty_night(tmp_path: Path):
    found = await night_of(dated(tmp_path), ago(1))
    assert (found.conclusion, found.exit_code) == ("Failed", 2)
    assert "does not exist" in found.reasons[0]
