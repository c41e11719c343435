"""The built-in rules of redaction: what keys, addresses and numbers look like.

Every pattern runs in linear time, because the texts are untrusted: repeats are bounded, or repeat
characters that the next part of the pattern cannot match.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

from assizes.judge.quick_test import QuickTest

_IBAN_CHARS: Final = {
    country: int(length)
    for length, countries in re.findall(
        r"(\d+)([A-Z ]+)",
        "15 NO 16 BE 18 DK FI FO GL NL 19 MK SI 20 AT BA EE KZ LT LU 21 CH HR LI LV 22 BG DE GB GE"
        " IE ME RS 23 AE GI IL 24 AD CZ ES MD PK RO SA SE SK TN 25 PT 26 IS TR 27 FR GR IT MC SM"
        " 28 AL AZ CY DO GT HU LB PL 29 BR EG PS QA UA 30 JO KW MU 31 MT SC",
    )
    for country in countries.split()
}
"""The length of an IBAN in characters, by the code of its country."""


def card_in(text: str) -> str | None:
    """The number of a payment card with which a text begins; `None` where there is none.

    It has 13 to 19 digits, an issuer's first digits and a valid checksum (Luhn, ISO/IEC 7812).
    """
    if _is_card(text):
        return text
    # An expiry date or a security code may follow the number. Without the bound of three digits for
    # a group, parts of any list of small numbers would be tried, and one in ten has the checksum.
    ends = (place for place in range(len(text) - 1, -1, -1) if text[place] in " -")
    starts = (text[:end] for end in ends)
    return next(
        (start for start in starts if _SHORT.search(start) is None and _is_card(start)), None
    )


def _is_card(text: str) -> bool:
    digits = [int(char) for char in text if char.isdigit()]
    is_issued = digits[:1] in _ISSUERS or digits[:2] in _TWENTIES
    if not 13 <= len(digits) <= 19 or not is_issued or len(set(digits)) == 1:
        return False
    # Luhn: every second digit from the right counts twice, as the sum of the digits of its double.
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


_SHORT: Final = re.compile(r"(?<!\d)\d{1,2}(?!\d)")  # groups of one or two digits
# Issuers: American Express and others 3, Visa 4, Mastercard 5 and 22 to 27, Discover 6.
_ISSUERS: Final = [[3], [4], [5], [6]]
_TWENTIES: Final = [[2, second] for second in range(2, 8)]


def iban_in(text: str) -> str | None:
    """The IBAN with which a text begins, of its country's length and with a valid checksum."""
    wanted = _IBAN_CHARS.get(text[:2])
    if wanted is None:
        return None
    places = [place for place, char in enumerate(text, 1) if not char.isspace()]  # without blanks
    if len(places) < wanted or text[places[wanted - 1] :][:1].strip():
        return None
    iban = text[: places[wanted - 1]]
    plain = "".join(iban.split())
    # ISO 7064, MOD 97-10: country and check digits go last, letters count from A = 10.
    number = "".join(str(int(char, 36)) for char in plain[4:] + plain[:4])
    return iban if int(number) % 97 == 1 else None


VALUE: Final = "value"
"""The name of the group that is hidden; without this group the whole match is hidden."""


@dataclass(frozen=True, slots=True)
class RedactionRule:
    """How one kind of sensitive value is recognised in a text."""

    kind: str  # name in the placeholder, such as EMAIL
    pattern: re.Pattern[str]  # matches candidates
    needles: tuple[str, ...] = ()  # if any: every text with a match contains one
    find_value: Callable[[str], str | None] = str  # the start of a candidate that is a real value
    plain: Callable[[str], str] = str  # a normal form that the spellings of one value share
    hint: Callable[[str], object] | None = None  # a quick test that every text with a match passes
    folds: bool = False  # whether needles are sought in the text in lower case
    retries_after_blank: bool = False  # whether a value may begin within a rejected candidate

    def can_find(self, text: str) -> bool:
        """A quick test: `False` means that the text holds no value of this kind."""
        return self.can_be_in(text, text.lower() if self.folds else text)

    def can_be_in(self, text: str, folded: str) -> bool:
        """The same test for a text that is given in lower case as well, at least its ASCII."""
        looked = folded if self.folds else text
        if self.needles and not _needle_test(self.needles).may_match_any(looked):
            return False
        return self.hint is None or bool(self.hint(text))


@cache
def _needle_test(needles: tuple[str, ...]) -> QuickTest:
    return QuickTest(map(re.escape, needles))


_UNLIKE_WORDS: Final = re.compile(r"[0-9!@#$%^*+=~]")  # characters that words seldom have


def _digits(text: str) -> str:
    return "".join(filter(str.isdigit, text))


def _upper(text: str) -> str:
    return "".join(text.split()).upper()


def _secret_value(text: str) -> str | None:
    """The text after `password:` or the like, if it looks like a value and not like a word."""
    return text if _UNLIKE_WORDS.search(text) else None


def _keylike(text: str) -> str | None:
    """The value of a field, if it has letters and digits: it is no word and no number."""
    return text if re.search(r"\d", text) and re.search(r"[^\W\d]", text) else None


def _phone(text: str) -> str | None:
    return text if 7 <= len(_digits(text)) <= 15 else None  # 15: the most by ITU-T E.164


def _national(text: str) -> str | None:
    return text if 9 <= len(_digits(text)) <= 12 else None  # with the trunk prefix 0


# Key formats of OpenAI, Groq, xAI, AWS, Google, GitHub, GitLab, Slack, Hugging Face, npm, Stripe,
# SendGrid and Replicate, in this order.
_KEYS: Final = re.compile(
    r"""(?<![A-Za-z0-9])(?:
      sk-[A-Za-z0-9_-]{20,300} | gsk_[A-Za-z0-9]{20,200} | xai-[A-Za-z0-9]{20,200}
    | (?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])
    | AIza[A-Za-z0-9_-]{35} | ya29\.[A-Za-z0-9_-]{20,400}
    | gh[pousr]_[A-Za-z0-9]{30,255} | github_pat_[A-Za-z0-9_]{22,255} | glpat-[A-Za-z0-9_-]{20,64}
    | xox[a-z]-[A-Za-z0-9-]{10,250} | hf_[A-Za-z0-9]{30,64} | npm_[A-Za-z0-9]{36}
    | [sprw]k_(?:live|test)_[A-Za-z0-9]{16,250} | whsec_[A-Za-z0-9+/=]{24,250}
    | SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,64} | r8_[A-Za-z0-9]{30,64}
    )""",
    re.VERBOSE,
)
_JWT: Final = re.compile(  # eyJ is {" in Base64: a JSON header
    r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{6,8000}\.eyJ[A-Za-z0-9_-]{6,8000}(?:\.[A-Za-z0-9_-]{0,8000})?"
)
# No possessive group: after one, Python before 3.11.5 goes on where the last, failed try of the group stopped.
_PEM: Final = re.compile(
    r"""-----BEGIN\ [A-Z0-9 ]{0,40}PRIVATE\ KEY(?:\ BLOCK)?-----
    (?:(?>[\s\S]{0,100000}?-----)END\ [A-Z0-9 ]{0,40}-----
    |[\s\\rn]{0,9}+(?:[A-Za-z-]{2,20}:[ ][^\n\\]{0,200}(?:\n|\\[rn]){1,4}){0,99}[A-Za-z0-9+/=\s\\]*)""",
    re.VERBOSE,
)
"""A private key up to its END line; without that line, its headers and what may be its body."""
_DSN: Final = re.compile(  # scheme://user:password@host
    r"[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s:/@\"'<>]{0,100}:(?P<value>[^\s/@\"'<>]{1,200})@"
)
_BEARER: Final = re.compile(
    r"(?:[Bb]earer|[Bb]asic|BEARER|BASIC)[ \t]{1,4}(?P<value>[A-Za-z0-9._~+/-]{16,2000}={0,2})"
)
_ASSIGNED: Final = re.compile(
    r"""(?i:api[_-]?key|access[_-]?key|private[_-]?key|account[_-]?key|secret|passw(?:or)?d|passphrase
    |(?:access|auth|refresh|bearer)[_-]?token|authorization)
    (?:[\\"']{0,3}\s{0,3}(?:[:=]|=>)\s{0,3}[\\"']{0,3}|[ ](?i:is|was)[ ]["']?)(?P<value>[^\s"'\\,;&<>{}()\[\]]{8,2000})""",
    re.VERBOSE,
)
_FIELD: Final = re.compile(
    r"""(?i:(?P<token>token)|key)\\{0,3}["']\s{0,3}:\s{0,3}\\{0,3}["']
    (?P<value>(?(token)[^\s"'\\,;&<>{}()\[\]]{8,2000}|[A-Za-z0-9]{20,2000}(?=[\\"'])))""",
    re.VERBOSE,
)
"""A JSON field named only `key` or `token`: its value counts where it is long enough."""
_EMAIL: Final = re.compile(
    r"(?<![\w.%+-])[\w.%+-]{1,64}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,8}[A-Za-z]{2,24}(?![\w@])"
)
_CARD: Final = re.compile(r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?!\w)")  # 13 to 19 digits
_IBAN: Final = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,36}(?![a-z0-9])")
_ABROAD: Final = re.compile(  # +41 44 668 18 00, 0041 ...
    r"(?<![\w.+])(?:\+\d{1,3}[ .-]?|00[1-9]\d{0,2}[ .-])(?:\(\d{1,4}\)[ .-]?)?\d{1,4}(?:[ .-]?\d{2,4}){1,4}(?!\w)"
)
_AMERICAN: Final = re.compile(  # (212) 555-0123
    r"(?<![\w./#-])(?:1[ .-])?(?:\([2-9]\d\d\)[ ]?|[2-9]\d\d[ .-])[2-9]\d\d[ .-]\d{4}(?![\w-])"
)
_TRUNK: Final = re.compile(r"(?<![\w./#-])0\d{1,4}[ /-]\d{2,4}(?:[ -]?\d{2,4}){1,3}(?![\w-])")
_CALLED: Final = re.compile(  # digits after a word such as `phone:`
    r"(?i:(?<![a-z])(?:tele)?(?:phone|fax)|(?<![a-z])(?:tel|mobile|cell|whatsapp|call(?:[ ]me)?))"
    r"(?i:[ _-]?(?:number|no|nr))?(?i:[ ]is|[ ](?:at|on))?[\\\"'.:=# ]{1,6}"
    r"(?P<value>\(?\+?\d[\d ().-]{5,18}\d)(?!\w)"
)

# Hints: parts of the patterns above which match quickly, also where JSON escapes the text.
_SCHEME: Final = re.compile(
    r"(?:[Bb]earer|[Bb]asic|BEARER|BASIC)(?:[ \t]|\\t){1,4}[A-Za-z0-9._~+/-]{16}"
)
_KEYED: Final = re.compile(
    r"""(?i:token|key)\\{0,8}["'](?:\s|\\[nrt]){0,3}:(?:\s|\\[nrt]){0,3}\\{0,8}["'][^\s"'\\]{8}"""
)
_COUNTRY: Final = QuickTest([r"[A-Z]{2}\d\d"])
_LONG: Final = QuickTest([r"\d[ -]?" * 12 + r"\d"])
_LOCAL: Final = QuickTest([r"\d\d\d[ .-]\d{4}"])


def _spellings(firsts: str, last: str) -> tuple[str, ...]:
    return tuple(f"{first}{cut}{last}" for first in firsts.split() for cut in ("", "_", "-"))


SECRETS: Final = (
    RedactionRule("SECRET", _PEM, ("PRIVATE KEY",)),
    RedactionRule(
        "SECRET",
        _KEYS,
        (
            *("sk-", "gsk_", "xai-", "AKIA", "ASIA", "ABIA", "ACCA", "AIza", "ya29.", "ghp_"),
            *("gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "hf_", "npm_"),
            *("_live_", "_test_", "whsec_", "SG.", "r8_"),
        ),
    ),
    RedactionRule("SECRET", _JWT, ("eyJ",)),
    RedactionRule("SECRET", _DSN, ("://",)),
    RedactionRule(
        "SECRET", _BEARER, ("bearer", "basic"), _secret_value, hint=_SCHEME.search, folds=True
    ),
    RedactionRule(
        "SECRET",
        _ASSIGNED,
        (
            *_spellings("api access private account", "key"),
            *_spellings("access auth refresh bearer", "token"),
            *("secret", "password", "passwd", "passphrase", "authorization"),
        ),
        _secret_value,
        folds=True,
    ),
    RedactionRule(
        "SECRET",
        _FIELD,
        tuple(f"{name}{end}" for name in ("token", "key") for end in ('"', "'", "\\")),
        _keylike,
        hint=_KEYED.search,
        folds=True,
    ),
)
KEY_FORMS: Final = SECRETS[:-1]
"""The rules of secrets without the last, which goes by the name of a JSON field alone."""

BUILT_IN: Final = {
    "secret": SECRETS,
    "email": (RedactionRule("EMAIL", _EMAIL, ("@",), plain=str.casefold),),
    "iban": (
        RedactionRule(
            "IBAN",
            _IBAN,
            find_value=iban_in,
            plain=_upper,
            hint=_COUNTRY.may_match_any,
            retries_after_blank=True,
        ),
    ),
    "card": (
        RedactionRule(
            "CARD",
            _CARD,
            find_value=card_in,
            plain=_digits,
            hint=_LONG.may_match_any,
            retries_after_blank=True,
        ),
    ),
    "phone": (
        RedactionRule("PHONE", _ABROAD, ("+", "00"), _phone, _digits),
        RedactionRule(
            "PHONE", _AMERICAN, find_value=_phone, plain=_digits, hint=_LOCAL.may_match_any
        ),
        RedactionRule("PHONE", _TRUNK, ("0",), _national, _digits),
        RedactionRule(
            "PHONE",
            _CALLED,
            ("phone", "fax", "tel", "mobile", "cell", "whatsapp", "call"),
            _phone,
            _digits,
            folds=True,
        ),
    ),
}
"""The built-in rules by configured kind, in the order in which they are tried: cards come before
telephones, so that the number of a card is not taken for a telephone's."""
