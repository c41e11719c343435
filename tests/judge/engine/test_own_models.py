"""Judges with a model of their own, beside judges that share the run's model."""

from __future__ import annotations

import asyncio

import pytest

from assizes.judge.catalog import resolve_judges
from assizes.judge.config.judging import LimitsConfig
from assizes.judge.engine.hearings import Engine, EngineDependencies
from assizes.judge.model_factory import model_for
from assizes.judge.models.model import ScriptedModel
from assizes.tasks.spending.reply_cache import FileReplyCache
from tests.builders import agent, case, user
from tests.judge.engine.calls import config
from tests.judge.engine.levels import CASE, Asking, priced


class Named(ScriptedModel):
    """A scripted model with a name of its own."""

    def __init__(self, name: str, replies, cache_key: str | None = "scripted"):
        super().__init__(replies, cache_key)
        self.name = name
        self.closed = False

    async def aclose(self):
        self.closed = True


class Other(Asking):
    name = "other"


def engine(model, own, cache=None, **limits):
    given = {"max_in_flight": 8, "timeout_s": 5.0} | limits
    return Engine(
        model, LimitsConfig(**given), EngineDependencies(cache=cache), models={"other": own}
    )


async def test_each_judge_is_answered_by_its_model_and_the_rows_say_which():
    shared, own = Named("shared", [priced(4)]), Named("own", [priced(2, 0.5)], "own")
    asking = engine(shared, own)

    heard = [await asking.hear(judge, CASE) for judge in (Asking(), Other())]

    assert [one.scores[0].raw for one in heard] == [4.0, 2.0]
    assert [one.asks[0].model for one in heard] == ["shared", "own"]
    assert (asking.calls, asking.cost_usd) == (2, 0.75)


async def test_the_same_ask_of_two_models_is_two_asks(tmp_path):
    shared, own = Named("shared", [priced(4)]), Named("own", [priced(2)], "own")
    asking = engine(shared, own, FileReplyCache(str(tmp_path)))

    await asyncio.gather(asking.hear(Asking(), CASE), asking.hear(Other(), CASE))
    again = [await asking.hear(judge, CASE) for judge in (Asking(), Other())]

    assert [one.scores[0].raw for one in again] == [4.0, 2.0]
    assert [one.asks[0].cached for one in again] == [True, True]
    assert asking.calls == 2


async def test_a_model_whose_answers_are_not_kept_leaves_those_of_the_other_alone(tmp_path):
    shared, own = Named("shared", [priced(4)]), Named("own", [priced(2), priced(1)], None)
    asking = engine(shared, own, FileReplyCache(str(tmp_path)))

    heard = [await asking.hear(judge, CASE) for judge in (Asking(), Other(), Asking(), Other())]

    assert [one.asks[0].cached for one in heard] == [False, False, True, False]


async def test_one_slot_pool_holds_over_all_models():
    asking = engine(Named("a", [priced(1)] * 4), Named("b", [priced(1)] * 4), max_in_flight=2)

    await asyncio.gather(*(asking.hear(judge, CASE) for judge in (Asking(), Other())))

    assert asking.limiter.peak <= 2


async def test_every_model_is_closed():
    shared, own = Named("shared", []), Named("own", [])
    await engine(shared, own).aclose()
    assert (shared.closed, own.closed) == (True, True)


@pytest.mark.row("002-04")
async def test_model_and_temperature_of_a_judge_reach_the_provider(judge_server):
    judges = ("safety", "relevance_to_query")
    own = {"safety": {"model": "openai/strict", "temperature": 0.9}}
    given = config(judge_server, judges=judges, temperature=0.1, options=own)
    bench, limits = resolve_judges(given), LimitsConfig(max_in_flight=1, timeout_s=5.0)
    models = {name: model_for(jury.models[0], limits) for name, jury in bench.ensembles.items()}
    asking = Engine(model_for(given, limits), limits, models=models)

    heard = [await asking.hear(judge, case(user("hi"), agent("hello"))) for judge in bench.judges]
    await asking.aclose()

    assert [(one["model"], one["temperature"]) for one in judge_server.requests()] == [
        ("strict", 0.9),
        ("stub", 0.1),
    ]
    assert [len(one.asks) for one in heard] == [1, 1]
    assert [one.asks[0].model for one in heard] == ["openai/strict", "openai/stub"]
