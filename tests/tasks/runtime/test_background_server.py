"""Flows that are called from Python find the server of `assizes up`."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from prefect import flow
from prefect.settings import PREFECT_API_URL, temporary_settings

from assizes.flows.evaluate import evaluate
from assizes.tasks.runtime.background_server import (
    ServedFlow,
    _on_server,
    background_api_url,
    finds_server,
)
from assizes.tasks.runtime.server_place import state_file


@finds_server
@flow(name="which-server")
async def which_server() -> str | None:
    return PREFECT_API_URL.value()


@flow(name="outer")
async def outer() -> str | None:
    return await which_server()


def test_evaluate_is_such_a_flow_and_still_a_flow_of_prefect():
    assert isinstance(evaluate, ServedFlow)
    assert evaluate.name == "evaluate"


async def test_a_flow_without_a_configured_server_finds_that_of_assizes_up(
    prefect_server: str,
):
    assert background_api_url() == prefect_server
    with temporary_settings({PREFECT_API_URL: None}, restore_defaults={PREFECT_API_URL}):
        assert await which_server() == prefect_server
    assert await outer() == prefect_server


async def test_a_flow_without_any_server_says_what_would_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setenv("ASSIZES_HOME", str(tmp_path))

    async def work() -> str:
        return "done"

    with caplog.at_level(logging.WARNING, logger="assizes"):
        assert await _on_server(work()) == "done"
    assert "`assizes up` keeps one running, and assizes.evaluate(config) needs none" in caplog.text


@pytest.mark.parametrize("state", ["", "[]", '{"api_url": "http://127.0.0.1:9/api"}', '{"a": 1}'])
def test_a_server_that_is_gone_is_not_found(state, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("ASSIZES_HOME", str(tmp_path))
    assert background_api_url() is None
    state_file().write_text(state)
    assert background_api_url() is None
    state_file().write_text(json.dumps({"api_url": "no url at all"}))
    assert background_api_url() is None
