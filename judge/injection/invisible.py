"""Hidden characters, which a person does not see and a model reads: counted, or made visible.

Characters that normal writing needs do not count as hidden: joiners between letters or emoji, one
variation selector after a character, the tags of a flag.
"""

from __future__ import annotations

import re
from typing import Final

_BLACK_FLAG: Final = "\U0001f3f4"
_ZERO_WIDTH: Final = (
    "\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2060-\u2064\u3164\ufeff\uffa0"
)
_BIDI: Final = "\u202a-\u202e\u2066-\u2069"
_TAGS: Final = "\U000e0000-\U000e007f"
_SELECTORS: Final = "\ufe00-\ufe0f\U000e0100-\U000e01ef"

_FLAG: Final = f"{_BLACK_FLAG}[\U000e0061-\U000e007a\U000e0030-\U000e0039]{{1,6}}\U000e007f"
_HIDDEN: Final = re.compile(
    rf"{_FLAG}|[{_ZERO_WIDTH}{_BIDI}{_TAGS}]"
    # A joiner joins something only next to a letter beyond ASCII or an emoji.
    r"|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"
    rf"|(?<=[{_SELECTORS}])[{_SELECTORS}]|(?<=[A-Za-z])[{_SELECTORS}]"
)
# A quick first test: every hidden character is one of these, and most texts hold none.
_ODD: Final = re.compile(rf"[{_ZERO_WIDTH}\u200c\u200d{_BIDI}{_TAGS}{_SELECTORS}]")


def made_visible(text: str) -> str:
    """The text with each hidden character written as its code point: `[U+200B]`."""
    return text if _is_plain(text) else _HIDDEN.sub(_visible_form, text)


def without_hidden(text: str) -> str:
    """The text as a model may read it: without hidden characters, tags as the ASCII they encode."""
    return text if _is_plain(text) else _HIDDEN.sub(_readable_form, text)


def hidden_count(text: str) -> int:
    """The number of hidden characters in a text."""
    if _is_plain(text):
        return 0
    return sum(not match[0].startswith(_BLACK_FLAG) for match in _HIDDEN.finditer(text))


def _is_plain(text: str) -> bool:
    return text.isascii() or _ODD.search(text) is None


def _visible_form(match: re.Match[str]) -> str:
    sign = match[0]
    return sign if sign.startswith(_BLACK_FLAG) else f"[U+{ord(sign):04X}]"


def _readable_form(match: re.Match[str]) -> str:
    sign = match[0]
    if sign.startswith(_BLACK_FLAG):
        return sign
    ascii_code = ord(sign) - 0xE0000
    return chr(ascii_code) if 0x20 <= ascii_code < 0x7F else ""
