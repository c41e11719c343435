"""Incidents of real nightly runs as events on a Prefect server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import get_client

from assizes.deployments.samples import sample_cases, with_planted_regression
from assizes.judge.config.run import RunConfig
from tests.flows.test_evaluate import config, outcome_of, written

LEARNT = 5


def night(folder: Path, number: int, cases: Any) -> RunConfig:
    named = [
        case.model_copy(update={"case_id": f"n{number}-{place}"})
        for place, case in enumerate(cases)
    ]
    return config(
        folder,
        written(folder / f"{number}.jsonl", named),
        name="incidents",
        series={"reference_runs": LEARNT, "metrics": ["overall_score", "pass_rate"]},
        runner={"fail_flow": False},
    )


async def events(prefix: str) -> list[dict[str, Any]]:
    """The server's events whose names begin with a prefix, oldest first."""
    wanted = {"filter": {"event": {"prefix": [prefix]}, "order": "ASC"}, "limit": 50}
    async with get_client() as client:
        answer = await client.request("POST", "/events/filter", json=wanted)
    return list(answer.json()["events"])


@pytest.mark.full
@pytest.mark.usefixtures("prefect_server")
async def test_a_problem_is_opened_once_and_persists_as_events(tmp_path: Path):
    good = sample_cases()[:12]
    for number in range(LEARNT):
        await outcome_of(night(tmp_path, number, good), trigger="nightly")
    bad = with_planted_regression(sample_cases())[:12]
    for number in (LEARNT, LEARNT + 1):
        await outcome_of(night(tmp_path, number, bad), trigger="nightly")
    found: list[dict[str, Any]] = []
    for _ in range(600):
        found = [
            one
            for one in await events("assizes.incident.")
            if one["payload"]["name"] == "incidents"
        ]
        if len(found) >= 2:
            break
        await asyncio.sleep(0.1)
    names = [one["event"] for one in found]
    assert names == ["assizes.incident.opened", "assizes.incident.persisting"]
    assert len({one["resource"]["prefect.resource.id"] for one in found}) == 1
    assert found[0]["payload"]["side"] == "worse"
    assert found[0]["payload"]["line"].startswith("NEW worse [")
