"""The trajectory judge: paths of tool calls, compared by program."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assizes.judge.case import Case, Expected, ExpectedCall, ToolCall
from assizes.judge.evidence.steps import AgentStep
from assizes.judge.families.agent_steps.conversations import path_match
from tests.builders import agent, call, case, result, user
from tests.judge.families.agent_steps.step_cases import opened, parts

MODES = ("in_order", "exact", "set")


def path(names: str) -> tuple[ExpectedCall, ...]:
    return tuple(ExpectedCall(name=name) for name in names)


def made(names: str) -> tuple[AgentStep, ...]:
    return tuple(AgentStep(i, name, {}) for i, name in enumerate(names))


def heard(names: str, *paths: str, match: Any = "in_order", **options: Any) -> dict[str, Any]:
    expected = Expected(trajectory=tuple(map(path, paths)), trajectory_match=match)
    calls = [call(name, f"call_{i}") for i, name in enumerate(names)]
    one = case(user("Go"), agent(calls=calls), agent("Done."), expected=expected)
    return parts(opened("trajectory", one, **options))


@pytest.mark.row("002-16")
@pytest.mark.parametrize(
    ("due", "done", "in_order", "exact", "any_order"),
    [
        ("abc", "abc", 1, 1, 1),
        ("abc", "axbxc", 1, 0.6, 1),
        ("abc", "cba", 0.333333333, 0.333333333, 1),
        ("abc", "ab", 0.666666667, 0.666666667, 0.666666667),
        ("abc", "", 0, 0, 0),
        ("aa", "a", 0.5, 0.5, 0.5),
        ("a", "aa", 1, 0.5, 1),
        ("", "", 1, 1, 1),
        ("", "a", 1, 0, 1),
        ("ab", "ba", 0.5, 0.5, 1),
    ],
)
def test_a_path_is_followed_in_order_exactly_or_in_any_order(due, done, in_order, exact, any_order):
    shares = [path_match(path(due), made(done), mode).share for mode in MODES]
    assert shares == [in_order, exact, any_order]


@pytest.mark.parametrize(
    ("due", "done", "missed"),
    [
        ("abc", "ac", "b"),
        ("abc", "cb", "ac"),
        ("abc", "x", "abc"),
        ("aba", "ba", "a"),
        ("ab", "aab", ""),
    ],
)
def test_the_calls_that_were_not_made_are_named(due, done, missed):
    match = path_match(path(due), made(done), "in_order")
    assert "".join(one.name for one in match.missed) == missed
    assert match.matched == len(due) - len(missed)


@given(st.text("abc", max_size=8), st.text("abc", max_size=8), st.sampled_from(MODES))
def test_matched_and_missed_make_up_the_path(due, done, mode):
    match = path_match(path(due), made(done), mode)
    assert match.matched + len(match.missed) == len(due)
    assert 0 <= match.share <= 1
    assert path_match(path(due), made(due), mode).share == 1


@pytest.mark.parametrize(
    ("arguments", "share"),
    [(None, 1.0), ({"n": "5", "x": None}, 1.0), ({"n": 6}, 0.0), ({}, 1.0)],
)
def test_arguments_count_where_they_are_given(arguments, share):
    due = (ExpectedCall(name="a", arguments=arguments),)
    assert path_match(due, (AgentStep(0, "a", {"n": 5.0}),), "in_order").share == share


def test_in_any_order_calls_with_arguments_choose_first():
    due = (ExpectedCall(name="a"), ExpectedCall(name="a", arguments={"n": 1}))
    steps = (AgentStep(0, "a", {"n": 1}), AgentStep(1, "a", {"n": 2}))
    assert path_match(due, steps, "set").share == 1


def test_an_exact_path_may_leave_out_what_sub_agents_called():
    inner = AgentStep(0, "b", {}, within=("a",))
    steps = (AgentStep(0, "a", {}), inner, AgentStep(1, "c", {}))
    assert path_match(path("ac"), steps, "exact").share == 1
    assert path_match(path("abc"), steps, "exact").share == 1
    assert path_match(path("ab"), steps, "exact").share == 0.666666667


@pytest.mark.row("002-16")
def test_the_best_path_counts_and_each_is_a_part():
    found = heard("abx", "abc", "abxy", "q")
    assert {part: (one.value, one.passed) for part, one in found.items()} == {
        "": (0.75, True),
        "path:0": (0.666666667, False),
        "path:1": (0.75, True),
        "path:2": (0.0, False),
    }
    assert found[""].details["reasoning"] == (
        "Path 1: 3 of 4 expected calls made (0.75); missing: y(any)"
    )
    assert found[""].details["path"] == 1
    assert found[""].details["expected_calls"] == ["a(any)", "b(any)", "x(any)", "y(any)"]
    assert found[""].details["extracted_calls"] == ["a({})", "b({})", "x({})"]
    assert found["path:2"].details["reasoning"] == (
        "0 of 1 expected calls made (0.00); missing: q(any)"
    )
    assert found["path:2"].details["strategy"] == "trajectory"


@pytest.mark.parametrize(("match", "value"), [("in_order", 1.0), ("exact", 0.5), ("set", 1.0)])
def test_the_case_says_how_its_paths_are_matched(match, value):
    found = heard("ba", "b" if match == "exact" else "a", match=match)
    assert found[""].value == value
    assert found[""].details["match"] == match


def test_the_threshold_can_be_chosen():
    assert heard("ab", "abc")[""].passed is False
    assert heard("ab", "abc", threshold=0.6)[""].passed is True


@pytest.mark.row("002-03", "002-16")
def test_all_steps_are_looked_at_those_of_sub_agents_too():
    inner = ToolCall(name="b")
    one: Case = case(
        user("Go"),
        agent(calls=[ToolCall(name="a", tool_calls=(inner,))]),
        expected=Expected(trajectory=(path("ab"),)),
    )
    assert parts(opened("trajectory", one))[""].value == 1.0


@pytest.mark.row("002-59")
def test_turns_may_have_paths_of_their_own():
    one = case(
        user("Go"),
        agent(calls=[call("a")]),
        user("On"),
        agent(calls=[call("b")]),
        expected=Expected(
            additional_input={
                "turns": [{"trajectory": [[{"name": "a"}]]}, {"trajectory": [[{"name": "c"}]]}]
            }
        ),
    )
    found = parts(opened("trajectory", one, per_turn=True))
    assert {part: score.value for part, score in found.items()} == {
        "": 0.5,
        "turn:0": 1.0,
        "turn:1": 0.0,
    }


def follows(step: dict[str, Any], mode: str, **expected: Any) -> float:
    due = ExpectedCall(name="w", arguments={"legs": [{"leg": "X1"}]})
    truth = Expected(trajectory=((due,),), trajectory_match=mode, **expected)
    done = case(user("Go"), agent(calls=[call("w", **step)]), agent("Done."), expected=truth)
    return parts(opened("trajectory", done))[""].value


@pytest.mark.parametrize("mode", MODES)
def test_arguments_that_a_path_does_not_name_are_ignored_unless_the_case_says_exact(mode):
    more = {"legs": [{"leg": "x1", "price": 105}], "total": 105}
    assert follows({"legs": [{"leg": "x1"}]}, mode) == 1
    assert follows(more, mode) == (0 if mode == "exact" else 1)
    assert follows(more, mode, arguments_match="exact") == 0
    assert follows({"legs": [{"leg": "X2", "price": 105}]}, mode) == 0


@pytest.mark.parametrize("mode", MODES)
def test_a_call_made_again_after_an_outage_is_one_step(mode):
    turns = (
        agent(calls=[call("a", "call_1")]),
        result("503 Service Unavailable", call_id="call_1"),
        agent(calls=[call("a", "call_2")]),
        result("ok", call_id="call_2"),
        agent(calls=[call("b", "call_3")]),
        result("Request timed out", call_id="call_3", is_error=True),
    )
    truth = Expected(trajectory=(path("ab"),), trajectory_match=mode)
    done = case(user("Go"), *turns, agent("The system is down."), expected=truth)
    assert parts(opened("trajectory", done))[""].value == 1
