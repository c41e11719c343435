"""Reads disguised texts, such as Base64 or leetspeak, so that attacks in them are found."""

from __future__ import annotations

import base64
import binascii
import codecs
import itertools
import re
import unicodedata
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from assizes.judge.injection.invisible import hidden_count, without_hidden

SHORTEST_PIECE: Final = 20
"""The fewest characters of a word that can be an encoded sentence."""

MAX_DECODED: Final = 2_000
"""The most encoded pieces of one text that are decoded."""

_BASE64: Final = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{20,}={0,2}(?![A-Za-z0-9+/=])")
_HEX: Final = re.compile(r"(?<![0-9A-Fa-f])(?:[0-9A-Fa-f]{2}){12,}(?![0-9A-Fa-f])")
_ESCAPED: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_DOTTED: Final = re.compile(r"(?:\w[.\-_*]){3}\w")
_SPACED: Final = re.compile(r"(?<!\w)(?:\w[ .\-_*])+\w(?!\w)")
# Possessive: a run of digits is matched once, because some runs are as long as their text.
_MIXED_DIGITS: Final = re.compile(r"[a-z][0134578@$]++[a-z]|(?<![0134578@$])[0134578@$]++[a-z]{2}")
_LETTERS: Final = str.maketrans("0134578@$", "oieastbas")
_CYRILLIC_IN_LATIN: Final = re.compile(r"[a-z][\u0370-\u04ff]|[\u0370-\u04ff][a-z]")
_LOOKALIKES: Final = str.maketrans(
    "асеорхуіјѕһԁтмквнαορεικντυχ", "aceopxyijshdtmkbhaopeikvtux"
)  # these look-alikes are here on purpose

_FOREIGN: Final = re.compile(r"[^\W\d_\x00-\x7f]")
_GREEK_OR_CYRILLIC: Final = re.compile(r"[\u0370-\u04ff]")
_STEMS: Final = (
    *("ignor", "disregard", "forget", "overrid", "instruct", "judg", "grader", "evaluat", "scor"),
    *("rubric", "rating", "metric", "perfect", "verdict", "highest", "maxim", "criteri", "prompt"),
)
"""The beginnings of words that occur in orders to a judge."""

_REVERSED_WORDS: Final = ("erongi", "tcurtsni", "egduj", "rotaulave", "erocs", "cirbur", "redarg")
_ROT13_WORDS: Final = ("vtaber", "vafgehpg", "whqtr", "rinyhngbe", "fpber", "ehoevp", "tenqre")


@dataclass(frozen=True, slots=True)
class TextShape:
    """Cheap facts about a text, which say what disguises are possible at all.

    Attributes:
        words: the different words in lower case, one a line.
        longest: the length of the longest word.
        spelled: whether four single letters follow one another, so that a word may be spelled out.
        ascii: whether the text is ASCII.
        hidden: whether the text holds hidden characters.
    """

    words: str
    longest: int
    spelled: bool
    ascii: bool
    hidden: bool

    @classmethod
    def of(cls, text: str) -> TextShape:
        """The shape of a text as it was written."""
        tokens = text.lower().split()
        lengths = list(map(len, tokens))
        words = "\n".join(set(tokens))
        longest = max(lengths, default=0)
        in_bytes = bytes(lengths if longest < 256 else [min(length, 255) for length in lengths])
        spelled = b"\1\1\1\1" in in_bytes
        return cls(words, longest, spelled, text.isascii(), hidden_count(text) > 0)

    def has_spaced_words(self) -> bool:
        """Whether words may be spelled out, letter by letter."""
        return self.spelled or _DOTTED.search(self.words) is not None

    def has_leet_words(self) -> bool:
        """Whether a word with digits for letters contains a stem of orders to a judge."""
        if _MIXED_DIGITS.search(self.words) is None:
            return False
        mixed = [word for word in self.words.split("\n") if _MIXED_DIGITS.search(word)]
        read = "\n".join(mixed).translate(_LETTERS)
        return any(stem in read for stem in _STEMS)

    def has_reversed_words(self) -> bool:
        """Whether words may run backwards: known words do, or the text uses another script."""
        return (
            self.has_any(_REVERSED_WORDS) or self.hidden or _FOREIGN.search(self.words) is not None
        )

    def has_any(self, cues: tuple[str, ...]) -> bool:
        """Whether any of these strings stands in a word."""
        return any(cue in self.words for cue in cues)


def plain(text: str) -> str:
    """The text normalised for patterns: NFKC, lower case, no hidden characters, single blanks."""
    seen = text if text.isascii() else unicodedata.normalize("NFKC", without_hidden(text))
    return "\n".join([" ".join(line.split()) for line in seen.lower().split("\n")])


def readings(text: str, shape: TextShape) -> Iterator[tuple[str, str]]:
    """Yield what a text may say under each disguise, as (name of the disguise, normalised text)."""
    for name, disguise in _DISGUISES.items():
        if disguise.is_possible(shape) and (reading := disguise.read(text)):
            yield name, plain(reading)


def _decode_pieces(text: str, pattern: re.Pattern[str], decode: Callable[[str], bytes]) -> str:
    long_words = "\n".join([word for word in text.split() if len(word) >= SHORTEST_PIECE])
    texts = []
    for piece in itertools.islice(pattern.finditer(long_words), MAX_DECODED):
        try:
            decoded_text = decode(piece[0]).decode("utf-8")
        except (ValueError, binascii.Error):
            continue
        if decoded_text.isprintable() or "\n" in decoded_text:
            texts.append(decoded_text)
    return "\n".join(texts)


def _base64_bytes(piece: str) -> bytes:
    bare = piece.rstrip("=").translate(str.maketrans("-_", "+/"))
    return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)


def _at_least(count: int, pattern: re.Pattern[str], text: str) -> bool:
    return len(list(itertools.islice(pattern.finditer(text), count))) == count


def _reversed_lines(text: str) -> str:
    return "\n".join(line[::-1] for line in without_hidden(text).split("\n"))


def _leet(text: str) -> str:
    low = text.lower()
    return low.translate(_LETTERS) if _at_least(3, _MIXED_DIGITS, low) else ""


def _without_spacing(text: str) -> str:
    if not _at_least(2, _SPACED, text):
        return ""
    return _SPACED.sub(lambda match: re.sub(r"[ .\-_*]", "", match[0]), text)


def _lookalikes(text: str) -> str:
    low = text.lower()
    return low.translate(_LOOKALIKES) if _at_least(3, _CYRILLIC_IN_LATIN, low) else ""


@dataclass(frozen=True, slots=True)
class _Disguise:
    """A quick test whether a text can be disguised so, and the reading of such a text."""

    is_possible: Callable[[TextShape], bool]
    read: Callable[[str], str]


_DISGUISES: Final = {
    "base64": _Disguise(
        lambda shape: shape.longest >= SHORTEST_PIECE,
        lambda text: _decode_pieces(text, _BASE64, _base64_bytes),
    ),
    "hex": _Disguise(
        lambda shape: shape.longest >= SHORTEST_PIECE,
        lambda text: _decode_pieces(text, _HEX, bytes.fromhex),
    ),
    "url": _Disguise(
        lambda shape: "%" in shape.words,
        lambda text: urllib.parse.unquote(text) if _at_least(3, _ESCAPED, text) else "",
    ),
    "rot13": _Disguise(
        lambda shape: shape.has_any(_ROT13_WORDS),
        lambda text: codecs.encode(text, "rot13"),
    ),
    "reversed": _Disguise(TextShape.has_reversed_words, _reversed_lines),
    "leet": _Disguise(TextShape.has_leet_words, _leet),
    "spaced": _Disguise(TextShape.has_spaced_words, _without_spacing),
    "lookalikes": _Disguise(
        lambda shape: _GREEK_OR_CYRILLIC.search(shape.words) is not None, _lookalikes
    ),
}
