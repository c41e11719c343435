"""What hearings would ask, foreseen without a model; and who sits in its place."""

from __future__ import annotations

from enum import Enum

import pytest
from pydantic import BaseModel

from assizes.judge.catalog import resolve_judges
from assizes.judge.config.judging import LimitsConfig, Price
from assizes.judge.config.run import RunConfig
from assizes.judge.engine.ensemble_hearing import EnsembleModels, plain_evidence
from assizes.judge.engine.ledger import Account, CachedReply
from assizes.judge.errors import ConfigurationError, ModelError
from assizes.judge.forecast.ask_forecast import (
    TEXT_TOKENS,
    AskGroup,
    AskTally,
    Forecaster,
    reply_tokens,
)
from assizes.judge.forecast.run_forecast import (
    MIN_KNOWN_REPLIES,
    ForecastFigures,
    ForecastInputs,
    PastReplies,
    Spendings,
    spending_limits,
    total,
)
from assizes.judge.heuristic.answers import HeuristicModel
from assizes.judge.model_assignment import ModelAssignment, assign_callable_models, assign_models
from assizes.judge.models.model import Completion, ReplayOnlyModel, ScriptedModel
from assizes.judge.protocol import NoReply, Query, QueryResult, SqlTable, look_up
from assizes.judge.score import Metric, Scale, Score
from assizes.tasks.spending.reply_cache import FileReplyCache
from tests.doubles.fixtures import OPENAI_KEY
from tests.judge.engine.levels import CASE, Asking, engine, priced
from tests.judge.engine.test_own_models import Named

BENCH = AskGroup("asking", "scripted/queue", 0)


class Looking:
    """A judge that looks something up before it scores."""

    name, version = "looking", "1"
    metrics = (Metric("tool_routing", scale=Scale.SCORED),)

    def missing(self, case):
        return None

    def judge(self, case):
        answer = yield from look_up(Query("db", ("SELECT 1",)))
        if isinstance(answer, NoReply):
            return [Score.failed("tool_routing", answer.reason, answer.code)]
        return [Score.of(self.metrics[0], len(answer.tables))]


class OneTableRunner:
    """Answers each statement with one table."""

    async def look_up(self, query):
        return QueryResult(tuple(SqlTable(one, ("n",), ((1,),), 1) for one in query.statements))


async def foreseen(judge, model=None, cache=None, clerk=None, times=1, **own):
    forecaster = Forecaster(ModelAssignment(model or ScriptedModel([]), own), cache, clerk)
    for _ in range(times):
        heard = await forecaster.hear(judge, CASE)
    return forecaster.tallies, heard


async def test_asks_that_no_rule_can_answer_are_blind_and_the_same_ask_is_put_once():
    tallies, _ = await foreseen(Asking(["a", "b"]), times=2)
    tally = tallies[BENCH]
    assert (tally.asks, tally.to_put, tally.same, tally.without_rule) == (4, 2, 2, 4)
    assert 0 < tally.input_tokens < tally.max_input_tokens
    assert tally.max_output_tokens == 2 * 100


async def test_replies_that_are_kept_are_not_put_and_say_how_long_others_will_be(tmp_path):
    cache = FileReplyCache(str(tmp_path))
    await engine(ScriptedModel([priced(4)]), cache).hear(Asking(["a"], ["b"]), CASE)
    tallies, heard = await foreseen(Asking(["a"], ["c"]), cache=cache)
    first, second = tallies[BENCH], tallies[BENCH._replace(round=1)]
    assert (first.cached, first.to_put, first.metered, first.metered_output_tokens) == (1, 0, 1, 20)
    assert (second.cached, second.to_put, second.without_rule) == (0, 1, 1)
    assert [score.status for score in heard.scores] == ["failed"]


async def test_a_kept_reply_that_no_longer_fits_is_put_again_and_one_of_two_calls_measures_nothing(
    tmp_path,
):
    cache, batched = FileReplyCache(str(tmp_path)), Asking(["a"])
    await engine(ScriptedModel([priced(4)]), cache).hear(batched, CASE)
    (path,) = [one for one in tmp_path.rglob("*") if one.is_file()]
    kept = await cache.get(path.name.partition(".")[0])
    assert kept is not None
    key = path.name.partition(".")[0]
    await cache.store(key, CachedReply(kept.completion, attempts=2))
    tallies, _ = await foreseen(batched, cache=cache)
    assert (tallies[BENCH].cached, tallies[BENCH].metered) == (1, 0)
    await cache.store(key, CachedReply(Completion("no JSON", "m")))
    tallies, _ = await foreseen(batched, cache=cache)
    assert (tallies[BENCH].cached, tallies[BENCH].to_put) == (0, 1)


async def test_replies_of_a_model_that_keeps_none_are_put_each_time():
    tallies, _ = await foreseen(Asking(["a"]), ScriptedModel([], cache_key=None), times=2)
    assert (tallies[BENCH].to_put, tallies[BENCH].same) == (2, 0)


async def test_a_panel_is_heard_seat_by_seat():
    one, other = Named("one", [], "k1"), Named("other", [], "k2")
    tallies, _ = await foreseen(Asking(), asking=EnsembleModels((one, other), repeats=2))
    assert {bench.model: tally.to_put for bench, tally in tallies.items()} == {"one": 2, "other": 2}


@pytest.mark.parametrize(("sql_runner", "status"), [(None, "failed"), (OneTableRunner(), "scored")])
async def test_what_is_looked_up_is_no_ask(sql_runner, status):
    tallies, heard = await foreseen(Looking(), clerk=sql_runner)
    assert [score.status for score in heard.scores] == [status]
    assert sum(tally.asks for tally in tallies.values()) == 0


def test_plain_rules_look_nothing_up_where_calls_are_known():
    assert plain_evidence(Looking(), CASE) == []
    known = CASE.model_copy(
        update={"expected": CASE.expected.model_copy(update={"tool_calls": ()})}
    )
    (score,) = plain_evidence(Looking(), known)
    assert score.details["error"] == "no_sql_runner"
    assert plain_evidence(Asking(), known) == []


async def test_plain_rules_say_what_the_transcript_shows_where_calls_are_known():
    (judge,) = resolve_judges(run_config().judge).judges
    known = CASE.model_copy(
        update={"expected": CASE.expected.model_copy(update={"tool_calls": ()})}
    )
    found = {score.metric: score for score in plain_evidence(judge, known) if not score.part}
    assert found["tool_routing"].status == "scored"


class Tone(Enum):
    KIND = "kind"
    COLD = "cold"


class Part(BaseModel):
    text: str
    tone: Tone


class Nested(BaseModel):
    words: list[str]
    parts: list[Part]
    kind: str | None
    sure: bool


def test_the_shape_of_a_reply_is_taken_from_its_schema():
    assert 2 * TEXT_TOKENS < reply_tokens(Nested) < 4 * TEXT_TOKENS
    rest = {"kind": None, "sure": True, "parts": [{"text": "e f", "tone": "kind"}]}
    many = reply_tokens(Nested, {"words": ["a b", "c d", "one"], **rest})
    few = reply_tokens(Nested, {"words": ["a b"], **rest})
    assert many - few > TEXT_TOKENS


def figures(tally: AskTally, past: PastReplies | None = None, **tables) -> ForecastFigures:
    config = RunConfig.model_validate({"transcripts": {"uri": "in/"}, **tables})
    models = {BENCH.model: ScriptedModel([])}
    return ForecastFigures(
        ForecastInputs(config, models, {} if past is None else {BENCH: past}, 2.0), {BENCH: tally}
    )


def test_a_forecast_rests_on_kept_replies_then_on_earlier_runs_then_on_schemas():
    tally = AskTally(asks=4, to_put=4, input_tokens=400, output_tokens=40)
    (line,) = figures(tally).judges
    assert (line.to_put, line.input_tokens, line.output_tokens) == (8, 800, 80)
    (line,) = figures(tally, PastReplies(MIN_KNOWN_REPLIES, 7.0, 3.0)).judges
    assert (line.output_tokens, line.latency_s) == (56, 3.0)
    (line,) = figures(tally, PastReplies(MIN_KNOWN_REPLIES - 1, 7.0, 3.0)).judges
    assert (line.output_tokens, line.latency_s) == (80, 5.0)
    metered = AskTally(**{**vars(tally), "metered": MIN_KNOWN_REPLIES, "metered_input_tokens": 300, "estimated_input_tokens": 100,
                       "metered_output_tokens": 50, "metered_ms": 1000.0})  # fmt: skip
    (line,) = figures(metered).judges
    assert (line.input_tokens, line.output_tokens, line.latency_s) == (2400, 80, 0.2)
    unguessed = AskTally(**{**vars(metered), "estimated_input_tokens": 0})
    assert figures(unguessed).judges[0].input_tokens == 800


def test_what_is_taken_for_granted_is_said():
    told = list(figures(AskTally(asks=2, to_put=2, without_rule=2)).assumptions())
    assert [line.partition(":")[0] for line in told] == [
        "no reply is known of asking",
        "a call takes 5 s",
        "plain rules cannot answer 2 asks of asking",
    ]
    assert list(figures(AskTally(asks=2, same=2)).assumptions()) == []


def unpriced() -> ScriptedModel:
    model = ScriptedModel([])
    model.price = None
    return model


@pytest.mark.parametrize(
    ("model", "usd", "latency_s", "says"),
    [
        (
            unpriced(),
            None,
            5.0,
            'no price is known for scripted/queue: give it in [limits.prices."',
        ),
        (HeuristicModel(), 0.0, 0.0, ""),
    ],
)
def test_a_model_without_a_price_is_told_and_the_offline_judge_takes_nothing(
    model, usd, latency_s, says
):
    config = RunConfig.model_validate({"transcripts": {"uri": "in/"}})
    tallies = {BENCH: AskTally(asks=1, to_put=1, input_tokens=10, output_tokens=5)}
    found = ForecastFigures(ForecastInputs(config, {BENCH.model: model}, {}), tallies)
    (line,) = found.judges
    assert (line.expected_usd, line.latency_s) == (usd, latency_s)
    assert "".join(one for one in found.assumptions() if "price" in one).startswith(says)


def test_the_time_of_a_batch_is_its_providers():
    assert figures(AskTally(to_put=4)).minutes() == pytest.approx(2 * 4 * 5 / 64 / 60, abs=0.1)
    assert figures(AskTally(to_put=4), runner={"batch": True}).minutes() is None


def test_a_round_that_is_too_small_for_a_batch_has_the_full_price():
    config = RunConfig.model_validate({"transcripts": {"uri": "in/"}, "runner": {"batch": True}})
    model = ScriptedModel([])
    model.price = Price(input_usd_per_million=1.0, output_usd_per_million=0.0)
    tallies = {
        BENCH._replace(round=0): AskTally(asks=60, to_put=60, input_tokens=3_000_000),
        BENCH._replace(round=1): AskTally(asks=5, to_put=5, input_tokens=1_000_000),
    }

    def usd(batched: dict[str, int]) -> float | None:
        inputs = ForecastInputs(config, {BENCH.model: model}, {}, 2.0, batched=batched)
        return ForecastFigures(inputs, tallies).judges[0].expected_usd

    assert usd({}) == pytest.approx(8.0)  # no endpoint: single calls
    assert usd({BENCH.model: 1}) == pytest.approx(4.0)
    assert usd({BENCH.model: 100}) == pytest.approx(3.0 + 2.0)  # 120 asks, then 10


def test_a_sum_is_unknown_as_soon_as_a_part_is():
    assert (total([0.5, 0.25]), total([0.5, None]), total([])) == (0.75, None, 0.0)
    limits = {"budget_usd": 1.0, "max_asks": 3}
    config = RunConfig.model_validate({"transcripts": {"uri": "in/"}, "limits": limits})
    account = Account(1, 0.5, 0, 0.0, 0)
    found = spending_limits(config, (None, None), 2, Spendings(account, account))
    assert [(one.limit, one.fits) for one in found] == [("budget_usd", None), ("max_asks", True)]


def run_config(**tables):
    body = {"transcripts": {"uri": "in/"}, "judge": {"model": "openai/none-knows"}, **tables}
    return RunConfig.model_validate(body)


def sitting(config, of=assign_models):
    return of(config, resolve_judges(config.judge))


@pytest.fixture
def _key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI_KEY)


def test_a_run_that_only_replays_needs_no_key_and_calls_nobody(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    replaying = run_config(cache={"use": "replay_only"})
    found = sitting(replaying, assign_callable_models)
    assert isinstance(found.shared, ReplayOnlyModel)
    assert (found.has_cacheable_replies, found.has_paid_calls) == (True, False)
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        sitting(run_config(), assign_callable_models)


@pytest.mark.usefixtures("_key")
@pytest.mark.parametrize("limit", ["budget_usd", "budget_usd_per_day"])
def test_a_budget_needs_a_price(limit):
    with pytest.raises(ConfigurationError, match=rf"\[limits\] {limit} is set, but no price"):
        sitting(run_config(limits={limit: 1.0}), assign_callable_models)
    price = {"openai/none-knows": {"input_usd_per_million": 1, "output_usd_per_million": 1}}
    assert sitting(
        run_config(limits={limit: 1.0, "prices": price}), assign_callable_models
    ).has_paid_calls


@pytest.mark.usefixtures("_key")
def test_a_batch_needs_a_provider_that_has_them(monkeypatch):
    monkeypatch.setenv("MISTRAL_API_KEY", OPENAI_KEY)
    assert sitting(run_config(runner={"batch": True}), assign_callable_models).has_cacheable_replies
    other = run_config(judge={"model": "mistral/none-knows"}, runner={"batch": True})
    with pytest.raises(ConfigurationError, match="no batches for 'mistral/none-knows'"):
        sitting(other, assign_callable_models)


def test_the_offline_judge_replays_itself_keeps_nothing_and_costs_nothing():
    offline = RunConfig.model_validate({"transcripts": {"uri": "in/"}})
    for use in ("read_write", "replay_only"):
        found = sitting(
            offline.model_copy(update={"cache": offline.cache.model_copy(update={"use": use})})
        )
        assert isinstance(found.shared, HeuristicModel)
        assert (found.has_cacheable_replies, found.has_paid_calls) == (False, False)


@pytest.mark.usefixtures("_key")
def test_one_model_sits_once_however_many_judges_it_answers():
    found = sitting(
        run_config(judge={"model": "openai/a", "repeats": 2, "escalate_to": "openai/b"})
    )
    assert [model.name for model in found.models] == ["openai/a", "openai/b"]
    (panel,) = {
        id(one): one for one in found.own.values() if isinstance(one, EnsembleModels)
    }.values()
    assert (panel.repeats, panel.senior.name) == (2, "openai/b")


async def test_what_replays_a_model_has_its_price_and_its_estimate_and_closes_it():
    model = Named("one", [])
    replayed = ReplayOnlyModel(model)
    (ask,) = Asking().judge(CASE).send(None)
    assert (replayed.price, replayed.tokens(ask)) == (model.price, model.tokens(ask))
    with pytest.raises(ModelError, match="no reply is kept"):
        await replayed.complete(ask)
    await replayed.aclose()
    assert model.closed


def test_text_rules_are_held_to_no_limit_so_they_take_no_time():
    limits = LimitsConfig(requests_per_minute=1, tokens_per_minute=1)
    config = RunConfig.model_validate({"transcripts": {"uri": "in/"}, "limits": limits})
    tallies = {BENCH: AskTally(asks=9, to_put=9, input_tokens=900, output_tokens=90)}
    assert (
        ForecastFigures(
            ForecastInputs(config, {BENCH.model: HeuristicModel()}, {}), tallies
        ).minutes()
        == 0.0
    )
    assert (
        ForecastFigures(
            ForecastInputs(config, {BENCH.model: ScriptedModel([])}, {}), tallies
        ).minutes()
        > 9
    )
