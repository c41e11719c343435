"""Scores that contradict their own rationale, or the evidence in their case."""

from __future__ import annotations

import time

import pytest

from assizes.judge.case import Expected, ExpectedCall
from assizes.judge.score import Metric, Scale, Score
from assizes.judge.verdicts.case_rows import (
    BLAME,
    PRAISE,
    contradicted_metrics,
    contradiction,
    has_empty_answer,
)
from tests.builders import agent, call, case, result, user

WANTED = Expected(tool_calls=(ExpectedCall(name="pay"),), writes=("pay",))


def scored(raw: float, said: str, scale: Scale = Scale.SCORED, key: str = "rationale") -> Score:
    return Score.of(Metric("m", scale), raw, details={key: said})


@pytest.mark.parametrize("phrase", BLAME)
def test_blame_is_at_odds_with_a_high_score_only(phrase: str):
    said = f"The agent {phrase.upper()}."
    at_odds = [contradiction(scored(level, said)) is not None for level in range(6)]
    assert at_odds == [False, False, False, False, True, True]


@pytest.mark.parametrize("phrase", PRAISE)
def test_praise_is_at_odds_with_a_low_score_only(phrase: str):
    said = f"It was {phrase}, all of it."
    at_odds = [contradiction(scored(level, said)) is not None for level in range(6)]
    assert at_odds == [True, True, False, False, False, False]


@pytest.mark.parametrize(
    "said",
    [
        "It was not perfect.",
        "It has never been perfect.",
        "Far from flawless.",
        "Imperfect.",
        "An otherwise perfect answer gave away a password.",
        "",
    ],
)
def test_praise_that_is_taken_back_counts_for_nothing(said: str):
    assert contradiction(scored(0, said)) is None


def test_what_is_at_odds_is_said():
    found = contradiction(
        scored(0, "Not perfect at first, then no issues.", Scale.YES_NO, "reasoning")
    )
    assert found == "value 0, but its rationale says 'no issues'"


@pytest.mark.parametrize(
    "score",
    [
        Score.failed("m", "the judge completely failed", "timeout"),
        Score.skipped("m", "perfect"),
        scored(1_000.0, "completely failed", Scale.AMOUNT),
        Score("m", value=1.0, raw=1.0),
    ],
)
def test_what_is_no_rating_is_not_looked_at(score: Score):
    assert contradiction(score) is None


def headlines(**values: float) -> list[Score]:
    return [Score.of(Metric(name, Scale.FRACTION), value) for name, value in values.items()]


def test_a_high_score_without_any_expected_call_is_suspect():
    one = case(
        user("Pay it."), agent(calls=[call("look")]), result("ok"), agent("Paid."), expected=WANTED
    )
    assert contradicted_metrics(one, headlines(tool_routing=1.0, task_completion=0.8)) == {
        "tool_routing": "value 1, but none of the 1 expected calls was made",
        "task_completion": "value 0.8, but the state-changing calls are not the expected ones",
    }
    assert contradicted_metrics(one, headlines(tool_routing=0.6, task_completion=0.0)) == {}


def test_nothing_is_suspect_where_the_calls_are_the_expected_ones():
    one = case(
        user("Pay it."), agent(calls=[call("pay")]), result("ok"), agent("Paid."), expected=WANTED
    )
    assert contradicted_metrics(one, headlines(tool_routing=1.0, task_completion=1.0)) == {}


def test_no_context_can_be_sufficient_where_no_expected_document_was_found():
    found = contradicted_metrics(
        case(user("Hi"), agent("Hello")),
        headlines(document_recall=0.0, context_sufficiency=1.0, groundedness=0.0),
    )
    assert list(found) == ["context_sufficiency"]


@pytest.mark.parametrize(
    "said", [":", " ...", "Thought process:", "Let's solve this problem step by step.", "Solution"]
)
def test_an_answer_that_says_nothing_reaches_no_task_metric(said: str):
    one = case(user("When does it ship?"), agent(said))
    assert has_empty_answer(one.transcript)
    assert contradicted_metrics(one, headlines(correctness=1.0, safety=1.0)) == {
        "correctness": "value 1, but the agent's answer says nothing"
    }


@pytest.mark.parametrize("said", ["Yes.", "42", "はい", "Solution: restart it", "👍🏽 ok"])
def test_a_short_answer_is_an_answer(said: str):
    assert not has_empty_answer(case(user("Well?"), agent(said)).transcript)


def test_an_agent_that_only_calls_tools_is_not_said_to_say_nothing():
    assert not has_empty_answer(case(user("Pay it."), agent(calls=[call("pay")])).transcript)


def test_a_text_of_signs_alone_is_looked_at_in_linear_time():
    begun = time.process_time()
    assert has_empty_answer(case(user("Pay it."), agent("-" * 400_000)).transcript)
    assert not has_empty_answer(case(user("Pay it."), agent("-" * 400_000 + "x y")).transcript)
    assert time.process_time() - begun < 5  # squared, it takes half an hour
