"""The rules that see what decided a failed run: what each catches, and what it leaves alone."""

from __future__ import annotations

import json

import pytest

from assizes.judge.case import Case, Chunk, Expected, ExpectedCall, ToolResult, Turn
from assizes.judge.evidence.failure_signs import QUOTE_CHARS, Sign, failure_signs
from tests.builders import agent, call, case, result, user

BOOK = call("book", room=4)
ERROR = result("Error: room 4 does not exist", is_error=True)
GONE = result("503 Service Unavailable", is_error=True)


def said(name: str, text: str) -> Turn:
    return Turn(role="assistant", text=text, agent=name)


def ran(content: str) -> Turn:
    outcome = ToolResult(content=content, name="terminal")
    return Turn(role="tool", tool_result=outcome, agent="terminal")


def sign(case: Case, rule: str) -> Sign | None:
    return next((found for found in failure_signs(case) if found.rule == rule), None)


def test_an_expected_call_that_was_never_made_is_missed_where_it_was_due():
    expected = Expected(
        tool_calls=(ExpectedCall(name="find", arguments={}), ExpectedCall(name="book"))
    )
    run = case(
        user("Book room 4."),
        agent(calls=[call("find")]),
        result("[4]"),
        agent("There is no room."),
        expected=expected,
    )
    (first, *_) = failure_signs(run)
    assert (first.rule, first.turn, first.owner) == ("expected_call_missed", 3, "agent")
    assert "book" in first.should_have


def test_an_expected_call_with_other_arguments_is_named_with_what_differs():
    expected = Expected(tool_calls=(ExpectedCall(name="book", arguments={"room": 5}),))
    run = case(user("Book."), agent(calls=[BOOK]), result("ok"), agent("Ok."), expected=expected)
    (first, *_) = failure_signs(run)
    assert (first.rule, first.turn) == ("expected_call_differs", 1)
    assert "room" in first.reason
    right = Expected(tool_calls=(ExpectedCall(name="book", arguments={"room": 4}),))
    assert failure_signs(run.model_copy(update={"expected": right})) == ()


def test_a_failure_that_is_reported_as_a_success_contradicts_the_result():
    run = case(user("Book."), agent(calls=[BOOK]), ERROR, agent("Your room has been booked!"))
    (first, *_) = failure_signs(run)
    assert (first.rule, first.turn, first.confidence) == ("contradicts_result", 3, "high")
    assert [quote.turn for quote in first.quotes] == [2, 3]
    honest = case(user("Book."), agent(calls=[BOOK]), ERROR, agent("Sorry, room 4 is not there."))
    assert sign(honest, "contradicts_result") is None
    before = (agent(calls=[call("pay", id="p")]), result("ok", call_id="p"))
    unclear = case(user("Pay."), *before, *run.transcript.turns[1:])
    assert (found := sign(unclear, "contradicts_result")) is not None
    assert found.confidence == "medium"


def test_a_tool_that_never_worked_again_is_a_failure_of_who_called_it_wrongly():
    run = case(user("Book."), agent(calls=[BOOK]), ERROR, agent("Sorry, it failed."))
    found = sign(run, "failure_not_recovered")
    assert found is not None
    assert (found.turn, found.owner) == (1, "agent")
    silent = case(
        user("Book."),
        agent(calls=[BOOK]),
        result("broken", is_error=True),
        agent("Sorry, it failed."),
    )
    other = sign(silent, "failure_not_recovered")
    assert other is not None
    assert (other.turn, other.owner) == (2, "tool")


def test_a_failure_that_was_mended_is_no_more_than_a_weak_sign():
    again = call("book", id="call_2", room=5)
    run = case(
        user("Book."),
        agent(calls=[BOOK]),
        ERROR,
        agent(calls=[again]),
        result("ok", call_id="call_2"),
        agent("Room 5 it is."),
    )
    (only,) = failure_signs(run)
    assert (only.rule, only.turn, only.confidence) == ("failed_call", 1, "low")


def test_an_outage_is_the_fault_of_the_environment():
    run = case(user("Book."), agent(calls=[BOOK]), GONE, agent("Sorry, it is down."))
    (first, *_) = failure_signs(run)
    assert (first.rule, first.turn, first.owner) == ("outage", 2, "environment")


@pytest.mark.parametrize(
    ("output", "failed"),
    [
        ("exitcode: 1 (execution failed)\nCode output: NameError: x", True),
        ("Traceback ...\nKeyError: 'a'\nProcess finished with exit code 2", True),
        ("exitcode: 0 (execution succeeded)\nCode output: 4", False),
        ("The report explains exit strategies, code 3 among them.", False),
    ],
)
def test_code_that_ended_with_another_exit_code_than_zero_has_failed(output: str, failed: bool):
    run = case(user("Run it."), said("coder", "```python\nx\n```"), ran(output), agent("So it is."))
    found = sign(run, "failure_not_recovered")
    assert (found is not None) is failed
    assert found is None or (found.turn, found.owner) == (1, "agent")


@pytest.mark.parametrize(
    ("text", "caught"),
    [
        ("As we lack access, let's assume the following values: 3, 4.", True),
        ("I will use a simulated dataset of athletes.", True),
        ("We must not use placeholder values here, I look them up.", False),
        ("I take the measured values instead of simulated ones.", False),
        ("The plan is to read the file and to count the rows.", False),
    ],
)
def test_values_that_an_agent_invents_are_a_sign(text: str, caught: bool):
    assert (sign(case(user("How many?"), agent(text)), "invented_data") is not None) is caught


def test_the_first_turn_sets_the_task_and_is_no_sign():
    run = case(said("manager", "Simulated data will do. Count."), said("coder", "There are four."))
    assert sign(run, "invented_data") is None


@pytest.mark.parametrize("content", ["[]", '{"results": []}', "No matching documents found."])
def test_a_retrieval_that_brings_nothing_is_a_sign_unless_a_later_one_does(content: str):
    search = agent(calls=[call("search", q="fees")])
    empty = case(user("Fees?"), search, result(content), agent("There are none at all."))
    found = sign(empty, "empty_retrieval")
    assert found is not None
    assert (found.turn, found.owner) == (2, "retrieval")
    again = agent(calls=[call("search", id="call_2", q="fee")])
    good = result('["5 EUR"]', call_id="call_2")
    made_good = case(user("Fees?"), search, result(content), again, good, agent("5 EUR."))
    assert failure_signs(made_good) == ()


def test_a_retrieval_step_without_passages_is_a_sign():
    step = Turn(role="tool", chunks=())
    found = sign(case(user("Fees?"), step, agent("None.")), "empty_retrieval")
    assert found is not None
    full = Turn(role="tool", chunks=(Chunk(content="5 EUR"),))
    assert failure_signs(case(user("Fees?"), step, full, agent("5 EUR."))) == ()


def test_an_act_that_is_made_three_times_with_one_result_is_a_loop():
    def look(number: int, answer: str) -> tuple[Turn, Turn]:
        return (
            agent(calls=[call("look", id=f"l{number}", at="a")]),
            result(answer, call_id=f"l{number}"),
        )

    same = case(user("Look."), *look(1, "x"), *look(2, "x"), *look(3, "x"), agent("I see."))
    found = sign(same, "loop")
    assert found is not None
    assert (found.turn, found.owner) == (3, "agent")
    progress = case(
        user("Look."), *look(1, "1 %"), *look(2, "50 %"), *look(3, "done"), agent("Ok.")
    )
    assert failure_signs(progress) == ()
    short = case(user("Hi"), *(agent("TERMINATE") for _ in range(4)))
    assert failure_signs(short) == ()


def test_a_run_that_was_cut_off_is_a_weak_sign():
    run = case(user("Hi"), agent("I begin."), agent("And then I go on."), finished=False)
    (only,) = failure_signs(run)
    assert (only.rule, only.turn, only.confidence) == ("cut_off", 2, "low")


def test_only_a_run_of_several_agents_gets_a_guess():
    text = "I count the rows and I find four."
    alone = case(user("How many?"), agent(text))
    assert failure_signs(alone) == ()
    team = case(said("manager", "Count the rows."), said("planner", text), said("b", "Four it is."))
    (only,) = failure_signs(team)
    assert (only.rule, only.turn, only.confidence) == ("first_act", 1, "guess")
    coded = case(
        said("manager", "Count."), said("planner", text), said("b", "So:\n```\nlen(rows)\n```")
    )
    assert failure_signs(coded)[0].turn == 2


def test_quotes_are_short_lines_and_long_texts_take_no_time():
    text = json.dumps({"error": "invalid\n" + "x " * 200_000})
    run = case(
        user("Hi"), agent(calls=[BOOK]), result(text, is_error=True), agent("let's assume " * 9999)
    )
    quotes = [quote for found in failure_signs(run) for quote in found.quotes]
    assert quotes
    assert all(len(quote.text) <= QUOTE_CHARS and "\n" not in quote.text for quote in quotes)
