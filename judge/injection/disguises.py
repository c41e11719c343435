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
import string
import unicodedata
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from assizes.judge.quick_test import QuickTest, without_surrogates

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
_ODD_SIGNS: Final = f"{_ZERO_WIDTH}\u200c\u200d{_BIDI}{_TAGS}{_SELECTORS}"
_ODD: Final = QuickTest([f"[{_ODD_SIGNS}]"])


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

_PADDING: Final = 3
"""The most signs `=` after a piece that decide whether it is one."""

MAX_DECODED: Final = 2_000
"""The most encoded pieces of one text that are decoded."""

_BASE64: Final = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{20,}={0,2}(?![A-Za-z0-9+/=])")
_AS_PLAIN: Final = str.maketrans("-_", "+/")  # Base64 as in URLs (RFC 4648)
_HEX: Final = re.compile(r"(?<![0-9A-Fa-f])(?:[0-9A-Fa-f]{2}){12,}(?![0-9A-Fa-f])")
_ESCAPED: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_DOTTED: Final = re.compile(r"(?:\w[.\-_*]){3}\w")  # i.g.n.o.r.e
_SPACED: Final = re.compile(r"(?<!\w)(?:\w[ .\-_*])+\w(?!\w)")  # i g n o r e, i-g-n-o-r-e
# Possessive: a run of digits is matched once, because some runs are as long as their text.
_MIXED_DIGITS: Final = re.compile(r"[a-z][0134578@$]++[a-z]|(?<![0134578@$])[0134578@$]++[a-z]{2}")
_LETTERS: Final = str.maketrans("0134578@$", "oieastbas")  # leetspeak
_DIGITS: Final = {"o": "0", "i": "1", "e": "3", "a": "4@", "s": "5$", "t": "7", "b": "8"}
_CYRILLIC_IN_LATIN: Final = re.compile("[a-z][\u0370-\u04ff]|[\u0370-\u04ff][a-z]")
_MAYBE_LOOKALIKES: Final = QuickTest([_CYRILLIC_IN_LATIN.pattern])
_LOOKALIKES: Final = str.maketrans(
    "асеорхуіјѕһԁтмквнαορεικντυχ", "aceopxyijshdtmkbhaopeikvtux"
)  # these look-alikes are here on purpose

_SIGMA: Final = "\u03a3"  # the only letter whose lower case depends on where it stands
_FOREIGN: Final = re.compile(r"[^\W\d_\x00-\x7f]")  # a letter beyond ASCII
_STEMS: Final = (
    *("ignor", "disregard", "forget", "overrid", "instruct", "judg", "grader", "evaluat", "scor"),
    *("rubric", "rating", "metric", "perfect", "verdict", "highest", "maxim", "criteri", "prompt"),
)
"""The beginnings of words that occur in orders to a judge."""


def _leet_form(letters: str) -> str:
    """A pattern of letters, each of which may be a digit or a sign."""
    return "".join(f"[{letter}{_DIGITS.get(letter, '')}]" for letter in letters)


_STEM_FORMS: Final = "|".join(map(_leet_form, _STEMS))
# A stem in a word with a digit or sign for a letter: before the stem, after it, or within it.
_LEET_WORDS: Final = (
    rf"[0134578@$]\S*(?:{_STEM_FORMS})",
    rf"(?:{_STEM_FORMS})\S*[0134578@$]",
    *(
        f"{_leet_form(stem[:place])}[{_DIGITS[letter]}]{_leet_form(stem[place + 1 :])}"
        for stem in _STEMS
        for place, letter in enumerate(stem)
        if letter in _DIGITS
    ),
)
_MAYBE_LEET: Final = QuickTest(_LEET_WORDS)

_REVERSED_WORDS: Final = ("erongi", "tcurtsni", "egduj", "rotaulave", "erocs", "cirbur", "redarg")
_ROT13_WORDS: Final = ("vtaber", "vafgehpg", "whqtr", "rinyhngbe", "fpber", "ehoevp", "tenqre")

# All that `str.split` splits at but spaces and line ends.
_RARE_BLANKS: Final = (
    "\t\x0b\x0c\r\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
)
_MAYBE_RARE_BLANKS: Final = QuickTest([f"[{_RARE_BLANKS}]"])
_BLANKS: Final = f" \n{_RARE_BLANKS}"
_LETTER_APART: Final = f"[{_BLANKS}]+[^{_BLANKS}]"
_FOUR_LETTERS: Final = _LETTER_APART * 4 + f"[{_BLANKS}]"
_SPELLED: Final = QuickTest([_FOUR_LETTERS])
_MAYBE_SPACED: Final = QuickTest([_FOUR_LETTERS, _DOTTED.pattern])

_MAYBE_DISGUISED: Final = QuickTest(
    [
        f"[{_ODD_SIGNS}{_RARE_BLANKS}\u0370-\u04ff]",
        f"[^{_BLANKS}]{_LETTER_APART * 4}",  # also where a text begins or ends with the letters
        *(_DOTTED.pattern, *_LEET_WORDS, *_REVERSED_WORDS, *_ROT13_WORDS),
    ]
)
"""Tells in one pass over a text in lower case that it holds no odd sign and no disguised word; a text
read backwards, encoded pieces and what only NFKC changes are looked for apart."""

_PIECE_SIGNS: Final = (string.ascii_letters + string.digits + "+/_-").encode()  # hex has no others
_AS_RUNS: Final = bytes(ord("x" if sign in _PIECE_SIGNS else " ") for sign in range(256))
"""A table that makes signs of an encoded piece `x`, and all other bytes blanks."""


_ANYTHING: Final = QuickTest([r"\s|\S"])


@dataclass(frozen=True)
class TextShape:
    """Cheap facts about a text, which say what disguises are possible at all."""

    text: str
    low: str  # the text in lower case
    pieces: str  # what can be an encoded sentence, as it was written, one a line
    spaced: bool  # whether letters that stand apart may spell out a word
    ascii: bool
    odd: bool  # whether `_MAYBE_DISGUISED` matches in it
    hidden: bool  # whether it holds hidden characters
    backwards: (
        QuickTest  # a `backwards_test`: the text is read backwards only where it finds a word
    )

    @classmethod
    def of(cls, text: str, backwards: QuickTest = _ANYTHING) -> TextShape:
        """The shape of a text as it was written; without `backwards`, any word counts."""
        text, is_ascii = without_surrogates(text), text.isascii()
        low, pieces = text.lower(), _long_pieces(text)
        is_odd = _MAYBE_DISGUISED.may_match(low)
        is_hidden = is_odd and not is_ascii and hidden_count(text) > 0
        is_spaced = is_odd and _may_be_spaced(low)
        return cls(text, low, pieces, is_spaced, is_ascii, is_odd, is_hidden, backwards)

    @cached_property
    def is_changed(self) -> bool:
        """Whether NFKC changes the text."""
        return _is_changed(self.text)

    @cached_property
    def bare(self) -> str:
        """The text as `plain` makes it."""
        if not (self.ascii or not (self.hidden or self.is_changed)):
            return plain(self.text)
        return _with_single_blanks(self.low) if self.odd else _with_single_spaces(self.low)

    @cached_property
    def has_same_signs_backwards(self) -> bool:
        """Whether `plain` makes the same signs of the text when it is read backwards."""
        # Read backwards, signs may join to others, or be changed otherwise; a sigma is written
        # another way at the end of a word.
        return self.ascii or not (
            self.hidden
            or len(self.low) != len(self.text)
            or _SIGMA in self.text
            or self.is_changed
            or _is_changed(self.text[::-1])
        )

    def holds_backwards(self) -> bool:
        """Whether the text read backwards may hold one of the words of its `backwards` test."""
        seen = self.low if self.has_same_signs_backwards else self._low_backwards[::-1]
        return self.backwards.may_match(seen)

    def bare_backwards(self) -> str:
        """The text read backwards, as `plain` makes it."""
        if self.has_same_signs_backwards:
            return _lines_backwards(self.bare)
        return _with_single_blanks(self._low_backwards)

    @cached_property
    def _low_backwards(self) -> str:
        """The text read backwards as `plain` makes it, but for the blanks."""
        return _normalised(_lines_backwards(without_hidden(self.text)))

    def has_leet_words(self) -> bool:
        """Whether a word with digits for letters contains a stem of orders to a judge."""
        if not self.odd or not _MAYBE_LEET.may_match(self.low):
            return False
        mixed = [word for word in self.low.split() if _MIXED_DIGITS.search(word)]
        read = "\n".join(mixed).translate(_LETTERS)
        return any(stem in read for stem in _STEMS)


def _long_pieces(text: str) -> str:
    """The runs of signs of Base64 and hex that are long enough for a sentence, one a line."""
    signs = text.encode("utf-8", "surrogatepass")
    runs, pieces, end = signs.translate(_AS_RUNS), [], 0
    while (start := runs.find(b"x" * SHORTEST_PIECE, end)) >= 0:
        end = runs.find(b" ", start)
        end = len(runs) if end < 0 else end
        pieces.append(signs[start : end + _PADDING])
    return b"\n".join(pieces).decode("utf-8", "replace")


def _may_be_spaced(low: str) -> bool:
    """Whether four words in a row have one letter each, or signs stand between four letters."""
    framed = f"\n{low}\n"
    if not _MAYBE_SPACED.may_match(framed):
        return False
    return _SPELLED.may_match(framed) or _DOTTED.search(low) is not None


def _is_changed(text: str) -> bool:
    """Whether NFKC changes a text."""
    return not unicodedata.is_normalized("NFKC", text)


def plain(text: str) -> str:
    """The text normalised for patterns: NFKC, lower case, no hidden characters, single blanks."""
    return _with_single_blanks(_normalised(without_hidden(without_surrogates(text))))


def _normalised(seen: str) -> str:
    """The text in lower case and NFKC."""
    return (seen if seen.isascii() else unicodedata.normalize("NFKC", seen)).lower()


def _with_single_blanks(low: str) -> str:
    """The text with one space for each run of blanks, and none at the ends of a line."""
    if _MAYBE_RARE_BLANKS.may_match(low):
        return "\n".join([" ".join(line.split()) for line in low.split("\n")])
    return _with_single_spaces(low)


def _with_single_spaces(low: str) -> str:
    """The same for a text without blanks other than spaces and line ends."""
    # Lines first: most runs of blanks indent a line, as in JSON, and go at once.
    low = "\n".join(map(str.strip, low.split("\n")))
    while "  " in low:
        low = low.replace("  ", " ")
    return low


def backwards_test(words: Iterable[str]) -> QuickTest:
    """A test for words, written backwards, in a text in lower case; their blanks may be any."""
    backwards = (map(re.escape, word[::-1].split(" ")) for word in words)
    return QuickTest(f"[ {_RARE_BLANKS}]+".join(parts) for parts in backwards)


def readings(shape: TextShape) -> Iterator[tuple[str, str]]:
    """Yield what a text may say under each disguise, as (name of the disguise, normalised text)."""
    for name, (is_possible, read) in _DISGUISES.items():
        if is_possible(shape) and (reading := read(shape)):
            yield name, reading


def _lines_backwards(text: str) -> str:
    """Each line read backwards: the order of lines stays, so that the anchors of patterns hold."""
    return "\n".join(reversed(text[::-1].split("\n")))


def _decoded(text: str, pattern: re.Pattern[str], decode: Callable[[str], bytes]) -> str:
    texts = []
    for piece in itertools.islice(pattern.finditer(text), MAX_DECODED):
        try:
            decoded_text = decode(piece[0]).decode("utf-8")  # a UnicodeDecodeError is a ValueError
        except ValueError:
            continue
        if decoded_text.isprintable() or "\n" in decoded_text:  # else it is data, not a text
            texts.append(decoded_text)
    return plain("\n".join(texts))


def _base64_bytes(piece: str) -> bytes:
    bare = piece.rstrip("=").translate(_AS_PLAIN)
    return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)


def _at_least(count: int, pattern: re.Pattern[str], text: str) -> bool:
    # Stops at the last match wanted: counting all would read the whole text.
    return len(list(itertools.islice(pattern.finditer(text), count))) == count


def _translated(text: str, pattern: re.Pattern[str], letters: dict[int, int]) -> str:
    low = text.lower()
    return plain(low.translate(letters)) if _at_least(3, pattern, low) else ""


def _without_spacing(text: str) -> str:
    if not _at_least(2, _SPACED, text):
        return ""
    return plain(_SPACED.sub(lambda match: re.sub(r"[ .\-_*]", "", match[0]), text))


_DISGUISES: Final[Mapping[str, tuple[Callable[[TextShape], bool], Callable[[TextShape], str]]]] = {
    "base64": (
        lambda shape: bool(shape.pieces),
        lambda shape: _decoded(shape.pieces, _BASE64, _base64_bytes),
    ),
    "hex": (
        lambda shape: bool(shape.pieces),
        lambda shape: _decoded(shape.pieces, _HEX, bytes.fromhex),
    ),
    "url": (
        lambda shape: "%" in shape.low,
        lambda shape: (
            plain(urllib.parse.unquote(shape.text)) if _at_least(3, _ESCAPED, shape.text) else ""
        ),
    ),
    "rot13": (
        lambda shape: shape.odd and any(cue in shape.low for cue in _ROT13_WORDS),
        lambda shape: plain(codecs.encode(shape.text, "rot13")),
    ),
    "reversed": (
        # Known words run backwards, or the text uses another script.
        lambda shape: (
            (
                shape.hidden
                or (shape.odd and any(cue in shape.low for cue in _REVERSED_WORDS))
                or (not shape.ascii and _FOREIGN.search(shape.low) is not None)
            )
            and shape.holds_backwards()
        ),
        TextShape.bare_backwards,
    ),
    "leet": (
        TextShape.has_leet_words,
        lambda shape: _translated(shape.text, _MIXED_DIGITS, _LETTERS),
    ),
    "spaced": (
        lambda shape: shape.spaced,
        lambda shape: _without_spacing(shape.text),
    ),
    "lookalikes": (
        lambda shape: shape.odd and not shape.ascii and _MAYBE_LOOKALIKES.may_match(shape.low),
        lambda shape: _translated(shape.text, _CYRILLIC_IN_LATIN, _LOOKALIKES),
    ),
}
"""Each disguise: a quick test whether a text can be disguised so, and what such a text then says,
as `plain` makes it."""
