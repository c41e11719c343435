"""Runs by batch: as many batches as the deepest judge has rounds, each ask handed in once, whatever
is killed in between; what a batch cannot bring is asked for by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from deployments.settings import validated
from flows.outcome import RunOutcome
from judge.case import Case, Expected
from judge.config import RunConfig
from judge.errors import ConfigurationError
from judge.formats import native_line
from tasks.store import open_store
from tests.builders import agent, call, case, result, user
from tests.command import KEYS
from tests.doubles.fixtures import OPENAI_KEY, OpenAIServer, running_openai_server
from tests.flows.test_evaluate import outcome_of
from tests.outward import PYTHONPATH

pytestmark = pytest.mark.usefixtures("prefect_server")

JUDGES = ["conversation", "deep_judges:deep"]
PRICE = {"input_usd_per_million": 0.15, "output_usd_per_million": 0.6}

OWN = '''
from pydantic import BaseModel

from judge.protocol import Prompt, ask
from judge.score import Score


class Finding(BaseModel):
    finding: str
    score: int


def deep(case):
    """Three rounds, each about what was found before; on every tenth case."""
    if not case.case_id.endswith("0"):
        return [Score.skipped("deep", "not a tenth case")]
    found = ""
    for number in (1, 2, 3):
        about = f"{case.case_id}, question {number}, so far: {found}"
        reply = yield from ask(Prompt("You look deeper.", about), Finding)
        found += reply.finding
    return [Score("deep", value=1.0, raw=1.0)]
'''


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "deep_judges.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("deep_judges", None)


def conversation(number: int) -> Case:
    return case(
        user(f"Where is order {number}?"),
        agent(calls=[call("find_order", order=number)]),
        result(f"order {number}: on its way"),
        agent(f"Order {number} is on its way."),
        case_id=f"case-{number:04d}",
        expected=Expected(outcomes=(f"The user was told where order {number} is.",)),
    )


def body(folder: Path, server: OpenAIServer, cases: int, **judge: Any) -> dict[str, Any]:
    judge = {"model": "openai/gpt-4o-mini", "api_base": server.api_base, **judge}
    lines = b"".join(native_line(conversation(number)) for number in range(cases))
    (folder / "t.jsonl").write_bytes(lines)
    return {
        "name": "batched",
        "transcripts": {"uri": str(folder / "t.jsonl")},
        "judge": judge,
        "limits": {
            "ledger": str(folder / "ledger.db"),
            "max_attempts": 2,
            "prices": {str(judge["model"]): PRICE},
        },
        "thresholds": {"metrics_pass_threshold": 0, "cases_pass_threshold": 0},
        "store": {"uri": f"duckdb:///{folder}/rows.duckdb"},
        "cache": {"uri": str(folder / "replies")},
        "report": {"uri": str(folder / "reports")},
        "runner": {"batch": True, "batch_poll_s": 0.05, "shard_size": 100},
    }


def config(folder: Path, server: OpenAIServer, cases: int, **judge: Any) -> RunConfig:
    return validated(body(folder, server, cases, **judge), "test")


def counted(server: OpenAIServer) -> dict[str, int]:
    stats = server.stats()
    return {name: stats[name] for name in ("batches", "batch_lines", "batch_repeats", "requests")}


def asks_of(wanted: RunConfig, outcome: RunOutcome) -> pl.DataFrame:
    with open_store(wanted.store) as store:
        return store.table(outcome.run_id, "asks")


def records(folder: Path) -> list[dict[str, Any]]:
    """The durable record, part by part."""
    return [
        json.loads(file.read_text()) for file in sorted(folder.glob("replies/batches/*/*.json"))
    ]


async def test_five_hundred_cases_take_as_many_batches_as_the_deepest_judge_has_rounds(
    tmp_path: Path, judge_server: OpenAIServer
):
    wanted = config(tmp_path, judge_server, 500, judges=JUDGES)
    outcome = await outcome_of(wanted)

    stats, asks = judge_server.stats(), asks_of(wanted, outcome)
    assert outcome.summary.counts["judged"] == 500
    assert (stats["batches"], stats["batch_lines"]) == (3, 550 + 50 + 50)
    assert (stats["requests"], stats["batch_repeats"]) == (0, 0)
    assert asks.height == 650
    assert asks["flags"].list.contains("batch").all()
    assert asks["cached"].any() is False
    assert {one["state"] for one in records(tmp_path)} == {"collected"}


async def test_a_batch_costs_half_of_what_the_same_asks_cost_by_themselves(
    tmp_path: Path, judge_server: OpenAIServer
):
    costs = []
    for name, batch in (("half", True), ("whole", False)):
        folder = tmp_path / name
        folder.mkdir()
        tables = body(folder, judge_server, 3)
        tables["runner"]["batch"] = batch
        wanted = validated(tables, "test")
        asks = asks_of(wanted, await outcome_of(wanted))
        assert asks["cost_source"].to_list() == ["priced"] * 3
        costs.append(math.fsum(asks["cost_usd"]))

    assert costs[0] == pytest.approx(costs[1] / 2, rel=1e-9)
    assert costs[0] > 0


async def test_a_finished_run_by_batch_hands_nothing_in_again(
    tmp_path: Path, judge_server: OpenAIServer
):
    wanted = config(tmp_path, judge_server, 4)
    first = await outcome_of(wanted)
    again = await outcome_of(wanted)

    assert again.run_id == first.run_id
    assert judge_server.stats()["batches"] == 1


async def test_lines_that_fail_are_asked_for_by_themselves(
    tmp_path: Path, judge_server: OpenAIServer
):
    wanted = config(tmp_path, judge_server, 30, model="openai/stub-batch-partial")
    outcome = await outcome_of(wanted)

    stats, asks = judge_server.stats(), asks_of(wanted, outcome)
    assert outcome.summary.counts["judged"] == 30
    assert outcome.summary.coverage == 1.0
    assert (stats["batch_lines"], stats["batch_repeats"], stats["requests"]) == (30, 0, 3)
    assert asks["flags"].list.contains("batch").sum() == 27
    assert outcome.summary.spent_usd == pytest.approx(math.fsum(asks["cost_usd"]), abs=3e-8)


async def test_what_an_expired_batch_did_not_answer_is_asked_for_by_itself(
    tmp_path: Path, judge_server: OpenAIServer
):
    wanted = config(tmp_path, judge_server, 10, model="openai/stub-batch-expired")
    outcome = await outcome_of(wanted)

    stats = judge_server.stats()
    assert outcome.summary.counts["judged"] == 10
    assert (stats["batches"], stats["batch_repeats"], stats["requests"]) == (1, 0, 5)


async def test_a_batch_that_fails_its_validation_is_asked_for_by_itself(
    tmp_path: Path, judge_server: OpenAIServer, caplog: pytest.LogCaptureFixture
):
    wanted = config(tmp_path, judge_server, 4, model="openai/stub-batch-failed")
    outcome = await outcome_of(wanted)

    stats = judge_server.stats()
    assert outcome.summary.counts["judged"] == 4
    assert (stats["batches"], stats["requests"]) == (1, 4)
    assert "model_not_found" in caplog.text


async def test_a_reply_that_does_not_fit_is_the_first_attempt_of_its_repair(
    tmp_path: Path, judge_server: OpenAIServer
):
    wanted = config(tmp_path, judge_server, 3, model="openai/stub-flaky-invalid-1")
    outcome = await outcome_of(wanted)

    stats, asks = judge_server.stats(), asks_of(wanted, outcome)
    assert (stats["batch_lines"], stats["requests"]) == (3, 3)
    assert all("could not be used" in str(one["messages"]) for one in judge_server.requests())
    assert outcome.summary.coverage == 1.0
    assert asks["attempts"].to_list() == [2, 2, 2]


async def test_a_refusal_in_a_batch_is_not_asked_for_again(
    tmp_path: Path, judge_server: OpenAIServer
):
    wanted = config(tmp_path, judge_server, 2, model="openai/stub-refuse")
    outcome = await outcome_of(wanted)

    asks = asks_of(wanted, outcome)
    assert judge_server.stats()["requests"] == 0
    assert asks["error"].str.starts_with("refused").all()
    assert asks["cost_usd"].is_not_null().all()


async def test_a_budget_that_the_batch_could_exceed_sends_nothing(
    tmp_path: Path, judge_server: OpenAIServer
):
    tables = body(tmp_path, judge_server, 20)
    tables["limits"]["budget_usd"] = 0.01
    small = validated(tables, "test")
    outcome = await outcome_of(small)

    assert (outcome.conclusion, outcome.exit_code) == ("OverBudget", 5)
    assert (judge_server.stats()["batches"], judge_server.stats()["requests"]) == (0, 0)
    assert outcome.summary.spent_usd == 0.0

    tables["limits"]["budget_usd"] = 1.0
    outcome = await outcome_of(validated(tables, "test"))
    assert outcome.conclusion == "Passed"
    assert (judge_server.stats()["batch_lines"], judge_server.stats()["requests"]) == (20, 0)


async def test_a_provider_without_batches_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judge_server: OpenAIServer
):
    monkeypatch.setenv("ANTHROPIC_API_KEY", OPENAI_KEY)
    tables = body(tmp_path, judge_server, 1, model="anthropic/claude-sonnet-4-5", api_base=None)
    tables["transcripts"]["uri"] = str(tmp_path / "nowhere")
    with pytest.raises(ConfigurationError, match="no batches for 'anthropic/claude.*openai"):
        await outcome_of(validated(tables, "test"))


async def test_the_offline_judge_has_nothing_to_batch(
    tmp_path: Path, judge_server: OpenAIServer, caplog: pytest.LogCaptureFixture
):
    wanted = config(tmp_path, judge_server, 2, model=None, api_base=None)
    outcome = await outcome_of(wanted)

    assert outcome.summary.counts["judged"] == 2
    assert "nothing to batch" in caplog.text


async def test_replies_that_are_only_replayed_are_no_batch_and_the_reason_is_said(
    tmp_path: Path, judge_server: OpenAIServer, caplog: pytest.LogCaptureFixture
):
    tables = body(tmp_path, judge_server, 2)
    tables["cache"]["use"] = "replay_only"
    await outcome_of(validated(tables, "test"))

    assert "replay_only asks nothing, nothing to batch" in caplog.text
    assert "needs no provider" not in caplog.text


async def test_what_was_handed_in_is_collected_without_batch_too_and_nothing_new_is_handed_in(
    tmp_path: Path, judge_server: OpenAIServer, caplog: pytest.LogCaptureFixture
):
    with running_openai_server("--batch-delay", "2") as server:
        tables = body(tmp_path, server, 12, judges=JUDGES)
        first = asyncio.create_task(outcome_of(validated(tables, "test")))
        while not any(one["state"] == "submitted" for one in records(tmp_path)):
            assert not first.done(), first
            await asyncio.sleep(0.02)
        first.cancel()
        with contextlib.suppress(BaseException):
            await first
        tables["runner"]["batch"] = False
        outcome = await outcome_of(validated(tables, "test"))

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
    assert (await outcome_of(validated(tables, "test"))).conclusion == "OverBudget"
    assert [one["state"] for one in records(tmp_path)] == ["collected"]
    tables["limits"]["max_asks"] = 6
    tables["runner"]["batch"] = False
    outcome = await outcome_of(validated(tables, "test"))

    assert outcome.conclusion == "Passed"
    assert counted(judge_server)["requests"] == 3
    assert all("could not be used" in str(one["messages"]) for one in judge_server.requests())


COMMAND = [sys.executable, "-m", "deployments.cli", "run", "--batch"]


def toml(folder: Path, server: OpenAIServer, cases: int) -> None:
    """The same as a file; `--batch` stands on the command line."""
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


def started(folder: Path, api_url: str) -> subprocess.Popen[str]:
    inherited = {name: value for name, value in os.environ.items() if name not in KEYS}
    own = {"PYTHONPATH": f"{PYTHONPATH}:{folder}", "PREFECT_API_URL": api_url}
    return subprocess.Popen(
        COMMAND,
        cwd=folder,
        env={**inherited, **own, "OPENAI_API_KEY": OPENAI_KEY},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def until_submitted(folder: Path, process: subprocess.Popen[str]) -> Path:
    """Waits until a batch is noted as handed in; its record."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        for file in folder.glob("replies/batches/*/*.json"):
            if json.loads(file.read_text())["state"] == "submitted":
                return file
        time.sleep(0.02)
    process.kill()
    raise AssertionError(process.communicate())


async def test_a_process_that_is_killed_while_it_waits_is_followed_by_one_that_collects(
    tmp_path: Path, prefect_server: str, judge_server: OpenAIServer
):
    with running_openai_server("--batch-delay", "2") as server:
        toml(tmp_path, server, 12)
        process = started(tmp_path, prefect_server)
        until_submitted(tmp_path, process)
        process.send_signal(signal.SIGKILL)
        process.communicate()
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
        process = started(tmp_path, prefect_server)
        record = until_submitted(tmp_path, process)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)

        assert process.returncode == 130, err
        (batch,) = server.batches()
        said = f"batch {batch['id']} (4 asks) goes on at the provider; the same command collects it"
        assert said in err
        assert len(err.splitlines()) == 2, err

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
