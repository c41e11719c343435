"""The flow after a deployment: it waits, judges one version alone, and gates a rollout."""

from __future__ import annotations

import asyncio
import json
import os
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterName

from assizes.deployments.samples import with_planted_regression
from assizes.flows.after_deployment import (
    COLLECTING,
    MAX_DAYS_BEFORE,
    _first_moment,
    after_deployment,
)
from assizes.flows.evaluate import evaluate
from assizes.flows.nightly import nightly
from assizes.judge.case import Case
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.formats import native_line
from assizes.tasks.intake.run_sources import covering_uri
from assizes.tasks.intake.scan import TranscriptCounter
from assizes.tasks.store import open_store
from tests.flows.nights import ago, cases_of, dated, ended, lay, rows

pytestmark = pytest.mark.usefixtures("prefect_server")


def quick(folder: Path, **tables: Any) -> RunConfig:
    """A configuration that waits for few transcripts and a short time."""
    waiting = {"min_transcripts": 4, "deadline_minutes": 2.0, "poll_s": 0.2}
    return dated(
        folder, **{**tables, "after_deployment": {**waiting, **tables.get("after_deployment", {})}}
    )


def judged(config: RunConfig, run_id: str) -> list[tuple[str, str]]:
    with open_store(config.store) as store:
        cases = store.table(run_id, "cases").sort("case_id")
    return list(cases.select("case_id", "agent_version").iter_rows())


def at_once(minutes: float = 0.01) -> dict[str, Any]:
    return {"after_deployment": {"deadline_minutes": minutes}}


async def test_only_the_transcripts_of_the_version_are_judged(tmp_path: Path):
    both = [*cases_of(ago(), 4, "v2"), *cases_of(ago(1), 3, "v1")]
    lay(tmp_path, ago(), both)
    config = quick(tmp_path)
    state = await after_deployment(config, "v2", return_state=True)
    outcome = await ended(state)
    assert (state.type.value, state.name, outcome.exit_code) == ("COMPLETED", "Passed", 0)
    assert outcome.reasons == []
    assert {version for _, version in judged(config, outcome.run_id)} == {"v2"}
    (row,) = rows(config)
    assert row["trigger"] == "deployment"
    assert json.loads(row["config"])["transcripts"]["where"] == {"agent_version": "v2"}


@pytest.mark.parametrize(("version", "agent"), [("", None), (" ", None), ("v2", "")])
async def test_nothing_waits_for_a_version_or_an_agent_without_a_name(
    tmp_path: Path, version: str, agent: str | None
):
    config = quick(tmp_path, **at_once())
    with pytest.raises(ConfigurationError, match="an empty (version|name) is none"):
        await ended(await after_deployment(config, version, agent, return_state=True))


async def test_it_waits_in_a_state_of_its_own_until_there_are_enough(tmp_path: Path):
    config = quick(tmp_path)
    lay(tmp_path, ago(), cases_of(ago(), 2, "v2"))
    work = asyncio.create_task(_run(config, "v2", 6))
    assert await _seen("after-deployment-suite-v2", COLLECTING)
    assert not work.done()
    more = [one.model_copy(update={"case_id": f"{one.case_id}-m"}) for one in _v(4, "v2")]
    (tmp_path / "logs" / ago().isoformat() / "part-1.jsonl").write_bytes(_lines(more))
    outcome = await asyncio.wait_for(work, 60)
    assert len(judged(config, outcome.run_id)) == 6
    assert outcome.reasons == []


async def _run(config: RunConfig, version: str, wanted: int) -> Any:
    return await ended(
        await after_deployment(config, version, min_transcripts=wanted, return_state=True)
    )


def _v(count: int, version: str) -> list[Case]:
    return cases_of(ago(), count, version)


def _lines(cases: list[Case]) -> bytes:
    return b"".join(native_line(case) for case in cases)


async def _seen(name: str, state: str) -> bool:
    wanted = FlowRunFilter(name=FlowRunFilterName(any_=[name]))
    async with get_client() as client:
        for _ in range(600):
            found = await client.read_flow_runs(flow_run_filter=wanted)
            if any(one.state is not None and one.state.name == state for one in found):
                return True
            await asyncio.sleep(0.1)
    return False


@pytest.mark.parametrize(("days", "conclusion"), [(None, "NoData"), (3, "Passed")])
async def test_an_event_that_is_posted_late_finds_the_days_since_the_deployment(
    tmp_path: Path, days: int | None, conclusion: str
):
    config = quick(tmp_path, **at_once(0.05))
    lay(tmp_path, ago(3), cases_of(ago(3), 4, "v2"))
    since = None if days is None else datetime.now(UTC) - timedelta(days=days)
    state = await after_deployment(config, "v2", deployed_at=since, return_state=True)
    outcome = await ended(state)
    assert outcome.conclusion == conclusion
    assert len(judged(config, outcome.run_id)) == (0 if days is None else 4)


def test_days_before_a_deployment_have_a_bound_and_there_is_none_tomorrow():
    began = datetime(2026, 11, 27, tzinfo=UTC)
    assert _first_moment(None, began) == began
    assert _first_moment(began + timedelta(days=3), began) == began
    assert _first_moment(began - timedelta(days=3), began) == began - timedelta(days=3)
    longest = began - timedelta(days=MAX_DAYS_BEFORE)
    assert _first_moment(datetime(1990, 1, 1), began) == longest  # noqa: DTZ001 (a naive one)


@pytest.mark.full
async def test_at_the_deadline_it_is_judged_by_what_there_is_and_says_so(tmp_path: Path):
    config = quick(tmp_path, **at_once())
    lay(tmp_path, ago(), _v(2, "v2"))
    state = await after_deployment(config, "v2", return_state=True)
    outcome = await ended(state)
    assert state.name == "Passed"
    assert outcome.reasons == ["2 of 4 transcripts of version v2 by the deadline"]
    assert state.message == outcome.reasons[0]
    assert len(judged(config, outcome.run_id)) == 2


@pytest.mark.full
@pytest.mark.parametrize("others", [0, 3])
async def test_without_a_transcript_of_the_version_it_never_passes(tmp_path: Path, others: int):
    config = quick(tmp_path, **at_once())
    (tmp_path / "logs").mkdir()
    if others:
        lay(tmp_path, ago(), _v(others, "v1"))
    state = await after_deployment(config, "v2", return_state=True)
    outcome = await ended(state)
    assert (state.type.value, state.name, outcome.exit_code) == ("FAILED", "NoData", 4)
    assert outcome.reasons[0] == "0 of 4 transcripts of version v2 by the deadline"


async def test_a_worse_version_is_set_beside_the_one_before_and_stops_the_rollout(tmp_path: Path):
    config = quick(tmp_path, comparison={"baseline": "latest", "mode": "rules"})
    good = cases_of(ago(1), 20, "v1")
    lay(tmp_path, ago(1), good)
    await ended(await nightly(config, ago(1), return_state=True))
    bad = [
        one.model_copy(update={"case_id": f"n{one.case_id}"})
        for one in with_planted_regression(cases_of(ago(1), 20, "v2"))
    ]
    lay(tmp_path, ago(), bad)
    for _ in range(2):  # the second time `latest` would be the bad version itself
        state = await after_deployment(config, "v2", min_transcripts=20, return_state=True)
        outcome = await ended(state)
        assert (state.type.value, state.name, outcome.exit_code) == ("FAILED", "Regression", 1)
        assert outcome.comparison.baseline_agent_version == "v1"
        more = _v(1, "v2")
        (tmp_path / "logs" / ago().isoformat() / "late.jsonl").write_bytes(_lines(more))
    assert len([row for row in rows(config) if row["trigger"] == "deployment"]) == 2


@pytest.mark.full
async def test_the_previous_version_is_one_of_the_same_agent(tmp_path: Path):
    def of(agent: str, version: str) -> list[Case]:
        made = cases_of(ago(), 4, version)
        return [
            one.model_copy(update={"agent": agent, "case_id": f"{agent}-{version}-{one.case_id}"})
            for one in made
        ]

    lay(tmp_path, ago(), [*of("air", "v1"), *of("rail", "r1"), *of("air", "v2")])
    config = quick(tmp_path)
    for version, agent in (("v1", "air"), ("r1", "rail")):
        await ended(await after_deployment(config, version, agent, return_state=True))
    outcome = await ended(await after_deployment(config, "v2", "air", return_state=True))
    assert outcome.comparison.baseline_agent_version == "v1"
    again = await ended(await after_deployment(config, "v1", "air", return_state=True))
    assert again.comparison is None


@pytest.mark.full
async def test_a_configured_baseline_is_kept(tmp_path: Path):
    config = quick(tmp_path)
    lay(tmp_path, ago(), _v(4, "v2"))
    pinned = await ended(await evaluate(config, "adhoc", "pinned", ago(), return_state=True))
    compared = {"comparison": {"baseline": "pinned"}}
    found = await ended(
        await after_deployment(quick(tmp_path, **compared), "v2", return_state=True)
    )
    assert found.comparison.baseline_run_id == pinned.run_id


def test_an_object_that_has_not_changed_is_not_read_again(tmp_path: Path):
    where = {"uri": f"{tmp_path}/logs/", "where": {"agent_version": "v2"}}
    first = lay(tmp_path, ago(1), _v(3, "v2"))
    collected = TranscriptCounter(dated(tmp_path, transcripts=where).transcripts)
    assert collected.count_cases() == 3
    state = first.stat()
    first.write_bytes(first.read_bytes().replace(b'"v2"', b'"v3"'))  # reading it would find none
    os.utime(first, ns=(state.st_atime_ns, state.st_mtime_ns))
    second = lay(tmp_path, ago(), cases_of(ago(1), 2, "v2"))
    assert collected.count_cases() == 5
    second.write_bytes(_lines([*cases_of(ago(1), 2, "v2"), *_v(1, "v2")]))
    assert collected.count_cases() == 5  # that one is in the first object as well
    second.unlink()
    assert collected.count_cases() == 3


@pytest.mark.parametrize(
    ("uri", "days", "pattern"),
    [
        ("s3://b/{date}/", [date(2026, 11, 20), date(2026, 11, 21)], "s3://b/2026-11-2[01]/"),
        ("l/{date:%Y/%m/%d}", [date(2026, 11, 30), date(2026, 12, 1)], "l/2026/1[12]/[03][01]"),
        ("l/{date:%B}", [date(2026, 11, 30), date(2026, 12, 1)], "l/[DN][eo][cv]ember"),
        ("l/{date:%B}", [date(2026, 4, 30), date(2026, 5, 1)], "l/*"),
        ("l/{date:%-m/%-d}/", [date(2026, 9, 30), date(2026, 10, 1)], "l/*/*/"),
        ("l/{date:%Y/%-d}", [date(2026, 9, 9), date(2026, 9, 10)], "l/2026/*"),
        ("l/{date}/a.jsonl", [date(2026, 4, 30)], "l/2026-04-30/a.jsonl"),
        ("l/all.jsonl", [date(2026, 4, 30), date(2026, 5, 1)], "l/all.jsonl"),
    ],
)
def test_several_days_are_one_pattern(uri: str, days: list[date], pattern: str):
    assert covering_uri(uri, days) == pattern
