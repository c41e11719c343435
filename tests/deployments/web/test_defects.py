"""A defect of this package over HTTP: its response, and that it is logged once."""

from __future__ import annotations

import logging

import httpx
import pytest

from assizes.deployments.api import create_app
from assizes.deployments.web.guard import HEADERS, LOOPBACK, MAX_BODY_BYTES, Access
from assizes.judge.config.run import RunConfig


@pytest.fixture
def client():
    """A client of an app whose store reader is missing, which is a defect."""
    config = RunConfig.model_validate({"name": "broken", "transcripts": {"uri": "in"}})
    app = create_app(config, Access(LOOPBACK))
    del app.state.library
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8320")


@pytest.mark.parametrize("path", ["/runs", "/", "/view/runs/x"])
async def test_a_defect_has_the_headers_of_every_answer_and_is_told_once(
    client: httpx.AsyncClient, path: str, caplog: pytest.LogCaptureFixture
):
    answer = await client.get(path)
    assert answer.status_code == 500
    assert {name.lower() for name in HEADERS} <= set(answer.headers)
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert "a defect of assizes" in answer.text
    assert "library" not in answer.text
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.getMessage() for record in errors] == [f"GET {path} failed"]


async def test_a_body_in_pieces_that_does_not_end_is_too_large(client: httpx.AsyncClient):
    async def pieces():
        for _ in range(3):
            yield b" " * (MAX_BODY_BYTES // 2)

    kind = {"Content-Type": "application/json"}
    answer = await client.post("/runs", content=pieces(), headers=kind)
    assert answer.status_code == 413
    assert "x-frame-options" in answer.headers
