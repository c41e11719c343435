"""Runs by batch: as many batches as the deepest judge has rounds, each ask handed in once, whatever
is killed in between; what a batch cannot bring is asked for by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from assizes.deployments.settings import validate_config
from assizes.flows.outcome import RunOutcome
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from assizes.tasks.store import open_store
from tests.doubles.fixtures import OPENAI_KEY, OpenAIServer
from tests.flows.batch_runs import JUDGES, body, config, own_judges, records
from tests.flows.test_evaluate import outcome_of

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    yield from own_judges(tmp_path, monkeypatch)


def asks_of(wanted: RunConfig, outcome: RunOutcome) -> pl.DataFrame:
    with open_store(wanted.store) as store:
        return store.table(outcome.run_id, "asks")


@pytest.mark.full
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


@pytest.mark.full
async def test_a_batch_costs_half_of_what_the_same_asks_cost_by_themselves(
    tmp_path: Path, judge_server: OpenAIServer
):
    costs = []
    for name, batch in (("half", True), ("whole", False)):
        folder = tmp_path / name
        folder.mkdir()
        tables = body(folder, judge_server, 3)
        tables["runner"]["batch"] = batch
        wanted = validate_config(tables, "test")
        asks = asks_of(wanted, await outcome_of(wanted))
        assert asks["cost_source"].to_list() == ["priced"] * 3
        costs.append(math.fsum(asks["cost_usd"]))

    assert costs[0] == pytest.approx(costs[1] / 2, rel=1e-9)
    assert costs[0] > 0


@pytest.mark.full
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


@pytest.mark.full
async def test_what_an_expired_batch_did_not_answer_is_asked_for_by_itself(
    tmp_path: Path, judge_server: OpenAIServer
):
    wanted = config(tmp_path, judge_server, 10, model="openai/stub-batch-expired")
    outcome = await outcome_of(wanted)

    stats = judge_server.stats()
    assert outcome.summary.counts["judged"] == 10
    assert (stats["batches"], stats["batch_repeats"], stats["requests"]) == (1, 0, 5)


@pytest.mark.full
async def test_a_batch_that_fails_its_validation_is_asked_for_by_itself(
    tmp_path: Path, judge_server: OpenAIServer, caplog: pytest.LogCaptureFixture
):
    wanted = config(tmp_path, judge_server, 4, model="openai/stub-batch-failed")
    outcome = await outcome_of(wanted)

    stats = judge_server.stats()
    assert outcome.summary.counts["judged"] == 4
    assert (stats["batches"], stats["requests"]) == (1, 4)
    assert "model_not_found" in caplog.text


@pytest.mark.full
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


@pytest.mark.full
async def test_a_budget_that_the_batch_could_exceed_sends_nothing(
    tmp_path: Path, judge_server: OpenAIServer
):
    tables = body(tmp_path, judge_server, 20)
    tables["limits"]["budget_usd"] = 0.01
    small = validate_config(tables, "test")
    outcome = await outcome_of(small)

    assert (outcome.conclusion, outcome.exit_code) == ("OverBudget", 5)
    assert (judge_server.stats()["batches"], judge_server.stats()["requests"]) == (0, 0)
    assert outcome.summary.spent_usd == 0.0

    tables["limits"]["budget_usd"] = 1.0
    outcome = await outcome_of(validate_config(tables, "test"))
    assert outcome.conclusion == "Passed"
    assert (judge_server.stats()["batch_lines"], judge_server.stats()["requests"]) == (20, 0)


async def test_a_provider_without_batches_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judge_server: OpenAIServer
):
    monkeypatch.setenv("MISTRAL_API_KEY", OPENAI_KEY)
    tables = body(tmp_path, judge_server, 1, model="mistral/mistral-large-latest", api_base=None)
    tables["transcripts"]["uri"] = str(tmp_path / "nowhere")
    with pytest.raises(ConfigurationError, match="no batches for 'mistral/mistral.*openai"):
        await outcome_of(validate_config(tables, "test"))


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
    await outcome_of(validate_config(tables, "test"))

    assert "replay_only asks nothing, nothing to batch" in caplog.text
    assert "needs no provider" not in caplog.text
