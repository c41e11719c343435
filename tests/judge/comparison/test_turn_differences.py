"""What is marked in two texts, and in the calls of two turns."""

from __future__ import annotations

import random

import pytest

from assizes.judge.comparison.turn_differences import MAX_ARGUMENTS, call_pairs, text_spans
from tests.builders import call


def marked(spans) -> str:
    """The text with what is marked in brackets."""
    return "".join(f"[{one.text}]" if one.change == "changed" else one.text for one in spans)


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("it costs 120 USD", "it costs 1200 USD", ("it costs [120] USD", "it costs [1200] USD")),
        ("a b c", "a b c d", ("a b c", "a b c[ d]")),
        ("pay the fee now", "pay now", ("pay [the fee ]now", "pay now")),
        ("same", "same", ("same", "same")),
        ("", "new", ("", "[new]")),
        ("yes", "no", ("[yes]", "[no]")),
    ],
)
def test_words_that_differ_are_marked_whole(before, after, shown):
    one, other = text_spans(before, after)
    assert (marked(one), marked(other)) == shown


def test_texts_that_share_little_are_marked_as_a_whole():
    one, other = text_spans("the flight is late today", "no refund for the seat")
    assert (len(one), len(other)) == (1, 1)
    assert one[0].change == other[0].change == "changed"


def test_long_texts_keep_their_equal_ends_and_are_marked_between_them():
    middle = [" ".join(f"{name}{n}" for n in range(400)) for name in "xy"]
    texts = [f"{'begin ' * 300}{part} {'end ' * 300}" for part in middle]
    one, _ = text_spans(*texts)
    assert [span.change for span in one] == ["same", "changed", "same"]


def test_the_pieces_of_a_text_are_the_text():
    draw = random.Random(3)
    for _ in range(300):
        texts = ["".join(draw.choices("ab .\n<é", k=draw.randrange(30))) for _ in range(2)]
        for text, spans in zip(texts, text_spans(*texts), strict=True):
            assert "".join(span.text for span in spans) == text


def test_arguments_are_compared_by_key_and_nested_ones_by_path():
    old = call("book", seat="3A", user={"id": 1, "name": "Ada"}, bags=[1])
    new = call("book", seat="3A", user={"id": 2}, bags=[1], meal="none")
    (pair,) = call_pairs([old], [new])
    assert pair.differs
    shown = {
        one.name: tuple(side and marked(side) for side in (one.baseline, one.candidate))
        for one in pair.arguments
    }
    assert shown["seat"] == ('"3A"', '"3A"')
    assert shown["user.id"] == ("[1]", "[2]")
    assert shown["user.name"] == ('["Ada"]', None)
    assert shown["meal"] == (None, '["none"]')


def test_a_call_that_was_put_before_another_does_not_shift_it():
    look, again = call("look", at="x"), call("look", at="y")
    pairs = call_pairs([again], [look, again, call("pay")])
    assert [(one.tool, one.baseline, one.candidate, one.differs) for one in pairs] == [
        ("look", True, True, False),
        ("look", False, True, True),
        ("pay", False, True, True),
    ]


def test_arguments_beyond_the_bound_are_counted():
    many = call("look", **{f"a{n:03}": n for n in range(MAX_ARGUMENTS + 5)})
    (pair,) = call_pairs([many], [many])
    assert (len(pair.arguments), pair.more, pair.differs) == (MAX_ARGUMENTS, 5, False)
