"""Scores from replies on coverage: strategies, signals, contradictions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assizes.judge.case import Expected
from assizes.judge.families.criteria.asks import CoverageReply
from assizes.judge.rows import as_json
from assizes.judge.score import Score
from tests.builders import agent, case, user
from tests.judge.families.criteria.criteria_cases import HALF, TWO
from tests.judge.families.criteria.criteria_replies import (
    COFFEE,
    FIVE_OF_SEVEN,
    SEVEN,
    answer,
    aspects,
    check,
    found,
    headline,
    heard,
    opened,
)

# Coverage and scores


@pytest.mark.row("003-09", "003-43", "003-44", "003-45")
def test_every_aspect_has_its_covered_and_missing_concepts():
    scores = heard(COFFEE, SEVEN, FIVE_OF_SEVEN)
    breakdown = scores[""].details["aspect_breakdown"]
    assert len(breakdown) == 4
    assert breakdown[2] == {
        "id": "a3",
        "aspect": "water",
        "covered": True,
        "concepts_covered": ["200F"],
        "concepts_missing": ["optimal range"],
        "concepts_contradicted": [],
        "concepts_coverage_percentage": 50.0,
        "reason": "on a3",
        "turn_index": 0,
    }
    assert breakdown[3]["concepts_missing"] == ["4 minutes"]
    assert list(scores) == ["", "aspect:a1", "aspect:a2", "aspect:a3", "aspect:a4"]
    assert scores["aspect:a3"] == Score(
        "answer_criteria",
        part="aspect:a3",
        value=0.5,
        raw=0.5,
        passed=True,
        turns=(1,),
        details=breakdown[2],
    )
    assert [scores[f"aspect:a{n}"].passed for n in (1, 2, 3, 4)] == [True, True, True, False]


@pytest.mark.row("003-10", "003-11", "003-12", "003-13", "003-14", "003-42")
@pytest.mark.parametrize(
    ("options", "value"),
    [
        ({}, 0.714285714),
        ({"scoring_strategy": "concept"}, 0.714285714),
        ({"scoring_strategy": "aspect"}, 0.75),
        ({"scoring_strategy": "weighted"}, 0.725),
        ({"scoring_strategy": "weighted", "weighted_concept_score_weight": 0.5}, 0.732142857),
        ({"scoring_strategy": "weighted", "weighted_concept_score_weight": 1}, 0.714285714),
        ({"scoring_strategy": "weighted", "weighted_concept_score_weight": 0}, 0.75),
    ],
)
def test_the_strategy_decides_the_score_of_one_reply(options: Any, value: float):
    score = headline(COFFEE, SEVEN, FIVE_OF_SEVEN, **options)
    assert (score.value, score.raw) == (value, value)


@pytest.mark.row("003-15")
def test_a_weighted_score_is_not_capped_upwards():
    four = aspects(one=["a", "b", "c"], two=["d"], three=["e"], four=["f"])
    reply = check(found("a1", [1, 2, 3]), found("a2"), found("a3"), found("a4"))
    score = headline(COFFEE, four, reply, scoring_strategy="weighted")
    assert score.details["concept_coverage_score"] == 0.5
    assert score.details["aspect_coverage_score"] == 0.25
    assert score.value == score.details["weighted_score"] == 0.425


@pytest.mark.row("003-37", "003-38", "003-39", "003-40", "003-41", "003-42", "003-43", "003-46")
def test_the_signals_stand_under_their_published_names():
    score = headline(COFFEE, SEVEN, FIVE_OF_SEVEN)
    names = [
        "scoring_strategy",
        "covered_aspects_count",
        "total_aspects_count",
        "total_concepts_covered",
        "total_concepts",
        "concept_coverage_score",
        "aspect_coverage_score",
        "evaluated_turns_count",
    ]
    assert [score.details[name] for name in names] == ["concept", 3, 4, 5, 7, 0.714285714, 0.75, 1]
    assert set(score.details) == {*names, "aspect_breakdown", "decomposition"}
    assert f"{score.details['concept_coverage_score']:.2f}" == "0.71"
    assert score.turns == (1,)


@pytest.mark.row("003-47")
def test_a_covered_aspect_may_miss_a_concept():
    one = aspects(one=["x", "y"])
    reply = check(found("a1", [1], covered=True, concepts_missing=["a1c2"]))
    assert headline(COFFEE, one, reply, scoring_strategy="aspect").value == 1.0
    assert headline(COFFEE, one, reply).value == 0.5


def test_an_aspect_flagged_uncovered_stays_so_with_all_its_concepts():
    reply = check(found("a1", [1], covered=False), found("a2", [1]))
    assert headline(COFFEE, TWO, reply, scoring_strategy="aspect").value == 0.5


@pytest.mark.row("003-48")
def test_an_aspect_is_never_covered_without_any_concept():
    reply = check(found("a1", [], covered=True))
    score = headline(COFFEE, aspects(one=["x", "y"]), reply, scoring_strategy="aspect")
    assert score.value == 0.0
    assert score.details["aspect_breakdown"][0]["covered"] is False


@pytest.mark.row("003-50")
def test_an_aspect_missing_in_the_reply_is_uncovered_and_still_counts():
    three = aspects(one=["x"], two=["y"], three=["z"])
    score = headline(COFFEE, three, check(found("a1", [1]), found("a3", [1])))
    assert score.value == 0.666666667
    assert score.details["aspect_breakdown"][1]["reason"] == "not evaluated"
    assert score.details["warnings"] == [
        "turn 0: aspect 'a2' is not in the reply, taken as not covered"
    ]


@pytest.mark.row("003-50")
def test_a_missing_aspect_is_asked_for_once_more():
    hearing = answer(opened(COFFEE), TWO)
    (ask,) = hearing.asks
    assert ask.doubts is not None
    assert ask.doubts(CoverageReply.model_validate(HALF)) is None
    only = CoverageReply.model_validate(check(found(" A1 ", [1])))
    assert ask.doubts(only) == "aspects has no entry for: a2"


@pytest.mark.row("003-50")
def test_a_reply_that_speaks_of_no_aspect_fails_the_judge_not_the_answer():
    score = headline(COFFEE, TWO, check(found("b7", [1])))
    assert score == Score.failed(
        "answer_criteria", "turn 0: the reply speaks of none of the aspects", "no_coverage"
    )


def test_unknown_and_doubled_ids_are_ignored_with_a_warning():
    reply = check(
        found("a1", [1, 2], concepts_missing=["a1c2", "a9c9"]),
        found("A2 ", [], covered=True, concepts_covered=[" A2C1", "a1c1"]),
        found("a1", []),
        found("everything" * 10, [1]),
    )
    score = headline(COFFEE, aspects(one=["x", "y"], two=["z"]), reply)
    assert score.details["total_concepts_covered"] == 2
    assert score.details["warnings"] == [
        "turn 0: ignored a second finding on aspect 'a1'",
        f"turn 0: ignored an unknown aspect: {('everything' * 10)[:77] + '...'!r}",
        "turn 0: ignored 'a9c9': not a concept of aspect 'a1'",
        "turn 0: concept 'a1c2' is both covered and missing, taken as missing",
        "turn 0: ignored 'a1c1': not a concept of aspect 'a2'",
    ]


@pytest.mark.row("003-29")
def test_the_same_text_in_two_aspects_counts_by_id():
    both = aspects(price=["30 days"], returns=["30 days"])
    score = headline(COFFEE, both, check(found("a1", [1]), found("a2")))
    assert score.value == 0.5


CONTRADICTED = check(found("a1", [1, 2], covered=True, concepts_contradicted=["a1c1"]))


@pytest.mark.row("003-20")
def test_a_contradicted_concept_is_missing_and_its_aspect_uncovered():
    options = {"check_for_contradictions": True}
    by_concept = headline(COFFEE, aspects(one=["x", "y"]), CONTRADICTED, **options)
    assert by_concept.value == 0.5
    by_aspect = headline(
        COFFEE, aspects(one=["x", "y"]), CONTRADICTED, scoring_strategy="aspect", **options
    )
    assert by_aspect.value == 0.0
    (entry,) = by_aspect.details["aspect_breakdown"]
    assert (entry["concepts_missing"], entry["concepts_contradicted"]) == (["x"], ["x"])


@pytest.mark.row("003-19", "003-21")
def test_without_the_flag_the_judges_own_findings_are_kept():
    assert headline(COFFEE, aspects(one=["x", "y"]), CONTRADICTED).value == 1.0
    by_aspect = headline(COFFEE, aspects(one=["x", "y"]), CONTRADICTED, scoring_strategy="aspect")
    assert by_aspect.value == 1.0
    assert by_aspect.details["aspect_breakdown"][0]["concepts_contradicted"] == []


def test_both_settings_of_the_contradiction_flag_put_the_same_questions():
    asked = [
        answer(opened(COFFEE, check_for_contradictions=flag), TWO).asks[0].prompt
        for flag in (True, False)
    ]
    assert asked[0] == asked[1]


IDS = st.sampled_from(["a1", "a2", "a3", "a1c1", "a1c2", "a2c1", "A1C1 ", "x", ""])
FINDINGS = st.builds(
    dict,
    id=IDS,
    reason=st.text(max_size=5),
    concepts_covered=st.none() | st.lists(IDS),
    concepts_missing=st.none() | st.lists(IDS),
    concepts_contradicted=st.none() | st.lists(IDS),
    covered=st.booleans(),
)


@pytest.mark.promised
@pytest.mark.row("003-01", "003-27")
@given(
    replies=st.lists(st.lists(FINDINGS, max_size=6), min_size=3, max_size=3),
    strategy=st.sampled_from(["concept", "aspect", "weighted"]),
    aggregation=st.sampled_from(["cumulative", "average"]),
    flag=st.booleans(),
)
def test_no_reply_leads_out_of_zero_to_one(
    replies: Any, strategy: str, aggregation: str, flag: bool
):
    turns = [turn for number in range(3) for turn in (user(f"q{number}"), agent(f"r{number}"))]
    one = case(*turns, expected=Expected(acceptance_criteria="x"))
    three = aspects(one=["x", "y"], two=["x"], three=[])
    scores = heard(
        one,
        [three] * (3 if aggregation == "average" else 1),
        [{"aspects": findings} for findings in replies],
        scoring_strategy=strategy,
        multi_turn_strategy="all_turns",
        multi_turn_aggregation=aggregation,
        check_for_contradictions=flag,
    )
    for score in scores.values():
        assert score.status == "failed" or 0 <= (score.value or 0.0) <= 1
        as_json(dict(score.details))
