"""Whether an agent told a number: by its value, however the agent wrote it. All agents are invented."""

from __future__ import annotations

import time

import pytest

from assizes.judge.case import Case, Expected, Transcript, Turn
from assizes.judge.evidence.told_numbers import number_text, tokens_of
from assizes.judge.evidence.tool_calls import tool_evidence

TOLD = [
    ("481.5", "$481.50"),
    ("481.5", "481.50 USD"),
    ("1481.5", "USD 1,481.5"),
    ("1481.5", "Your total comes to **$1,481.50**."),
    ("1481.5", "That is 1.481,50 €."),
    ("1481.5", "CHF 1'481.50 in all"),
    ("1481.5", "1\u202f481.50 euros"),
    ("1234567", "a volume of 1,234,567 units"),
    ("10", "It is 10."),
    ("10", "It is 10, as agreed."),
    ("10", "(10)"),
    ("10", "`10`"),
    ("10", "10.00"),
    ("10", "You have ten points."),
    ("10", "ten percent"),
    ("10", "the 10-day plan"),
    ("10", "total:10"),
    ("10", "$10/night"),
    ("10", "#10"),
    ("10", "10% off"),
    ("10", "between 10 and 20"),
    ("10", "10\u201312 working days"),
    ("10", "+10"),
    ("10.0", "10"),
    ("$10", "10 dollars"),
    ("$10", "USD 10"),
    ("$10", "10 USD"),
    ("$10", "US$10.00"),
    ("$10", "ten dollars"),
    ("10 EUR", "€10"),
    ("€10", "EUR 10.00"),
    ("€10", "10,00 €"),
    ("£7.50", "7.5 pounds"),
    ("10%", "10 percent"),
    ("10%", "10 per cent"),
    ("10%", "ten percent"),
    ("10 percent", "a rate of 10 %"),
    ("0.05", "the rate is 5%"),
    ("0.5", ".5 litres"),
    ("0.5", "0.5 %"),
    ("-5", "\u22125 degrees"),
    ("-5", "-5.0"),
    ("-50", "-$50"),
    ("0", "zero fees"),
    ("1", "one checked bag"),
    ("2", "two of your bookings"),
    ("3", "Three seats are left."),
    ("19", "nineteen"),
    ("21", "twenty-one guests"),
    ("21", "twenty one guests"),
    ("90", "Ninety days"),
    ("250", "two hundred and fifty dollars"),
    ("101", "one hundred one"),
    ("117", "one hundred seventeen"),
    ("999", "nine hundred and ninety-nine"),
    ("three bags", "You may bring 3 bags."),
    ("3 bags", "You may bring three bags."),
    ("total of $1,481.50", "With tax, a total of 1481.5 USD."),
    ("4 nights", "It is for 4 nights (breakfast included)"),
    ("room 12", "Your room: 12"),
    ("007", "agent 007 here"),
    ("AB12", "order ab12."),
    ("23553", "Total: 23,553"),
    ("1,327", "$1327"),
    ("1327", "Your total is $1,327.00"),
    ("$50", "costs $50"),
]

NOT_TOLD = [
    ("10", "10.5"),
    ("10", "110"),
    ("10", "100"),
    ("10", "1,010"),
    ("10", "10,000"),
    ("10", "10.000,00 €"),
    ("10", "0.10"),
    ("10", "10:30"),
    ("10", "2024-10-05"),
    ("10", "10/12/2024"),
    ("10", "version 10.2.1"),
    ("10", "order AB-10"),
    ("10", "B10"),
    ("10", "10th"),
    ("10", "-10"),
    ("10", "ten thousand"),
    ("10", "10 thousand"),
    ("10", "10k"),
    ("2", "two thousand and five"),
    ("5", "two thousand and five"),
    ("10", "+1-555-10-20"),
    ("10", "seat 10A"),
    ("481.5", "$481.05"),
    ("481.5", "481"),
    ("481.5", "481.55"),
    ("481.5", "4,81.5"),
    ("481.5", "$1,481.50"),
    ("1481.5", "481.5"),
    ("1481.5", "1.4815"),
    ("1481.5", "148150"),
    ("1481", "1.481"),
    ("1.481", "1,481"),
    ("327", "$1,327.00"),
    ("1000", "1"),
    ("1000", "10,000"),
    ("2", "two hundred dollars"),
    ("2", "twenty-two"),
    ("2", "2 million"),
    ("2", "1.2"),
    ("20", "twenty-one"),
    ("20", "twenty twenty"),
    ("10200", "one hundred, two hundred"),
    ("10200", "one hundred two hundred"),
    ("3000", "one thousand two thousand"),
    ("200", "two hundred and fifty"),
    ("50", "two hundred and fifty"),
    ("17", "one hundred seventeen"),
    ("100", "a hundred and one"),
    ("1", "One moment, please."),
    ("1", "This one is cheaper."),
    ("1", "No one answered."),
    ("1", "one of our agents"),
    ("1", "someone else"),
    ("1", "a one-way trip"),
    ("1", "I will book a new one."),
    ("4", "44"),
    ("4", "4.4"),
    ("4", "fourteen"),
    ("4", "for you"),
    ("7", "007"),
    ("007", "7"),
    ("0", "10"),
    ("0", "no fees"),
    ("$10", "€10"),
    ("$10", "10 bags"),
    ("€10", "10 dollars"),
    ("$10", "$10.50"),
    ("$10", "CA$10"),
    ("10%", "10 dollars"),
    ("10%", "110%"),
    ("10%", "10.5 %"),
    ("0.05", "50%"),
    ("0.05", "5 euros"),
    ("0.05", "% of the sum"),
    ("5", "0.05"),
    ("5", "-5"),
    ("-5", "5"),
    ("3 bags", "3 seats and two bags"),
    ("3 bags", "13 bags"),
    ("total of 10", "10 in total"),
    ("AB12", "AB123"),
    ("1286", "12.86"),
    ("1286", "1 286th"),
]


def is_told(expected, *texts):
    case = Case(
        case_id="c",
        transcript=Transcript(turns=tuple(Turn(role="assistant", text=text) for text in texts)),
        expected=Expected(said=(expected,)),
    )
    return tool_evidence(case).stated_texts == (expected,)


@pytest.mark.parametrize(("expected", "text"), TOLD)
def test_a_number_is_told_however_the_agent_wrote_it(expected, text):
    assert is_told(expected, "Hello.", text)


@pytest.mark.parametrize(("expected", "text"), NOT_TOLD)
def test_another_number_tells_nothing(expected, text):
    assert not is_told(expected, "Hello.", text)


@pytest.mark.parametrize(
    ("text", "string", "is_stated"),
    [
        ("It is OSLO.", "oslo", True),
        ("In Rome, Italy", "Rome Italy", True),
        ("three", "", True),
        ("a (b) c", "(b)", True),
        ("50 dollars per night", "dollars per night", True),
        ("A \u2713 for you", "\u2713", True),
        ("A cross for you", "\u2713", False),
        ("nothing", "something", False),
        ("somethings", "something", False),
    ],
)
def test_a_string_without_a_number_is_told_by_its_whole_words(text, string, is_stated):
    assert is_told(string, "Hi", text) is is_stated


def test_each_table_has_sixty_pairs_that_differ():
    assert len(set(TOLD)) >= 60
    assert len(set(NOT_TOLD)) >= 60


def test_a_currency_before_a_number_does_not_go_with_the_number_before_it():
    tokens = tokens_of("EUR 10 EUR 20 USD")
    assert [(token.text, token.unit) for token in tokens] == [("10", "€"), ("20", "€"), ("$", "$")]


def test_a_text_is_one_number_or_none():
    assert number_text("$1,481.50") == "1481.5"
    assert [number_text(text) for text in ("10 bags", "10 20", "10%", "", "007")] == [None] * 5


@pytest.mark.parametrize(
    "piece", ["1", "1,111", "one ", "one hundred and ", "$", "10 ", "-", "a.b"]
)
def test_a_hostile_text_is_read_in_linear_time(piece):
    begun = time.process_time()
    tokens_of(piece * (200_000 // len(piece)))
    assert time.process_time() - begun < 5
