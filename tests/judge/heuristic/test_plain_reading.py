"""Surface signs that the offline judge weighs."""

from __future__ import annotations

import time

import pytest

from assizes.judge.case import (
    Case,
    Chunk,
    Expected,
    ToolCall,
    ToolResult,
    ToolSpec,
    Transcript,
    Turn,
)
from assizes.judge.evidence.tool_calls import tool_evidence
from assizes.judge.heuristic.conversation import response_delivery
from assizes.judge.heuristic.plain_reading import (
    Claim,
    content_words,
    false_successes,
    has_success_claim,
    is_closing,
    is_prohibition,
    is_refusal,
    particulars,
    questions,
    read_case,
    repeated_calls,
    repeated_requests,
    repeated_texts,
    values,
)


def read(*turns, expected=None, **transcript):
    case = Case(
        case_id="c",
        transcript=Transcript(turns=turns, **transcript),
        expected=expected or Expected(),
    )
    return read_case(case, tool_evidence(case))


def user(text):
    return Turn(role="user", text=text)


def says(text):
    return Turn(role="assistant", text=text)


def badly_delivered(text):
    return response_delivery(read(says(text))).level < 5


def calls(name, failed=None, **arguments):
    call = Turn(role="assistant", tool_calls=(ToolCall(name=name, arguments=arguments),))
    if failed is None:
        return (call,)
    return (call, Turn(role="tool", tool_result=ToolResult(content="", is_error=failed)))


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("Flight HAT136 on 2024-05-20 costs $1,327.50", ["hat136", "2024", "1327.5"]),
        ("It is $50, or € 7, or £9.00", ["50", "7", "9"]),
        ("2 bags on the 20th at 10:30, 24h ahead", []),
        ("order `a_b_77` and order A_B_77.", ["a_b_77"]),
        ("0042 is 42", []),
        ("No figures here", []),
        ("", []),
    ],
)
def test_particulars_are_identifiers_money_and_long_numbers(text, claims):
    assert particulars(text) == claims


def test_a_claim_may_rest_on_any_run_of_digits_and_on_the_last_four_of_a_long_one():
    assert values('{"pay": "card_1234567", "at": "2024-05-02", "sum": 1327.00}') == {
        "card_1234567",
        "1234567",
        "4567",
        "2024",
        "5",
        "2",
        "1327",
    }


def test_claims_know_whether_they_were_heard_before_their_turn():
    found = read(
        says("Your order AB12?"),
        user("It is AB12"),
        *calls("find", order="AB12", other={"deep": ["XY99"]}, count=123),
        Turn(role="tool", tool_result=ToolResult(content="price 451")),
        says("AB12 costs 451, or 999."),
        user("Thanks"),
        says("So 451."),
    )
    assert found.claims == (
        Claim(0, "ab12", is_grounded=False, after_result=False),
        Claim(2, "ab12", is_grounded=True, after_result=False, tool="find"),
        Claim(2, "xy99", is_grounded=False, after_result=False, tool="find"),
        Claim(4, "ab12", is_grounded=True, after_result=True),
        Claim(4, "451", is_grounded=True, after_result=True),
        Claim(4, "999", is_grounded=False, after_result=True),
        Claim(6, "451", is_grounded=True, after_result=False),
    )


def test_system_prompt_tool_descriptions_and_passages_are_heard_from_the_start():
    found = read(
        says("101, 202, 303 and 404"),
        system="101",
        tools=(ToolSpec(name="t", description="202"),),
        chunks=(Chunk(content="303"),),
    )
    assert [claim.text for claim in found.claims if not claim.is_grounded] == ["404"]


def test_passages_of_a_turn_are_heard_with_the_turn():
    found = read(
        says("303").model_copy(update={"chunks": (Chunk(content="303"),)}),
        says("505"),
        Turn(role="tool", chunks=(Chunk(content="505"),)),
        says("505"),
    )
    assert [claim.is_grounded for claim in found.claims] == [True, False, True]


def test_questions_end_in_a_question_mark_and_have_words():
    text = "Hello. What is your name?\nAnd YOUR   order? ok? 12? ??"
    assert questions(text) == ["what is your name", "and your order"]


def test_requests_ask_for_information_and_not_for_a_yes():
    text = "Could you share your id? Shall I go on? What else, anything else?"
    later = ["Could you share your id?", "Shall I go on?", "What else, anything else?"]
    assert repeated_requests([(0, text), *enumerate(later, 1)]) == (1,)


@pytest.mark.parametrize(
    ("sign", "yes", "no"),
    [
        (is_refusal, "I\u2019m sorry, I can\u2019t do that", "I can do that"),
        (has_success_claim, "Your order has been changed", "I will change your order"),
        (has_success_claim, "Successfully changed", "It has been tried, unfortunately in vain"),
        (is_closing, "Have a great day!", "What is your name?"),
        (is_prohibition, "Agent should not offer it", "Agent should offer it"),
        (is_prohibition, "Agent refuses to go on", "Agent goes on"),
        (is_prohibition, "Agent doesn't pay", "Agent pays"),
        (badly_delivered, "Options:\n- one\n- two", "One - or two"),
        (badly_delivered, "1. one", "It costs 1.50"),
        (badly_delivered, "This is **bold**", "This is 2 * 3"),
        (badly_delivered, "word " * 121, "word " * 120),
    ],
)
def test_signs_are_seen_where_they_are_and_not_where_they_are_not(sign, yes, no):
    assert (sign(yes), sign(no)) == (True, False)


def test_content_words_leave_out_what_carries_no_meaning():
    assert content_words("The agent should cancel order AB12") == {"cancel", "order", "ab12"}


def test_texts_are_repeated_word_by_word_whatever_their_spacing():
    assert repeated_texts([(0, "Hello  you"), (2, "hello you"), (4, "Hello me")]) == (2,)


def test_a_question_is_asked_again_when_a_later_turn_holds_it():
    texts = [(0, "What is your id? What is your id?"), (2, "Sorry. What is your id?")]
    assert repeated_requests(texts) == (2,)


def test_calls_are_repeated_with_the_same_arguments_only():
    found = read(*calls("a", x=1), *calls("a", x=2), *calls("a", x=1.0), *calls("b", x=1))
    assert [one.turn for one in repeated_calls(found.tools.called)] == [2]


def test_unexpected_writes_are_known_only_where_writes_are():
    turns = (*calls("w"), *calls("r"))
    known = read(*turns, expected=Expected(tool_calls=(), writes=("w",)))
    guessed = read(*turns, expected=Expected(tool_calls=()))
    assert [one.call.name for one in known.unexpected_writes] == ["w"]
    assert guessed.unexpected_writes == ()


def test_success_is_false_only_when_every_call_since_the_last_words_failed():
    done = says("Your order has been changed")
    assert false_successes(read(*calls("a", failed=True), done)) == (2,)
    assert false_successes(read(*calls("a", failed=True), *calls("a", failed=False), done)) == ()
    assert false_successes(read(*calls("a", failed=True), says("Sorry"), done)) == ()
    assert false_successes(read(done)) == ()


@pytest.mark.promised
@pytest.mark.parametrize("piece", ["a", "1", "1,111", "? ", "_", "**", "- ", "not ", "\u2019"])
def test_a_hostile_text_is_read_in_linear_time(piece):
    text = piece * (400_000 // len(piece))
    begun = time.process_time()
    read(says(text), user(text), *calls("a", x=text), says(text))
    for sign in (is_refusal, has_success_claim, is_closing, is_prohibition, badly_delivered):
        sign(text)
    repeated_requests([(0, text), (1, text)])
    assert time.process_time() - begun < 10
