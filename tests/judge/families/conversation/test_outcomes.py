"""Expected outcomes in a reply of the conversation judge, and replies that never came."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assizes.judge.case import Expected
from assizes.judge.prompts.reply import read_reply
from assizes.judge.protocol import NoReply
from assizes.judge.rubrics.rubric import built_in_rubrics
from assizes.judge.score import Score
from assizes.judge.verdicts.verdict import verdict
from tests.builders import case
from tests.judge.families.conversation.conversation_cases import TURNS, asked, heard, opened, scored


def outcome(number: int, passed: bool = True, statement: str = "reworded") -> dict[str, Any]:
    return {
        "number": number,
        "statement": statement,
        "justification": f"on {number}",
        "passed": passed,
    }


def outcomes(statements: tuple[str, ...], *entries: dict[str, Any]) -> list[Score]:
    one = case(*TURNS, expected=Expected(outcomes=statements))
    reply = {"tool_routing": scored(), "expected_outcomes": list(entries)}
    found = heard(one, reply)
    return [score for (metric, _), score in found.items() if metric == "expected_outcomes"]


@pytest.mark.row("001-18", "001-19")
def test_outcomes_come_in_the_cases_order_whatever_the_replys():
    found = outcomes(("A holds", "B holds"), outcome(2, passed=False), outcome(1))
    assert found == [
        Score("expected_outcomes", value=0.5, raw=0.5, passed=False),
        Score(
            "expected_outcomes",
            part="outcome:0",
            value=1.0,
            raw=1.0,
            label="pass",
            passed=True,
            details={"statement": "A holds", "justification": "on 1"},
        ),
        Score(
            "expected_outcomes",
            part="outcome:1",
            value=0.0,
            raw=0.0,
            label="fail",
            passed=False,
            details={"statement": "B holds", "justification": "on 2"},
        ),
    ]


NOT_EVALUATED = {"justification": "not evaluated"}


def missing(place: int, statement: str) -> Score:
    part = f"outcome:{place}"
    code = "missing_outcome"
    return Score.failed(
        "expected_outcomes", "not evaluated", code, part, statement=statement, **NOT_EVALUATED
    )


@pytest.mark.row("001-17")
def test_a_missing_outcome_has_failed_and_its_headline_has_not_passed():
    headline, _, _, third = outcomes(("A", "B", "C"), outcome(1), outcome(2))
    assert (headline.raw, headline.passed) == (0.666666667, False)
    assert third == missing(2, "C")


def doubts(statements: tuple[str, ...], *entries: dict[str, Any]) -> str | None:
    found = asked(case(*TURNS, expected=Expected(outcomes=statements)))
    reply = {"tool_routing": scored(), "expected_outcomes": list(entries)}
    return read_reply(found, json.dumps(reply)).doubt


@pytest.mark.row("001-17")
@pytest.mark.parametrize(
    ("entries", "doubt"),
    [
        ([outcome(1), outcome(2), outcome(3)], None),
        ([outcome(3), outcome(1), outcome(2), outcome(4)], None),
        ([outcome(2)], "expected_outcomes has no entry that counts for number 1, 3"),
        (
            [outcome(1), outcome(2), outcome(3), outcome(2, passed=False)],
            "expected_outcomes has no entry that counts for number 2; "
            "expected_outcomes has more than one entry for number 2; "
            "expected_outcomes 2 is judged more than once, with different results",
        ),
        (
            [outcome(1), outcome(2), outcome(3), outcome(3)],
            "expected_outcomes has more than one entry for number 3; "
            "expected_outcomes 3 is judged more than once, with the same result",
        ),
        (
            [outcome(0), outcome(1), outcome(2)],
            "expected_outcomes has no entry that counts for number 1, 2, 3; "
            "expected_outcomes is numbered from 0, the statements from 1",
        ),
        (
            [outcome(1), outcome(2, statement="c."), outcome(3)],
            "expected_outcomes has no entry that counts for number 2; "
            "ignored an entry of expected_outcomes: number 2 has the words of 3",
        ),
    ],
)
def test_statements_without_one_certain_entry_are_doubts(entries, doubt):
    assert doubts(("A", "B", "C"), *entries) == doubt


def test_outcomes_that_are_left_out_altogether_are_a_doubt():
    one = case(*TURNS, expected=Expected(outcomes=("A",)))
    doubt = read_reply(asked(one), json.dumps({"tool_routing": scored()})).doubt
    assert doubt == "expected_outcomes has no entry that counts for number 1"


@pytest.mark.row("001-16")
@pytest.mark.parametrize(
    ("entries", "details"),
    [
        ([], {}),
        (
            [outcome(9)],
            {"warnings": ["ignored an entry of expected_outcomes: number 9 is not among 1 to 2"]},
        ),
        (
            [outcome(0), outcome(1)],
            {"warnings": ["expected_outcomes is numbered from 0, the statements from 1"]},
        ),
    ],
)
def test_a_reply_without_any_outcome_fails_the_headline_alone(entries, details):
    assert outcomes(("A", "B"), *entries) == [
        Score.failed(
            "expected_outcomes",
            "the judge evaluated none of the expected outcomes",
            "no_outcomes",
            **details,
        )
    ]


@pytest.mark.row("001-21")
def test_equal_statements_are_aligned_by_number():
    headline, first, second = outcomes(
        ("A", "A"), outcome(2, passed=False, statement="A"), outcome(1, statement="A")
    )
    assert (headline.raw, first.passed, second.passed) == (0.5, True, False)


@pytest.mark.row("001-22")
def test_an_invented_outcome_is_ignored_with_a_warning():
    headline, *parts = outcomes(("A",), outcome(1), outcome(2, passed=False), outcome(-1))
    assert headline.passed is True
    assert len(parts) == 1
    assert headline.details["warnings"] == [
        "ignored an entry of expected_outcomes: number 2 is not among 1 to 1",
        "ignored an entry of expected_outcomes: number -1 is not among 1 to 1",
    ]


@pytest.mark.parametrize(("second", "held"), [(True, True), (False, None)])
def test_a_statement_judged_twice_counts_only_with_one_result(second: bool, held: bool | None):
    headline, _, part = outcomes(("A", "B"), outcome(1), outcome(2), outcome(2, passed=second))
    assert part.passed is held
    assert headline.passed is bool(held)
    assert len(headline.details["warnings"]) == 1


def test_a_finding_with_the_words_of_another_statement_counts_for_neither():
    headline, first, second = outcomes(
        ("A was told.", "B was told."),
        outcome(1, statement="b was told"),
        outcome(2, passed=False, statement="B was told."),
    )
    assert (headline.passed, first) == (False, missing(0, "A was told."))
    assert second.passed is False


def test_without_expected_outcomes_the_headline_is_skipped():
    found = heard(case(*TURNS), {"tool_routing": scored()})
    assert found["expected_outcomes", ""] == Score.skipped(
        "expected_outcomes", "no expected outcomes defined"
    )


@pytest.mark.row("000-59")
def test_an_empty_transcript_fails_every_promised_metric_without_an_ask():
    hearing = opened(case(expected=Expected(outcomes=("A",))), "tool_routing", "task_completion")
    assert hearing.asks == ()
    assert hearing.scores == [
        Score.failed(name, "the transcript has no turns", "empty_transcript")
        for name in ("tool_routing", "task_completion", "expected_outcomes")
    ]


def test_a_failed_reply_fails_every_promised_metric():
    hearing = opened(case(*TURNS))
    hearing.answer([NoReply("timeout", "no answer in 120 s")])
    assert hearing.scores == [
        Score.failed(name, "no answer in 120 s", "timeout")
        for name in ("tool_routing", "expected_outcomes")
    ]


@pytest.mark.row("001-23")
def test_only_the_chosen_metrics_are_scored():
    found = heard(case(*TURNS), {"response_delivery": scored(4)}, "response_delivery")
    assert list(found) == [("response_delivery", ""), ("expected_outcomes", "")]


def judged(
    entries: Any, *metrics: str, statements: tuple[str, ...] = ("A holds", "B holds")
) -> Any:
    """The doubt about a reply of good levels with this checklist, and the scores it leads to."""
    one = case(*TURNS, expected=Expected(outcomes=statements))
    reply = {name: scored(4) for name in metrics} | {"expected_outcomes": entries}
    hearing = opened(one, *metrics)
    parsed = read_reply(hearing.asks[0], json.dumps(reply))
    hearing.answer([parsed.reply])
    return parsed.doubt, {(score.metric, score.part): score for score in hearing.scores}


UNREADABLE = [
    "all good",
    True,
    {"A holds": True},
    ["A holds", "B holds"],
    [True, True],
    [{"number": 1}, {"statement": "B holds", "justification": "seen"}],
    [{"number": 1, "passed": "mostly"}, {"number": 2, "passed": None}],
    [{"passed": True}, {"statement": "something else", "passed": True}],
    [{"number": "first", "passed": True}],
]


@pytest.mark.row("005-01")
@pytest.mark.parametrize("entries", UNREADABLE, ids=str)
def test_a_checklist_that_cannot_be_read_costs_none_of_the_eight_scores(entries):
    names = [rubric.name for rubric in built_in_rubrics() if rubric.default_weight]
    assert len(names) == 8
    doubt, found = judged(entries, *names)
    assert {found[name, ""].raw for name in names} == {4}
    assert (found["expected_outcomes", ""].status, doubt is None) == ("failed", False)
    weights = dict.fromkeys(names, 1.0)
    decided = verdict(list(found.values()), weights, 75.0)
    assert (decided.status, decided.passed, decided.gate) == ("judged", True, "overall_score")
    said = "score 80.0, needs 75.0, as no expected outcome could be read"
    assert decided.summary.startswith(f"PASSED ({said})")


@pytest.mark.row("005-01")
@pytest.mark.parametrize(
    ("entries", "passed"),
    [
        ([{"number": 1, "passed": True}, {"number": 2, "passed": False}], [True, False]),
        (
            [{"statement": "b holds.", "passed": False}, {"statement": "A holds", "passed": True}],
            [True, False],
        ),
        ([outcome(1) | {"passed": "yes"}, outcome(2) | {"passed": " No "}], [True, False]),
        ([outcome(1) | {"passed": "PASSED"}, outcome(2) | {"passed": "fail"}], [True, False]),
        ([outcome(1) | {"passed": 1}, outcome(2) | {"passed": 0}], [True, False]),
        ([outcome(1) | {"number": "1"}, outcome(2) | {"number": 2.0}], [True, True]),
        (
            [outcome(1) | {"number": [1], "statement": "A holds"}, outcome(2) | {"statement": 7}],
            [True, True],
        ),
    ],
    ids=["fields", "words", "yes", "passed", "digits", "numbers", "odd"],
)
def test_what_of_a_checklist_can_be_read_decides(entries, passed):
    doubt, found = judged(entries, "tool_routing")
    parts = [found["expected_outcomes", f"outcome:{place}"].passed for place in range(2)]
    assert (parts, doubt) == (passed, None)


@pytest.mark.row("005-01")
def test_an_entry_that_cannot_be_read_is_asked_for_once_more_and_then_has_not_passed():
    doubt, found = judged([outcome(1), "B holds: yes"], "tool_routing")
    why = "ignored an entry of expected_outcomes: it does not say whether the outcome passed"
    assert doubt == f"expected_outcomes has no entry that counts for number 2; {why}"
    headline = found["expected_outcomes", ""]
    assert (headline.passed, headline.details["warnings"]) == (False, [why])
    assert found["expected_outcomes", "outcome:1"] == missing(1, "B holds")


def test_equal_statements_without_numbers_are_not_told_apart():
    entries = [{"statement": "A", "passed": True}, {"statement": "A", "passed": True}]
    _, found = judged(entries, "tool_routing", statements=("A", "A"))
    assert found["expected_outcomes", ""].status == "failed"
