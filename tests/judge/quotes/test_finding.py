"""Which texts in quotation marks are quotes that claim to stand in the conversation."""

from __future__ import annotations

import time

import pytest

from assizes.judge.quotes.finding import MAX_QUOTES, claimed_quotes

SAID = "your seat is booked"


@pytest.mark.parametrize(
    "quoted",
    [
        f'"{SAID}"',
        f"\u201c{SAID}\u201d",
        f"\u201e{SAID}\u201c",
        f"\u201e{SAID}\u201d",
        f"\u201d{SAID}\u201d",
        f"\u00ab {SAID} \u00bb",
        f"\u00bb{SAID}\u00ab",
        f"\u2039{SAID}\u203a",
        f"\u300c{SAID}\u300d",
        f"\u300e{SAID}\u300f",
        f"'{SAID}'",
        f"\u2018{SAID}\u2019",
        f"\u201a{SAID}\u2018",
    ],
)
def test_quotation_marks_of_several_languages_make_a_quote(quoted: str):
    assert claimed_quotes(f"The agent wrote {quoted} to the user.") == [SAID]


@pytest.mark.parametrize(
    "reason",
    [
        "No marks at all stand here.",
        "It is the user's choice, and the agents' task is what the agent's policy asks.",
        'The status "landed" and the level "very good" were given.',  # too short
        'The reply was {"rating": "yes", "rationale": "it is all fine"}.',
        'The agent should have said "I am sorry for the delay".',
        'It could have asked, for example, "what is your booking code".',
        'The agent never said "I am sorry for the delay".',
        "The agent didn't say 'I am sorry for the delay'.",
        'The sentence "I am sorry for the delay" was never said.',
        "Der Agent h\u00e4tte \u201eEs tut mir sehr leid\u201c sagen sollen.",
    ],
)
def test_names_values_code_and_what_was_only_wished_for_are_no_quotes(reason: str):
    assert claimed_quotes(reason) == []


def test_a_denial_of_another_clause_does_not_hide_a_quote():
    reason = 'The agent did not comply when the user wrote "please cancel my seat".'
    assert claimed_quotes(reason) == ["please cancel my seat"]


def test_an_apostrophe_within_a_quote_does_not_close_it():
    assert claimed_quotes("It said 'it isn't our user's fault' twice.") == [
        "it isn't our user's fault"
    ]


def test_a_quote_in_a_script_without_blanks_counts_by_its_signs():
    assert claimed_quotes("\u56de\u7b54\u300c\u60a8\u7684\u8ba2\u5355\u5df2\u53d6\u6d88\u300d") == [
        "\u60a8\u7684\u8ba2\u5355\u5df2\u53d6\u6d88"
    ]


def test_the_quotes_of_a_reason_are_bounded_and_come_once_each():
    many = " ".join(f'"this is number {number}"' for number in range(3 * MAX_QUOTES))
    assert len(claimed_quotes(many)) == MAX_QUOTES
    assert claimed_quotes(f'"{SAID}" and "{SAID}"') == [SAID]


@pytest.mark.parametrize("sign", ['"', "'", " '", "\u201c", "\u201e", "\u00ab", "'a'b ", '" '])
def test_a_reason_of_marks_alone_takes_no_time(sign: str):
    begun = time.process_time()
    claimed_quotes(sign * 200_000)
    assert time.process_time() - begun < 1
