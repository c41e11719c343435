"""Batches of the Gemini API over real HTTP: each ask submitted and paid for once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from assizes.judge.config.judging import listed_price
from assizes.judge.errors import Inconclusive
from assizes.judge.models.model import Completion
from tests.doubles.batch_providers.running import BatchProvider, running_provider
from tests.tasks.batch.provider_process import MODELS, PRICE, ProviderProcess, ask_of, key_of


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchProvider]:
    monkeypatch.setenv("GEMINI_API_KEY", "key-of-the-tests")
    with running_provider("gemini") as provider:
        yield provider


def process_of(folder: Path, server: BatchProvider) -> ProviderProcess:
    return ProviderProcess(folder, MODELS["gemini"], server)


async def test_each_ask_is_submitted_once_and_the_money_is_that_of_the_provider(
    tmp_path: Path, server: BatchProvider
):
    process = process_of(tmp_path, server)
    await process.submit(range(4))
    await process.client.collect()

    assert await process.taken(range(4)) == [True] * 4
    assert server.counts("batches", "batch_lines", "batch_repeats", "requests") == (2, 4, 0, 0)
    account = process.ledger.run_account()
    sent, written = server.counts("input_tokens", "output_tokens")
    assert account.usd == pytest.approx(PRICE.cost_usd(sent, written, batch=True), abs=4e-9)
    assert (account.calls, account.open_calls) == (4, 0)


async def test_a_line_holds_the_very_body_of_a_live_call_and_its_reply_is_read_alike(
    tmp_path: Path, server: BatchProvider
):
    process = process_of(tmp_path, server)
    live = await process.model.complete(ask_of(1))
    await process.submit([1])
    await process.client.collect()
    reply = await process.client.take(key_of(1))

    first, second = server.requests()
    assert first == second
    assert isinstance(reply, Completion)
    assert (reply.text, reply.answered_by) == (live.text, live.answered_by)
    assert (reply.input_tokens, reply.output_tokens) == (live.input_tokens, live.output_tokens)
    assert reply.cost_usd == pytest.approx((live.cost_usd or 0) / 2)


async def test_a_batch_whose_id_was_never_noted_is_found_by_its_name(
    tmp_path: Path, server: BatchProvider
):
    server.order(delay_s=1.0)
    first = process_of(tmp_path, server)
    await first.submit(range(2))
    (record,) = first.log.records()
    first.log.save(replace(record, state="prepared", batch_id=None))
    other = tmp_path / "other"
    other.mkdir()
    await process_of(other, server).submit(range(7, 9))
    later = process_of(tmp_path, server)
    await later.client.reopen()

    assert later.log.records() == [record]
    await later.client.collect()
    assert await later.taken(range(2)) == [True, True]
    assert server.counts("batches", "batch_repeats") == (2, 0)


async def test_a_submission_whose_answer_broke_off_is_not_repeated(
    tmp_path: Path, server: BatchProvider
):
    server.order(cut=1, refuse=[503])
    process = process_of(tmp_path, server)
    await process.submit(range(2))
    await process.client.collect()

    assert await process.taken(range(2)) == [True, True]
    assert server.counts("batches", "batch_repeats") == (1, 0)


async def test_entries_that_failed_or_expired_cost_nothing_and_are_free_for_single_calls(
    tmp_path: Path, server: BatchProvider, caplog: pytest.LogCaptureFixture
):
    server.order(fail=1, expire=1)
    process = process_of(tmp_path, server)
    await process.submit(range(3))
    await process.client.collect()

    assert await process.taken(range(3)) == [True, False, False]
    assert "2 of its 3 asks are sent one by one" in caplog.text
    account = process.ledger.run_account()
    sent, written = server.counts("input_tokens", "output_tokens")
    assert account.usd == pytest.approx(PRICE.cost_usd(sent, written, batch=True), abs=4e-9)
    assert account.open_calls == 0


async def test_a_key_that_is_refused_is_named(tmp_path: Path, server: BatchProvider):
    process = process_of(tmp_path, server)
    process.endpoint._http._headers.clear()
    with pytest.raises(Inconclusive, match=r"no batch for gemini/.*unregistered callers"):
        await process.submit(range(1))


def test_cached_tokens_of_a_batch_cost_what_the_list_says():
    """Gemini takes half the price for a batch, but not for what its cache held."""
    price = listed_price(
        {
            **{"input_cost_per_token": 3e-7, "output_cost_per_token": 2.5e-6},
            **{"input_cost_per_token_batches": 1.5e-7, "output_cost_per_token_batches": 1.25e-6},
            **{"cache_read_input_token_cost": 3e-8, "cache_read_input_token_cost_batches": 3e-8},
        },
        "list",
    )
    assert price is not None
    usd = price.cost_usd(1000, 100, 400, batch=True)
    assert usd == pytest.approx(600 * 1.5e-7 + 400 * 3e-8 + 100 * 1.25e-6)
