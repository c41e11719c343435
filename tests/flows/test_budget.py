"""A run stops at its budget, says what was spent, and goes on with a larger one: nothing paid twice."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from assizes.deployments.samples import sample_cases
from assizes.flows.outcome import RunOutcome
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from assizes.tasks.spending.ledger_file import NANO
from tests.doubles.fixtures import OpenAIServer
from tests.flows.test_evaluate import config, outcome_of, tables, written

pytestmark = pytest.mark.usefixtures("prefect_server")

CASES = 20
PRICE = {"input_usd_per_million": 1.0, "output_usd_per_million": 4.0}


def wanted(folder: Path, server: OpenAIServer, model: str = "m", **limits: object) -> RunConfig:
    uri = written(folder / "t.jsonl", sample_cases()[:CASES])
    judge = {"model": f"openai/{model}", "api_base": server.api_base, "max_output_tokens": 500}
    prices = {f"openai/{model}": PRICE}
    given = {"prices": prices, "max_in_flight": 3, "ledger": f"{folder}/ledger.db", **limits}
    return config(folder, uri, judge=judge, limits=given, runner={"shard_size": 4})


def settled_usd(folder: Path) -> float:
    """The calls in the ledger."""
    with closing(sqlite3.connect(folder / "ledger.db")) as file:
        ((nano, still_open),) = file.execute(
            "select sum(counted_nano), sum(state = 'reserved') from calls"
        )
    assert still_open == 0
    return float(nano / NANO)


def paid_in_rows(outcome: RunOutcome, settings: RunConfig) -> float:
    asks = tables(settings.store, outcome.run_id)["asks"]
    assert asks["cached"].sum() == 0
    return math.fsum(asks["cost_usd"])


@pytest.mark.full
async def test_a_run_stopped_by_its_budget_goes_on_with_a_larger_one_and_pays_nothing_twice(
    tmp_path: Path, judge_server
):
    first = await outcome_of(wanted(tmp_path, judge_server, budget_usd=0.06))

    assert (first.conclusion, first.exit_code) == ("OverBudget", 5)
    why, left, spent = first.reasons
    assert "[limits] budget_usd = 0.06: " in why
    assert " USD are spent or set aside, the next call could cost " in why
    counts = first.summary.counts
    assert 0 < counts["not_attempted"] < CASES
    assert counts["read"] == sum(count for name, count in counts.items() if name != "read")
    assert left == (
        f"{counts['not_attempted']} cases were not attempted; `assizes resume {first.run_id}` with a "
        "larger limit (--set) judges them; replies in the cache cost nothing"
    )
    assert first.summary.spent_usd == pytest.approx(settled_usd(tmp_path))
    assert spent == f"spent so far, over all sessions: {first.summary.spent_usd:.6f} USD"
    assert 0.06 - 0.03 < first.summary.spent_usd <= 0.06  # the worst case of one call stays unspent

    again = await outcome_of(wanted(tmp_path, judge_server, budget_usd=0.0601))
    assert again.conclusion == "OverBudget"
    assert first.summary.spent_usd <= again.summary.spent_usd <= 0.0601

    last = await outcome_of(wanted(tmp_path, judge_server, budget_usd=5))
    stats = judge_server.stats()
    assert (last.run_id, last.conclusion) == (first.run_id, "Passed")
    assert last.summary.counts["judged"] == CASES
    assert stats["requests"] == stats["prompts"] == CASES
    in_rows = paid_in_rows(last, wanted(tmp_path, judge_server))
    assert in_rows == pytest.approx(settled_usd(tmp_path), abs=1e-9 * CASES)
    assert last.summary.spent_usd == pytest.approx(last.summary.total_platform_cost_usd, abs=1e-8)
    assert last.summary.spent_outside_rows_usd == pytest.approx(0.0, abs=1e-8)
    metered = stats["input_tokens"] * 1e-6 + stats["output_tokens"] * 4e-6
    assert in_rows == pytest.approx(metered)


@pytest.mark.full
async def test_the_calls_of_a_run_can_be_limited_and_those_of_a_day_over_all_runs(
    tmp_path: Path, judge_server
):
    first = await outcome_of(wanted(tmp_path, judge_server, max_asks=6))
    assert first.conclusion == "OverBudget"
    assert "[limits] max_asks = 6: 6 calls were made" in first.reasons[0]
    assert judge_server.stats()["requests"] == 6

    limited = wanted(tmp_path, judge_server, model="m2", max_asks_per_day=10)
    second = await outcome_of(limited)
    assert second.run_id != first.run_id
    assert "[limits] max_asks_per_day = 10: 10 calls were made" in second.reasons[0]
    assert judge_server.stats()["requests"] == 10


@pytest.mark.full
async def test_replies_that_nobody_metered_are_counted_and_said_to_be_estimated(
    tmp_path: Path, judge_server
):
    outcome = await outcome_of(wanted(tmp_path, judge_server, model="m-no-usage"))
    summary = outcome.summary
    assert summary.total_platform_cost_usd
    assert summary.cost_estimated == 1.0
    assert summary.spent_usd == pytest.approx(summary.total_platform_cost_usd, abs=1e-8)
    assert summary.warnings == (
        "estimated_tokens: 20 of 20 paid asks not metered; their tokens and cost are estimated",
    )


async def test_a_budget_without_a_price_is_refused_before_anything_is_opened(
    tmp_path: Path, judge_server
):
    unpriced = wanted(tmp_path, judge_server, model="nobody-knows", budget_usd=1, prices={})
    with pytest.raises(ConfigurationError, match=r'\[limits.prices."openai/nobody-knows"\]') as no:
        await outcome_of(unpriced)
    assert "input_usd_per_million and output_usd_per_million" in str(no.value)
    assert not (tmp_path / "rows.duckdb").exists()
    assert judge_server.stats()["requests"] == 0


async def test_the_offline_judge_keeps_no_ledger(tmp_path: Path):
    uri = written(tmp_path / "t.jsonl", sample_cases()[:2])
    outcome = await outcome_of(config(tmp_path, uri))
    assert outcome.summary.spent_usd is None
    assert not (tmp_path / "ledger.db").exists()
