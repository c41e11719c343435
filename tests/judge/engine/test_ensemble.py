"""Ensembles, repeats and escalation: from the configuration to the rows."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from assizes.judge.catalog import resolve_judges
from assizes.judge.config.judging import JudgeConfig, LimitsConfig
from assizes.judge.config.run import RunConfig
from assizes.judge.engine.ensemble import Ensemble
from assizes.judge.engine.ensemble_hearing import EnsembleModels
from assizes.judge.engine.hearings import Engine, EngineDependencies
from assizes.judge.errors import ConfigurationError, ModelError
from assizes.judge.model_assignment import assign_models
from assizes.judge.models.model import ScriptedModel
from assizes.tasks.spending.reply_cache import FileReplyCache
from tests.judge.engine.calls import config
from tests.judge.engine.levels import CASE, LEVEL, Asking, priced
from tests.judge.engine.test_own_models import Named


def engine(panel: EnsembleModels, cache=None):
    limits = LimitsConfig(max_in_flight=8, max_attempts=1)
    return Engine(
        ScriptedModel([]), limits, EngineDependencies(cache=cache), models={"asking": panel}
    )


async def test_every_model_is_asked_as_often_as_said_and_the_median_counts():
    one, other = Named("one", [priced(5), priced(1)]), Named("other", [priced(2), priced(2)])
    heard = await engine(EnsembleModels((one, other), repeats=2)).hear(Asking(), CASE)

    (score,) = heard.scores
    assert score.raw == 2
    votes = [(vote["model"], vote["sample"], vote["value"]) for vote in score.details["votes"]]
    assert sorted(votes) == [("one", 0, 1.0), ("one", 1, 0.2), ("other", 0, 0.4), ("other", 1, 0.4)]
    assert sorted((ask.model, ask.sample, ask.round) for ask in heard.asks) == [
        ("one", 0, 0),
        ("one", 1, 0),
        ("other", 0, 0),
        ("other", 1, 0),
    ]
    assert [ask.index for ask in heard.asks] == [0, 1, 2, 3]


async def test_repeats_are_independent_asks_and_each_is_paid_once(tmp_path):
    cache = FileReplyCache(str(tmp_path))
    first = await engine(
        EnsembleModels((Named("m", [priced(4), priced(2), priced(3)]),), 3), cache
    ).hear(Asking(), CASE)
    again = await engine(EnsembleModels((Named("m", []),), 3), cache).hear(Asking(), CASE)

    assert [ask.cached for ask in first.asks] == [False] * 3
    assert [ask.cached for ask in again.asks] == [True] * 3
    assert [score.raw for score in again.scores] == [score.raw for score in first.scores] == [3]


async def test_a_run_with_repeats_finds_the_first_answer_of_a_run_without(tmp_path):
    cache = FileReplyCache(str(tmp_path))
    await engine(EnsembleModels((Named("m", [priced(4)]),)), cache).hear(Asking(), CASE)
    heard = await engine(EnsembleModels((Named("m", [priced(5)]),), 2), cache).hear(Asking(), CASE)

    assert [(ask.sample, ask.cached) for ask in heard.asks] == [(0, True), (1, False)]


async def test_the_senior_model_is_asked_only_where_the_first_is_unsure():
    small, senior = Named("small", [priced(5), priced(2)]), Named("senior", [priced(4)])
    asking = engine(EnsembleModels((small,), senior=senior))

    sure = await asking.hear(Asking(), CASE)
    unsure = await asking.hear(Asking(["another question"]), CASE)

    assert ([ask.model for ask in sure.asks], sure.scores[0].raw) == (["small"], 5)
    assert [ask.model for ask in unsure.asks] == ["small", "senior"]
    assert unsure.scores[0].raw == 4
    assert unsure.scores[0].details["escalated"] == "level: one level below acceptable"
    assert [ask.index for ask in unsure.asks] == [0, 1]


async def test_a_judge_that_breaks_before_one_model_leaves_no_hearing_running_behind():
    class Breaking(Asking):
        def judge(self, case):
            yield from super().judge(case)
            raise ZeroDivisionError

    slow = Named("slow", [priced(4)])
    asking = engine(EnsembleModels((Named("quick", [priced(4)]), slow)))
    with pytest.raises(ZeroDivisionError):
        await asking.hear(Breaking(), CASE)
    assert len(slow.asked) == 1
    assert asking.limiter.in_flight == 0


async def test_a_model_that_cannot_be_had_leaves_the_verdict_to_the_others():
    gone = Named("gone", [ModelError("refused", "no")])
    one, other = Named("one", [priced(4)]), Named("other", [priced(4)])
    heard = await engine(EnsembleModels((gone, one, other))).hear(Asking(), CASE)

    assert (heard.scores[0].status, heard.scores[0].raw) == ("scored", 4)
    assert [ask.error for ask in heard.asks] == ["refused: no", None, None]


def test_the_configuration_says_who_sits():
    given = JudgeConfig(
        provider="openai",
        panel=("a", "offline/lexical"),
        repeats=2,
        escalate_to="big",
        judges=("safety", "correctness", "recorded"),
        options={"correctness": {"model": "own"}},
    )
    found = resolve_judges(given)
    safety, correctness = found.ensembles["safety"], found.ensembles["correctness"]

    assert [one.model_id for one in safety.members] == ["openai/a", "offline/lexical", "openai/big"]
    assert (safety.repeats, safety.is_plain) == (2, False)
    assert [one.model_id for one in correctness.members] == ["openai/own"]
    assert "recorded" not in found.ensembles
    assert found.model_ids == ("openai/a", "offline/lexical", "openai/big", "openai/own")


def test_a_temperature_of_its_own_leaves_a_judge_its_panel_and_its_senior():
    options = {"safety": {"temperature": 0.7}}
    given = {"panel": ("a", "b"), "escalate_to": "big", "judges": ("safety",), "options": options}
    members = resolve_judges(JudgeConfig(**given)).ensembles["safety"].members
    assert [(one.model, one.temperature) for one in members] == [
        ("a", 0.7),
        ("b", 0.7),
        ("big", 0.7),
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"model": "a", "panel": ["b"]}, "model and panel: give one of the two"),
        ({"panel": ["a", "a"]}, "a model is named twice"),
        ({"model": "a", "escalate_to": "a"}, "names a model that has judged already"),
        ({"panel": ["a", "b"], "escalate_to": "b"}, "names a model that has judged already"),
        ({"repeats": 0}, "greater than or equal to 1"),
    ],
)
def test_a_jury_that_makes_no_sense_is_refused(given, said):
    with pytest.raises(ValidationError, match=said):
        JudgeConfig(**given)


def test_a_judge_without_an_offline_rule_is_refused_where_the_offline_judge_is_on_the_panel(
    tmp_path,
):
    (tmp_path / "polite.toml").write_text(
        'kind = "judge"\nname = "polite"\nquestion = "Is it polite?"\nscale = "yes_no"\n'
    )
    given = {"panel": ("openai/a", "offline/lexical"), "rubrics": (str(tmp_path),)}
    with pytest.raises(ConfigurationError):
        resolve_judges(JudgeConfig(judges=("polite",), **given))


async def test_judges_with_the_same_jury_share_its_models(judge_server):
    given = config(judge_server, judges=("safety", "relevance_to_query"), repeats=2)
    run = RunConfig(transcripts={"uri": "t"}, judge=given)
    made = assign_models(run, resolve_judges(given))

    safety, relevance = made.own["safety"], made.own["relevance_to_query"]
    assert isinstance(safety, EnsembleModels)
    assert isinstance(relevance, EnsembleModels)
    assert safety.models[0] is relevance.models[0] is made.shared
    assert len(made.models) == 1


def test_one_model_asked_once_is_no_jury():
    assert Ensemble((JudgeConfig(model="m"),)).is_plain
    assert not Ensemble((JudgeConfig(model="m"),), repeats=2).is_plain
    assert LEVEL.name == "level"
