"""[cache] use: asking anew what others were answered, and asking nothing at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from assizes.deployments.samples import sample_cases
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from tests.doubles.fixtures import OpenAIServer
from tests.flows.test_evaluate import config, outcome_of, tables, written

pytestmark = pytest.mark.usefixtures("prefect_server")

CASES = 6


def wanted(
    folder: Path, server: OpenAIServer, use: str = "read_write", **rest: object
) -> RunConfig:
    uri = written(folder / "t.jsonl", sample_cases()[:CASES])
    judge = {"model": "openai/gpt-4o-mini", "api_base": server.api_base}
    return config(
        folder,
        uri,
        judge=judge,
        cache={"uri": f"{folder}/replies", "use": use},
        runner={"shard_size": 2},
        **rest,
    )


@pytest.mark.full
async def test_a_refreshed_run_asks_anew_under_an_id_of_its_own_and_resumes_without_paying_twice(
    tmp_path: Path, judge_server
):
    first = await outcome_of(wanted(tmp_path, judge_server))
    assert judge_server.stats()["requests"] == CASES

    halfway = {"limits": {"max_asks": 3}}
    begun = await outcome_of(wanted(tmp_path, judge_server, "refresh", **halfway))
    assert (begun.run_id, begun.conclusion) == (f"{first.run_id}-r2", "OverBudget")
    again = await outcome_of(wanted(tmp_path, judge_server, "refresh"))
    assert (again.run_id, again.conclusion) == (begun.run_id, "Passed")
    assert judge_server.stats()["requests"] == 2 * CASES
    asks = tables(wanted(tmp_path, judge_server).store, again.run_id)["asks"]
    assert asks["attempts"].to_list() == [1] * CASES
    assert asks["cached"].sum() == 0

    third = await outcome_of(wanted(tmp_path, judge_server, "refresh"))
    assert third.run_id == f"{first.run_id}-r3"
    assert judge_server.stats()["requests"] == 3 * CASES
    assert (await outcome_of(wanted(tmp_path, judge_server))) == first


@pytest.mark.full
async def test_a_complete_run_cannot_ask_anew_under_its_own_name(tmp_path: Path, judge_server):
    await outcome_of(wanted(tmp_path, judge_server), run_id="named")
    with pytest.raises(ConfigurationError, match="run named is complete.*without an id"):
        await outcome_of(wanted(tmp_path, judge_server, "refresh"), run_id="named")
    assert judge_server.stats()["requests"] == CASES


async def test_a_replay_is_no_model_call_and_not_limited_like_one(tmp_path: Path, judge_server):
    limits = {"max_asks": 1, "requests_per_minute": 1}
    ledger = tmp_path / "ledger.db"
    replayed = await outcome_of(wanted(tmp_path, judge_server, "replay_only", limits=limits))
    assert not any("budget" in code for code in replayed.summary.failures)
    assert replayed.summary.failures["not_cached"] > 0
    assert not ledger.exists()


@pytest.mark.full
async def test_replies_of_a_run_whose_store_is_gone_are_asked_anew_too(
    tmp_path: Path, judge_server
):
    first = await outcome_of(wanted(tmp_path, judge_server))
    elsewhere = {"store": {"uri": f"duckdb:///{tmp_path}/other.duckdb"}}
    other = await outcome_of(wanted(tmp_path, judge_server, "refresh", **elsewhere))
    assert other.run_id == f"{first.run_id}-r2"
    assert judge_server.stats()["requests"] == 2 * CASES


@pytest.mark.full
async def test_kept_replies_are_judged_again_without_a_key_and_without_a_call(
    tmp_path: Path, judge_server, monkeypatch: pytest.MonkeyPatch
):
    first = await outcome_of(wanted(tmp_path, judge_server))
    monkeypatch.delenv("OPENAI_API_KEY")
    elsewhere = {"store": {"uri": f"duckdb:///{tmp_path}/other.duckdb"}}
    replayed = await outcome_of(wanted(tmp_path, judge_server, "replay_only", **elsewhere))

    assert judge_server.stats()["requests"] == CASES
    assert (replayed.run_id, replayed.conclusion) == (f"{first.run_id}-replay1", "Passed")
    assert replayed.summary.avg_overall_score == first.summary.avg_overall_score
    assert replayed.summary.model_calls.cached == CASES
    assert replayed.summary.total_platform_cost_usd == 0.0
    assert (await outcome_of(wanted(tmp_path, judge_server, "replay_only"))) == first


@pytest.mark.full
async def test_a_reply_that_is_not_kept_is_a_failed_score_and_the_run_says_how_many(
    tmp_path: Path, judge_server
):
    some = wanted(tmp_path, judge_server)
    transcripts = some.transcripts.model_copy(update={"limit": 4})
    await outcome_of(some.model_copy(update={"transcripts": transcripts, "name": "part"}))

    replayed = await outcome_of(wanted(tmp_path, judge_server, "replay_only"))
    assert (replayed.conclusion, replayed.exit_code) == ("Inconclusive", 4)
    assert judge_server.stats()["requests"] == 4
    assert replayed.summary.error_count == 2
    assert replayed.summary.failures["not_cached"] > 0
    assert replayed.summary.warnings == (
        "not_cached: no reply is kept for 2 asks, and none was asked for (replay_only)",
    )
    # What a replay lacked does not stand for the run: with a key it is judged in full.
    whole = await outcome_of(wanted(tmp_path, judge_server))
    assert whole.conclusion == "Passed"
    assert replayed.run_id == f"{whole.run_id}-replay1"
