"""A flow that a program calls: which Prefect server it finds, and what it says where there is none."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from prefect import Flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterName
from prefect.settings import (
    PREFECT_API_URL,
    PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS,
    temporary_settings,
)

from assizes import flows
from assizes.deployments.samples import sample_cases
from assizes.flows import server
from assizes.judge.errors import ConfigurationError
from assizes.judge.formats import native_line
from tests.flows.test_results import modules
from tests.outward import PYTHONPATH

PROGRAM = """
import asyncio
from assizes import RunConfig
from assizes.flows.evaluate import evaluate

config = RunConfig.model_validate(
    {"name": "called", "transcripts": {"uri": "t.jsonl"}, "runner": {"fail_flow": False}}
)
print(asyncio.run(evaluate(config)).run_id)
"""


def called(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the program of a user in a folder with a transcript."""
    (folder / "t.jsonl").write_bytes(native_line(sample_cases()[0]))
    inherited = {name: text for name, text in os.environ.items() if name != "PREFECT_API_URL"}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=folder,
        env={**inherited, "PYTHONPATH": PYTHONPATH, **environment},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )


@pytest.mark.full
async def test_a_flow_that_a_program_calls_runs_on_the_server_of_assizes_up(
    prefect_server: str, tmp_path: Path
):
    done = called(tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("called-")
    assert "temporary" not in done.stderr
    async with get_client() as client:
        wanted = FlowRunFilter(name=FlowRunFilterName(any_=["evaluate-called"]))
        (flow_run,) = await client.read_flow_runs(flow_run_filter=wanted)
    assert flow_run.state is not None
    assert flow_run.state.is_completed()


@pytest.mark.full
def test_a_configured_server_that_does_not_answer_is_named_in_one_line(tmp_path: Path):
    done = called(tmp_path, PREFECT_API_URL="http://127.0.0.1:9/api")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "assizes.judge.errors.ConfigurationError: PREFECT_API_URL 'http://127.0.0.1:9/api' does not "
        "answer; start that server, or unset it (in the environment or the Prefect profile)"
    )


def test_without_a_server_the_program_is_told_how_to_keep_one_and_waits_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setenv("ASSIZES_HOME", str(tmp_path))
    server._announce_temporary_server.cache_clear()
    with temporary_settings({PREFECT_API_URL: None}), caplog.at_level(logging.WARNING):
        for _ in range(2):
            settings = server._server_settings()
    assert settings == {PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS: 120}
    (line,) = [entry.getMessage() for entry in caplog.records if entry.name.startswith("assizes")]
    assert "`assizes up` keeps one running" in line
    assert "PREFECT_API_URL" in line


def test_every_flow_of_the_product_looks_for_its_server():
    made = [each for module in modules(flows) for each in vars(module).values()]
    ours = {each.name: type(each) for each in made if isinstance(each, Flow)}
    assert {"evaluate", "nightly", "backfill", "compare", "calibrate"} <= set(ours)
    assert set(ours.values()) == {server._ServedFlow}


@pytest.mark.full
def test_a_server_that_is_being_stopped_is_not_taken(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("ASSIZES_HOME", str(tmp_path))
    (tmp_path / "server.json").write_text('{"pid": 1, "api_url": "http://127.0.0.1:9/api"}')
    with temporary_settings({PREFECT_API_URL: None}):
        assert PREFECT_API_URL not in server._server_settings()
    with (
        temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}),
        pytest.raises(ConfigurationError, match="does not answer"),
    ):
        server._server_settings()
