"""What a run would ask, cost and take, beside what the model server then counted."""

from __future__ import annotations

import asyncio
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from assizes.deployments.samples import sample_cases
from assizes.deployments.settings import validate_config
from assizes.judge.case import Case, Chunk, Expected
from assizes.judge.catalog import resolve_judges
from assizes.judge.config.run import RunConfig
from assizes.judge.engine.hearings import Engine, EngineDependencies
from assizes.judge.errors import Inconclusive
from assizes.judge.forecast.ask_forecast import TEXT_TOKENS, reply_tokens
from assizes.judge.forecast.run_forecast import RunForecast
from assizes.judge.formats import native_line
from assizes.judge.model_assignment import assign_models
from assizes.tasks.context.hearing import hear_all
from assizes.tasks.context.run_context import progress_reporter
from assizes.tasks.forecasts import run_forecast as forecasting
from assizes.tasks.forecasts.run_forecast import forecast, forecast_with_anchors
from assizes.tasks.intake.shards import plan_intake, read_shard
from assizes.tasks.sources.spool import Spool
from assizes.tasks.spending.reply_cache import FileReplyCache
from tests.builders import agent, case, result, user
from tests.builders import call as called
from tests.doubles.fixtures import OpenAIServer
from tests.judge.engine.calls import Reply

PRICE = {"input_usd_per_million": 0.15, "output_usd_per_million": 0.6}
NEAR = 0.15
"""The share by which a forecast may be off."""


def config(folder: Path, uri: str, server: OpenAIServer, **tables: Any) -> RunConfig:
    name = tables.pop("model", "m-wordy")
    judge = {"model": f"openai/{name}", "api_base": server.api_base, **tables.pop("judge", {})}
    limits = {"ledger": f"{folder}/ledger.db", "prices": {f"openai/{name}": PRICE}}
    body = {
        "transcripts": {"uri": uri},
        "judge": judge,
        "store": {"uri": f"duckdb:///{folder}/rows.duckdb"},
        "cache": {"uri": f"{folder}/replies"},
        "limits": {**limits, **tables.pop("limits", {})},
    }
    return validate_config({**body, **tables}, "test")


def written(file: Path, cases: list[Case]) -> str:
    file.write_bytes(b"".join(native_line(one) for one in cases))
    return str(file)


class Counted(NamedTuple):
    requests: int
    prompts: int
    usd: float


async def judged(wanted: RunConfig, server: OpenAIServer, most: int | None = None) -> Counted:
    """Every case heard in earnest over HTTP, or as many of them; what the server counted."""
    server.reset()
    bench = resolve_judges(wanted.judge)
    found = assign_models(wanted, bench)
    means = EngineDependencies(run_id="run", cache=FileReplyCache(wanted.cache.uri))
    engine = Engine(found.shared, wanted.limits, means, models=found.own)
    spool = Spool({})
    plan = plan_intake(wanted.transcripts, 1000, spool)
    records = [one for shard in plan.shards for one in read_shard(shard, wanted.transcripts, spool)]
    cases = [one.case for one in records if one.case is not None][:most]
    await asyncio.gather(*(hear_all(engine, bench, one) for one in cases))
    await engine.aclose()
    spool.close()
    stats = server.stats()
    usd = (stats["input_tokens"] * 0.15 + stats["output_tokens"] * 0.6) / 1e6
    return Counted(stats["requests"], stats["prompts"], usd)


def near(found: RunForecast, counted: Counted) -> bool:
    assert found.expected_usd is not None
    assert found.worst_usd is not None
    assert found.worst_usd > found.expected_usd
    return abs(found.expected_usd / counted.usd - 1) <= NEAR


def retrieving(number: int) -> Case:
    """A question answered from retrieved passages, with one criterion for the answer."""
    passages = tuple(
        Chunk(content=f"Orders of week {number} are refunded within {days} days. " * 12)
        for days in (3, 5)
    )
    return case(
        user(f"When are the late orders of week {number} refunded?"),
        agent(calls=[called("search", week=number)]),
        result("found").model_copy(update={"chunks": passages}),
        agent(f"The late orders of week {number} are refunded within 5 days."),
        case_id=f"week-{number}",
        expected=Expected(acceptance_criteria=f"orders of week {number} are refunded in 5 days"),
    )


async def test_the_bundled_sample_costs_what_was_foreseen(tmp_path: Path, judge_server):
    wanted = config(tmp_path, written(tmp_path / "t.jsonl", sample_cases()), judge_server)
    found = await forecast(wanted)
    assert judge_server.stats()["requests"] == 0
    assert not (tmp_path / "rows.duckdb").exists()
    assert not (tmp_path / "ledger.db").exists()
    assert not (tmp_path / "replies").exists()

    counted = await judged(wanted, judge_server)
    assert found.to_put == found.asks == counted.requests == counted.prompts
    assert near(found, counted)


@pytest.mark.full
async def test_tau_bench_costs_what_was_foreseen_and_so_does_its_rest(
    tmp_path: Path, judge_server, data: Path
):
    uri = str(data / "tau_bench_airline" / "gpt-4o-airline.json.gz")
    wanted = config(tmp_path, uri, judge_server, transcripts={"uri": uri, "limit": 80})
    found = await forecast(wanted)
    assert found.transcripts["due"] == 80
    some = await judged(wanted, judge_server, most=20)

    rest = await forecast(wanted)
    assert (rest.asks, rest.kept, rest.to_put) == (80, some.requests, 80 - some.requests)
    left = await judged(wanted, judge_server)
    assert rest.to_put == left.requests
    assert near(rest, left)
    assert near(found, Counted(80, 80, some.usd + left.usd))

    nothing = await forecast(wanted)
    assert (nothing.kept, nothing.to_put, nothing.expected_usd) == (80, 0, 0.0)


@pytest.mark.parametrize("judges", [["answer_criteria"], ["chunk_relevance", "groundedness"]])
async def test_judges_that_ask_in_rounds_cost_what_was_foreseen(
    tmp_path: Path, judge_server, judges: list[str]
):
    uri = written(tmp_path / "t.jsonl", [retrieving(number) for number in range(12)])
    wanted = config(tmp_path, uri, judge_server, judge={"judges": judges})
    found = await forecast(wanted)
    counted = await judged(wanted, judge_server)
    assert found.to_put == counted.requests == counted.prompts >= 24
    assert near(found, counted)
    assert [one.judge for one in found.judges] == judges


async def test_short_replies_are_foreseen_once_some_are_kept(tmp_path: Path, judge_server):
    """A model of few words: its length is learnt from what is kept."""
    uri = written(tmp_path / "t.jsonl", sample_cases())
    wanted = config(tmp_path, uri, judge_server, model="m-terse")
    await judged(wanted, judge_server, most=8)
    found = await forecast(wanted)
    assert found.assumptions == ()
    assert near(found, await judged(wanted, judge_server))
    (line,) = found.judges
    assert 0 < line.latency_s < 5


async def test_repeats_of_a_panel_are_counted(tmp_path: Path, judge_server):
    uri = written(tmp_path / "t.jsonl", sample_cases()[:6])
    wanted = config(tmp_path, uri, judge_server, judge={"repeats": 3})
    found = await forecast(wanted)
    counted = await judged(wanted, judge_server)
    assert found.to_put == counted.requests == 18
    assert near(found, counted)


async def test_the_same_ask_twice_is_put_once(tmp_path: Path, judge_server):
    twins = [one.model_copy(update={"case_id": "twin"}) for one in sample_cases()[:1]]
    uri = written(tmp_path / "t.jsonl", [*sample_cases()[:1], *twins])
    found = await forecast(config(tmp_path, uri, judge_server))
    assert (found.asks, found.same, found.to_put) == (2, 1, 1)


async def test_many_cases_are_foreseen_from_a_sample(
    tmp_path: Path, judge_server, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(forecasting, "MAX_UNSAMPLED_CASES", 20)
    monkeypatch.setattr(forecasting, "SAMPLE_SIZE", 20)
    uri = written(tmp_path / "t.jsonl", sample_cases())
    wanted = config(tmp_path, uri, judge_server)
    found, again = await forecast(wanted), await forecast(wanted)
    assert found == again
    assert (found.sampled, found.to_put) == (20, 40)
    monkeypatch.undo()
    assert found.expected_usd == pytest.approx((await forecast(wanted)).expected_usd, rel=NEAR)


@pytest.mark.parametrize(
    ("limits", "minutes"),
    [
        ({"requests_per_minute": 10}, 4.0),
        ({"max_in_flight": 1}, 40 * 5 / 60),
        ({"tokens_per_minute": 100_000}, None),
    ],
)
async def test_the_time_is_that_of_the_tightest_limit(
    tmp_path: Path, judge_server, limits: dict[str, int], minutes: float | None
):
    uri = written(tmp_path / "t.jsonl", sample_cases())
    found = await forecast(config(tmp_path, uri, judge_server, limits=limits))
    if minutes is None:
        minutes = (found.input_tokens + found.output_tokens) / 100_000
    assert found.minutes == pytest.approx(minutes, abs=0.01)
    assert "a call takes 5 s: none of openai/m-wordy is known" in found.assumptions


async def test_the_limits_on_spending_are_set_beside_it(tmp_path: Path, judge_server):
    uri = written(tmp_path / "t.jsonl", sample_cases())
    limits = {"budget_usd": 0.01, "budget_usd_per_day": 1.0, "max_asks": 39, "max_asks_per_day": 40}
    found = await forecast(config(tmp_path, uri, judge_server, limits=limits))
    fits = {one.limit: one.fits for one in found.limits}
    assert fits == {
        "budget_usd": False,
        "budget_usd_per_day": True,
        "max_asks": False,
        "max_asks_per_day": True,
    }


@pytest.mark.full
async def test_a_batch_fits_where_its_worst_case_does(tmp_path: Path, judge_server):
    uri = written(tmp_path / "t.jsonl", sample_cases())
    alone = await forecast(config(tmp_path, uri, judge_server))
    half = alone.worst_usd / 2
    assert alone.expected_usd / 2 < 0.9 * half
    for budget, batch, fits in (
        (0.95 * half, True, False),
        (1.05 * half, True, True),
        (1.05 * alone.expected_usd, False, True),
    ):
        wanted = config(tmp_path, uri, judge_server, limits={"budget_usd": budget})
        runner = wanted.runner.model_copy(update={"batch": batch})
        found = await forecast(wanted.model_copy(update={"runner": runner}))
        assert [one.fits for one in found.limits] == [fits]
        assert found.worst_usd == pytest.approx(half if batch else alone.worst_usd, abs=2e-6)


async def test_a_model_without_a_price_has_no_cost_and_says_what_to_give(
    tmp_path: Path, judge_server
):
    uri = written(tmp_path / "t.jsonl", sample_cases()[:2])
    limits = {"prices": {}, "budget_usd": 1.0}
    found = await forecast(config(tmp_path, uri, judge_server, limits=limits))
    assert (found.expected_usd, found.worst_usd) == (None, None)
    assert [one.fits for one in found.limits] == [None]
    assert any('[limits.prices."openai/m-wordy"]' in line for line in found.assumptions)


async def test_no_key_is_needed(tmp_path: Path, judge_server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    uri = written(tmp_path / "t.jsonl", sample_cases()[:2])
    assert (await forecast(config(tmp_path, uri, judge_server))).to_put == 2


async def test_the_offline_judge_costs_nothing_and_takes_no_time(tmp_path: Path, judge_server):
    uri = written(tmp_path / "t.jsonl", sample_cases()[:2])
    wanted = config(tmp_path, uri, judge_server)
    offline = wanted.model_copy(update={"judge": wanted.judge.model_copy(update={"model": None})})
    found = await forecast(offline)
    assert (found.expected_usd, found.minutes, found.input_tokens) == (0.0, 0.0, 0)
    assert found.assumptions == ()


async def test_nothing_to_judge_is_said_as_a_run_would(tmp_path: Path, judge_server):
    (tmp_path / "t.jsonl").write_text("")
    with pytest.raises(Inconclusive, match="no_data"):
        await forecast(config(tmp_path, str(tmp_path / "t.jsonl"), judge_server))


def test_the_length_of_a_reply_follows_its_texts_and_what_is_copied():
    short = reply_tokens(Reply, {"justification": "It was all right.", "score": 4})
    long = reply_tokens(Reply, {"justification": "It was all right. " * 90, "score": 4})
    assert short == long
    assert TEXT_TOKENS < short < TEXT_TOKENS + 30
    copied = reply_tokens(
        Reply, {"justification": "It was all right.", "score": 4}, "It was all right."
    )
    assert copied < short
    assert abs(reply_tokens(Reply) - short) < 10


async def test_anchors_are_foreseen_beside_the_run_and_asked_anew(
    tmp_path: Path, judge_server: OpenAIServer
):
    cases = sample_cases()[:6]
    uri = written(tmp_path / "t.jsonl", cases[:4])
    golden = written(tmp_path / "golden.jsonl", cases)
    plain = config(tmp_path, uri, judge_server)
    wanted = config(tmp_path, uri, judge_server, anchors={"uri": golden})
    alone, found = await forecast(plain), await forecast_with_anchors(wanted)
    assert (found.asks, found.to_put) == (alone.asks, alone.to_put)
    assert found.anchors.transcripts["due"] == 6
    assert (found.anchors.asks, found.anchors.kept) == (6, 0)
    assert found.anchors.expected_usd > alone.expected_usd > 0
    assert judge_server.stats()["requests"] == 0


async def test_anchors_that_are_not_there_are_an_assumption_not_an_error(
    tmp_path: Path, judge_server: OpenAIServer
):
    uri = written(tmp_path / "t.jsonl", sample_cases()[:4])
    gone = config(tmp_path, uri, judge_server, anchors={"uri": f"{tmp_path}/gone.jsonl"})
    found = await forecast_with_anchors(gone)
    assert found.anchors is None
    assert "the anchors are not counted: " in found.assumptions[-1]
    assert "gone.jsonl" in found.assumptions[-1]


async def test_a_day_without_transcripts_is_nothing_to_judge_and_no_fault_of_the_configuration(
    tmp_path: Path, judge_server
):
    (tmp_path / "logs").mkdir()
    wanted = config(tmp_path, f"{tmp_path}/logs/{{date}}/", judge_server)
    with pytest.raises(Inconclusive, match="2026-03-26"):
        await forecast(wanted, date(2026, 3, 26))


async def test_transcripts_that_go_while_they_are_read_are_nothing_to_judge(
    tmp_path: Path, judge_server
):
    place = tmp_path / "t.jsonl"
    wanted = config(tmp_path, written(place, sample_cases()[:3]), judge_server)

    def going(stage: str, _done: int, _total: int) -> None:
        if stage == "foreseeing":
            place.unlink(missing_ok=True)

    token = progress_reporter.set(going)
    try:
        with pytest.raises(Inconclusive, match="changed or gone"):
            await forecast(wanted)
    finally:
        progress_reporter.reset(token)
