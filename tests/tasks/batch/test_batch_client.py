"""The request files of batches, and the client that submits them and collects the replies."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assizes.judge.config.judging import Price
from assizes.judge.config.run import LimitsConfig
from assizes.judge.engine.batching import Batches, batches_of, model_mark
from assizes.judge.engine.ledger import Account, PlannedCall
from assizes.judge.errors import Halted, Inconclusive, ModelError, OverBudget, StoreError
from assizes.judge.model_factory import (
    model_for,
)
from assizes.judge.models.batch_lines import BatchStatus
from assizes.judge.prompts.prompt_texts import most_sent
from assizes.judge.protocol import Ask, Prompt
from assizes.tasks.batch.batch_client import MAX_FAILED_POLLS, BatchClient, BatchDependencies
from assizes.tasks.batch.batch_log import BatchLog
from assizes.tasks.batch.batch_requests import BatchLimits, Drafts, PollInterval
from assizes.tasks.spending.ledger import SqliteLedger
from assizes.tasks.spending.ledger_file import write_stop
from tests.doubles.fixtures import OpenAIServer, running_openai_server
from tests.judge.engine.calls import Reply, config

PACE = PollInterval(0.02, 0.1)
PRICE = Price(input_usd_per_million=1.0, output_usd_per_million=4.0)


def key_of(number: int) -> str:
    return f"{number:064x}"


def ask(number: int) -> Ask[Reply]:
    return Ask(Prompt("You judge.", f"Was {number} good?"), Reply)


def model_of(server: OpenAIServer, name: str = "stub"):
    return model_for(config(server, name), LimitsConfig(prices={f"openai/{name}": PRICE}))


def written(drafts: Drafts, model, numbers) -> None:
    endpoint = batches_of(model)
    for number in numbers:
        line = endpoint.line(key_of(number), endpoint.body(ask(number)))
        drafts.add(model, line, ask(number), key_of(number))


def test_drafts_are_cut_where_a_provider_takes_no_more_and_for_each_model(
    tmp_path: Path, judge_server
):
    one, other = model_of(judge_server), model_of(judge_server, "other")
    with Drafts(tmp_path, BatchLimits(asks=2)) as drafts:
        written(drafts, one, range(3))
        written(drafts, other, range(3, 4))
        written(drafts, one, range(4, 5))
    found = drafts.close()

    assert [(draft.model, draft.asks) for draft in found] == [
        ("openai/stub", 2),
        ("openai/stub", 2),
        ("openai/other", 1),
    ]
    lines = [json.loads(line) for line in found[0].path.read_bytes().splitlines()]
    assert [line["custom_id"] for line in lines] == [key_of(0), key_of(1)]
    assert [key for key, _ in found[1].worst_cases()] == [key_of(2), key_of(4)]
    assert len({draft.keys_hash for draft in found}) == 3

    small = tmp_path / "small"
    small.mkdir()
    with Drafts(small, BatchLimits(size=found[0].size - 1)) as drafts:
        written(drafts, one, range(2))
    assert [draft.asks for draft in drafts.close()] == [1, 1]


def test_the_worst_case_of_a_draft_is_at_the_price_of_a_batch(tmp_path: Path, judge_server):
    model = model_of(judge_server)
    with Drafts(tmp_path, BatchLimits()) as drafts:
        written(drafts, model, [1])
    ((_, usd),) = drafts.close()[0].worst_cases()

    sent, most = model.tokens(ask(1))
    assert usd == PRICE.cost_usd(most_sent(ask(1), sent), most, batch=True)
    assert usd == pytest.approx(PRICE.cost_usd(most_sent(ask(1), sent), most) / 2)


class Process:
    """A process with a batch client and a folder of its own; all share the log and the ledger."""

    def __init__(
        self,
        folder: Path,
        server: OpenAIServer,
        name: str = "stub",
        ledger: str = "ledger.db",
        pace: PollInterval = PACE,
        **limits,
    ) -> None:
        self.model = model_of(server, name)
        self.ledger = SqliteLedger(str(folder / ledger), "run-1", LimitsConfig(**limits))
        self.log = BatchLog(str(folder / "replies"), {}, "run-1")
        self.own = folder / f"process-{len(list(folder.glob('process-*')))}"
        self.own.mkdir()
        self.endpoint = batches_of(self.model)
        self.endpoints = {model_mark(self.model): self.endpoint}
        self.client = BatchClient(
            BatchDependencies(
                *(self.log, self.endpoints, self.ledger, pace),
                *(self.ledger.stopped_at, self.ledger.path),
            ),
            self.own,
        )

    async def submit(self, numbers) -> None:
        folder = self.own / f"round-{len(list(self.own.glob('round-*')))}"
        folder.mkdir()
        with Drafts(folder, BatchLimits(asks=3)) as drafts:
            written(drafts, self.model, numbers)
        await self.client.submit(drafts.close())

    async def taken(self, numbers) -> list[bool]:
        return [await self.client.take(key_of(number)) is not None for number in numbers]

    @property
    def states(self) -> list[str]:
        return [record.state for record in self.log.records()]


async def test_a_round_is_handed_in_waited_for_taken_and_closed(tmp_path: Path, judge_server):
    process = Process(tmp_path, judge_server)
    await process.submit(range(4))
    assert process.states == ["submitted", "submitted"]
    assert process.ledger.run_account().open_calls == 4

    await process.client.collect()
    assert await process.taken(range(4)) == [True] * 4
    assert await process.client.close_round() == {}
    assert process.states == ["collected", "collected"]
    account = process.ledger.run_account()
    assert (account.calls, account.open_calls) == (4, 0)
    stats = judge_server.stats()
    tokens = stats["input_tokens"], stats["output_tokens"]
    assert account.usd == pytest.approx(PRICE.cost_usd(*tokens, batch=True), abs=4e-9)


async def test_what_nobody_took_is_given_to_asks_put_by_themselves(tmp_path: Path, judge_server):
    process = Process(tmp_path, judge_server)
    await process.submit(range(2))
    await process.client.collect()
    process.client.leave(key_of(0), await process.client.take(key_of(0)))

    given = await process.client.close_round()
    assert set(given) == {key_of(0), key_of(1)}
    assert BatchLog(str(tmp_path / "replies"), {}, "run-1").first_attempts().keys() == given.keys()


async def test_a_later_process_collects_what_an_earlier_one_handed_in(tmp_path: Path, judge_server):
    await Process(tmp_path, judge_server).submit(range(2))
    later = Process(tmp_path, judge_server)
    await later.client.reopen()

    assert later.client.has_asked(key_of(1))
    await later.client.collect()
    assert await later.taken(range(2)) == [True, True]
    assert judge_server.stats()["batches"] == 1


async def test_a_process_that_died_after_collecting_is_repeated_and_not_paid_twice(
    tmp_path: Path, judge_server
):
    first = Process(tmp_path, judge_server)
    await first.submit(range(2))
    await first.client.collect()
    spent = first.ledger.run_account()
    later = Process(tmp_path, judge_server)
    await later.client.reopen()
    await later.client.collect()

    assert await later.taken(range(2)) == [True, True]
    assert later.ledger.run_account() == spent


async def test_of_two_processes_that_prepare_one_round_the_refused_costs_the_other_nothing(
    tmp_path: Path, judge_server
):
    first, second = Process(tmp_path, judge_server), Process(tmp_path, judge_server)
    await first.submit(range(2))
    with pytest.raises(StoreError, match="another process works on this run"):
        await second.submit(range(2))
    await first.client.collect()

    assert await first.taken(range(2)) == [True, True]
    account = first.ledger.run_account()
    assert (account.calls, account.open_calls) == (2, 0)
    assert judge_server.stats()["batches"] == 1


async def test_a_process_that_died_before_its_record_was_written_keeps_no_other_from_the_round(
    tmp_path: Path, judge_server
):
    first = Process(tmp_path, judge_server)
    await first.submit(range(2))
    (tmp_path / "replies/batches/run-1/1-1.json").unlink()
    later = Process(tmp_path, judge_server)
    await later.client.reopen()
    await later.submit(range(2))

    assert later.states == ["submitted"]


async def test_a_batch_whose_id_was_never_noted_is_found_by_its_tag(tmp_path: Path, judge_server):
    first = Process(tmp_path, judge_server)
    await first.submit(range(2))
    (record,) = first.log.records()
    first.log.save(replace(record, state="prepared", batch_id=None))
    later = Process(tmp_path, judge_server)
    await later.client.reopen()

    assert later.log.records() == [record]
    assert judge_server.stats()["batches"] == 1


async def test_a_part_that_was_not_submitted_costs_nothing(tmp_path: Path, judge_server):
    first = Process(tmp_path, judge_server)
    await first.submit(range(2))
    (record,) = first.log.records()
    first.log.save(replace(record, state="prepared", batch_id=None))
    judge_server.reset()  # now the provider knows nothing of it
    later = Process(tmp_path, judge_server)
    await later.client.reopen()

    assert later.states == ["dropped"]
    assert not later.client.has_asked(key_of(0))
    assert (later.ledger.run_account().usd, later.ledger.run_account().open_calls) == (0.0, 0)
    await later.submit(range(2))
    assert later.states == ["dropped", "submitted"]


async def test_a_round_over_the_budget_is_not_handed_in_at_all(tmp_path: Path, judge_server):
    process = Process(tmp_path, judge_server, budget_usd=0.05)
    with pytest.raises(OverBudget, match="a batch of 8 asks was not handed in.*budget_usd = 0.05"):
        await process.submit(range(8))

    assert set(process.states) == {"dropped"}
    assert process.ledger.run_account() == Account(0, 0.0)
    assert judge_server.stats()["batches"] == 0


async def test_a_stopped_run_waits_no_longer(tmp_path: Path, judge_server):
    with running_openai_server("--batch-delay", "60") as server:
        process = Process(tmp_path, server)
        await process.submit(range(2))
        waiting = asyncio.create_task(process.client.collect())
        await asyncio.sleep(0.3)
        write_stop(str(tmp_path / "ledger.db"), "run-1")

        with pytest.raises(Halted, match="the same command collects them"):
            await asyncio.wait_for(waiting, 30)
        assert process.states == ["submitted"]


async def test_a_batch_that_the_provider_does_not_know_is_not_asked_for_again(
    tmp_path: Path, judge_server
):
    await Process(tmp_path, judge_server).submit(range(2))
    judge_server.reset()
    later = Process(tmp_path, judge_server)
    await later.client.reopen()

    with pytest.raises(Inconclusive, match="cannot be collected: not_found"):
        await later.client.collect()
    assert later.states == ["submitted"]
    assert judge_server.stats()["batches"] == 0


class AwayFor:
    """A provider that cannot say for so many looks where a batch stands."""

    def __init__(self, endpoint: Batches, looks: int) -> None:
        self._endpoint = endpoint
        self._looks = looks
        self._seen: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._endpoint, name)

    async def status(self, batch_id: str) -> BatchStatus:
        self._seen[batch_id] += 1
        if self._seen[batch_id] <= self._looks:
            raise ModelError("unavailable", "away")
        return await self._endpoint.status(batch_id)


async def test_the_patience_with_each_batch_is_its_own_however_many_are_waited_for(
    tmp_path: Path, judge_server
):
    process = Process(tmp_path, judge_server, pace=PollInterval(0.001, 0.002))
    process.endpoints[model_mark(process.model)] = AwayFor(process.endpoint, MAX_FAILED_POLLS // 2)
    await process.submit(range(9))

    await process.client.collect()
    assert await process.taken(range(9)) == [True] * 9
    process.endpoints[model_mark(process.model)] = AwayFor(process.endpoint, MAX_FAILED_POLLS + 1)
    await process.submit(range(9, 10))
    with pytest.raises(Inconclusive, match="cannot be collected: unavailable: away"):
        await process.client.collect()


async def test_a_batch_made_with_other_settings_is_not_looked_for(tmp_path: Path, judge_server):
    await Process(tmp_path, judge_server).submit(range(2))
    later = Process(tmp_path, judge_server, "other")
    await later.client.reopen()

    with pytest.raises(Inconclusive, match="made for openai/stub with other settings"):
        await later.client.collect()


async def test_an_endpoint_without_batches_is_named(tmp_path: Path, judge_server, monkeypatch):
    process = Process(tmp_path, judge_server)
    endpoint = batches_of(
        model_for(config(judge_server, api_base=judge_server.url), LimitsConfig())
    )
    monkeypatch.setitem(process.client._dependencies.endpoints, model_mark(process.model), endpoint)
    with pytest.raises(Inconclusive, match="no batch for openai/stub: not_found.*without --batch"):
        await process.submit(range(4))

    assert process.states == ["dropped", "dropped"]
    assert process.ledger.run_account().open_calls == 0


async def test_a_round_of_more_asks_than_allowed_leaves_all_of_them_allowed(
    tmp_path: Path, judge_server
):
    with pytest.raises(OverBudget, match="max_asks = 5"):
        await Process(tmp_path, judge_server, max_asks=5).submit(range(8))
    later = Process(tmp_path, judge_server, max_asks=8)
    await later.client.reopen()
    await later.submit(range(8))

    assert judge_server.stats()["batches"] == 3


async def test_tickets_of_another_ledger_settle_nothing_in_this_one(
    tmp_path: Path, judge_server, caplog: pytest.LogCaptureFixture
):
    await Process(tmp_path, judge_server).submit(range(2))
    later = Process(tmp_path, judge_server, ledger="new.db")
    mine = [later.ledger.reserve(PlannedCall(key_of(number), "m", 1.0)) for number in range(2)]
    assert mine == list(later.log.tickets(later.log.records()[0]).values())
    await later.client.reopen()
    await later.client.collect()

    assert await later.taken(range(2)) == [True, True]
    assert later.ledger.run_account() == Account(2, 2.0, 2, 2.0)
    assert "was counted in ledger" in caplog.text
