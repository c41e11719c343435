"""The progress of a long run in the Prefect UI."""

from __future__ import annotations

import asyncio

import pytest
from prefect import flow
from prefect.artifacts import Artifact

from assizes.tasks.context.artifacts import show_progress
from assizes.tasks.context.run_context import progress_reporter


@flow
async def judged(name: str, cases: int, pause_s: float, after_s: float) -> None:
    async with show_progress(name, after_s):
        report = progress_reporter.get()
        report("judging", 0, cases)
        for _ in range(cases):
            await asyncio.sleep(pause_s)
            report("judging", 1, 0)


@pytest.mark.row("O12")
@pytest.mark.usefixtures("prefect_server")
async def test_a_long_run_shows_how_far_it_is_and_ends_whole():
    seen: list[tuple[str, int, int]] = []
    token = progress_reporter.set(lambda *told: seen.append(told))
    try:
        running = asyncio.create_task(judged("my_run", 10, 0.2, 0.3))
        found = None
        async with asyncio.timeout(60):
            while found is None:
                await asyncio.sleep(0.05)
                found = await Artifact.aget("assizes-progress-my-run")
        await running
    finally:
        progress_reporter.reset(token)
    last = await Artifact.aget("assizes-progress-my-run")
    assert last is not None
    assert last.id == found.id, "one artifact a run"
    assert float(str(last.data)) == 100.0
    assert last.description == "judging: 10 of 10 cases"
    assert seen == [("judging", 0, 10), *[("judging", 1, 0)] * 10], "others are told as before"


@pytest.mark.usefixtures("prefect_server")
async def test_a_short_run_has_none():
    await judged("short", 2, 0.01, 30.0)
    assert await Artifact.aget("assizes-progress-short") is None
