"""A rubric tried: the table of levels, what is confused and never used, and two rubrics compared."""

from __future__ import annotations

import pytest

from assizes.judge.alignment.rubric_trial import (
    TrialCase,
    case_of_test,
    compare_rubrics,
    tally_levels,
)
from assizes.judge.rubrics.own_tests import RubricTest
from assizes.judge.score import Score

LEVELS = ("5", "4", "3", "2", "1", "0")


def trial_case(number: int, wanted: str, weight: float = 1.0) -> TrialCase:
    test = RubricTest(request="When?", response="Soon.", expected=wanted)
    case = case_of_test(test, number, "cases")
    return TrialCase(case.case, wanted, "cases", case.cluster, weight)


def level(raw: float) -> Score:
    return Score("m", value=raw / 5, raw=raw, label="a", details={"rationale": f"It is {raw:g}."})


def test_levels_are_counted_and_those_that_are_confused_or_never_given_are_named():
    wanted = ["5"] * 4 + ["4"] * 4 + ["0"] * 2
    given = [5, 5, 5, 5, 5, 5, 5, 4, 0, 0]
    cases = [trial_case(n, each) for n, each in enumerate(wanted)]
    fields = tally_levels(cases, [level(raw) for raw in given], LEVELS)
    assert fields["wanted"] == ("5", "4", "0")
    assert fields["table"] == ((4, 0, 0, 0, 0, 0), (3, 1, 0, 0, 0, 0), (0, 0, 0, 0, 0, 2))
    assert fields["never_given"] == ("3", "2", "1")
    assert fields["untested"] == ("3", "2", "1")
    (confusion,) = fields["confused"]
    assert (confusion.wanted, confusion.given, confusion.cases) == ("4", "5", 3)
    assert confusion.share == pytest.approx(0.75)
    assert fields["agreement"].value == pytest.approx(0.7)
    assert [each.reason for each in fields["mismatches"]] == ["It is 5."] * 3


def test_a_case_without_an_answer_is_no_level():
    cases = [trial_case(0, "5"), trial_case(1, "0")]
    scores = [Score.failed("m", "no reply", "timeout"), level(0)]
    fields = tally_levels(cases, scores, LEVELS)
    assert (fields["unanswered"], fields["agreement"].value) == (1, 1.0)
    assert fields["mismatches"][0].given is None


def test_labels_that_only_pass_or_fail_are_held_against_what_a_level_means():
    cases = [trial_case(0, "pass"), trial_case(1, "fail"), trial_case(2, "fail")]
    fields = tally_levels(cases, [level(4), level(2), level(3)], LEVELS)
    assert fields["wanted"] == ("pass", "fail")
    assert fields["given"] == (*LEVELS, "pass", "fail")
    assert [row[-2:] for row in fields["table"]] == [(1, 0), (1, 1)]
    assert fields["never_given"] == ()


def test_two_rubrics_are_compared_case_by_case():
    cases = [trial_case(n, "5") for n in range(40)]
    this = [level(5 if n < 36 else 0) for n in range(40)]
    other = [level(5 if n < 20 else 0) for n in range(40)]
    result = compare_rubrics(cases, (LEVELS, LEVELS), (this, other), "abc")
    assert (result.right, result.right_against) == (pytest.approx(0.9), pytest.approx(0.5))
    assert (result.only_this, result.only_other, result.word) == (16, 0, "better")
    assert result.low is not None
    assert result.low > 0
    same = compare_rubrics(cases, (LEVELS, LEVELS), (this, this), "abc")
    assert (same.delta, same.word) == (0, "no difference is shown")


def test_labels_that_were_drawn_weigh_by_their_chance():
    cases = [trial_case(n, "5", weight=3.0 if n < 10 else 1.0) for n in range(40)]
    this = [level(5 if n < 10 else 0) for n in range(40)]
    other = [level(0) for _ in range(40)]
    result = compare_rubrics(cases, (LEVELS, LEVELS), (this, other), "abc")
    assert result.right == pytest.approx(0.5)  # 30 of 60, not 10 of 40
    assert result.delta == pytest.approx(0.5)
