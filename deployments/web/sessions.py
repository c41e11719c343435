"""Browser sessions of a server with the desk: a cookie that was given for the token of the API.

The cookie does not hold the token. It holds a time and an HMAC of it under the token (RFC 2104), so
the server keeps no list of sessions, a restart ends none, and another token ends all of them.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
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

NAME: Final = re.compile(rf"[\w][\w .,@+'()-]{{0,{NAME_CHARS - 1}}}")
"""A name of a person: letters and digits of any script, and a few signs."""

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
    """A name as it is stored, in one form; empty where the text is no name."""
    name = " ".join(text[: 4 * NAME_CHARS].split())
    return name if NAME.fullmatch(name) else ""


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
