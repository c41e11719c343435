"""Message batches of Anthropic over real HTTP: each ask submitted and paid for once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from assizes.judge.errors import Inconclusive, ModelError
from assizes.judge.models.model import Completion
from assizes.tasks.runtime.failpoints import FailpointHit, arm
from tests.doubles.batch_providers.running import BatchProvider, running_provider
from tests.tasks.batch.provider_process import (
    MODELS,
    PRICE,
    ProviderProcess,
    ask_of,
    key_of,
)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchProvider]:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key-of-the-tests")
    with running_provider("anthropic") as provider:
        yield provider


@pytest.fixture
def disarmed() -> Iterator[None]:
    yield
    arm(None)


def process_of(folder: Path, server: BatchProvider) -> ProviderProcess:
    return ProviderProcess(folder, MODELS["anthropic"], server)


async def test_each_ask_is_submitted_once_and_the_money_is_that_of_the_provider(
    tmp_path: Path, server: BatchProvider
):
    process = process_of(tmp_path, server)
    await process.submit(range(4))
    assert process.states == ["submitted", "submitted"]
    await process.client.collect()

    assert await process.taken(range(4)) == [True] * 4
    await process.client.close_round()
    assert process.states == ["collected", "collected"]
    assert server.counts("batches", "batch_lines", "batch_repeats", "requests") == (2, 4, 0, 0)
    account = process.ledger.run_account()
    sent, written = server.counts("input_tokens", "output_tokens")
    assert account.usd == pytest.approx(PRICE.cost_usd(sent, written, batch=True), abs=4e-9)
    assert (account.calls, account.open_calls) == (4, 0)


async def test_a_line_holds_the_very_body_of_a_live_call(tmp_path: Path, server: BatchProvider):
    process = process_of(tmp_path, server)
    await process.model.complete(ask_of(1))

    assert server.requests() == [process.endpoint.body(ask_of(1))]
    assert server.counts("requests") == (1,)


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-3-haiku-20240307"])
async def test_a_reply_is_read_as_a_live_one(tmp_path: Path, server: BatchProvider, model: str):
    """The second model is asked for the arguments of a tool, the first for a schema."""
    process = ProviderProcess(tmp_path, f"anthropic/{model}", server)
    live = await process.model.complete(ask_of(1))
    await process.submit([1])
    await process.client.collect()
    reply = await process.client.take(key_of(1))

    assert isinstance(reply, Completion)
    assert (reply.text, reply.answered_by) == (live.text, live.answered_by)
    assert (reply.input_tokens, reply.output_tokens) == (live.input_tokens, live.output_tokens)
    assert reply.cost_usd == pytest.approx((live.cost_usd or 0) / 2)
    assert reply.flags == ("batch",)


async def test_a_batch_whose_id_was_never_noted_is_found_by_the_keys_of_its_results(
    tmp_path: Path, server: BatchProvider
):
    first = process_of(tmp_path, server)
    await first.submit(range(2))
    (record,) = first.log.records()
    first.log.save(replace(record, state="prepared", batch_id=None))
    await asyncio.sleep(0.2)
    later = process_of(tmp_path, server)
    await later.client.reopen()

    assert later.log.records() == [record]
    await later.client.collect()
    assert await later.taken(range(2)) == [True, True]
    assert server.counts("batches", "batch_repeats") == (1, 0)


async def test_a_batch_that_still_runs_is_waited_for_before_anything_is_submitted_again(
    tmp_path: Path, server: BatchProvider, disarmed: None, caplog: pytest.LogCaptureFixture
):
    server.order(delay_s=1.0)
    arm("folder.replace.before:2:raise")  # the first notes the newest batch, the second the id
    with pytest.raises(Exception) as died:  # noqa: PT011  # a fault of the disk, as such
        await process_of(tmp_path, server).submit(range(2))
    assert isinstance(died.value, FailpointHit) or "failpoint" in str(died.value)
    later = process_of(tmp_path, server)
    await later.client.reopen()
    assert later.states == ["prepared"]
    assert "nothing is handed in twice" in caplog.text
    assert len(later.client.waiting) == 1

    await later.client.collect()
    assert await later.taken(range(2)) == [True, True]
    assert later.states == ["submitted"]
    assert server.counts("batches", "batch_repeats") == (1, 0)


async def test_somebody_elses_batch_of_the_same_size_is_not_taken_for_ours(
    tmp_path: Path, server: BatchProvider, disarmed: None
):
    arm("folder.replace.after:1:raise")  # the newest batch is noted, nothing is submitted
    with pytest.raises(Exception, match="failpoint"):
        await process_of(tmp_path, server).submit(range(2))
    other = tmp_path / "other"
    other.mkdir()
    await process_of(other, server).submit(range(7, 9))
    later = process_of(tmp_path, server)
    await later.client.reopen()
    await later.client.collect()

    assert later.states == ["dropped"]
    assert not later.client.has_asked(key_of(0))
    assert later.ledger.run_account().open_calls == 0
    await later.submit(range(2))
    await later.client.collect()
    assert await later.taken(range(2)) == [True, True]
    assert server.counts("batches", "batch_repeats") == (2, 0)


async def test_a_part_that_died_before_its_submission_is_free_again(
    tmp_path: Path, server: BatchProvider, disarmed: None
):
    arm("folder.replace.before:1:raise")
    with pytest.raises(Exception, match="failpoint"):
        await process_of(tmp_path, server).submit(range(2))
    later = process_of(tmp_path, server)
    await later.client.reopen()

    assert later.states == ["dropped"]
    assert server.counts("batches") == (0,)


@pytest.mark.parametrize("delay_s", [0.0, 1.0])
async def test_a_submission_whose_answer_broke_off_is_not_repeated(
    tmp_path: Path, server: BatchProvider, delay_s: float
):
    server.order(cut=1, delay_s=delay_s)
    process = process_of(tmp_path, server)
    await process.submit(range(2))
    await process.client.collect()

    assert await process.taken(range(2)) == [True, True]
    assert server.counts("batches", "batch_repeats") == (1, 0)


async def test_an_overloaded_provider_is_asked_again(tmp_path: Path, server: BatchProvider):
    server.order(refuse=[529, 529])
    process = process_of(tmp_path, server)
    await process.submit(range(2))

    assert process.states == ["submitted"]
    assert server.counts("batches") == (1,)


async def test_entries_that_failed_or_expired_cost_nothing_and_are_free_for_single_calls(
    tmp_path: Path, server: BatchProvider, caplog: pytest.LogCaptureFixture
):
    server.order(fail=1, expire=1)
    process = process_of(tmp_path, server)
    await process.submit(range(3))
    await process.client.collect()

    assert await process.taken(range(3)) == [True, False, False]
    assert "1 errored, 1 expired): 2 of its 3 asks are sent one by one" in caplog.text
    account = process.ledger.run_account()
    sent, written = server.counts("input_tokens", "output_tokens")
    assert account.usd == pytest.approx(PRICE.cost_usd(sent, written, batch=True), abs=4e-9)
    assert account.open_calls == 0


async def test_a_request_that_the_protocol_forbids_is_refused_by_the_server_of_the_tests(
    server: BatchProvider,
):
    """So that a test can fail: the server does hold requests to the protocol."""
    headers = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    body = {"requests": [{"custom_id": "a b", "params": {}}]}
    address = f"{server.url}/v1/messages/batches"
    async with httpx.AsyncClient() as client:
        answer = await client.post(address, json=body, headers=headers)
    assert answer.status_code == 400
    assert "custom_id" in server.stats()["violations"][0]


async def test_a_provider_that_refuses_the_key_is_named(
    tmp_path: Path, server: BatchProvider, monkeypatch: pytest.MonkeyPatch
):
    process = process_of(tmp_path, server)
    process.endpoint._http._headers["x-api-key"] = ""
    with pytest.raises(Inconclusive, match=r"no batch for anthropic/.*x-api-key"):
        await process.submit(range(1))
    with pytest.raises(ModelError, match="is no id of a batch"):
        await process.endpoint.status("../../v1/keys")
