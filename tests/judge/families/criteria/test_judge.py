"""Answer criteria on a single turn: options, where the criteria come from, decomposition."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from assizes.judge.case import Case, Expected
from assizes.judge.config.judging import LimitsConfig
from assizes.judge.engine.hearings import Engine, EngineDependencies
from assizes.judge.engine.ledger import CachedReply
from assizes.judge.families.criteria.asks import CoverageReply, Decomposition
from assizes.judge.families.criteria.judge import (
    ENTRIES,
    AnswerCompletenessOptions,
    AnswerCriteriaOptions,
)
from assizes.judge.models.model import ScriptedModel
from assizes.judge.score import Scale, Score
from tests.builders import agent, case, user
from tests.judge.families.criteria.criteria_cases import HALF, TWO
from tests.judge.families.criteria.criteria_replies import (
    ANSWER,
    COFFEE,
    CRITERIA,
    FIVE_OF_SEVEN,
    QUERY,
    SEVEN,
    aspects,
    check,
    found,
    headline,
    heard,
    opened,
)

NONE = check(found("a1"), found("a2"))


def expecting(**expected: Any) -> Case:
    return case(user(QUERY), agent(ANSWER), expected=Expected(**expected))


# What it promises and how it is configured


def test_both_judges_promise_one_metric_of_their_name():
    judges = [entry.create_judge(entry.options(), ()) for entry in ENTRIES.values()]
    assert [judge.name for judge in judges] == ["answer_criteria", "answer_completeness"]
    for judge in judges:
        (metric,) = judge.metrics
        assert (metric.name, metric.scale, metric.gate) == (judge.name, Scale.FRACTION, "judges")
        assert metric.needs == ENTRIES[judge.name].needs
        assert metric.needs_ground_truth
        assert len(metric.rubric_hash) == 16
    assert len({judge.metrics[0].rubric_hash for judge in judges}) == 2


@pytest.mark.row("003-02", "003-16", "003-18", "003-19", "003-22", "003-23", "003-25")
def test_the_defaults_are_those_of_the_seed():
    common = {
        "model": None,
        "temperature": None,
        "threshold": 0.5,
        "scoring_strategy": "concept",
        "check_for_contradictions": False,
        "weighted_concept_score_weight": 0.7,
        "multi_turn_strategy": "last_turn",
        "multi_turn_aggregation": "cumulative",
    }
    assert AnswerCriteriaOptions().model_dump() == {**common, "criteria_key": "Complete"}
    assert AnswerCompletenessOptions().model_dump() == common


@pytest.mark.row("003-18", "003-22")
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("scoring_strategy", "x"),
        ("weighted_concept_score_weight", -0.1),
        ("weighted_concept_score_weight", 1.1),
        ("threshold", -0.01),
        ("threshold", 1.01),
        ("criteria_key", ""),
        ("multi_turn_strategy", "first_turn"),
        ("multi_turn_aggregation", "sum"),
        ("check_contradictions", True),
    ],
)
def test_an_option_outside_its_values_is_an_error(option: str, value: Any):
    with pytest.raises(ValidationError, match=option):
        AnswerCriteriaOptions(**{option: value})


@pytest.mark.row("003-02")
@pytest.mark.parametrize(("value", "passed"), [(50, True), (49, False)])
def test_the_threshold_is_inclusive(value: int, passed: bool):
    concepts = aspects(one=[f"concept {number}" for number in range(100)])
    score = headline(COFFEE, concepts, check(found("a1", range(1, value + 1))))
    assert (score.value, score.passed) == (value / 100, passed)


@pytest.mark.row("003-03")
def test_a_threshold_of_zero_is_honoured():
    assert headline(COFFEE, TWO, NONE, threshold=0.0).passed is True
    assert headline(COFFEE, TWO, NONE).passed is False


@pytest.mark.row("003-02")
def test_a_threshold_with_float_noise_is_met():
    third = check(found("a1", [1]), found("a2"), found("a3"))
    three = aspects(one=["x"], two=["y"], three=["z"])
    assert headline(COFFEE, three, third, threshold=1 / 3).passed is True


# What it needs


@pytest.mark.row("003-04")
@pytest.mark.parametrize(
    ("turns", "reason"),
    [
        ((), "no query: the user says nothing"),
        ((user("  "), agent("Hi")), "no query: the user says nothing"),
        ((user("Hi"),), "no output: the agent says nothing"),
        ((user("Hi"), agent(" ")), "no output: the agent says nothing"),
        ((agent("Hi"), user("Hello")), "no output: the agent answers no message of the user"),
    ],
)
def test_without_query_or_output_it_is_skipped_with_the_reason(turns: Any, reason: str):
    one = case(*turns, expected=Expected(acceptance_criteria="x"))
    assert opened(one).scores == [Score.skipped("answer_criteria", reason)]


@pytest.mark.row("003-06")
@pytest.mark.parametrize("given", [None, "", " \n", (), ("", " ")])
def test_without_criteria_it_is_skipped(given: Any):
    (score,) = opened(expecting(acceptance_criteria=given)).scores
    assert score == Score.skipped(
        "answer_criteria",
        "no acceptance criteria: no text or list of texts in expected.acceptance_criteria or "
        "expected.additional_input['Complete']",
    )
    assert score.value is None


@pytest.mark.parametrize("given", [7, {"criteria": "x"}, ["x", 7]])
def test_criteria_that_are_no_text_are_not_guessed(given: Any):
    (score,) = opened(expecting(additional_input={"Complete": given})).scores
    assert score.status == "skipped"


@pytest.mark.row("003-05")
@pytest.mark.parametrize("given", ["be brief\nbe kind", ("be brief", " be kind ", "")])
def test_criteria_are_a_text_or_a_list_joined_by_newlines(given: Any):
    prompt = opened(expecting(acceptance_criteria=given)).asks[0].prompt
    assert prompt.user.endswith("<data: Acceptance criteria>\nbe brief\nbe kind\n</data>")


@pytest.mark.row("003-16", "003-17")
@pytest.mark.parametrize(
    ("expected", "options", "used"),
    [
        ({"additional_input": {"Complete": "added"}}, {}, "added"),
        ({"additional_input": {"Complete": "added", "K": "keyed"}}, {"criteria_key": "K"}, "keyed"),
        ({"acceptance_criteria": "own", "additional_input": {"Complete": "added"}}, {}, "own"),
        ({"acceptance_criteria": " ", "additional_input": {"Complete": "added"}}, {}, "added"),
        ({"acceptance_criteria": "own", "rubrics": {"Complete": "rubric"}}, {}, "own"),
        (
            {"acceptance_criteria": "own", "rubrics": {"Complete": ["rub", "ric"]}},
            {"multi_turn_strategy": "all_turns"},
            "rub\nric",
        ),
        (
            {"acceptance_criteria": "own", "rubrics": {"Other": "rubric"}},
            {"multi_turn_strategy": "all_turns"},
            "own",
        ),
    ],
)
def test_criteria_are_looked_up_in_order(expected: Any, options: Any, used: str):
    evidence = opened(expecting(**expected), **options).asks[0].evidence
    assert evidence.criteria == used


# Decomposition


@pytest.mark.row("003-08")
def test_the_aspects_with_their_concepts_are_kept_with_the_result():
    assert headline(COFFEE, SEVEN, FIVE_OF_SEVEN).details["decomposition"] == [
        {"id": "a1", "aspect": "beans", "concepts": {"a1c1": "fresh beans", "a1c2": "quality"}},
        {
            "id": "a2",
            "aspect": "grind",
            "concepts": {"a2c1": "just before brewing", "a2c2": "even"},
        },
        {"id": "a3", "aspect": "water", "concepts": {"a3c1": "200F", "a3c2": "optimal range"}},
        {"id": "a4", "aspect": "time", "concepts": {"a4c1": "4 minutes"}},
    ]


@pytest.mark.row("003-49")
@pytest.mark.parametrize("concepts", [[], None, [" ", ""]])
def test_an_aspect_without_concepts_is_its_own_concept(concepts: Any):
    reply = {"reasoning": "", "aspects": [{"aspect": "bean freshness", "concepts": concepts}]}
    score = headline(COFFEE, reply, check(found("a1", [1])))
    assert (score.value, score.details["total_concepts"]) == (1.0, 1)
    assert score.details["aspect_breakdown"][0]["concepts_covered"] == ["bean freshness"]


def test_blank_aspects_and_repeated_concepts_get_no_id():
    reply = {
        "reasoning": "",
        "aspects": [
            {"aspect": " ", "concepts": []},
            {"aspect": "", "concepts": ["warm\n water"]},
            {"aspect": "beans", "concepts": ["Fresh", "fresh ", "good"]},
        ],
    }
    score = headline(COFFEE, reply, check(found("a1"), found("a2")))
    assert score.details["decomposition"] == [
        {"id": "a1", "aspect": "warm water", "concepts": {"a1c1": "warm water"}},
        {"id": "a2", "aspect": "beans", "concepts": {"a2c1": "fresh", "a2c2": "good"}},
    ]


@pytest.mark.row("003-51")
@pytest.mark.parametrize("reply", [aspects(), aspects(**{" ": []})])
def test_without_an_aspect_it_is_skipped(reply: Any):
    assert heard(COFFEE, reply) == {
        "": Score.skipped("answer_criteria", "no aspects were found in the acceptance criteria")
    }


class Keeping:
    """A reply cache in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, CachedReply] = {}

    async def get(self, key: str) -> CachedReply | None:
        return self.kept.get(key)

    async def store(self, key: str, kept: CachedReply) -> None:
        self.kept[key] = kept


def decomposing(ask: Any) -> dict[str, Any]:
    return TWO if ask.reply is Decomposition else HALF


@pytest.mark.row("003-53")
async def test_a_hundred_transcripts_with_the_same_criteria_take_one_decomposition():
    judge = ENTRIES["answer_criteria"].create_judge(AnswerCriteriaOptions(), ())
    cases = [
        case(
            user(QUERY),
            agent(f"Answer {number}"),
            case_id=f"c{number}",
            expected=Expected(acceptance_criteria=CRITERIA),
        )
        for number in range(100)
    ]
    model = ScriptedModel([decomposing] * 201)
    cache = Keeping()

    for _ in range(2):
        engine = Engine(
            model, LimitsConfig(max_in_flight=4, timeout_s=5), EngineDependencies(cache=cache)
        )
        values = [(await engine.hear(judge, one)).scores[0].value for one in cases]
        assert values == [0.5] * 100

    kinds = [ask.reply for ask, _ in model.asked]
    assert (kinds.count(Decomposition), kinds.count(CoverageReply)) == (1, 100)
