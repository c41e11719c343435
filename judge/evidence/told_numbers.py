"""Numbers in texts, compared by value: `$1,481.50`, `1.481,50 EUR`, `ten percent`.

Every pattern runs in linear time, because the texts are untrusted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

_LONGEST: Final = 40
"""Characters of the longest word that is read as a number; a longer one is a plain word."""

_TO_NINETEEN: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen"
)
_ONES: Final = _TO_NINETEEN.split()
_TENS: Final = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_BELOW_100: Final = _ONES + [f"{ten} {one}".strip() for ten in _TENS for one in ("", *_ONES[1:10])]
_SPELLED: Final = {words: number for number, words in enumerate(_BELOW_100)} | {
    f"{_BELOW_100[n // 100]} hundred {_BELOW_100[n % 100]}".removesuffix(" zero"): n
    for n in range(100, 1000)
}
"""The numbers below a thousand by their words."""

_UNITS: Final = {
    unit: units.split()[0]
    for units in (
        *("% percent", "$ us$ usd dollar dollars", "€ eur euro euros", "£ gbp pound pounds"),
        *("¥ jpy yen", "₹ inr rupee rupees", "chf", "cad", "aud", "nzd", "cny", "sek", "nok"),
    )
    for unit in units.split()
}
"""Signs, codes and words of currencies and of percent, each with the first of its kind."""

_SIGN: Final = "|".join(sorted(map(re.escape, _UNITS), key=len, reverse=True))
_GAP: Final = "'\u2019\u00a0\u202f\u2009"  # signs between thousands beside the comma
_NUMERIC: Final = re.compile(
    rf"""([-+]?)({_SIGN}|[a-z]{{1,3}}\$)?([-+]?)(?!0\d)(  # no leading 0: 007 is an id
        \d{{1,3}}(?:[,{_GAP}]\d{{3}})+(?:\.\d+)?  # 1,481.50
      | \d{{1,3}}(?:\.\d{{3}})+,\d{{1,2}} | \d+,\d{{1,2}}  # 1.481,50
      | \d+(?:\.\d+)? | \.\d+
    )({_SIGN})?""",
    re.VERBOSE,
)
_DECIMAL_COMMA: Final = re.compile(r"[\d.]*,\d{1,2}")
_WORD: Final = re.compile(rf"(?:[\w$€£¥₹%+-]|(?<![.\d])\.(?=\d))[\w$€£¥₹%.,:/+{_GAP}-]*")
_CUT: Final = re.compile(r"(?<!\d)[:/]|[:/](?!\d)|[-.](?=[^\W\d])")  # total:10, 5/night, 10-day
_SCALES: Final = ("hundred", "thousand", "million", "billion")
_SCALED: Final = re.compile(rf"(?<=\d) (?=(?:{'|'.join(_SCALES)})\b)")  # 10 thousand
_PRONOUN: Final = re.compile(  # `one` where it counts nothing
    r"\b((?:this|that|no|any|every|each|another|which|the|new|other|same|right) )one\b"
    r"|\bone(?=[ -](?:moment|second|minute|way|of|more|by|thing|another)\b)"
)
_NAME: Final = "|".join((*_ONES, *_TENS, *_SCALES))
_RUN: Final = re.compile(
    rf"\b(?:{_NAME})\b(?:(?:(?<=hundred) and|(?<=thousand) and)?[ -](?:{_NAME})\b)*+"
)


class Token(NamedTuple):
    """A word of a text, or a number as plain digits with its currency or percent sign."""

    text: str
    unit: str = ""
    is_number: bool = False


def trimmed_number(number: str) -> str:
    """A plain decimal number without needless zeros at its end."""
    short = number.rstrip("0").rstrip(".") if "." in number else number
    return "0" if short == "-0" else short  # -0.0000000001 becomes -0


def number_text(text: str) -> str | None:
    """The one number that a text consists of, as plain digits; `None` for any other text."""
    if len(text) > _LONGEST or _WORD.sub("", text).strip():  # other signs, e.g. brackets
        return None
    tokens = tokens_of(text)
    is_alone = len(tokens) == 1 and tokens[0].is_number and tokens[0].unit != "%"
    return tokens[0].text if is_alone else None


def tokens_of(text: str) -> list[Token]:
    """The words and numbers of a text in order, without punctuation."""
    flat = text.casefold().replace("\u2212", "-").replace("per cent", "percent")
    flat = _RUN.sub(_in_digits, _SCALED.sub("_", _PRONOUN.sub(r"\1one_", flat)))
    edges = f".,:/+{_GAP}"
    words = (
        part.rstrip(f"{edges}-") if len(part) > 1 else part
        for word in _WORD.findall(flat)
        for part in _CUT.split(word.rstrip(edges))
    )
    return _with_units(map(_token, filter(None, words)))


def is_told(due: Sequence[Token], tokens: Sequence[Token]) -> bool:
    """Whether the tokens hold those that are due, in a row."""
    return any(
        all(_tells(tokens[start + place], wanted) for place, wanted in enumerate(due))
        for start in range(len(tokens) - len(due) + 1)
    )


def _tells(token: Token, due: Token) -> bool:
    if due.text in (token.text, token.unit):  # `dollars` is told by `10 dollars`
        return due.unit in ("", token.unit)
    is_share = token.is_number and token.unit == "%" and due.is_number and not due.unit
    return is_share and due.text[:2] == "0." and Decimal(due.text) * 100 == Decimal(token.text)


def _token(word: str) -> Token:
    match = _NUMERIC.fullmatch(word) if len(word) <= _LONGEST else None
    if match is None:
        return Token(word)
    sign, before, inner_sign, digits, after = match.groups("")
    if _DECIMAL_COMMA.fullmatch(digits):
        digits = digits.replace(".", "").replace(",", ".")
    plain = re.sub(rf"[,{_GAP}]", "", digits)
    number = trimmed_number(f"0{plain}" if plain.startswith(".") else plain)
    is_negative = "-" in (sign, inner_sign) and number != "0"
    unit = _UNITS.get(after or before, after or before)
    return Token(f"-{number}" if is_negative else number, unit, is_number=True)


def _with_units(tokens: Iterable[Token]) -> list[Token]:
    """Join currencies and percent signs that stand apart with the number before or after."""
    joined: list[Token] = []
    for token in tokens:
        last = joined[-1] if joined else Token("")
        unit = _UNITS.get(token.text, "")
        if unit and last.is_number and not last.unit:
            joined[-1] = last._replace(unit=unit)
        elif token.is_number and not token.unit and not last.is_number and last.unit:
            joined[-1] = token._replace(unit=last.unit)
        else:
            joined.append(Token(unit, unit) if unit else token)
    return joined


def _in_digits(match: re.Match[str]) -> str:
    """Number words as digits; those of no number below a thousand become one word."""
    words = match[0].replace("-", " ").replace(" and ", " ")
    return str(_SPELLED.get(words, words.replace(" ", "_")))
