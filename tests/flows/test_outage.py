"""A Prefect server that is away for a while ends neither a backfill nor its progress lines."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from prefect.artifacts import Artifact
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from assizes.flows.backfill import publish_parts
from assizes.flows.nightly import judge_part
from assizes.tasks.context.artifacts import ProgressArtifact, publish_artifacts
from assizes.tasks.intake.run_sources import RunPart
from tests.flows.nights import cases_of, dated, lay
from tests.tasks.reports.sample import Said, run

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("prefect_server")]
DAY = date(2026, 3, 24)


@pytest.fixture
def nowhere() -> Iterator[dict]:
    """Settings with a Prefect server that does not answer: a bound port without a listener."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/api"
        yield {PREFECT_API_URL: url, PREFECT_CLIENT_MAX_RETRIES: 0}


class Busy(BaseHTTPRequestHandler):
    """A Prefect server that says it is well, and can do nothing."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path.endswith("/health") else 503)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"true")

    do_POST = do_GET  # noqa: N815 (the name that http.server looks for)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def busy() -> Iterator[dict]:
    """Settings with a Prefect server that answers health checks only."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Busy) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/api"
        yield {PREFECT_API_URL: url, PREFECT_CLIENT_MAX_RETRIES: 0}
        server.shutdown()


async def test_a_part_that_cannot_be_begun_for_want_of_a_server_is_told_as_a_value(
    tmp_path: Path, busy: dict
):
    lay(tmp_path, DAY, cases_of(DAY))
    with temporary_settings(busy):
        found = await judge_part(dated(tmp_path), "backfill", RunPart(DAY))
    assert (found.conclusion, found.run_id, found.exit_code) == ("Failed", None, 4)
    assert "Failed to reach API" in found.reasons[0]


@pytest.mark.filterwarnings("ignore:Artifact creation outside:FutureWarning")
async def test_what_cannot_be_shown_ends_nothing_and_is_shown_later(nowhere: dict):
    progress = ProgressArtifact("assizes-outage")
    with temporary_settings(nowhere):
        await progress.update(0.5, "half of it")
        await publish_parts("outage", [])
    assert await Artifact.aget("assizes-outage") is None
    await progress.flush()
    shown = await Artifact.aget("assizes-outage")
    assert shown is not None
    assert float(str(shown.data)) == 50.0


@pytest.mark.filterwarnings("ignore:Artifact creation outside:FutureWarning")
async def test_a_report_that_cannot_be_shown_is_told_in_one_line(
    nowhere: dict, caplog: pytest.LogCaptureFixture
):
    data = run([Said("a", (5, 5))], name="unseen").data()
    with temporary_settings(nowhere):
        await publish_artifacts(data, {})
    assert [
        one.getMessage() for one in caplog.records if one.name == "assizes.tasks.context.artifacts"
    ] == ["the report cannot be shown in Prefect: ConnectError"]
    await publish_artifacts(data, {})
    assert await Artifact.aget("assizes-report-unseen") is not None
