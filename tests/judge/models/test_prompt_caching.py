"""The provider's prompt cache: asked for where it must be asked for, and its hits counted and priced."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from assizes.judge.config.judging import (
    JudgeConfig,
    LimitsConfig,
    Price,
    estimated_tokens,
    listed_price,
)
from assizes.judge.config.run import RunConfig
from assizes.judge.forecast.ask_forecast import Forecaster
from assizes.judge.forecast.run_forecast import ForecastFigures, ForecastInputs
from assizes.judge.model_assignment import ModelAssignment
from assizes.judge.model_factory import model_for
from assizes.judge.models.prompt_caching import UNKNOWN_MINIMUM, marked_from, with_mark
from assizes.judge.protocol import Ask, Prompt
from assizes.judge.score import Score
from assizes.tasks.spending.ledger import PlannedCall, SqliteLedger
from assizes.tasks.spending.ledger_file import open_ledger_file
from tests.doubles.batch_providers.running import BatchProvider, running_provider
from tests.judge.engine.calls import ASK, LIMITS, Reply, config
from tests.judge.engine.levels import CASE, Asking
from tests.tasks.batch.provider_process import ProviderProcess, key_of

LONG = "You judge. " + "Every answer has to be polite and true. " * 400
MARK = {"type": "ephemeral"}
CLAUDE = "anthropic/claude-sonnet-4-5"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchProvider]:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key-of-the-tests")
    with running_provider("anthropic") as provider:
        yield provider


class AskingLong(Asking):
    """A judge whose prompts begin with a long text."""

    def __init__(self, number: int) -> None:
        super().__init__([str(number)])

    def judge(self, case):
        (reply,) = yield [ask_of(LONG, f"Question {self.rounds[0][0]}")]
        return [Score.failed("level", str(reply), "none")]


def ask_of(system: str, user: str = "Was it good?") -> Ask[Reply]:
    return Ask(Prompt(system, user), Reply)


def claude(server: BatchProvider):
    return model_for(JudgeConfig(model=CLAUDE, api_base=server.url), LIMITS)


async def test_the_mark_stands_at_the_end_of_the_stable_text_and_the_second_call_hits(
    server: BatchProvider,
):
    model = claude(server)
    first = await model.complete(ask_of(LONG))
    second = await model.complete(ask_of(LONG, "And this?"))

    for body in server.requests():
        assert [block.get("cache_control") for block in body["system"]] == [MARK]
        assert body["system"][0]["text"].startswith("You judge.")
        assert "cache_control" not in str(body["messages"])
    tokens = len(server.requests()[0]["system"][0]["text"]) // 4
    assert (first.cached_tokens, first.cache_write_tokens) == (0, tokens)
    assert (second.cached_tokens, second.cache_write_tokens) == (tokens, 0)
    rest, written = (second.input_tokens or 0) - tokens, second.output_tokens or 0
    # Claude Sonnet 4.5: 3 USD in, 15 out, 0.3 from the cache and 3.75 into it, for a million.
    assert second.cost_usd == pytest.approx((rest * 3 + tokens * 0.3 + written * 15) / 1e6)
    rest, written = (first.input_tokens or 0) - tokens, first.output_tokens or 0
    assert first.cost_usd == pytest.approx((rest * 3 + tokens * 3.75 + written * 15) / 1e6)


async def test_a_text_below_the_minimum_of_the_model_has_no_mark(server: BatchProvider):
    completion = await claude(server).complete(ask_of("You judge."))

    assert "cache_control" not in str(server.requests())
    assert completion.cached_tokens == 0


def test_a_mark_changes_neither_the_key_of_a_reply_nor_the_hash_of_a_prompt(monkeypatch):
    """Both as they were before there was a mark: replies that are kept stay found."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key-of-the-tests")
    assert model_for(JudgeConfig(model=CLAUDE), LIMITS).cache_key == (
        '{"api_base":null,"max_output_tokens":4096,"model":"anthropic/claude-sonnet-4-5",'
        '"provider":"anthropic","response_mode":"json_schema","temperature":0.2}'
    )
    assert ASK.prompt_hash == "e208854c2db284dd8e09015dcd52e581"


async def test_providers_that_cache_by_themselves_get_no_mark(judge_server):
    model = model_for(config(judge_server), LIMITS)
    await model.complete(ask_of(LONG))

    assert "cache_control" not in str(judge_server.requests())


@pytest.mark.parametrize(
    ("model", "provider", "entry", "minimum"),
    [
        (
            CLAUDE,
            "anthropic",
            {"supports_prompt_caching": True, "prompt_cache_min_tokens": 1024},
            1024,
        ),
        ("openrouter/anthropic/claude-x", "openrouter", {}, UNKNOWN_MINIMUM),
        ("bedrock/anthropic.claude-v1", "bedrock", {"max_tokens": 1}, None),
        ("openrouter/google/gemini-x", "openrouter", {"supports_prompt_caching": True}, None),
        ("openai/claude-proxy", "openai", {"supports_prompt_caching": True}, None),
    ],
)
def test_only_claude_models_that_can_are_marked(model, provider, entry, minimum):
    assert marked_from(model, provider, entry) == minimum
    sent = with_mark([{"role": "system", "content": LONG}], minimum)
    assert ("cache_control" in str(sent)) is (minimum == 1024)


async def test_hits_of_a_batch_are_in_the_ledger_at_their_price(
    tmp_path: Path, server: BatchProvider
):
    process = ProviderProcess(tmp_path, CLAUDE, server)
    await process.submit(range(3), LONG)
    await process.client.collect()
    reply = await process.client.take(key_of(2))

    stats = server.stats()
    names = ("input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens")
    with closing(sqlite3.connect(process.ledger.path)) as file:
        process.ledger.run_account()
        process.ledger.close()
        sums = file.execute(f"select {', '.join(f'sum({name})' for name in names)} from calls")
        sent, cached, to_cache, written = sums.fetchone()
    assert (cached, to_cache) == (
        stats["cache_read_input_tokens"],
        stats["cache_creation_input_tokens"],
    )
    assert cached == 2 * to_cache > 0
    assert sent == stats["input_tokens"] + cached + to_cache
    usd = (stats["input_tokens"] * 3 + cached * 0.3 + to_cache * 3.75 + written * 15) / 2e6
    assert reply is not None
    total = sqlite3.connect(process.ledger.path).execute("select sum(cost_nano) from calls")
    assert total.fetchone()[0] / 1e9 == pytest.approx(usd, abs=4e-9)


def test_the_worst_case_of_a_call_counts_a_whole_prompt_that_is_put_into_the_cache():
    price = Price(
        input_usd_per_million=3.0, output_usd_per_million=15.0, cache_write_usd_per_million=3.75
    )
    assert price.worst_usd(1000, 100) == pytest.approx((3750 + 1500) / 1e6)
    plain = Price(input_usd_per_million=3.0, output_usd_per_million=15.0)
    assert plain.worst_usd(1000, 100) == plain.cost_usd(1000, 100)
    listed = {"input_cost_per_token": 3e-6, "output_cost_per_token": 15e-6}
    price = listed_price({**listed, "cache_creation_input_token_cost": 3.75e-6}, "list")
    assert price is not None
    assert price.cache_write_usd_per_million == 3.75


def test_a_price_of_ones_own_for_a_marked_model_counts_what_is_put_into_the_cache(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key-of-the-tests")
    own = Price(input_usd_per_million=2.0, output_usd_per_million=4.0)
    model = model_for(JudgeConfig(model=CLAUDE), LimitsConfig(prices={CLAUDE: own}))
    assert model.price == own.model_copy(update={"cache_write_usd_per_million": 2.5})


def test_a_ledger_of_an_older_version_gets_the_columns_and_keeps_its_calls(tmp_path: Path):
    path = str(tmp_path / "ledger.db")
    with closing(SqliteLedger(path, "run-1", LimitsConfig())) as ledger:
        ledger.reserve(PlannedCall("k" * 64, "m", 1.0))
    with closing(sqlite3.connect(path)) as file, file:
        for name in ("cached_tokens", "cache_write_tokens"):
            file.execute(f"alter table calls drop column {name}")
    with closing(open_ledger_file(path)) as file:
        rows = file.execute("select key, cached_tokens, cache_write_tokens from calls").fetchall()
    assert rows == [("k" * 64, None, None)]


async def test_a_plan_counts_the_hits_and_what_they_save(monkeypatch):
    """Each text of a judge is put into the provider's cache once, and found by all later asks."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key-of-the-tests")
    model = model_for(JudgeConfig(model=CLAUDE), LIMITS)
    forecaster = Forecaster(ModelAssignment(model, {}), None)
    for number in range(10):
        await forecaster.hear(AskingLong(number), CASE)
    inputs = ForecastInputs(RunConfig(name="n", transcripts={"uri": "x"}), {CLAUDE: model}, {}, 2.0)
    figures = ForecastFigures(inputs, forecaster.tallies)
    (judge,) = figures.judges

    tokens = estimated_tokens(LONG)
    assert judge.to_put == 20
    assert (judge.cached_tokens, judge.cache_write_tokens) == (19 * tokens, tokens)
    assert judge.saved_usd == pytest.approx(tokens * (19 * 2.7 - 0.75) / 1e6, abs=2e-6)
    plain = (judge.input_tokens - 20 * tokens) * 3 + judge.output_tokens * 15
    in_cache = tokens * (19 * 0.3 + 3.75)
    assert judge.expected_usd == pytest.approx((plain + in_cache) / 1e6, abs=2e-6)
    (line,) = (line for line in figures.assumptions() if "prompt cache" in line)
    assert f"{19 * tokens:,} tokens in come from the provider's prompt cache" in line
