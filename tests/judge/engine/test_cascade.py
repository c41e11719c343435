"""Cascades in the engine: confidence, who decides, and which thresholds a run accepts."""

from __future__ import annotations

import pytest

from assizes.judge.catalog import resolve_judges
from assizes.judge.config.cascade import CascadeConfig, CascadeThreshold
from assizes.judge.config.judging import JudgeConfig, LimitsConfig
from assizes.judge.config.run import RunConfig
from assizes.judge.engine.cascade import basis, confidences
from assizes.judge.engine.ensemble import CascadeRule, Vote, reduce_votes
from assizes.judge.engine.ensemble_hearing import EnsembleModels
from assizes.judge.engine.hearings import Engine, EngineDependencies
from assizes.judge.errors import ConfigurationError, ModelError
from assizes.judge.models.model import ScriptedModel
from assizes.judge.score import Metric, Scale, Score
from assizes.tasks.spending.reply_cache import FileReplyCache
from tests.judge.engine.levels import CASE, LEVEL, Asking, priced
from tests.judge.engine.test_own_models import Named

YES = Metric("yes", scale=Scale.YES_NO)
SHARE = Metric("share")
AMOUNT = Metric("amount", scale=Scale.AMOUNT)


def confidence(metric: Metric, *raws: float | None) -> float:
    """The confidence of votes with these raw numbers; `None`: the vote failed."""
    scores = [
        Score.failed(metric.name, "no", "unusable") if raw is None else Score.of(metric, raw)
        for raw in raws
    ]
    votes = [Vote("m", sample, [score]) for sample, score in enumerate(scores)]
    return confidences(reduce_votes(votes), votes, [metric])[metric.name]


@pytest.mark.parametrize(
    ("metric", "raws", "wanted"),
    [
        (LEVEL, (5,), 1.0),
        (LEVEL, (4,), 0.6),
        (LEVEL, (3,), 0.2),
        (LEVEL, (2,), 0.2),
        (LEVEL, (0,), 1.0),
        (LEVEL, (5, 5, 0), 1 / 3),
        (LEVEL, (4, 3, 2), 0.2),  # 0.6 and 0.2 for good, 0.2 against
        (LEVEL, (5, 5, None), 2 / 3),
        (LEVEL, (None,), 0.0),
        (YES, (1, 1, 1, 1, 1), 1.0),
        (YES, (1, 1, 1, 1, 0), 0.6),
        (YES, (1, 0), 0.0),
        (SHARE, (0.8,), 0.5),
        (SHARE, (0.6,), 0.0),
        (SHARE, (0.3,), 0.5),
        (AMOUNT, (120.0,), 1.0),
    ],
)
def test_confidence_is_the_mean_margin_on_the_side_of_the_result(metric, raws, wanted):
    assert confidence(metric, *raws) == pytest.approx(wanted, abs=1e-6)


def engine(ensemble: EnsembleModels, cache=None) -> Engine:
    limits = LimitsConfig(max_in_flight=8, max_attempts=1)
    dependencies = EngineDependencies(cache=cache)
    return Engine(ScriptedModel([]), limits, dependencies, models={"asking": ensemble})


def cascade(first, senior, least: float | None = 0.5) -> EnsembleModels:
    return EnsembleModels((first,), 1, senior, CascadeRule(least, ("level",)))


async def test_the_first_model_decides_where_it_is_sure_and_the_rows_say_so():
    asking = engine(cascade(Named("small", [priced(5), priced(3)]), Named("big", [priced(1)])))
    sure = await asking.hear(Asking(), CASE)
    unsure = await asking.hear(Asking(["another question"]), CASE)

    assert [ask.model for ask in sure.asks] == ["small"]
    assert sure.scores[0].raw == 5
    assert sure.scores[0].details["decided_by"] == "small"
    assert sure.scores[0].details["confidence"] == 1.0
    assert "escalated" not in sure.scores[0].details

    assert [ask.model for ask in unsure.asks] == ["small", "big"]
    details = unsure.scores[0].details
    assert unsure.scores[0].raw == 1
    assert details["decided_by"] == "big"
    assert details["escalated"] == "level: confidence 0.20 is under 0.5"
    assert (details["first"]["raw"], details["first"]["status"]) == (3.0, "scored")
    assert [vote["model"] for vote in details["first_votes"]] == ["small"]


async def test_a_threshold_is_inclusive_and_plain_signs_of_doubt_do_not_count():
    # Without a cascade a 2 is escalated, as the level just below acceptable.
    asking = engine(cascade(Named("small", [priced(2)]), Named("big", []), 0.2))
    heard = await asking.hear(Asking(), CASE)
    assert [ask.model for ask in heard.asks] == ["small"]


async def test_both_are_asked_about_every_case_to_set_a_threshold_and_paid_once(tmp_path):
    cache = FileReplyCache(str(tmp_path))
    both = engine(
        cascade(Named("small", [priced(5)], "s"), Named("big", [priced(1)], "b"), None), cache
    )
    heard = await both.hear(Asking(), CASE)
    assert [ask.model for ask in heard.asks] == ["small", "big"]
    assert heard.scores[0].details["first"]["raw"] == 5.0

    later = engine(cascade(Named("small", [], "s"), Named("big", [], "b"), 1.0), cache)
    again = await later.hear(Asking(), CASE)
    assert [(ask.model, ask.cached) for ask in again.asks] == [("small", True)]


async def test_an_unusable_answer_is_escalated_and_an_outage_is_not():
    def failing(code: str) -> EnsembleModels:
        return cascade(Named("small", [ModelError(code, "no")]), Named("big", [priced(4)]))

    unusable = await engine(failing("empty_reply")).hear(Asking(), CASE)
    assert [ask.model for ask in unusable.asks] == ["small", "big"]
    assert unusable.scores[0].raw == 4
    down = await engine(failing("unavailable")).hear(Asking(), CASE)
    assert [ask.model for ask in down.asks] == ["small"]
    assert down.scores[0].status == "failed"


JUDGE = {"model": "openai/small", "escalate_to": "openai/big", "judges": ("safety",)}


def threshold(config: JudgeConfig, **changes: object) -> CascadeThreshold:
    panel = resolve_judges(config)
    body = {
        "confidence": 0.5,
        "metrics": (panel.metrics[0].name,),
        "agreement": 0.9,
        "delta": 0.1,
        "basis": basis(panel.judges[0], panel.ensembles["safety"]),
        "labels": 100,
        "escalated": 0.3,
        "attained": 0.95,
        "attained_low": 0.91,
    }
    return CascadeThreshold.model_validate({**body, **changes})


def test_a_threshold_becomes_the_rule_of_its_judge():
    plain = JudgeConfig(**JUDGE)
    set_for = CascadeConfig(agreement=0.9, thresholds={"safety": threshold(plain)})
    rule = resolve_judges(JudgeConfig(**JUDGE, cascade=set_for)).ensembles["safety"].cascade
    assert rule == CascadeRule(0.5, (resolve_judges(plain).metrics[0].name,))
    collect = CascadeConfig(agreement=0.9, collect=True)
    rule = resolve_judges(JudgeConfig(**JUDGE, cascade=collect)).ensembles["safety"].cascade
    assert rule is not None
    assert rule.confidence is None


@pytest.mark.parametrize(
    ("changed", "of_cascade", "of_threshold", "said"),
    [
        ({"model": "openai/other"}, {}, {}, "was set for other models, prompts or rubrics"),
        ({"escalate_to": "openai/other"}, {}, {}, "was set for other models, prompts or rubrics"),
        ({"repeats": 3}, {}, {}, "was set for other models, prompts or rubrics"),
        ({"temperature": 0.7}, {}, {}, "was set for other models, prompts or rubrics"),
        ({}, {"agreement": 0.95}, {}, "asks for 0.95 and 0.1"),
        ({}, {"delta": 0.01}, {}, "asks for 0.9 and 0.01"),
        ({}, {}, {"metrics": ("nothing",)}, "unknown metric 'nothing'"),
        ({"escalate_to": None}, {}, {}, "no judge has a stronger model"),
    ],
)
def test_a_threshold_of_another_judge_or_promise_is_refused(
    changed, of_cascade, of_threshold, said
):
    known = {"safety": threshold(JudgeConfig(**JUDGE), **of_threshold)}
    own = CascadeConfig(**{"agreement": 0.9, "thresholds": known, **of_cascade})
    with pytest.raises(ConfigurationError) as refused:
        resolve_judges(JudgeConfig(**{**JUDGE, **changed, "cascade": own}))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_judge_without_a_threshold_and_a_threshold_without_a_judge_are_refused():
    known = threshold(JudgeConfig(**JUDGE))
    for thresholds, said in (
        ({}, "[judge.cascade.thresholds.safety]: no threshold is set"),
        ({"safety": known, "saftey": known}, "unknown judge 'saftey'"),
    ):
        own = CascadeConfig(agreement=0.9, thresholds=thresholds)
        with pytest.raises(ConfigurationError) as refused:
            resolve_judges(JudgeConfig(**JUDGE, cascade=own))
        assert said in str(refused.value)


def test_a_cascade_changes_the_id_of_a_run_and_its_absence_does_not():
    def config(**judge: object) -> RunConfig:
        return RunConfig.model_validate({"transcripts": {"uri": "t.jsonl"}, "judge": judge})

    assert "cascade" not in config(model="openai/small").result_settings()["judge"]
    plain = config(**JUDGE)
    own = config(**JUDGE, cascade={"agreement": 0.9, "collect": True})
    assert plain.config_hash() != own.config_hash()
