"""The report in the Prefect UI, over a real server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from prefect import flow
from prefect.artifacts import Artifact

from assizes.tasks.context.artifacts import link_uri, publish_artifacts
from assizes.tasks.reports import markdown_report
from tests.tasks.reports.sample import Said, run

LINKS = {"html": "s3://reports/nightly-aaaaaaaaaaaa/report.html"}


def test_a_report_on_this_machine_is_linked_as_a_browser_opens_it(tmp_path: Path):
    assert link_uri(f"{tmp_path}/a b/report.html") == f"file://{tmp_path}/a%20b/report.html"
    assert link_uri("s3://reports/report.html") == "s3://reports/report.html"


@flow
async def publish(data: dict[str, object]) -> None:
    await publish_artifacts(data, LINKS)


@pytest.mark.usefixtures("prefect_server")
async def test_the_artifacts_are_created_under_keys_that_stay_the_same():
    data = run([Said("a", (5, 5)), Said("b", (1, 2), done=False)], name="my_suite").data()
    await publish(data)
    report = await Artifact.aget("assizes-report-my-suite")
    metrics = await Artifact.aget("assizes-metrics-my-suite")
    assert report is not None
    assert metrics is not None
    assert report.data == (
        f"{markdown_report(data)}\n\nThe full report: "
        "`s3://reports/nightly-aaaaaaaaaaaa/report.html`\n"
    )
    link = await Artifact.aget("assizes-report-link-my-suite")
    assert link is not None
    assert link.data == f"[the full report]({LINKS['html']})"
    assert report.description == "FAILED: nightly-aaaaaaaaaaaa"
    assert json.loads(str(metrics.data))[0] == {
        "metric": "tool_routing",
        "tier": "execution",
        "weight": 0.5,
        "mean": 3.0,
        "unit": "0-5",
        "passed": None,
        "change": None,
        "scored": 2,
        "failed": 0,
        "skipped": 0,
        "labels": "excellent 1, fail 1",
    }
