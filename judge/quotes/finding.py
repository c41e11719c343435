"""Quotes in a judge's reason: texts in quotation marks that claim to stand in the conversation.

A quote has a few words at least. Names of metrics and levels, single values and fragments of code are
none. Words that a reason only wishes for or misses ("should have said ...", "never said ...") are
not claimed to stand anywhere, so they are left out as well.
"""

from __future__ import annotations

import re
from typing import Final

MIN_WORDS: Final = 3
"""The fewest words of a quote; a shorter text in quotation marks is a name, a value or irony."""

MIN_SIGNS: Final = 6
"""The fewest signs of a quote in a script that writes no blanks between words."""

MAX_QUOTE_CHARS: Final = 1_500
"""The most characters of a quote: what stands between two marks further apart is no quote."""

MAX_REASON_CHARS: Final = 20_000
"""The characters of a reason in which quotes are looked for."""

MAX_QUOTES: Final = 20
"""The most quotes of one reason that are looked up."""

UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
"""Letters of scripts that write no blanks between words, as the inside of a character class."""

_MARKS: Final = "\"'\u201c\u201d\u201e\u2018\u2019\u201a\u00ab\u00bb\u2039\u203a\u300c\u300e"
_ANY_MARK: Final = re.compile(f"[{_MARKS}]")

# Opening and closing marks, with what may not stand between them. An apostrophe within a word
# closes nothing.
_CURLY: Final = tuple(
    f"{opening}([^{between}]{{1,{MAX_QUOTE_CHARS}}})[{closing}]"
    for opening, between, closing in (
        ("\u201c", "\u201c\u201d", "\u201d"),
        ("\u201e", "\u201c\u201d\u201e", "\u201c\u201d"),
        ("\u201d", "\u201c\u201d", "\u201d"),
        ("\u00ab", "\u00ab\u00bb", "\u00bb"),
        ("\u00bb", "\u00ab\u00bb", "\u00ab"),
        ("\u2039", "\u2039\u203a", "\u203a"),
        ("\u300c", "\u300c\u300d", "\u300d"),
        ("\u300e", "\u300e\u300f", "\u300f"),
    )
)
_STRAIGHT: Final = rf'(?<![\w"])"(?=\S)([^"]{{1,{MAX_QUOTE_CHARS}}})(?<=\S)"(?![\w"])'
_SINGLE: Final = tuple(
    rf"(?<![\w{closing}]){opening}(?=\S)"
    rf"((?:[^{opening}{closing}\n]|(?<=\w)[{closing}](?=\w)){{1,{MAX_QUOTE_CHARS}}})"
    rf"(?<=\S)[{closing}](?!\w)"
    for opening, closing in (("\u2018", "\u2019"), ("\u201a", "\u2018\u2019"), ("'", "'"))
)
_QUOTE: Final = re.compile("|".join((*_CURLY, _STRAIGHT, *_SINGLE)))

_UNSPACED_SIGN: Final = re.compile(f"[{UNSPACED}]")
_CODE: Final = re.compile(r"[{}<>=]|\"\s*:|^\W*\w+\(|\w+_\w+\W*$")
"""What a fragment of code, of JSON or of a reply schema holds, and a sentence does not."""

_VALUE: Final = re.compile(r"[\"']\s*:\s*\Z")
"""What stands before a value in JSON: its key."""

_CLAUSE: Final = re.compile(
    r"[;!?,:]\s|\.\s+(?=[A-Z\u00c0-\u00de\"'\u201c])"
    r"|\b(?:when|because|although|while|but|after|since|whereas|als|weil|obwohl|aber|quand|mais"
    r"|cuando|porque|pero)\b",
    re.IGNORECASE,
)
_BEFORE_CHARS: Final = 90
"""Characters before a quote that can say that it is only wished for."""

_WISHED: Final = re.compile(
    r"\b(?:should|could|would|might|must|ought|needs? to|e\.g\.|for (?:example|instance)|such as"
    r"|instead|rather than|ideally|expected|required?|means?|meaning|not|n't|never|nor|no|nothing|without|fail(?:s|ed)?"
    r"|failing|omit(?:s|ted)?|miss(?:es|ed|ing)?|lacks?|absence of|sollte|h\u00e4tte|statt|z\.\s?b\.|nicht"
    r"|nie|kein\w*|devrait|aurait|au lieu|jamais|pas|deber\u00eda|podr\u00eda|en lugar|nunca)(?:\b|(?<=\.))"
    r"|\b\w+n['\u2019]t\b",
    re.IGNORECASE,
)
_AFTER_CHARS: Final = 50
_MISSED: Final = re.compile(
    r"\W*(?:\w+\s+){0,2}?(?:(?:was|is|were|are|has|had)(?:\s+been)?\s+(?:never|not|nowhere)"
    r"(?:\s+been)?\s+(?:said|mentioned|given|used|sent|stated|told|present|found|included|offered"
    r"|asked|communicated|provided|delivered|there|in)"
    r"|(?:is|was|are|were)\s+(?:missing|absent)|(?:does|did)\s+not\s+(?:appear|occur)"
    r"|(?:would|should|could)\s+(?:have|be))\b",
    re.IGNORECASE,
)
"""What after a quote says that it does not stand there."""


def may_quote(text: str) -> bool:
    """Whether a text holds a mark of quotation at all, an apostrophe among them."""
    return _ANY_MARK.search(text) is not None


def claimed_quotes(reason: str) -> list[str]:
    """The quotes of a reason that claim to stand in what the judge read, in order, each once."""
    if not may_quote(reason):
        return []
    text = reason[:MAX_REASON_CHARS]
    quotes: dict[str, None] = {}
    for match in _QUOTE.finditer(text):
        quote = (match[match.lastindex or 0]).strip()
        if _is_long_enough(quote) and not _CODE.search(quote) and _is_claimed(text, match):
            quotes[quote] = None
            if len(quotes) == MAX_QUOTES:
                break
    return list(quotes)


def _is_long_enough(quote: str) -> bool:
    words = sum(any(sign.isalpha() for sign in word) for word in quote.split())
    return words >= MIN_WORDS or len(_UNSPACED_SIGN.findall(quote)) >= MIN_SIGNS


def _is_claimed(text: str, match: re.Match[str]) -> bool:
    """Whether the words around a quote say that it was said, and not that it is wished for."""
    before = text[max(0, match.start() - _BEFORE_CHARS) : match.start()]
    if _VALUE.search(before):
        return False
    before = before.rstrip(" ,:\n(")
    clause_start = max((end.end() for end in _CLAUSE.finditer(before)), default=0)
    if _WISHED.search(before[clause_start:]):
        return False
    return not _MISSED.match(text[match.end() : match.end() + _AFTER_CHARS])
