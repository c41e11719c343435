"""Nights that say nothing of the agent are told too: one that is inconclusive, and one that never came."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import get_client

from assizes.deployments.commands.deploy import DeployOptions, register_or_remove
from assizes.deployments.settings import read_config
from tests.server.house import COMMON, YESTERDAY, Told, Worker, lay, webhook
from tests.server.test_unattended import begun, deployed, final, until

FIRST_MISSED_AFTER_S = 36.0
MISSED_AFTER_S = 90.0
"""Longer than the night takes, from its registration on: else the wait for it is over first."""
ONCE_A_YEAR = "nightly.cron='0 0 1 1 *'"


def config(missed_after_s: float) -> str:
    return f"""
name = "silent"
[transcripts]
uri = "logs/{{date}}/"
[notify]
block = "webhook/silent"
missed_after_hours = {missed_after_s / 3600}
{COMMON}
"""


@pytest.fixture
async def told(prefect_server: str) -> AsyncIterator[Told]:
    with webhook() as told:
        await Webhook(url=told.url, allow_private_urls=True).save("silent", overwrite=True)
        yield told


async def first(
    told: Told, finding: str, since: datetime | None = None
) -> tuple[dict[str, Any], datetime]:
    """The first message of a finding, or the first since a moment, and when it came."""

    async def look() -> tuple[dict[str, Any], datetime] | None:
        for body, when in zip(told.bodies, told.times, strict=True):
            if body["finding"] == finding and (since is None or when >= since):
                return body, when
        return None

    return await until(look, f"the message of the finding {finding!r}")


async def removed(folder: Path) -> None:
    """As `assizes deploy --remove` does it."""
    options = DeployOptions(read_config(folder / "silent.toml", ()), str(folder), remove=True)
    await register_or_remove(options)


async def test_a_first_night_that_never_came_is_told_within_a_minute(
    tmp_path: Path, told: Told, record_property: Callable[[str, object], None]
):
    (tmp_path / "silent.toml").write_text(config(FIRST_MISSED_AFTER_S))
    await deployed(tmp_path, "silent", ONCE_A_YEAR)
    began = datetime.now(UTC)
    try:
        _, when = await first(told, "missed nightly")
        missed_s = (when - began).total_seconds() - FIRST_MISSED_AFTER_S
        record_property("first_missed_told_after_s", round(missed_s, 1))
        assert -1 < missed_s < 60
    finally:
        await removed(tmp_path)


async def test_an_inconclusive_night_and_a_missed_one_are_told_within_a_minute(
    tmp_path: Path,
    prefect_server: str,
    told: Told,
    record_property: Callable[[str, object], None],
):
    lay(tmp_path / "logs", YESTERDAY, [], b'{"not a case\n\x00\xff\n')
    (tmp_path / "silent.toml").write_text(config(MISSED_AFTER_S))
    await deployed(tmp_path, "silent", ONCE_A_YEAR)
    log = tmp_path / "worker.log"
    worker = Worker(prefect_server, log)
    try:
        async with get_client() as client:
            night = await begun(client, "nightly/assizes-silent", on=YESTERDAY.isoformat())
            run = await until(lambda: final(client, night), f"the night; see {log}")
        assert run.state is not None
        assert run.state.name == "Inconclusive", run.state.message
        assert run.end_time is not None
        body, when = await first(told, "inconclusive")
        inconclusive_s = (when - run.end_time).total_seconds()
        record_property("inconclusive_told_after_s", round(inconclusive_s, 1))
        assert body["name"] == "silent"
        assert body["reasons"]
        assert inconclusive_s < 60

        due = run.end_time + timedelta(seconds=MISSED_AFTER_S)
        body, when = await first(told, "missed nightly", due)
        missed_s = (when - due).total_seconds()
        record_property("missed_told_after_s", round(missed_s, 1))
        assert body["name"] == "silent"
        assert missed_s < 60, (run.end_time, told.times, told.bodies)
    finally:
        worker.end()
        await removed(tmp_path)
