"""When a rationale says the opposite of its score."""

from __future__ import annotations

import pytest

from assizes.judge.score import Metric, Scale, Score
from assizes.judge.verdicts.contradictions import BLAME, PRAISE, contradiction


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
