"""Browser sessions of a server with the desk: a cookie that was given for the token of the API.

The cookie does not hold the token. It holds a time and an HMAC of it under the token (RFC 2104), so
the server keeps no list of sessions, a restart ends none, and another token ends all of them.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
import unicodedata
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import quote, unquote

from fastapi.responses import Response

COOKIE: Final = "assizes_session"
"""The name of the cookie of a session."""

NAME_COOKIE: Final = "assizes_name"
"""The name of the cookie with the name of the person, who is asked for it once."""

SESSION_S: Final = 12 * 3600
"""Seconds that a session lasts: a day of labelling."""

MAX_COOKIE_CHARS: Final = 4096  # of the header `Cookie`; a longer one is not parsed
NAME_CHARS: Final = 64

_SIGNS: Final = frozenset(" .,@+'\u2019()-")
# Letters and marks that nobody sees; with them two names look alike.
_UNSEEN: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)
_JOINERS: Final = {"\u200c": "N", "\u200d": "J"}  # zero-width non-joiner and joiner
_VIRAMA: Final = 9  # combining class of the mark that joins two consonants of an Indic script
# The shape of a name, a letter for each of its characters (`_kind`). A mark follows a letter. A
# joiner stands where it changes what is seen (after RFC 5892, appendix A): beside a virama, and a
# non-joiner between Arabic letters. More than four marks above one another cover other lines.
_NAME: Final = re.compile(
    r"(?!.*M{5})[LAD](?:[LADS]|(?<=[LAMCVJN])[MCV]|(?<=V)[JN]|(?<=[LAMC])J(?=V)|(?<=[AM])N(?=A))*"
)

_VALUE: Final = re.compile(r"([0-9]{1,12})\.([0-9a-f]{64})")


def session_value(token: str, until: int) -> str:
    """The value of the cookie of a session that lasts until a Unix time."""
    message = f"assizes session {until}".encode()
    return f"{until}.{hmac.new(token.encode(), message, hashlib.sha256).hexdigest()}"


def is_session(header: str, token: str) -> bool:
    """Whether a `Cookie` header holds a session of this token that has not expired."""
    match = _VALUE.fullmatch(_cookie(header, COOKIE))
    if match is None or int(match[1]) < time.time():
        return False
    return hmac.compare_digest(match[0], session_value(token, int(match[1])))


def set_session(response: Response, token: str, *, secure: bool) -> None:
    """Begin a session: no script reads its cookie, and no other site makes a browser send it."""
    value = session_value(token, int(time.time()) + SESSION_S)
    # Without `secure` where the server is asked over plain HTTP, as on loopback.
    response.set_cookie(
        COOKIE, value, SESSION_S, path="/", secure=secure, httponly=True, samesite="strict"
    )


def end_session(response: Response) -> None:
    """Have the browser forget the session; its name stays known for the next one."""
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")


def set_name(response: Response, name: str) -> None:
    """Keep the name of a person for a year."""
    response.set_cookie(
        NAME_COOKIE, quote(name), 365 * 86400, path="/", httponly=True, samesite="strict"
    )


def person_name(text: str) -> str:
    """A name as it is stored, in one form (NFC, single blanks); empty where the text is no name.

    A name has letters and digits of any script, with their marks, and a few signs.
    """
    name = unicodedata.normalize("NFC", " ".join(text[: 4 * NAME_CHARS].split()))
    is_name = len(name) <= NAME_CHARS and _NAME.fullmatch("".join(map(_kind, name)))
    return name if is_name else ""


def _kind(sign: str) -> str:
    """What a character of a name is, as a letter of `_NAME`; `X` is in no name."""
    if sign in _JOINERS or _UNSEEN.match(sign):
        return _JOINERS.get(sign, "X")
    if unicodedata.combining(sign) == _VIRAMA:
        return "V"
    if (category := unicodedata.category(sign)) in ("Mn", "Mc"):
        return "M" if category == "Mn" else "C"
    if sign.isalpha():
        return "A" if unicodedata.bidirectional(sign) == "AL" else "L"
    if sign.isalnum() or sign == "_":
        return "D"
    return "S" if sign in _SIGNS else "X"


def cookie_name(header: str) -> str:
    """The name of the person in a `Cookie` header; empty where there is none."""
    return person_name(unquote(_cookie(header, NAME_COOKIE)))


def _cookie(header: str, name: str) -> str:
    if len(header) > MAX_COOKIE_CHARS:
        return ""
    try:
        morsel = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return "" if morsel is None else morsel.value
