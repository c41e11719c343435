"""Rules about words of a rubric that let length or style decide."""

from __future__ import annotations

import pytest

from assizes.judge.alignment.rubric_files import rubric_file
from assizes.judge.alignment.rubric_parts import lint_findings
from assizes.judge.families.rag import yes_no_rubrics
from assizes.judge.rubrics.lint import RubricParts, lint
from assizes.judge.rubrics.rubric import BUILT_IN


def rules(text: str, about: str = "Is it correct?") -> list[str]:
    return [finding.rule for finding in lint(RubricParts(about, {"question": text}, {}))]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A longer answer is better.", ["length"]),
        ("The answer has at least three paragraphs.", ["length"]),
        ("Consider relevance, accuracy and level of detail.", ["length"]),
        ("The answer is well-written and engaging.", ["style", "style"]),
        ("It uses bullet points.", ["style"]),
        ("Length does not matter: a longer answer is not better.", []),
        ("Judge regardless of whether it is well written.", []),
        ("The answer names the day of delivery.", []),
    ],
)
def test_a_rule_fires_on_what_asks_for_length_or_style(text: str, found: list[str]):
    assert rules(text) == found


def test_style_may_decide_where_the_rubric_is_about_style():
    assert rules("The answer is well-written.", about="tone_of_voice") == []
    assert rules("A longer answer is better.", about="tone_of_voice") == ["length"]


def test_two_levels_that_say_the_same_are_found():
    levels = {"yes": "The answer names the day.", "no": "The answer names the day!"}
    (finding,) = lint(RubricParts("", {}, levels))
    assert (finding.rule, finding.words) == ("same_levels", "levels yes and no")


@pytest.mark.parametrize("name", [*BUILT_IN, *yes_no_rubrics()])
def test_no_rubric_of_the_product_lets_length_or_style_decide(name: str):
    assert lint_findings(rubric_file(name, ())) == []
