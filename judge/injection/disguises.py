"""Reads texts that hide what they say, so that attacks in them are found.

A disguise is a spelling such as Base64 or leetspeak. A hidden character is one that a model reads
and a person does not see. What normal writing needs is not hidden: joiners between letters or
emoji, one variation selector after a character, the tags of a flag.
"""

from __future__ import annotations

import base64
import codecs
import itertools
import re
import unicodedata
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from assizes.judge.injection.quick_test import QuickTest, has_surrogates

_BLACK_FLAG: Final = "\U0001f3f4"  # the emoji before the tags of England, Scotland, Wales
_ZERO_WIDTH: Final = (
    "\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2060-\u2064\u3164\ufeff\uffa0"
)
_BIDI: Final = "\u202a-\u202e\u2066-\u2069"  # change the direction of writing
_TAGS: Final = "\U000e0000-\U000e007f"  # ASCII that no font shows
# Selectors of variants of a character; a run of them can encode any bytes.
_SELECTORS: Final = "\ufe00-\ufe0f\U000e0100-\U000e01ef"

_FLAG: Final = f"{_BLACK_FLAG}[\U000e0061-\U000e007a\U000e0030-\U000e0039]{{1,6}}\U000e007f"
_HIDDEN: Final = re.compile(
    rf"{_FLAG}|[{_ZERO_WIDTH}{_BIDI}{_TAGS}]"
    # A joiner joins something only next to a letter beyond ASCII or an emoji.
    r"|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"
    # A second selector in a row, or one after a Latin letter, selects nothing.
    rf"|(?<=[{_SELECTORS}])[{_SELECTORS}]|(?<=[A-Za-z])[{_SELECTORS}]"
)
# A quick first test: every hidden character is one of these, and most texts hold none.
_ODD: Final = QuickTest([f"[{_ZERO_WIDTH}\u200c\u200d{_BIDI}{_TAGS}{_SELECTORS}]"])


def made_visible(text: str) -> str:
    """The text with each hidden character written as its code point: `[U+200B]`."""
    if text.isascii() or not _ODD.may_match_any(text):
        return text
    return _HIDDEN.sub(_visible_form, text)


def without_hidden(text: str) -> str:
    """The text as a model may read it: without hidden characters, tags as the ASCII they encode."""
    if text.isascii() or not _ODD.may_match_any(text):
        return text
    return _HIDDEN.sub(_readable_form, text)


def hidden_count(text: str) -> int:
    """The number of hidden characters in a text."""
    if text.isascii() or not _ODD.may_match_any(text):
        return 0
    return sum(not match[0].startswith(_BLACK_FLAG) for match in _HIDDEN.finditer(text))


def _visible_form(match: re.Match[str]) -> str:
    sign = match[0]
    return sign if sign.startswith(_BLACK_FLAG) else f"[U+{ord(sign):04X}]"


def _readable_form(match: re.Match[str]) -> str:
    sign = match[0]
    if sign.startswith(_BLACK_FLAG):
        return sign
    ascii_code = ord(sign) - 0xE0000  # tags repeat ASCII at this offset
    return chr(ascii_code) if 0x20 <= ascii_code < 0x7F else ""


SHORTEST_PIECE: Final = 20
"""The fewest characters of a word that can be an encoded sentence."""

MAX_DECODED: Final = 2_000
"""The most encoded pieces of one text that are decoded."""

_BASE64: Final = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{20,}={0,2}(?![A-Za-z0-9+/=])")
_AS_PLAIN: Final = str.maketrans("-_", "+/")  # Base64 as in URLs (RFC 4648)
_HEX: Final = re.compile(r"(?<![0-9A-Fa-f])(?:[0-9A-Fa-f]{2}){12,}(?![0-9A-Fa-f])")
_ESCAPED: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_DOTTED: Final = re.compile(r"(?:\w[.\-_*]){3}\w")  # i.g.n.o.r.e
_MAYBE_DOTTED: Final = QuickTest([_DOTTED.pattern])
_SPACED: Final = re.compile(r"(?<!\w)(?:\w[ .\-_*])+\w(?!\w)")  # i g n o r e, i-g-n-o-r-e
# Possessive: a run of digits is matched once, because some runs are as long as their text.
_MIXED_DIGITS: Final = re.compile(r"[a-z][0134578@$]++[a-z]|(?<![0134578@$])[0134578@$]++[a-z]{2}")
_LETTERS: Final = str.maketrans("0134578@$", "oieastbas")  # leetspeak
_DIGITS: Final = {"o": "0", "i": "1", "e": "3", "a": "4@", "s": "5$", "t": "7", "b": "8"}
_CYRILLIC_IN_LATIN: Final = re.compile(r"[a-z][\u0370-\u04ff]|[\u0370-\u04ff][a-z]")
_LOOKALIKES: Final = str.maketrans(
    "асеорхуіјѕһԁтмквнαορεικντυχ", "aceopxyijshdtmkbhaopeikvtux"
)  # these look-alikes are here on purpose

_FOREIGN: Final = re.compile(r"[^\W\d_\x00-\x7f]")  # a letter beyond ASCII
_GREEK_OR_CYRILLIC: Final = QuickTest(["[\u0370-\u04ff]"])
_STEMS: Final = (
    *("ignor", "disregard", "forget", "overrid", "instruct", "judg", "grader", "evaluat", "scor"),
    *("rubric", "rating", "metric", "perfect", "verdict", "highest", "maxim", "criteri", "prompt"),
)
"""The beginnings of words that occur in orders to a judge."""
_MAYBE_STEMS: Final = QuickTest(
    "".join(f"[{letter}{_DIGITS.get(letter, '')}]" for letter in stem) for stem in _STEMS
)

_REVERSED_WORDS: Final = ("erongi", "tcurtsni", "egduj", "rotaulave", "erocs", "cirbur", "redarg")
_MAYBE_REVERSED: Final = QuickTest(_REVERSED_WORDS)
_ROT13_WORDS: Final = ("vtaber", "vafgehpg", "whqtr", "rinyhngbe", "fpber", "ehoevp", "tenqre")
_MAYBE_ROT13: Final = QuickTest(_ROT13_WORDS)

# Blanks that are not single, not between words, or no plain space: most texts hold some of none.
_ODD_BLANKS: Final = QuickTest(
    ["[\t\x0b\x0c\r\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]|  | \n|\n "]
)


# All that `str.split` splits at, so that words are told apart in one pass.
_BLANKS: Final = "\t\n\x0b\x0c\r\x1c-\x1f \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_SPELLED: Final = QuickTest([f"[{_BLANKS}]+[^{_BLANKS}]" * 4 + f"[{_BLANKS}]"])
_MAYBE_PIECE: Final = QuickTest(["[A-Za-z0-9+/_-]" * SHORTEST_PIECE])  # hex too has these alone


@dataclass(frozen=True, slots=True)
class TextShape:
    """Cheap facts about a text, which say what disguises are possible at all."""

    low: str  # the text in lower case
    long_words: str  # the words that can be encoded sentences, as they were written, one a line
    spelled: bool  # whether four single letters in a row may spell out a word
    ascii: bool
    hidden: bool  # whether it holds hidden characters

    @classmethod
    def of(cls, text: str) -> TextShape:
        """The shape of a text as it was written."""
        low, long_words = text.lower(), ""
        if _MAYBE_PIECE.may_match_any(text):
            long_words = "\n".join([word for word in text.split() if len(word) >= SHORTEST_PIECE])
        return cls(low, long_words, _is_spelled(low), text.isascii(), hidden_count(text) > 0)

    def has_leet_words(self) -> bool:
        """Whether a word with digits for letters contains a stem of orders to a judge."""
        # Digits, or signs for letters, are in few words, and stems of orders in fewer of them.
        if not _MAYBE_STEMS.may_match_any(self.low):
            return False
        odd = "\n".join([word for word in self.low.split() if not word.isalpha()])
        if not _MAYBE_STEMS.may_match_any(odd):
            return False
        mixed = [word for word in odd.split("\n") if _MIXED_DIGITS.search(word)]
        read = "\n".join(mixed).translate(_LETTERS)
        return any(stem in read for stem in _STEMS)


def _is_spelled(low: str) -> bool:
    """Whether four words in a row have one letter each."""
    framed = f"\n{low}\n"
    if not has_surrogates(low):
        return _SPELLED.may_match(framed)
    return b"\1\1\1\1" in bytes(min(len(word), 255) for word in low.split())


def plain(text: str) -> str:
    """The text normalised for patterns: NFKC, lower case, no hidden characters, single blanks."""
    seen = text if text.isascii() else unicodedata.normalize("NFKC", without_hidden(text))
    low = seen.lower()
    if low[:1] != " " and low[-1:] != " " and not _ODD_BLANKS.may_match_any(low):
        return low
    return "\n".join([" ".join(line.split()) for line in low.split("\n")])


def readings(text: str, shape: TextShape) -> Iterator[tuple[str, str]]:
    """Yield what a text may say under each disguise, as (name of the disguise, normalised text)."""
    for name, (is_possible, read) in _DISGUISES.items():
        if is_possible(shape) and (
            reading := read(shape.long_words if name in _OF_PIECES else text)
        ):
            yield name, plain(reading)


def _decode_pieces(text: str, pattern: re.Pattern[str], decode: Callable[[str], bytes]) -> str:
    texts = []
    for piece in itertools.islice(pattern.finditer(text), MAX_DECODED):
        try:
            decoded_text = decode(piece[0]).decode("utf-8")  # a UnicodeDecodeError is a ValueError
        except ValueError:
            continue
        if decoded_text.isprintable() or "\n" in decoded_text:  # else it is data, not a text
            texts.append(decoded_text)
    return "\n".join(texts)


def _base64_bytes(piece: str) -> bytes:
    bare = piece.rstrip("=").translate(_AS_PLAIN)
    return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)


def _at_least(count: int, pattern: re.Pattern[str], text: str) -> bool:
    # Stops at the last match wanted: counting all would read the whole text.
    return len(list(itertools.islice(pattern.finditer(text), count))) == count


def _translated(text: str, pattern: re.Pattern[str], letters: dict[int, int]) -> str:
    low = text.lower()
    return low.translate(letters) if _at_least(3, pattern, low) else ""


def _without_spacing(text: str) -> str:
    if not _at_least(2, _SPACED, text):
        return ""
    return _SPACED.sub(lambda match: re.sub(r"[ .\-_*]", "", match[0]), text)


_DISGUISES: Final[Mapping[str, tuple[Callable[[TextShape], bool], Callable[[str], str]]]] = {
    "base64": (
        lambda shape: bool(shape.long_words),
        lambda text: _decode_pieces(text, _BASE64, _base64_bytes),
    ),
    "hex": (
        lambda shape: bool(shape.long_words),
        lambda text: _decode_pieces(text, _HEX, bytes.fromhex),
    ),
    "url": (
        lambda shape: "%" in shape.low,
        lambda text: urllib.parse.unquote(text) if _at_least(3, _ESCAPED, text) else "",
    ),
    "rot13": (
        lambda shape: (
            _MAYBE_ROT13.may_match_any(shape.low) and any(cue in shape.low for cue in _ROT13_WORDS)
        ),
        lambda text: codecs.encode(text, "rot13"),
    ),
    "reversed": (
        # Known words run backwards, or the text uses another script.
        lambda shape: (
            shape.hidden
            or (
                _MAYBE_REVERSED.may_match_any(shape.low)
                and any(cue in shape.low for cue in _REVERSED_WORDS)
            )
            or (not shape.ascii and _FOREIGN.search(shape.low) is not None)
        ),
        # Line by line, so that the order of lines and the anchors of patterns hold.
        lambda text: "\n".join(reversed(without_hidden(text)[::-1].split("\n"))),
    ),
    "leet": (TextShape.has_leet_words, lambda text: _translated(text, _MIXED_DIGITS, _LETTERS)),
    "spaced": (
        lambda shape: (
            shape.spelled
            or (_MAYBE_DOTTED.may_match_any(shape.low) and _DOTTED.search(shape.low) is not None)
        ),
        _without_spacing,
    ),
    "lookalikes": (
        lambda shape: not shape.ascii and _GREEK_OR_CYRILLIC.may_match_any(shape.low),
        lambda text: _translated(text, _CYRILLIC_IN_LATIN, _LOOKALIKES),
    ),
}
"""Each disguise: a quick test whether a text can be disguised so, and the reading of such a text."""

_OF_PIECES: Final = frozenset({"base64", "hex"})
"""The disguises that are read in the long words of a text, not in the text."""
