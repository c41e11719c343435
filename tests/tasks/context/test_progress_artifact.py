"""The progress of a long run in the Prefect UI."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prefect import flow
from prefect.artifacts import Artifact

from assizes.tasks.context.artifacts import show_progress
from assizes.tasks.context.run_context import ProgressReporter, RunContext, ignore_progress


async def judge(
    name: str, cases: int, pause_s: float, after_s: float, before: ProgressReporter
) -> None:
    context: Any = SimpleNamespace(config=SimpleNamespace(name=name), progress=before)
    async with show_progress(cast("RunContext", context), after_s):
        context.progress("judging", 0, cases)
        for _ in range(cases):
            await asyncio.sleep(pause_s)
            context.progress("judging", 1, 0)
    assert context.progress is before


@pytest.mark.row("O12")
@pytest.mark.usefixtures("prefect_server")
async def test_a_long_run_shows_how_far_it_is_and_ends_whole():
    seen: list[tuple[str, int, int]] = []

    @flow
    async def judged() -> None:
        await judge("my_run", 10, 0.2, 0.3, lambda *told: seen.append(told))

    running = asyncio.create_task(judged())
    found = None
    async with asyncio.timeout(60):
        while found is None:
            await asyncio.sleep(0.05)
            found = await Artifact.aget("assizes-progress-my-run")
    await running
    last = await Artifact.aget("assizes-progress-my-run")
    assert last is not None
    assert last.id == found.id, "one artifact a run"
    assert float(str(last.data)) == 100.0
    assert last.description == "judging: 10 of 10 cases"
    assert seen == [("judging", 0, 10), *[("judging", 1, 0)] * 10], "others are told as before"


@pytest.mark.usefixtures("prefect_server")
async def test_a_short_run_has_none():
    @flow
    async def judged() -> None:
        await judge("short", 2, 0.01, 30.0, ignore_progress)

    await judged()
    assert await Artifact.aget("assizes-progress-short") is None
