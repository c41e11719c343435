"""The offline answers of the criteria judges."""

from __future__ import annotations

from typing import Any

import pytest

from assizes.judge.case import Case, Expected
from assizes.judge.families.criteria.asks import (
    Aspect,
    Concept,
    CoverageEvidence,
    DecomposeEvidence,
)
from assizes.judge.heuristic.agent_steps import ANSWERS
from assizes.judge.score import Score
from tests.builders import agent, case, user
from tests.judge.families.criteria.criteria_replies import COFFEE, answer, opened


def offline(one: Case, judge: str = "answer_criteria", **options: Any) -> Score:
    hearing = opened(one, judge, **options)
    while not hearing.is_closed:
        answer(hearing, *(ANSWERS[type(ask.evidence)](ask.evidence) for ask in hearing.asks))
    return hearing.scores[0]


def split(criteria: str) -> dict[str, list[str]]:
    reply = ANSWERS[DecomposeEvidence](DecomposeEvidence("q", criteria))
    return {one["aspect"]: one["concepts"] for one in reply["aspects"]}


def checked(response: str, *concepts: str) -> dict[str, Any]:
    aspect = Aspect("a1", "x", tuple(Concept(f"a1c{n}", t) for n, t in enumerate(concepts, 1)))
    (found,) = ANSWERS[CoverageEvidence](CoverageEvidence((aspect,), response))["aspects"]
    return found


@pytest.mark.parametrize(
    ("criteria", "expected"),
    [
        (
            "Must mention: bean freshness, grind timing and brew time",
            {n: [n] for n in ("bean freshness", "grind timing", "brew time")},
        ),
        (
            "Must cover:\n1. Return window (30 days)\n2. Receipt, photo and serial number\n",
            {
                "Return window (30 days)": ["Return window (30 days)"],
                "Receipt, photo and serial number": ["Receipt", "photo", "serial number"],
            },
        ),
        (
            "Greets the user. Offers a refund; asks for more.",
            {
                "Greets the user": ["Greets the user"],
                "Offers a refund": ["Offers a refund"],
                "asks for more": ["asks for more"],
            },
        ),
        ("- one\n\n* two", {"one": ["one"], "two": ["two"]}),
        ("; .\n", {}),
    ],
)
def test_criteria_are_split_by_their_layout(criteria: str, expected: dict[str, list[str]]):
    assert split(criteria) == expected


def test_concepts_are_covered_by_half_of_their_content_words():
    assert checked("Bring your receipts within 30 days.", "receipt", "30 days", "original box") == {
        "id": "a1",
        "reason": "Plain text rule: 2 of 3 concepts share half of their words with the answer.",
        "concepts_covered": ["a1c1", "a1c2"],
        "concepts_missing": ["a1c3"],
        "concepts_contradicted": [],
        "covered": True,
    }


def test_an_aspect_with_less_than_half_of_its_concepts_is_not_covered():
    assert checked("A receipt.", "receipt", "box", "photo")["covered"] is False


@pytest.mark.parametrize(("response", "covered"), [("It is OK.", ["a1c1"]), ("Sure.", [])])
def test_a_concept_without_content_words_must_be_said_as_it_is(response: str, covered: list[str]):
    assert checked(response, "OK")["concepts_covered"] == covered


@pytest.mark.parametrize(
    ("response", "concept", "contradicted"),
    [
        ("Refunds aren\u2019t possible.", "refund possible", True),
        ("A refund is possible.", "no refund possible", True),
        ("No refund is possible.", "no refund possible", False),
        ("A refund is possible, but exchanges are not.", "refund possible", False),
        ("Refunds are not possible. A refund is possible by card.", "refund possible", False),
    ],
)
def test_a_concept_said_only_with_the_other_polarity_is_contradicted(
    response: str, concept: str, contradicted: bool
):
    found = checked(response, concept)
    assert found["concepts_covered"] == ["a1c1"]
    assert found["concepts_contradicted"] == (["a1c1"] if contradicted else [])


def test_the_coffee_example_is_judged_without_a_model():
    score = offline(COFFEE)
    assert (score.value, score.passed) == (1.0, True)


def test_contradictions_count_offline_only_with_the_flag():
    one = case(
        user("Can I get a refund?"),
        agent("A refund is not possible."),
        expected=Expected(acceptance_criteria="refund possible"),
    )
    assert offline(one).value == 1.0
    assert offline(one, check_for_contradictions=True).value == 0.0


def test_a_reference_answer_is_judged_without_a_model():
    one = case(
        user("When do you open?"),
        agent("We open at 9 on weekdays."),
        expected=Expected(response="Weekdays from 9. Closed on Sundays."),
    )
    assert offline(one, "answer_completeness").value == 0.5
