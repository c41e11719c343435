"""What may be searched for, and the one line that answers what may not."""

from __future__ import annotations

import pytest

from assizes.judge.errors import ConfigurationError
from assizes.tasks.finding.search_query import MAX_TERMS, QUERY_CHARS, indexed_text, parse_search


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("refund late", [("refund", False), ("late", False)]),
        ('"too late" cancel*', [("too late", False), ("cancel", True)]),
        ('"no ref"*', [("no ref", True)]),
        ("a a", [("a", False)]),
        ("退*", [("退", True)]),
        ("wrong_tool AND x", [("wrong_tool", False), ("AND", False), ("x", False)]),
    ],
)
def test_a_search_is_words_phrases_and_beginnings(text: str, terms: list[tuple[str, bool]]) -> None:
    assert [tuple(term) for term in parse_search(text)] == terms


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "there is no word"),
        ("  ", "there is no word"),
        ('say "never ends', "the quote at 5 has no end"),
        ("***", "no letter and no digit"),
        ('""', "no letter and no digit"),
        ("a*", "too short a beginning"),
        ("x" * (QUERY_CHARS + 1), f"at most {QUERY_CHARS}"),
        (" ".join(map(str, range(MAX_TERMS + 1))), f"at most {MAX_TERMS}"),
    ],
)
def test_what_cannot_be_searched_for_is_answered_in_one_line(text: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match="search: ") as caught:
        parse_search(text)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_operator_of_the_index_is_a_text_like_others() -> None:
    (term,) = parse_search("NEAR(a)^2:b")
    assert term.expression() == '"NEAR(a)^2:b"'


def test_every_character_of_a_script_without_blanks_is_a_word() -> None:
    assert indexed_text("ab 退款").replace("\x1f", "|") == "ab |退||款|"
