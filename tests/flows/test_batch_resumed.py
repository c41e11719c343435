"""Batches that a killed process has sent are collected by the next process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import time
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path

import pytest

from assizes.deployments.settings import validate_config
from tests.command import Started, started
from tests.doubles.fixtures import OPENAI_KEY, OpenAIServer, running_openai_server
from tests.flows.batch_runs import JUDGES, body, config, own_judges, records
from tests.flows.test_evaluate import outcome_of

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("prefect_server")]


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    yield from own_judges(tmp_path, monkeypatch)


def counted(server: OpenAIServer) -> dict[str, int]:
    stats = server.stats()
    return {name: stats[name] for name in ("batches", "batch_lines", "batch_repeats", "requests")}


async def test_what_was_handed_in_is_collected_without_batch_too_and_nothing_new_is_handed_in(
    tmp_path: Path, judge_server: OpenAIServer, caplog: pytest.LogCaptureFixture
):
    with running_openai_server("--batch-delay", "2") as server:
        tables = body(tmp_path, server, 12, judges=JUDGES)
        first = asyncio.create_task(outcome_of(validate_config(tables, "test")))
        while not any(one["state"] == "submitted" for one in records(tmp_path)):
            assert not first.done(), first
            await asyncio.sleep(0.02)
        first.cancel()
        with contextlib.suppress(BaseException):
            await first
        tables["runner"]["batch"] = False
        outcome = await outcome_of(validate_config(tables, "test"))

        assert outcome.conclusion == "Passed"
        assert counted(server) == {
            "batches": 1,
            "batch_lines": 14,
            "batch_repeats": 0,
            "requests": 2 + 2,
        }
        assert "14 asks of this run are in batches that were handed in before" in caplog.text
        assert [one["state"] for one in records(tmp_path)] == ["collected"]


async def test_first_attempts_that_a_batch_brought_count_without_batch_too(
    tmp_path: Path, judge_server: OpenAIServer
):
    tables = body(tmp_path, judge_server, 3, model="openai/stub-flaky-invalid-1")
    tables["limits"]["max_asks"] = 3
    assert (await outcome_of(validate_config(tables, "test"))).conclusion == "OverBudget"
    assert [one["state"] for one in records(tmp_path)] == ["collected"]
    tables["limits"]["max_asks"] = 6
    tables["runner"]["batch"] = False
    outcome = await outcome_of(validate_config(tables, "test"))

    assert outcome.conclusion == "Passed"
    assert counted(judge_server)["requests"] == 3
    assert all("could not be used" in str(one["messages"]) for one in judge_server.requests())


def toml(folder: Path, server: OpenAIServer, cases: int) -> None:
    """The same configuration as a file, without `batch`, which is on the command line."""
    tables = body(folder, server, cases, judges=JUDGES)
    del tables["runner"]["batch"]
    name = tables.pop("name")
    lines = [f"name = {json.dumps(name)}"]
    prices = tables["limits"].pop("prices")
    for table, fields in tables.items():
        lines += [f"[{table}]", *(f"{key} = {json.dumps(value)}" for key, value in fields.items())]
    for model, price in prices.items():
        lines += [f"[limits.prices.{json.dumps(model)}]"]
        lines += [f"{key} = {value}" for key, value in price.items()]
    (folder / "assizes.toml").write_text("\n".join(lines))


def started_batch(folder: Path, api_url: str) -> Started:
    own = {"PREFECT_API_URL": api_url, "OPENAI_API_KEY": OPENAI_KEY}
    return started("run", "--batch", cwd=folder, env=own)


def until_submitted(folder: Path, process: Started) -> Path:
    """Wait until the log says that a batch was sent; returns its entry."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        for file in folder.glob("replies/batches/*/*.json"):
            if json.loads(file.read_text())["state"] == "submitted":
                return file
        time.sleep(0.02)
    process.kill()
    raise AssertionError(process.answer())


async def test_a_process_that_is_killed_while_it_waits_is_followed_by_one_that_collects(
    tmp_path: Path, prefect_server: str, judge_server: OpenAIServer
):
    with running_openai_server("--batch-delay", "2") as server:
        toml(tmp_path, server, 12)
        process = started_batch(tmp_path, prefect_server)
        until_submitted(tmp_path, process)
        process.send_signal(signal.SIGKILL)
        process.wait()
        outcome = await outcome_of(config(tmp_path, server, 12, judges=JUDGES))

        assert outcome.summary.counts["judged"] == 12
        assert counted(server) == {
            "batches": 3,
            "batch_lines": 14 + 2 + 2,
            "batch_repeats": 0,
            "requests": 0,
        }


async def test_after_ctrl_c_the_same_command_finds_even_a_batch_that_was_never_noted(
    tmp_path: Path, prefect_server: str, judge_server: OpenAIServer
):
    with running_openai_server("--batch-delay", "4") as server:
        toml(tmp_path, server, 3)
        process = started_batch(tmp_path, prefect_server)
        record = until_submitted(tmp_path, process)
        process.send_signal(signal.SIGINT)
        code, _, err = astuple(process.answer(60))

        assert code == 130, err
        (batch,) = server.batches()
        said = f"batch {batch['id']} (4 asks) goes on at the provider; the same command collects it"
        assert said in err
        assert len(err.splitlines()) == 3, err  # the first names the code that is run

        # As it is when a process dies between the provider's answer and its own note.
        told = {**json.loads(record.read_text()), "state": "prepared", "batch_id": None}
        record.write_text(json.dumps(told))
        outcome = await outcome_of(config(tmp_path, server, 3, judges=JUDGES))

        assert outcome.summary.counts["judged"] == 3
        assert counted(server) == {
            "batches": 3,
            "batch_lines": 4 + 1 + 1,
            "batch_repeats": 0,
            "requests": 0,
        }
