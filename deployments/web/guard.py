"""The middleware before all routes: it checks host, origin, size and token, and sets headers.

Starlette's `TrustedHostMiddleware` cannot replace it: that one knows no IPv6 hosts and answers with
plain text.
"""

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
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assizes.deployments.web.problems import problem

MAX_BODY_BYTES: Final = 64 * 1024
"""Largest body of a request, in bytes."""

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
"""Hosts that other machines cannot reach."""

_DIGITS: Final = 18
"""Most digits of a Content-Length; a longer one is refused before it is parsed as a number."""

_HOST: Final = re.compile(r"(?:\[([0-9a-f:.%]+)\]|([^\[\]:/@#?\\\s]+))(?::\d{0,5})?")

_OPEN: Final = "/health"
"""The path that needs no token: it tells only that the server is up."""

HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
"""Headers of every response; a page has a Content-Security-Policy of its own."""


@dataclass(frozen=True, slots=True)
class Access:
    """What a request must carry to be served.

    Attributes:
        hosts: names that the `Host` header may hold, without a port. They stop DNS rebinding: a page
            of another site that makes a browser send requests here sends the name of that site.
        token: the bearer token, or the password of basic authentication; `None`: none is needed,
            which is meant for loopback alone.
    """

    hosts: frozenset[str]
    token: str | None = None


class Guard:
    """ASGI middleware that refuses a request by its headers, before its body is read."""

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
        app = self._refusal(scope) or self._app
        await app(scope, _limit_body(receive), _with_headers(send))

    def _refusal(self, scope: Scope) -> Response | None:
        """The response to a request that is refused; `None` where it is served."""
        headers = Headers(scope=scope)
        if host_of(headers.get("host", "")) not in self._access.hosts:
            known = ", ".join(sorted(self._access.hosts))
            return problem(400, f"unknown Host; served are {known} (--allow-host adds one)")
        if not _is_small(headers.get("content-length", "0")):
            return problem(413, f"at most {MAX_BODY_BYTES:,} bytes")
        origin = headers.get("origin")
        if origin and host_of(origin.partition("://")[2]) not in self._access.hosts:
            return problem(403, "requests of other sites are not served")
        if scope["path"] != _OPEN and not self._is_authorised(headers.get("authorization", "")):
            challenge = {"WWW-Authenticate": 'Basic realm="assizes"'}
            return problem(401, "give the token of this server", headers=challenge)
        return None

    def _is_authorised(self, header: str) -> bool:
        if self._access.token is None:
            return True
        # Compared in constant time: the time of a refusal tells nothing about the token.
        return hmac.compare_digest(_token_in(header).encode(), self._access.token.encode())


def host_of(header: str) -> str:
    """The name in a `Host` header in lower case, without port and brackets; empty if malformed."""
    match = _HOST.fullmatch(header.strip().lower())
    return (match[1] or match[2]) if match else ""


def allowed_hosts(bound: str, more: Iterable[str] = ()) -> frozenset[str]:
    """The names that a `Host` header may give to a server.

    Args:
        bound: the address that the server listens on.
        more: further names.
    """
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
    """Stop a body that exceeds the limit while it is read: a chunked body has no Content-Length."""
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
