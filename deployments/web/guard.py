"""What stands before every request: its host, its token, its size; and the headers of every answer."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assizes.deployments.web.problems import problem

MAX_BODY_BYTES: Final = 64 * 1024

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})

_DIGITS: Final = 18
"""Of a Content-Length that is read as a number at all."""

_HOST: Final = re.compile(r"(?:\[([0-9a-f:.%]+)\]|([^\[\]:/@#?\\\s]+))(?::\d{0,5})?")

_OPEN: Final = "/health"
"""Answers without a token: it says nothing but that somebody is there."""

HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
"""Of every answer; a page brings a policy of its own."""


@dataclass(frozen=True, slots=True)
class Access:
    """Who may ask.

    Attributes:
        hosts: names that the `Host` header may hold, without a port; what a page elsewhere can make
            a browser send (DNS rebinding) holds another one.
        token: what must come as a bearer token or as the password of basic authentication; null:
            nothing, for loopback alone.
    """

    hosts: frozenset[str]
    token: str | None = None


class Guard:
    """ASGI middleware: turns away whom it may not serve, before anything is read."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve or refuse one request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await problem(*refusal[:2], headers=refusal[2])(scope, receive, _with_headers(send))
            return
        await self._app(scope, _limit_body(receive), _with_headers(send))

    def _refusal(self, scope: Scope) -> tuple[int, str, dict[str, str]] | None:
        headers = Headers(scope=scope)
        if host_of(headers.get("host", "")) not in self._access.hosts:
            known = ", ".join(sorted(self._access.hosts))
            return 400, f"unknown Host; served are {known} (--allow-host adds one)", {}
        if not _is_small(headers.get("content-length", "0")):
            return 413, f"at most {MAX_BODY_BYTES:,} bytes", {}
        origin = headers.get("origin")
        if origin and host_of(origin.partition("://")[2]) not in self._access.hosts:
            return 403, "requests of other sites are not served", {}
        if scope["path"] != _OPEN and not self._is_authorised(headers.get("authorization", "")):
            return (
                401,
                "give the token of this server",
                {"WWW-Authenticate": 'Basic realm="assizes"'},
            )
        return None

    def _is_authorised(self, header: str) -> bool:
        if self._access.token is None:
            return True
        return hmac.compare_digest(_token_in(header).encode(), self._access.token.encode())


def host_of(header: str) -> str:
    """The name in a `Host` header, without port and brackets, in lower case; empty for no such."""
    match = _HOST.fullmatch(header.strip().lower())
    return (match[1] or match[2]) if match else ""


def allowed_hosts(bound: str, more: Iterable[str] = ()) -> frozenset[str]:
    """Names a server bound to an address may be called by."""
    return frozenset({*LOOPBACK, bound.lower(), *(name.lower() for name in more)}) - {
        "0.0.0.0",
        "::",
    }


def _token_in(header: str) -> str:
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(value, validate=True).decode().partition(":")[2]
    except (binascii.Error, ValueError):
        return ""


def _is_small(length: str) -> bool:
    digits = length.isascii() and length.isdigit() and len(length) <= _DIGITS
    return digits and int(length) <= MAX_BODY_BYTES


def _limit_body(receive: Receive) -> Receive:
    """A body may also come in pieces, without saying its length."""
    seen = 0

    async def receive_limited() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > MAX_BODY_BYTES:
            raise HTTPException(413, f"at most {MAX_BODY_BYTES:,} bytes")
        return message

    return receive_limited


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return send_with_headers
