"""What a text says under a disguise: each reading that differs is looked at like the text itself."""

from __future__ import annotations

import base64
import binascii
import codecs
import re
import unicodedata
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Final

from judge.invisible import without_hidden

MAX_DECODED: Final = 200
"""So many encoded pieces of a text are decoded, the first ones."""

_BASE64: Final = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{20,}={0,2}(?![A-Za-z0-9+/=])")
_HEX: Final = re.compile(r"(?<![0-9A-Fa-f])(?:[0-9A-Fa-f]{2}){12,}(?![0-9A-Fa-f])")
_ESCAPED: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_SPACED: Final = re.compile(r"(?<!\w)(?:\w[ .\-_*]){3,}\w(?!\w)")
_MIXED_DIGITS: Final = re.compile(r"[a-z][0134578@$]+[a-z]|[0134578@$]+[a-z]{2}")
_LETTERS: Final = str.maketrans("0134578@$", "oieastbas")
_CYRILLIC_IN_LATIN: Final = re.compile(r"[a-z][\u0370-\u04ff]|[\u0370-\u04ff][a-z]")
_LOOKALIKES: Final = str.maketrans(
    "асеорхуіјѕһԁтмквнαορεικντυχ", "aceopxyijshdtmkbhaopeikvtux"
)  # they are the point

_TURNED: Final = ("erongi", "tcurtsni", "egduj", "rotaulave", "erocs", "cirbur", "redarg")
_ROTATED: Final = ("vtaber", "vafgehpg", "whqtr", "rinyhngbe", "fpber", "ehoevp", "tenqre")


def plain(text: str) -> str:
    """The text as patterns read it: compatibility forms, lower case, nothing hidden, single blanks."""
    seen = text if text.isascii() else unicodedata.normalize("NFKC", without_hidden(text))
    return re.sub(r"[^\S\n]+", " ", seen.lower())


def readings(text: str) -> Iterator[tuple[str, str]]:
    """What else a text may say, with the name of its disguise; `text` as it was written."""
    for disguise, read in _READERS.items():
        said = read(text)
        if said:
            yield disguise, plain(said)


def _decoded(text: str, pattern: re.Pattern[str], decode: Callable[[str], bytes]) -> str:
    found = []
    for piece, _ in zip(pattern.finditer(text), range(MAX_DECODED), strict=False):
        try:
            said = decode(piece[0]).decode("utf-8")
        except (ValueError, binascii.Error):
            continue
        if said.isprintable() or "\n" in said:
            found.append(said)
    return "\n".join(found)


def _unpacked(piece: str) -> bytes:
    bare = piece.rstrip("=").translate(str.maketrans("-_", "+/"))
    return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)


def _base64(text: str) -> str:
    return _decoded(text, _BASE64, _unpacked)


def _hex(text: str) -> str:
    return _decoded(text, _HEX, bytes.fromhex)


def _url(text: str) -> str:
    return urllib.parse.unquote(text) if len(_ESCAPED.findall(text[:20_000])) >= 3 else ""


def _rot13(text: str) -> str:
    low = text.lower()
    return codecs.encode(text, "rot13") if any(cue in low for cue in _ROTATED) else ""


def _reversed(text: str) -> str:
    low = without_hidden(text).lower()
    return (
        "\n".join(line[::-1] for line in low.split("\n")) if any(c in low for c in _TURNED) else ""
    )


def _leet(text: str) -> str:
    low = text.lower()
    return low.translate(_LETTERS) if len(_MIXED_DIGITS.findall(low[:20_000])) >= 3 else ""


def _spaced(text: str) -> str:
    if len(_SPACED.findall(text[:20_000])) < 2:
        return ""
    return _SPACED.sub(lambda found: re.sub(r"[ .\-_*]", "", found[0]), text)


def _lookalikes(text: str) -> str:
    if text.isascii():
        return ""
    low = text.lower()
    if len(_CYRILLIC_IN_LATIN.findall(low)) < 3:
        return ""
    return low.translate(_LOOKALIKES)


_READERS: Final[dict[str, Callable[[str], str]]] = {
    "base64": _base64,
    "hex": _hex,
    "url": _url,
    "rot13": _rot13,
    "reversed": _reversed,
    "leet": _leet,
    "spaced": _spaced,
    "lookalikes": _lookalikes,
}
