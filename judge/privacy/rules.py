"""The built-in rules: what keys, addresses and numbers look like.

Every pattern runs in linear time over text that nobody has vetted: repeats are bounded, or over
characters that nothing behind them can match. A rule's `needles` are looked for first, which is
many times as fast, and most texts hold none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from assizes.judge.privacy.check_digits import card_in, iban_in

VALUE: Final = "value"
"""The group of a pattern that is hidden; without one all that matched is."""


@dataclass(frozen=True, slots=True)
class RedactionRule:
    """What one kind of thing looks like.

    Attributes:
        kind: name of the placeholder.
        pattern: what may be one.
        needles: texts of which every find holds one; empty: there are none.
        hint: what every text with a find holds, beside a needle.
        folds: whether the needles are looked for in the text in lower case.
        found: the beginning of a candidate that is one indeed; null: it is none.
        again: whether a candidate that is none may hold one behind its first blank.
        plain: what equal finds have in common, however they are written.
    """

    kind: str
    pattern: re.Pattern[str]
    needles: tuple[str, ...] = ()
    find_value: Callable[[str], str | None] = str
    plain: Callable[[str], str] = str
    hint: re.Pattern[str] | None = None
    folds: bool = False
    retries_after_blank: bool = False

    def can_find(self, text: str) -> bool:
        """False for most texts that hold none, quickly."""
        if self.needles:
            looked = text.lower() if self.folds else text
            if not any(needle in looked for needle in self.needles):
                return False
        return self.hint is None or self.hint.search(text) is not None

    def can_be_in(self, whole: str, data: bytes, folded: bytes) -> bool:
        """The same for JSON of many texts, its bytes, and these in lower case."""
        looked = folded if self.folds else data
        if self.needles and not any(needle.encode() in looked for needle in self.needles):
            return False
        return self.hint is None or self.hint.search(whole) is not None


_UNLIKE_WORDS: Final = re.compile(r"[0-9!@#$%^*+=~]")


def _digits(text: str) -> str:
    return "".join(filter(str.isdigit, text))


def _upper(text: str) -> str:
    return "".join(text.split()).upper()


def _secret_value(text: str) -> str | None:
    """Whether a text after `password:` or the like is a value at all, and not the next word."""
    return text if _UNLIKE_WORDS.search(text) else None


def _keylike(text: str) -> str | None:
    """Whether a field's value is no word and no number: it has letters and digits."""
    return text if re.search(r"\d", text) and re.search(r"[^\W\d]", text) else None


def _phone(text: str) -> str | None:
    return text if 7 <= len(_digits(text)) <= 15 else None


def _national(text: str) -> str | None:
    return text if 9 <= len(_digits(text)) <= 12 else None


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
_JWT: Final = re.compile(
    r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{6,8000}\.eyJ[A-Za-z0-9_-]{6,8000}(?:\.[A-Za-z0-9_-]{0,8000})?"
)
_PEM: Final = re.compile(
    r"""-----BEGIN\ [A-Z0-9 ]{0,40}PRIVATE\ KEY(?:\ BLOCK)?-----
    (?:(?:(?!-----)[\s\S]){0,100000}+-----END\ [A-Z0-9 ]{0,40}-----
    |[\s\\rn]{0,9}+(?:[A-Za-z-]{2,20}:[ ][^\n\\]{0,200}(?:\n|\\[rn]){1,4})*+[A-Za-z0-9+/=\s\\]*)""",
    re.VERBOSE,
)
"""Up to its end whatever is in it; without an end, its headers and what may be its body."""
_DSN: Final = re.compile(
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
"""A field of JSON whose name says less: only what is long enough for a key, or a token."""
_EMAIL: Final = re.compile(
    r"(?<![\w.%+-])[\w.%+-]{1,64}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,8}[A-Za-z]{2,24}(?![\w@])"
)
_CARD: Final = re.compile(r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?!\w)")
_IBAN: Final = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,36}(?![a-z0-9])")
_ABROAD: Final = re.compile(
    r"(?<![\w.+])(?:\+\d{1,3}[ .-]?|00[1-9]\d{0,2}[ .-])(?:\(\d{1,4}\)[ .-]?)?\d{1,4}(?:[ .-]?\d{2,4}){1,4}(?!\w)"
)
_AMERICAN: Final = re.compile(
    r"(?<![\w./#-])(?:1[ .-])?(?:\([2-9]\d\d\)[ ]?|[2-9]\d\d[ .-])[2-9]\d\d[ .-]\d{4}(?![\w-])"
)
_TRUNK: Final = re.compile(r"(?<![\w./#-])0\d{1,4}[ /-]\d{2,4}(?:[ -]?\d{2,4}){1,3}(?![\w-])")
_CALLED: Final = re.compile(
    r"(?i:(?<![a-z])(?:tele)?(?:phone|fax)|(?<![a-z])(?:tel|mobile|cell|whatsapp|call(?:[ ]me)?))"
    r"(?i:[ _-]?(?:number|no|nr))?(?i:[ ]is|[ ](?:at|on))?[\\\"'.:=# ]{1,6}"
    r"(?P<value>\(?\+?\d[\d ().-]{5,18}\d)(?!\w)"
)

_SCHEME: Final = re.compile(
    r"(?:[Bb]earer|[Bb]asic|BEARER|BASIC)(?:[ \t]|\\t){1,4}[A-Za-z0-9._~+/-]{16}"
)
_KEYED: Final = re.compile(
    r"""(?i:token|key)\\{0,8}["'](?:\s|\\[nrt]){0,3}:(?:\s|\\[nrt]){0,3}\\{0,8}["'][^\s"'\\]{8}"""
)
_CUTS: Final = ("", "_", "-")
_COUNTRY: Final = re.compile(r"[A-Z]{2}\d\d")
_LONG: Final = re.compile(r"\d(?:[ -]?\d){12}")
_LOCAL: Final = re.compile(r"\d\d\d[ .-]\d{4}")

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
    RedactionRule("SECRET", _BEARER, ("bearer", "basic"), _secret_value, hint=_SCHEME, folds=True),
    RedactionRule(
        "SECRET",
        _ASSIGNED,
        (
            *(
                f"{what}{cut}key"
                for what in ("api", "access", "private", "account")
                for cut in _CUTS
            ),
            *(
                f"{what}{cut}token"
                for what in ("access", "auth", "refresh", "bearer")
                for cut in _CUTS
            ),
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
        hint=_KEYED,
        folds=True,
    ),
)
KEY_FORMS: Final = SECRETS[:-1]
"""Those that go by a value itself, not by a word in front of it."""

BUILT_IN: Final = {
    "secret": SECRETS,
    "email": (RedactionRule("EMAIL", _EMAIL, ("@",), plain=str.casefold),),
    "iban": (
        RedactionRule(
            "IBAN", _IBAN, find_value=iban_in, plain=_upper, hint=_COUNTRY, retries_after_blank=True
        ),
    ),
    "card": (
        RedactionRule(
            "CARD", _CARD, find_value=card_in, plain=_digits, hint=_LONG, retries_after_blank=True
        ),
    ),
    "phone": (
        RedactionRule("PHONE", _ABROAD, ("+", "00"), _phone, _digits),
        RedactionRule("PHONE", _AMERICAN, find_value=_phone, plain=_digits, hint=_LOCAL),
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
"""In the order in which they are tried: a card's number is no telephone's."""
