"""Tool evidence: the calls that an agent made, compared with the expected calls."""

from __future__ import annotations

import pytest

from assizes.judge.case import (
    Case,
    Expected,
    ExpectedCall,
    ToolCall,
    ToolResult,
    ToolSpec,
    Transcript,
    Turn,
)
from assizes.judge.evidence.tool_calls import made_calls, tool_evidence


def case(*turns, **expected):
    finished = expected.pop("finished", None)
    tools = expected.pop("tools", ())
    return Case(
        case_id="c",
        transcript=Transcript(turns=turns, finished=finished, tools=tools),
        expected=Expected(**expected),
    )


def calls(*named):
    return Turn(
        role="assistant",
        tool_calls=tuple(
            ToolCall(name=name_or_call, id=f"id_{name_or_call}")
            if isinstance(name_or_call, str)
            else ToolCall(name=name_or_call[0], arguments=name_or_call[1])
            for name_or_call in named
        ),
    )


def says(text):
    return Turn(role="assistant", text=text)


def result(content="", **more):
    return Turn(role="tool", tool_result=ToolResult(content=content, **more))


def due(*named):
    return tuple(
        ExpectedCall(name=name_or_call)
        if isinstance(name_or_call, str)
        else ExpectedCall(name=name_or_call[0], arguments=name_or_call[1])
        for name_or_call in named
    )


@pytest.mark.row("000-61")
def test_calls_in_another_order_have_full_recall_and_precision_and_are_not_in_order():
    evidence = tool_evidence(case(calls("b"), calls("a"), tool_calls=due("a", "b")))
    assert (evidence.recall, evidence.precision, evidence.in_order) == (1.0, 1.0, False)
    assert "By name: recall 1.0, precision 1.0, in order: no" in evidence.text()


@pytest.mark.row("000-60")
def test_nothing_expected_and_nothing_called_is_a_perfect_match():
    evidence = tool_evidence(case(says("Hello"), tool_calls=(), writes=("w",)))
    assert (evidence.recall, evidence.precision, evidence.in_order) == (1.0, 1.0, True)
    assert (evidence.write_match, evidence.missed, evidence.unexpected) == (True, (), ())


def test_without_expected_calls_nothing_is_compared():
    evidence = tool_evidence(case(calls("a"), writes=("a",)))
    assert (evidence.recall, evidence.precision, evidence.in_order) == (None, None, None)
    assert (evidence.expected, evidence.expected_writes, evidence.write_match) == (None, None, None)
    assert evidence.text().splitlines() == [
        "Successful calls: 1: a (turn 0)",
        "Failed calls, not counted as done: 0: none",
        "No expected calls given.",
        "State-changing calls done: 1; expected ones not known.",
    ]


def test_a_call_that_was_made_is_matched_and_the_rest_is_missed_or_unexpected():
    evidence = tool_evidence(case(calls("a", "x"), tool_calls=due("a", "b", "b")))
    assert [match.made.call.name for match in evidence.matches] == ["a"]
    assert [call.name for call in evidence.missed] == ["b", "b"]
    assert [made_call.call.name for made_call in evidence.unexpected] == ["x"]
    assert (evidence.recall, evidence.precision) == (0.333333333, 0.5)


def test_the_same_expected_call_twice_needs_two_calls():
    twice = ExpectedCall(name="a")
    evidence = tool_evidence(case(calls("a"), tool_calls=(twice, twice)))
    assert (len(evidence.matches), len(evidence.missed)) == (1, 1)


def test_failed_calls_are_listed_but_not_done():
    evidence = tool_evidence(
        case(
            calls("a"),
            result("Error", call_id="id_a", is_error=True),
            calls(("a", {})),
            result("ok"),
            tool_calls=due("a"),
            writes=("a",),
        )
    )
    assert [made_call.turn for made_call in evidence.failed] == [0]
    assert [made_call.turn for made_call in evidence.called] == [2]
    assert (evidence.recall, evidence.precision, evidence.write_match) == (1.0, 1.0, True)


def test_a_result_belongs_to_the_call_with_its_id_that_stands_before_it():
    repeated_ids = case(
        calls("a", "b"),
        result("second", call_id="id_b"),
        result("first", call_id="id_a"),
        calls("a"),
        result("third", call_id="id_a"),
    )
    made = made_calls(repeated_ids.transcript)
    assert [
        (made_call.turn, made_call.result and made_call.result.content) for made_call in made
    ] == [
        (0, "first"),
        (0, "second"),
        (3, "third"),
    ]


def test_a_result_that_comes_late_is_found_by_its_id():
    late = case(calls("a"), says("One moment"), result("done", call_id="id_a"))
    assert [
        made_call.result and made_call.result.content for made_call in made_calls(late.transcript)
    ] == ["done"]


def test_results_without_ids_belong_to_the_calls_in_their_order():
    plain = case(calls(("a", {}), ("b", {})), result("1"), result("2", is_error=True))
    assert [made_call.has_failed for made_call in made_calls(plain.transcript)] == [False, True]


def test_a_user_who_speaks_before_the_result_comes_is_no_obstacle():
    plain = case(calls(("a", {})), Turn(role="user", text="Well?"), result("1"))
    assert [
        made_call.result and made_call.result.content for made_call in made_calls(plain.transcript)
    ] == ["1"]


def test_a_call_nobody_answered_has_no_result():
    lost = case(calls("a", ("b", {})), result("other", call_id="elsewhere"))
    assert [made_call.result for made_call in made_calls(lost.transcript)] == [None, None]


def test_calls_of_the_user_are_not_the_agents():
    turn = Turn(role="user", tool_calls=(ToolCall(name="a"),))
    assert list(made_calls(Transcript(turns=(turn,)))) == []


@pytest.mark.parametrize(
    ("arguments_match", "extra", "line"),
    [("named", (), ""), ("exact", ("more",), "; extra more")],
)
def test_arguments_are_compared_name_by_name(arguments_match, extra, line):
    evidence = tool_evidence(
        case(
            calls(("a", {"same": "X", "off": 1, "more": 2, "none": None})),
            tool_calls=due(("a", {"same": "x ", "off": 2, "lacking": 3, "absent": None})),
            arguments_match=arguments_match,
        )
    )
    (match,) = evidence.matches
    assert (match.missing, match.extra, match.different) == (("lacking",), extra, ("off",))
    assert match.differences == 2 + len(extra)
    assert f"- turn 0 a: missing lacking{line}; off is 1, expected 2" in evidence.text()


def test_members_that_the_expectation_does_not_name_are_ignored_unless_the_case_says_exact():
    wanted = due(("w", {"legs": [{"leg": "X1", "day": "2024-05-24"}], "class": "basic"}))
    leg = {"leg": "x1", "day": "2024-05-24", "price": 105, "origin": "Oslo"}
    made = calls(("w", {"class": "Basic", "legs": [leg], "total": 105}))
    named = tool_evidence(case(made, tool_calls=wanted, writes=("w",)))
    exact = tool_evidence(case(made, tool_calls=wanted, writes=("w",), arguments_match="exact"))
    assert (named.write_match, named.matches[0].differences) == (True, 0)
    assert (exact.write_match, exact.matches[0].extra) == (False, ("total",))
    assert exact.matches[0].different == ("legs",)


def test_a_call_that_names_less_does_not_take_the_partner_of_one_that_names_more():
    evidence = tool_evidence(
        case(
            calls(("w", {"x": 1, "y": 1, "z": 1})),
            calls(("w", {"x": 1, "v": 1, "u": 1, "t": 1})),
            tool_calls=due(("w", {"x": 1}), ("w", {"y": 1})),
            writes=("w",),
        )
    )
    assert evidence.write_match is True
    assert [match.made.turn for match in evidence.matches] == [1, 0]


OUTAGE = "503 Service Unavailable"


def test_a_call_that_an_outage_prevented_counts_as_made_and_trying_again_is_no_second_call():
    again = tool_evidence(
        case(
            calls(("w", {"x": 1})),
            result(OUTAGE, is_error=True),
            calls(("w", {"x": 1})),
            result("ok"),
            tool_calls=due(("w", {"x": 1})),
            writes=("w",),
        )
    )
    assert (again.write_match, again.recall, again.precision) == (True, 1.0, 1.0)
    assert (len(again.called), again.failed, again.lost_calls) == (1, (), ())
    assert [made_call.turn for made_call in again.prevented] == [0]
    assert (
        "Calls that failed by an outage or a time-out, no fault of the agent, nor is trying again: "
        "1: w (turn 0)"
    ) in again.text().splitlines()


def test_an_expected_call_that_never_went_through_is_not_missed():
    lost = tool_evidence(
        case(
            calls(("w", {"x": 1})),
            result('{"status": 503, "error": "unavailable"}'),
            tool_calls=due(("w", {"x": 1})),
            writes=("w",),
        )
    )
    assert (lost.write_match, lost.recall, lost.missed, lost.unexpected) == (True, 1.0, (), ())
    assert (lost.called, lost.done_writes, len(lost.lost_calls)) == ((), (), 1)


@pytest.mark.parametrize(
    ("arguments", "content"),
    [({"x": 2}, OUTAGE), ({"x": 1}, "Error: x must be above 1"), ({"x": 1}, "Error: not found")],
)
def test_wrong_arguments_and_refusals_stay_the_agents(arguments, content):
    evidence = tool_evidence(
        case(
            calls(("w", arguments)),
            result(content, is_error=True),
            tool_calls=due(("w", {"x": 1})),
            writes=("w",),
        )
    )
    assert evidence.write_match is False


def test_a_write_that_succeeded_beside_the_expected_one_stays_unexpected():
    evidence = tool_evidence(
        case(
            calls(("w", {"x": 1})),
            result(OUTAGE, is_error=True),
            calls(("w", {"x": 2})),
            result("ok"),
            tool_calls=due(("w", {"x": 1})),
            writes=("w",),
        )
    )
    assert evidence.write_match is False


def test_expected_calls_without_arguments_take_any():
    evidence = tool_evidence(case(calls(("a", {"x": 1})), tool_calls=due("a"), writes=("a",)))
    assert (evidence.matches[0].differences, evidence.write_match) == (0, True)


def test_an_exact_match_is_not_taken_away_by_a_looser_one():
    evidence = tool_evidence(
        case(
            calls(("a", {"x": 1})),
            calls(("a", {"x": 2})),
            tool_calls=due("a", ("a", {"x": 1})),
            writes=("a",),
        )
    )
    assert [match.made.turn for match in evidence.matches] == [1, 0]
    assert evidence.write_match is True


def test_the_nearest_match_is_taken_when_none_is_exact():
    evidence = tool_evidence(
        case(
            calls(("a", {"x": 1, "y": 1})),
            calls(("a", {"x": 1, "y": 2})),
            tool_calls=due(("a", {"x": 1, "y": 3}), ("a", {"x": 1, "y": 2})),
        )
    )
    assert [(m.made.turn, m.different) for m in evidence.matches] == [(0, ("y",)), (1, ())]


def test_the_order_is_kept_where_one_of_several_equal_calls_keeps_it():
    evidence = tool_evidence(case(calls("a"), calls("b"), calls("a"), tool_calls=due("b", "a")))
    assert (evidence.in_order, [match.made.turn for match in evidence.matches]) == (True, [1, 2])


@pytest.mark.parametrize(
    ("made", "match"),
    [
        ([("w", {"x": [1, {"y": 2}]}), ("v", {})], True),
        ([("v", {}), ("r", {"any": 1}), ("w", {"x": [{"y": 2.0}, "1"]})], True),
        ([("w", {"x": [1, {"y": 2}]})], False),
        ([("w", {"x": [1, {"y": 2}]}), ("v", {}), ("v", {})], False),
        ([("w", {"x": [1, {"y": 3}]}), ("v", {})], False),
        ([], False),
    ],
)
def test_state_changing_calls_are_compared_as_multisets_with_their_arguments(made, match):
    evidence = tool_evidence(
        case(
            *(calls(names) for names in made),
            tool_calls=due(("r", {}), ("w", {"x": [{"y": 2}, 1]}), ("v", {})),
            writes=("w", "v"),
        )
    )
    assert evidence.write_match is match
    assert [call.name for call in evidence.expected_writes] == ["w", "v"]


def test_the_tools_may_declare_what_changes_state():
    tools = (ToolSpec(name="w", writes=True), ToolSpec(name="r", writes=False))
    evidence = tool_evidence(case(calls("r", "w"), tool_calls=due("w"), tools=tools))
    assert (evidence.writes_known, evidence.write_match) == (True, True)
    assert [made_call.call.name for made_call in evidence.done_writes] == ["w"]


def test_without_a_word_on_state_the_expected_calls_are_taken_for_it():
    evidence = tool_evidence(case(calls("a", "z"), tool_calls=due("a")))
    assert (evidence.writes_known, evidence.write_match) == (False, True)


def test_nothing_is_known_of_state_where_no_call_was_expected_and_no_tool_is_named():
    assert tool_evidence(case(calls("a"), tool_calls=())).write_match is None


def test_what_only_the_user_or_a_tool_said_has_not_been_told():
    evidence = tool_evidence(case(Turn(role="user", text="77"), result("77"), said=("77",)))
    assert evidence.unstated_texts == ("77",)


def test_the_text_for_a_judge_is_complete_and_short():
    evidence = tool_evidence(
        case(
            says("It costs 50."),
            calls(("w", {"x": 1})),
            result("Error", is_error=True),
            calls("r"),
            tool_calls=due(("w", {"x": 1})),
            writes=("w",),
            said=("50", "60"),
            finished=False,
        )
    )
    assert evidence.text().splitlines() == [
        "Successful calls: 1: r (turn 3)",
        "Failed calls, not counted as done: 1: w (turn 1)",
        "Expected calls: 1: w",
        "By name: recall 0.0, precision 0.0, in order: yes",
        "Expected but not called: w",
        "Called beyond the expected: r (turn 3)",
        "Matched calls with other arguments than expected: 0",
        "State-changing calls: expected 1, done 0, the same with arguments: no",
        'Told the user 1 of 2 expected strings; not told: "60"',
        "Conversation came to its end: no, it was cut off",
    ]


def test_the_text_stays_short_whatever_the_agent_called():
    name, value = "n\n" * 400, {"k\n" * 400: "v\n" * 5000, "o": "same"}
    evidence = tool_evidence(
        case(
            *(calls((name, value)) for _ in range(50)),
            tool_calls=due(*((name, {"k\n" * 400: "w", "p": 1}) for _ in range(50))),
            finished=True,
        )
    )
    lines = evidence.text().splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) < 1000
    assert "and 38 more" in lines[0]
