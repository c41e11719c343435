"""Answer criteria over several turns: pairing, union, mean, failures of single turns."""

from __future__ import annotations

from typing import Any

import pytest

from assizes.judge.case import Case, Expected, Turn
from assizes.judge.families.criteria.asks import AnsweredTurn, answered_turns
from assizes.judge.protocol import NoReply
from assizes.judge.score import Score
from tests.builders import agent, call, case, result, user
from tests.judge.families.criteria.criteria_replies import (
    answer,
    aspects,
    check,
    found,
    headline,
    heard,
    opened,
)


def talk(count: int) -> Case:
    turns = [turn for i in range(count) for turn in (user(f"q{i}"), agent(f"r{i}"))]
    return case(*turns, expected=Expected(acceptance_criteria="x"))


FOUR = aspects(one=["c1", "c2"], two=["c3", "c4"])
ONE = aspects(one=["x", "y"])


def united(*replies: Any, decomposition: Any = FOUR, **options: Any) -> dict[str, Score]:
    one = talk(len(replies))
    return heard(one, decomposition, list(replies), multi_turn_strategy="all_turns", **options)


def averaged(decompositions: list[Any], replies: list[Any], **options: Any) -> dict[str, Score]:
    return heard(
        talk(len(decompositions)),
        decompositions,
        *([replies] if replies else []),
        multi_turn_strategy="all_turns",
        multi_turn_aggregation="average",
        **options,
    )


def pairs(*turns: Any) -> list[tuple[int, str, str]]:
    return [(one.at, one.query, one.response) for one in answered_turns(case(*turns).transcript)]


# Pairing


@pytest.mark.row("003-31")
@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ((user("q"), agent("r"), agent("more")), [(1, "q", "r")]),
        ((agent("welcome"), user("q"), agent("r")), [(2, "q", "r")]),
        ((user("a"), user("b"), agent("r")), [(2, "b", "r")]),
        ((user("q"), agent("r"), user("open")), [(1, "q", "r")]),
        ((user("q"), agent(calls=[call("f")]), result("7"), agent("r")), [(3, "q", "r")]),
        ((user("q"), agent("wait", calls=[call("f")]), result("7"), agent("r")), [(3, "q", "r")]),
        ((user("q"), agent("done", calls=[call("f")]), result("7")), [(1, "q", "done")]),
        ((user("q"), agent("  "), user(" "), agent("r")), [(3, "q", "r")]),
        ((user("q"), agent("r"), user("p"), agent("s")), [(1, "q", "r"), (3, "p", "s")]),
        ((agent("welcome"), user("q")), []),
        ((user("q"), Turn(role="tool", text="7"), agent("r")), [(2, "q", "r")]),
    ],
)
def test_a_question_pairs_with_the_first_text_that_answers_it(turns: Any, expected: Any):
    assert pairs(*turns) == expected


@pytest.mark.row("003-31")
def test_answered_turns_are_counted_from_0():
    found = answered_turns(talk(2).transcript)
    assert found == (AnsweredTurn(0, 1, "q0", "r0"), AnsweredTurn(1, 3, "q1", "r1"))


@pytest.mark.row("005-12")
@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ((agent("One moment please."), agent(calls=[call("f")]), result("7"), agent("r")), "r"),
        ((agent("wait", calls=[call("f")]), result("7"), agent("so"), agent("r")), "so"),
        ((agent("wait"), Turn(role="tool", chunks=()), agent("r")), "r"),
        ((agent("r"), agent("I note that.", calls=[call("f")]), result("7")), "r"),
        (
            (agent("One moment please."), agent(calls=[call("f")]), result("7")),
            "One moment please.",
        ),
    ],
)
def test_a_text_in_front_of_a_tool_call_is_no_answer_where_there_is_another(turns, expected):
    assert [response for _, _, response in pairs(user("q"), *turns)] == [expected]


# Which turns are evaluated


@pytest.mark.row("003-23")
def test_by_default_the_last_pair_alone_is_checked():
    hearing = answer(opened(talk(3)), FOUR)
    (ask,) = hearing.asks
    assert "<data: Query>\nq2\n</data>" in ask.prompt.user
    assert "<data: Answer to check>\nr2\n</data>" in ask.prompt.user
    assert "r1" not in ask.prompt.user
    answer(hearing, check(found("a1", [1, 2])))
    score = hearing.scores[0]
    assert score.details["evaluated_turns_count"] == 1
    assert score.details["aspect_breakdown"][0]["turn_index"] == 2
    assert score.turns == (5,)
    assert [one.part for one in hearing.scores] == ["", "aspect:a1", "aspect:a2"]


@pytest.mark.row("003-24")
def test_all_turns_take_one_decomposition_and_a_check_for_each_pair():
    hearing = opened(talk(3), multi_turn_strategy="all_turns")
    (decompose,) = hearing.asks
    assert "<data: Query>\nq0\n</data>" in decompose.prompt.user
    answer(hearing, FOUR)
    assert len(hearing.asks) == 3
    answer(hearing, *[check(found("a1", [1]))] * 3)
    assert hearing.scores[0].details["evaluated_turns_count"] == 3
    assert [one.part for one in hearing.scores] == [
        "",
        "aspect:a1",
        "aspect:a2",
        "turn:0",
        "turn:1",
        "turn:2",
    ]


# Union


@pytest.mark.row("003-25", "003-26")
def test_cumulative_is_the_union_of_the_turns():
    scores = united(
        check(found("a1", [1, 2]), found("a2", reason="nothing yet")),
        check(found("a1", [2]), found("a2", [1])),
    )
    score = scores[""]
    assert (score.value, score.turns) == (0.75, (1, 3))
    assert [scores["turn:0"].value, scores["turn:1"].value] == [0.5, 0.5]
    assert scores["turn:1"].turns == (3,)
    first, second = score.details["aspect_breakdown"]
    assert (first["concepts_covered"], first["turn_index"]) == (["c1", "c2"], 0)
    assert (second["concepts_covered"], second["turn_index"]) == (["c3"], 1)
    assert scores["aspect:a2"].turns == (3,)


@pytest.mark.row("005-13")
def test_an_aspect_whose_concepts_were_covered_over_several_turns_is_covered():
    turns = [check(found("a1", [1], covered=False)), check(found("a1", [2], covered=False))]
    score = united(*turns, decomposition=ONE, scoring_strategy="aspect")[""]
    assert (score.value, score.passed) == (1.0, True)
    (entry,) = score.details["aspect_breakdown"]
    assert (entry["covered"], entry["concepts_missing"], entry["turn_index"]) == (True, [], 1)


@pytest.mark.row("005-13")
@pytest.mark.parametrize(
    "turns",
    [
        [found("a1", [1], covered=False), found("a1", [1], covered=False)],  # y is missing
        [found("a1", [1, 2], covered=False), found("a1", [1], covered=False)],  # the judge's own no
        [
            found("a1", [1], covered=False),
            found("a1", [2], covered=False),
            found("a1", concepts_contradicted=["a1c1"]),
        ],
    ],
)
def test_an_aspect_is_not_covered_by_turns_that_do_not_complete_it(turns):
    options = {"scoring_strategy": "aspect", "check_for_contradictions": True}
    assert united(*map(check, turns), decomposition=ONE, **options)[""].value == 0.0


@pytest.mark.row("003-27")
def test_cumulative_is_never_above_1():
    everything = check(found("a1", [1, 2]), found("a2", [1, 2]))
    assert united(everything, everything, everything)[""].value == 1.0


@pytest.mark.row("003-30")
def test_a_later_contradiction_undoes_coverage():
    turns = [
        check(found("a1", [1, 2])),
        check(found("a1")),
        check(found("a1", concepts_contradicted=["a1c1"], reason="takes it back")),
    ]
    scores = united(*turns, decomposition=ONE, check_for_contradictions=True)
    assert scores[""].value == 0.5
    assert scores[""].details["covered_aspects_count"] == 0
    (entry,) = scores[""].details["aspect_breakdown"]
    assert (entry["concepts_covered"], entry["concepts_missing"]) == (["y"], ["x"])
    assert (entry["reason"], entry["turn_index"]) == ("takes it back", 2)
    kept = united(*turns, decomposition=ONE)
    assert (kept[""].value, kept[""].details["covered_aspects_count"]) == (1.0, 1)


@pytest.mark.row("003-30")
def test_an_answer_may_take_its_contradiction_back():
    scores = united(
        check(found("a1", [1, 2])),
        check(found("a1", concepts_contradicted=["a1c1"])),
        check(found("a1", [1], covered=False)),
        decomposition=ONE,
        check_for_contradictions=True,
    )
    assert scores[""].value == 1.0
    assert scores[""].details["covered_aspects_count"] == 1


def test_a_turn_that_cannot_be_checked_leaves_no_cumulative_score():
    scores = united(check(found("a1", [1])), NoReply("timeout", "late"), check(found("zz")))
    assert scores[""] == Score.failed("answer_criteria", "turn 1: late", "timeout")
    assert scores["turn:1"] == Score.failed("answer_criteria", "late", "timeout", "turn:1")
    assert (scores["turn:0"].status, scores["turn:0"].value) == ("scored", 0.25)
    assert scores["turn:2"].details["error"] == "no_coverage"


@pytest.mark.row("003-51")
def test_without_aspects_no_turn_is_checked():
    (score,) = heard(talk(2), aspects(), multi_turn_strategy="all_turns").values()
    assert score.status == "skipped"


# Mean


@pytest.mark.row("003-28")
def test_average_is_the_mean_of_the_turns_and_the_counts_are_pooled():
    scores = averaged(
        [aspects(one=["a", "b", "c", "d"]), aspects(one=["a"], two=["b"])],
        [check(found("a1", [1, 2])), check(found("a1", [1]), found("a2", [1]))],
    )
    score = scores[""]
    assert (score.value, score.details["turn_scores"]) == (0.75, [0.5, 1.0])
    assert (score.details["total_concepts_covered"], score.details["total_concepts"]) == (4, 6)
    assert score.details["concept_coverage_score"] == 0.666666667
    assert score.details["evaluated_turns_count"] == 2
    assert [one["turn_index"] for one in score.details["aspect_breakdown"]] == [0, 1, 1]
    assert list(scores) == [
        "",
        "turn:0/aspect:a1",
        "turn:1/aspect:a1",
        "turn:1/aspect:a2",
        "turn:0",
        "turn:1",
    ]
    assert (scores["turn:1"].value, scores["turn:1"].passed) == (1.0, True)


@pytest.mark.row("003-28")
def test_average_decomposes_by_the_query_of_each_turn():
    hearing = opened(talk(2), multi_turn_strategy="all_turns", multi_turn_aggregation="average")
    assert [ask.evidence.query for ask in hearing.asks] == ["q0", "q1"]


def test_a_turn_without_aspects_does_not_count_in_the_average():
    scores = averaged([aspects(), ONE], [check(found("a1", [1]))])
    assert (scores[""].value, scores[""].details["evaluated_turns_count"]) == (0.5, 1)
    assert scores["turn:0"].status == "skipped"
    assert scores[""].turns == (3,)


@pytest.mark.row("003-51")
def test_an_average_over_no_aspects_at_all_is_skipped():
    scores = averaged([aspects(), aspects()], [])
    assert {part: one.status for part, one in scores.items()} == {
        "": "skipped",
        "turn:0": "skipped",
        "turn:1": "skipped",
    }


def test_a_turn_that_cannot_be_checked_leaves_no_average():
    scores = averaged([ONE, NoReply("refused", "no")], [check(found("a1", [1]))])
    assert scores[""] == Score.failed("answer_criteria", "turn 1: no", "refused")
    assert (scores["turn:0"].value, scores["turn:1"].status) == (0.5, "failed")


def test_warnings_name_their_turn():
    scores = united(check(found("a1", [1]), found("a2")), check(found("a1", [1])))
    warning = "turn 1: aspect 'a2' is not in the reply, taken as not covered"
    assert scores[""].details["warnings"] == [warning]
    assert scores["turn:1"].details["warnings"] == [warning]
    assert "warnings" not in scores["turn:0"].details


def test_a_single_turn_scores_the_same_in_every_mode():
    reply = check(found("a1", [1, 2]), found("a2", [1]))
    modes = [
        {},
        {"multi_turn_strategy": "all_turns"},
        {"multi_turn_strategy": "all_turns", "multi_turn_aggregation": "average"},
    ]
    assert [headline(talk(1), FOUR, reply, **mode).value for mode in modes] == [0.75] * 3
