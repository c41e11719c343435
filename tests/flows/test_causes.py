"""Causes of nightly runs: found in the flow, told as events, and named by the outcome."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from assizes.deployments.samples.nights import three_nights
from tests.flows.test_evaluate import config, outcome_of, written
from tests.flows.test_incidents import events


async def told(count: int) -> list[dict[str, Any]]:
    """The events about causes, the oldest first; waits until there are so many."""
    found: list[dict[str, Any]] = []
    for _ in range(600):
        found = [
            each
            for each in await events("assizes.incident.")
            if ".cause." in each["resource"]["prefect.resource.id"]
        ]
        if len(found) >= count:
            break
        await asyncio.sleep(0.1)
    return found


@pytest.mark.usefixtures("prefect_server")
async def test_a_cause_is_told_when_it_comes_persists_and_goes(tmp_path: Path):
    outcomes = [
        await outcome_of(
            config(
                tmp_path,
                written(tmp_path / f"{number}.jsonl", cases),
                name="causes",
                runner={"fail_flow": False},
            ),
            trigger="nightly",
        )
        for number, cases in enumerate(three_nights())
    ]
    states = [
        {cause.name: cause.state for cause in outcome.causes.shown if cause.state != "persisting"}
        for outcome in outcomes[1:]
    ]
    assert states == [
        {"cut off before its end": "new", "wrong parameter": "new"},
        {"cut off before its end": "gone"},
    ]
    by_name: dict[str, list[str]] = {}
    for event in await told(4):
        assert event["payload"]["run_id"] in event["related"][0]["prefect.resource.id"]
        by_name.setdefault(event["payload"]["line"].split(": ")[1].split(";")[0], []).append(
            event["event"].removeprefix("assizes.incident.")
        )
    assert by_name == {
        "cut off before its end": ["opened", "resolved"],
        "wrong parameter": ["opened", "persisting"],
    }
