"""Whether a case holds a quote: exactly after normalising, nearly, in parts, or not at all."""

from __future__ import annotations

import time

import pytest

from assizes.judge.quotes import sources
from assizes.judge.quotes.sources import (
    QuoteSources,
    case_sources,
    quote_place,
    unsupported_quotes,
)
from tests.builders import agent, call, case, result, user

SENTENCE = (
    "I can\u2019t change this booking, because basic economy tickets are not changeable; you will "
    "get 150 dollars back within 7 days."
)


@pytest.mark.parametrize(
    "quote",
    [
        "I can't change this booking",
        "I cannot change this booking",
        "BASIC ECONOMY  tickets\nare not changeable",
        "**basic economy** tickets",
        "I can't change this booking ... 150 dollars back",
        "you will get 150 dollars back [to your card] within 7 days",
        "you will get 150 dollars returned within 7 days",
        "because basic economy tickets are not changed",
        "I can't change booking, because basic economy tickets",
    ],
)
def test_a_quote_is_held_exactly_or_nearly(quote: str):
    assert QuoteSources([SENTENCE]).holds(quote) is True


@pytest.mark.parametrize(
    "quote",
    [
        "you will get 170 dollars back within 7 days",  # another number
        "because basic economy tickets are changeable",  # without its negation
        "I can change this booking",
        "you get money returned to your account soon",
        "tickets economy basic because booking this change",  # another order
        "I can't change this booking ... and I am sorry about it",  # one part is missing
    ],
)
def test_a_quote_that_says_something_else_is_not_held(quote: str):
    assert QuoteSources([SENTENCE]).holds(quote) is False


def test_all_that_a_judge_reads_of_a_case_holds_quotes():
    one = case(
        user("Where is my parcel?"),
        agent(
            "I will look.",
            calls=[call("find_parcel", number="AB 12", note="left \u00e9t\u00e9 box")],
        ),
        result('{"state": "on its way to you", "place": "caf\\u00e9 de Paris"}'),
    ).model_copy(update={"evaluation_criteria_override": "The answer names the place."})
    held = case_sources(one)
    for quote in ("where is my parcel", "find parcel number AB 12", "left \u00c9T\u00c9 box"):
        assert held.holds(quote) is True
    assert held.holds("on its way to you") is True
    assert held.holds("caf\u00e9 de paris") is True
    assert held.holds("the answer names the place") is True
    assert held.holds("the parcel was stolen yesterday") is False


def test_a_quote_in_a_script_without_blanks_is_looked_up_by_its_signs():
    held = QuoteSources(["\u597d\u7684\uff0c\u60a8\u7684\u8ba2\u5355\u5df2\u53d6\u6d88\u3002"])
    assert held.holds("\u60a8\u7684\u8ba2\u5355\u5df2\u53d6\u6d88") is True
    assert held.holds("\u60a8\u7684\u5305\u88f9\u5df2\u5bc4\u51fa") is False


def test_a_quote_is_unsupported_only_where_no_source_holds_it():
    first, second = QuoteSources(["the blue door is open"]), QuoteSources(["a red door is shut"])
    quotes = ["blue door is open", "red door is shut", "green door is gone"]
    assert unsupported_quotes(quotes, (first, second)) == ["green door is gone"]


def test_nothing_is_missing_in_a_case_too_long_to_be_searched(monkeypatch):
    monkeypatch.setattr(sources, "MAX_CHARS", 40)
    cut = QuoteSources(["one two three four five", "six seven eight nine ten eleven"])
    assert cut.holds("two three four") is True
    assert cut.holds("this was never said") is None
    assert unsupported_quotes(["this was never said"], (cut,)) == []


def test_looking_up_takes_time_linear_to_the_case():
    held = QuoteSources(["the cat sat on the mat and then " * 30_000])
    begun = time.process_time()
    for number in range(20):
        held.holds(f"the cat sat under that table and {number} then it left")
    assert time.process_time() - begun < 5


TURNS = (
    "You will get some 150 dollars back in 7 days.",
    "You will get 150 dollars back within 7 days.",
    "You get 400 chairs.",
)


@pytest.mark.parametrize(
    ("quote", "place"),
    [
        ("you will get 150 dollars back within 7 days", 1),  # exactly, though turn 0 is near
        ("you will get about 150 dollars back in 7 days", 0),
        ("you will get 170 dollars back within 7 days", None),
        ("OU get 400\n  cha", 2),  # it begins and ends within words
        ("400 chairs", 2),
        ("150 dollars back ... chairs", None),  # parts of two turns
        ("...", None),
        ("[", None),
    ],
)
def test_a_quote_is_placed_exactly_before_nearly_and_without_words_nowhere(quote, place):
    assert quote_place(quote, [QuoteSources([text]) for text in TURNS]) == place
