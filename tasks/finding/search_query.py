"""What a person types to search: words, "phrases" and prefix*; a case must hold all of them."""

from __future__ import annotations

import re
import unicodedata
from typing import Final, NamedTuple

from assizes.judge.errors import ConfigurationError

QUERY_CHARS: Final = 300
"""Characters of a search, at most."""

MAX_TERMS: Final = 16
"""Words and phrases of a search, at most."""

PREFIX_CHARS: Final = 2
"""Letters before a `*`, at least: a shorter beginning fits nearly every text."""

SYNTAX: Final = 'accepted: words, "a phrase" and begin*, of which a case must hold all'

SEPARATOR: Final = "\x1f"
"""Stands between characters that are words of their own; no text that is shown has one."""

_TERM: Final = re.compile(r'"([^"]*)"(\*?)|([^\s"]+)')
# Scripts without blanks between words: Thai to Khmer, Kana, and Chinese characters.
_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]+"
)
_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f]")


class SearchTerm(NamedTuple):
    """A word or a phrase that a case must hold."""

    text: str
    is_prefix: bool  # whether its last word may go on

    def expression(self) -> str:
        """The term in the language of SQLite's FTS5: one string, in which nothing is an operator."""
        text = indexed_text(self.text).replace('"', " ")
        return f'"{text}"{"*" if self.is_prefix else ""}'


def parse_search(text: str) -> tuple[SearchTerm, ...]:
    """The terms of a search, in their order, each once.

    Raises:
        ConfigurationError: the text is too long, a quote has no end, or a term has no letter.
    """
    if len(text) > QUERY_CHARS:
        raise ConfigurationError(f"search: {len(text)} characters; at most {QUERY_CHARS}")
    if text.count('"') % 2:
        raise ConfigurationError(
            f"search: the quote at {text.rindex(chr(34)) + 1} has no end; {SYNTAX}"
        )
    terms = dict.fromkeys(_term(match) for match in _TERM.finditer(text))
    if not terms:
        raise ConfigurationError(f"search: there is no word; {SYNTAX}")
    if len(terms) > MAX_TERMS:
        raise ConfigurationError(f"search: {len(terms)} words and phrases; at most {MAX_TERMS}")
    return tuple(terms)


def _term(match: re.Match[str]) -> SearchTerm:
    phrase, star, word = match.groups()
    is_prefix = bool(star) if phrase is not None else word.endswith("*")
    text = _CONTROLS.sub(" ", phrase if phrase is not None else word.removesuffix("*"))
    size = sum(is_letter(char) for char in text)
    if not size:
        raise ConfigurationError(f"search: {match[0]!r} has no letter and no digit; {SYNTAX}")
    if is_prefix and size < PREFIX_CHARS and not _UNSPACED.search(text):
        raise ConfigurationError(
            f"search: {match[0]!r} is too short a beginning; at least {PREFIX_CHARS} letters"
        )
    return SearchTerm(unicodedata.normalize("NFC", text), is_prefix)


def is_letter(char: str) -> bool:
    """Whether the index keeps a character: a letter, a digit, or a character of private use."""
    return unicodedata.category(char)[0] in "LN" or unicodedata.category(char) == "Co"


def indexed_text(text: str) -> str:
    """A text as it is indexed: in scripts without blanks, every character is a word of its own."""
    plain = _CONTROLS.sub(" ", unicodedata.normalize("NFC", text))
    return plain if plain.isascii() else _UNSPACED.sub(_words_of_characters, plain)


def _words_of_characters(match: re.Match[str]) -> str:
    return SEPARATOR + (SEPARATOR * 2).join(match[0]) + SEPARATOR
