"""A cheap first test for patterns: one that lets through all that they match, and little else.

The test is the patterns themselves without what makes them slow. Anchors and looks ahead are left
out, long repetitions have no bound, and a class of characters takes each character beyond ASCII
that the class may hold. So the test matches wherever a pattern matches, and it needs no
backtracking: the engine of pydantic reads a text once, in time linear to its length. The rules of
attacks and those of secrets use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from pydantic_core import SchemaValidator, core_schema

LONGEST_COUNT: Final = 6
"""The highest bound of a repetition that the test keeps: a machine of states grows with it."""

SHORTEST_WORD: Final = 3
"""The fewest characters of alternatives with which a test begins: shorter words are in any text."""

_TOKEN: Final = re.compile(
    r"\(\?(?:=|!|<=|<!)"  # begins a look ahead or behind
    r"|\(\?:|\(\?|\(|\)|\|"
    r"|\[\^?\]?(?:\\.|[^\]\\])*\]"
    r"|\\x[0-9a-fA-F]{2}|\\.|[\^$]"
    r"|(?:[*+?]|\{\d*,?\d*\})[?+]?|.",
    re.DOTALL,
)
_MEMBER: Final = re.compile(r"\\x[0-9a-fA-F]{2}|\\.|.", re.DOTALL)
_COUNT: Final = re.compile(r"\{(\d*)(,?)(\d*)\}")
_LOOKS: Final = ("(?=", "(?!", "(?<=", "(?<!")
_SAME: Final = {
    **dict.fromkeys(("^", "$", r"\b", r"\B", r"\A", r"\Z"), ""),
    **{"(": "(?:", "(?:": "(?:", ")": ")", "|": "|", ".": r"[^\n]"},
}
"""What the test has for anchors, groups, alternatives and the dot."""

_ATOMS: Final = {
    # Of blanks, a text from `plain` holds these two.
    r"\s": r" \n",
    r"\S": r"[^ \n]",
    r"\d": r"0-9[^\x00-\x7f]",
    r"\w": r"0-9A-Za-z_[^\x00-\x7f]",
    r"\W": r"[^0-9A-Za-z_]",
}
"""What a class of the patterns holds at most, written for the inside of brackets."""

_COMMON: Final = frozenset({" ", ".", *_ATOMS})
"""Elements of one character that stand in any text."""

_WIDE_CLASS: Final = re.compile(r"\[\^|\[.*(?:-|\\[sSdwW]).*\]")
"""A class of characters that leaves some out, or holds a range or another class."""

_EXCLUDED: Final = {
    r"\s": r" \n",
    r"\S": r"[^ \n]",
    r"\d": "0-9",
    r"\w": "0-9A-Za-z_",
    r"\W": r"[^0-9A-Za-z_[^\x00-\x7f]]",
}
"""What a class of the patterns holds at least, for brackets that exclude the class."""


class QuickTest:
    """Tells in one pass that none of some patterns matches in a text; or that one may match."""

    def __init__(self, patterns: Iterable[str]) -> None:
        """Make the test of patterns, of which there may be none.

        Raises:
            ValueError: for a pattern with syntax that the test does not know, such as a group by name.
        """
        weaker = "|".join(_weaker_pattern(pattern) for pattern in patterns)
        schema = core_schema.str_schema(pattern=weaker)
        self._validator = SchemaValidator(schema) if weaker else None

    def may_match(self, text: str) -> bool:
        """Whether a pattern may match in a text, which holds no lone surrogates.

        Where a pattern has a class for blanks, the text is one from `plain`.
        """
        return self._validator is not None and self._validator.isinstance_python(text)

    def may_match_any(self, text: str) -> bool:
        """The same for any text; one with lone surrogates always may match."""
        return self.may_match(text) or without_surrogates(text) is not text


def without_surrogates(text: str) -> str:
    """The text as valid Unicode: surrogate pairs joined, lone surrogates replaced by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()  # most texts hold none, and this is the cheapest way to tell
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _weaker_pattern(pattern: str) -> str:
    tokens = _TOKEN.findall(pattern)
    whole = "".join(_pieces(iter(tokens)))  # refuses syntax that the test does not know
    return "".join(_pieces(iter(_without_weak_start(tokens)))) or whole


def _without_weak_start(tokens: list[str]) -> list[str]:
    """The tokens from the first element that tells something; from a weaker one if there is none.

    What follows the start of a pattern matches wherever the pattern does. Elements that may be
    empty, and words of one or two letters, keep the engine from looking for words first.
    """
    elements = list(_elements(tokens))
    if ["|"] in elements:
        return tokens
    for is_start in (_is_strong, _is_firm):
        for place, element in enumerate(elements):
            if is_start(element):
                return [token for each in elements[place:] for token in each]
    return tokens


def _is_strong(element: list[str]) -> bool:
    """Whether an element is one of few signs, no blank among them, or words of three or more."""
    first = element[0]
    if first.startswith("("):
        return _shortest(element) >= SHORTEST_WORD
    is_wide = first in _COMMON or _WIDE_CLASS.match(first) is not None
    return _is_firm(element) and not is_wide


def _is_firm(element: list[str]) -> bool:
    """Whether an element is at least one character, or alternatives of two or more."""
    least = 2 if element[0].startswith("(") else 1
    return _shortest(element) >= least


def _elements(tokens: list[str]) -> Iterator[list[str]]:
    """Yield the elements of a sequence: an atom or a group each, with its repetition."""
    at = 0
    while at < len(tokens):
        begun, depth = at, 0
        while True:
            depth += tokens[at].startswith("(") - (tokens[at] == ")")
            at += 1
            if not depth:
                break
        if at < len(tokens) and tokens[begun] != "|" and _is_repetition(tokens[at]):
            at += 1
        yield tokens[begun:at]


def _shortest(element: list[str]) -> int:
    """The fewest characters that an element matches."""
    times = 1
    if _is_repetition(element[-1]) and len(element) > 1:
        *element, last = element
        count = _COUNT.match(last)
        times = int(count[1] or 0) if count else int(last[0] == "+")
    if element[0] in _LOOKS or _SAME.get(element[0]) == "":
        return 0
    if len(element) == 1:
        return times
    lengths = [0]  # of each alternative
    for inner in _elements(element[1:-1]):
        if inner == ["|"]:
            lengths.append(0)
        else:
            lengths[-1] += _shortest(inner)
    return times * min(lengths)


def _is_repetition(token: str) -> bool:
    return token[0] in "*+?" or _COUNT.match(token) is not None


def _pieces(tokens: Iterator[str]) -> Iterator[str]:
    for token in tokens:
        if token in _LOOKS:
            _skip_group(tokens)
        else:
            yield _piece(token)


def _piece(token: str) -> str:
    if token in _SAME:
        return _SAME[token]
    if token in _ATOMS:
        return f"[{_ATOMS[token]}]"
    if token.startswith("[") and len(token) > 1:
        return _class(token)
    if _is_repetition(token):
        return _repetition(token)
    if token == "(?":
        raise ValueError("the quick test knows no named groups and no flags in a pattern")
    return _literal(token)


def _skip_group(tokens: Iterator[str]) -> None:
    """Pass over the rest of a group that has begun."""
    depth = 1
    while depth:
        token = next(tokens)
        depth += token.startswith("(") - (token == ")")


def _class(token: str) -> str:
    excludes = token.startswith("[^")
    known = _EXCLUDED if excludes else _ATOMS
    inside = token[1 + excludes : -1]
    members = (
        "-" if part == "-" else known.get(part) or _literal(part)
        for part in _MEMBER.findall(inside)
    )
    return f"[{'^' if excludes else ''}{''.join(members)}]"


def _repetition(token: str) -> str:
    """A repetition, greedy: whether it is lazy or possessive makes no difference to the test."""
    count = _COUNT.match(token)
    if count is None:
        return token[0]
    least, comma, most = count.groups()
    if (most or not comma) and int(most or least) <= LONGEST_COUNT:
        return count[0]
    return "+" if int(least or 0) else "*"


def _literal(token: str) -> str:
    if token.startswith("\\"):
        known = {r"\n": "\n", r"\t": "\t"}.get(token)
        is_code = token.startswith(r"\x")
        if known is None and not is_code and token[1].isalnum():
            raise ValueError(f"the quick test does not know {token}")
        token = known or (chr(int(token[2:], 16)) if is_code else token[1:])
    return f"\\x{{{ord(token):x}}}"
