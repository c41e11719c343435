"""Where quotes are looked up: the texts of a case, exactly after normalising, then nearly.

Blanks, case, punctuation and the kind of quotation marks do not count. A quote with an ellipsis, or with
words in brackets, is looked up in parts. Near is a stretch that has most words of the quote in their
order; every number of the quote must stand in it, and as many negations, because a quote with another
number says something else.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from difflib import SequenceMatcher
from functools import cached_property
from typing import Any, Final

from pydantic import BaseModel

from assizes.judge.case import Case
from assizes.judge.quotes.finding import UNSPACED

MAX_CHARS: Final = 2_000_000
"""The characters of a case that are searched. In a longer one no quote counts as missing."""

MAX_WINDOWS: Final = 48
"""The most places of a case that are compared with a quote."""

_RAREST: Final = 5
"""Words of a quote, the rarest of them in the case, whose places are compared."""

_STEM: Final = 5
"""Letters at the beginning by which near words are equal: `confirm` and `confirmed` are."""

_ONE_IN: Final = 4
"""One in so many words of a near quote may be missing."""

_UNSEEN: Final = frozenset({"labels", "metadata", "trace_id", "span_id", "message_id"})
"""Fields of a case that no judge reads."""

_WORD: Final = re.compile(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|[nrt\"\\/])")
_GAP: Final = re.compile(r"\[[^\]\n]{0,80}\]|\(\s*(?:\.\.\.|\u2026)\s*\)|\.\.\.+|\u2026")
_NOT: Final = re.compile(r"n'?t\b")
_NEGATIONS: Final = frozenset(
    (
        *("not", "no", "never", "none", "nor", "without", "nicht", "nie", "kein", "keine", "ohne"),
        *("jamais", "pas", "sans", "nunca", "sin"),
    )
)
_NUMBERS: Final = {
    **{"two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7"},
    **{"eight": "8", "nine": "9", "ten": "10", "eleven": "11", "twelve": "12", "twenty": "20"},
    **{"thirty": "30", "fifty": "50", "hundred": "100", "twice": "2x", "double": "2x"},
}
"""Words for numbers, as digits: the number of a near quote counts."""

_CANNOT: Final = {"cannot": "can not", "can't": "can not", "won't": "will not"}
_SHORTENED: Final = re.compile(r"\bcannot\b|\bcan't\b|\bwon't\b")


def words_of(text: str) -> list[str]:
    """The words of a text in lower case; a sign each in scripts without blanks."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text).replace("\u2019", "'")
    plain = plain.casefold()
    if "\\" in plain:  # JSON in a text
        plain = _ESCAPE.sub(_character, plain)
    if "cannot" in plain or "n't" in plain:
        plain = _SHORTENED.sub(lambda match: _CANNOT[match[0]], plain).replace("n't", " not")
    return _WORD.findall(plain.replace("'", ""))


def _character(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)).casefold() if match[1] else " "


class QuoteSources:
    """Texts in which quotes are looked up as in one; they are read once, when the first quote comes."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = texts

    def holds(self, quote: str) -> bool | None:
        """Whether the texts hold a quote, exactly or nearly; `None`: they are too long to know."""
        if self.holds_exactly(quote) or self._holds_parts(quote, self._is_near):
            return True
        return False if self._is_whole else None

    def holds_exactly(self, quote: str) -> bool:
        """Whether the texts hold a quote after normalising."""
        return self._holds_parts(quote, lambda _: False)

    def _holds_parts(self, quote: str, is_near: Callable[[Sequence[str]], bool]) -> bool:
        return all(
            not (words := words_of(part))
            or _flat(part) in self._letters
            or f" {' '.join(words)} " in self._plain
            or is_near(words)
            for part in _GAP.split(quote)
        )

    @cached_property
    def _read(self) -> tuple[str, bool]:
        pieces: list[str] = []
        room = MAX_CHARS
        for text in self._texts:
            pieces.append(text[:room])
            room -= len(text)
            if room < 0:
                break
        return "\n".join(pieces), room >= 0

    @property
    def _raw(self) -> str:
        return self._read[0]

    @property
    def _is_whole(self) -> bool:
        return self._read[1]

    @cached_property
    def _letters(self) -> str:
        return _flat(self._raw)

    @cached_property
    def _words(self) -> list[str]:
        return words_of(self._raw)

    @cached_property
    def _plain(self) -> str:
        return f" {' '.join(self._words)} "

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        places: dict[str, list[int]] = {}
        for index, word in enumerate(self._words):
            places.setdefault(_stem(word), []).append(index)
        return places

    def _is_near(self, words: Sequence[str]) -> bool:
        stems, slack = [_stem(word) for word in words], len(words) // _ONE_IN
        if slack == 0:
            return False
        wanted = Counter(stems)
        for start in self._starts(stems, slack):
            window = [_stem(word) for word in self._words[start : start + len(words) + 2 * slack]]
            present = Counter(window)
            if (wanted - present).total() <= slack and _is_alike(stems, window, slack):
                return True
        return False

    def _starts(self, stems: Sequence[str], slack: int) -> list[int]:
        """Indexes of the words at which a near stretch may begin, by the rarest words of the quote."""
        offsets = {stem: offset for offset, stem in enumerate(stems)}
        known = sorted((len(self._places[s]), s) for s in offsets if s in self._places)
        starts: dict[int, None] = {}
        for _, stem in known[: max(_RAREST, slack + 1)]:
            for place in self._places[stem]:
                starts[max(0, place - offsets[stem] - slack)] = None
                if len(starts) == MAX_WINDOWS:
                    return list(starts)
        return list(starts)


def _flat(text: str) -> str:
    """A text without differences of case and blanks: a quote may begin or end within a word."""
    return " ".join(text.split()).casefold()


def _stem(word: str) -> str:
    return word if _has_digit(word) else _NUMBERS.get(word, word[:_STEM])


def _has_digit(word: str) -> bool:
    return any(sign.isdigit() for sign in word)


def _is_alike(stems: Sequence[str], window: Sequence[str], slack: int) -> bool:
    """Whether a window has the words of a quote in order, all but `slack`.

    Every number is among them, and the stretch of these words has as many negations as the quote.
    """
    matcher = SequenceMatcher(None, stems, window, autojunk=False)
    blocks = [block for block in matcher.get_matching_blocks() if block.size]
    equal = {place for block in blocks for place in range(block.a, block.a + block.size)}
    missing = [stem for place, stem in enumerate(stems) if place not in equal]
    if len(missing) > slack or any(_has_digit(stem) for stem in missing):
        return False
    stretch = window[blocks[0].b : blocks[-1].b + blocks[-1].size]
    negations = [sum(stem in _NEGATIONS for stem in each) for each in (stems, stretch)]
    return len(stretch) <= len(stems) + slack and negations[0] == negations[1]


def case_sources(case: Case) -> QuoteSources:
    """All that a case holds for a judge to read: turns, calls, results, setup and ground truth."""
    return QuoteSources(_texts(case))


def _texts(value: Any) -> Iterator[str]:
    """The texts in a value of any depth, keys before their values."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, BaseModel | Mapping | list | tuple):
        for item in _items(value):
            yield from _texts(item)
    elif value is not None and not isinstance(value, datetime):
        yield str(value)


def _items(value: BaseModel | Mapping[Any, Any] | Sequence[Any]) -> Iterable[Any]:
    if isinstance(value, BaseModel):
        return (item for name, item in value if name not in _UNSEEN)
    if isinstance(value, Mapping):
        return (part for pair in value.items() for part in pair)
    return value


def unsupported_quotes(quotes: Iterable[str], sources: Sequence[QuoteSources]) -> list[str]:
    """The quotes that none of the sources holds, where all of them could be searched whole."""
    missing: list[str] = []
    for quote in quotes:
        answers = (each.holds(quote) for each in sources)
        if all(answer is False for answer in answers):
            missing.append(quote)
    return missing


def quote_place(quote: str, sources: Sequence[QuoteSources]) -> int | None:
    """The index of the first source that holds a quote, exactly before nearly; `None`: none does.

    A quote without any word stands nowhere.
    """
    if not words_of(quote):
        return None
    return next(
        (
            place
            for holds in (QuoteSources.holds_exactly, QuoteSources.holds)
            for place, source in enumerate(sources)
            if holds(source, quote)
        ),
        None,
    )
