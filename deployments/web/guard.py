"""The middleware before all routes, and errors as problem documents (RFC 9457), no traceback."""

from __future__ import annotations

import base64
import hmac
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assizes.deployments.web import sessions
from assizes.judge import errors

log = logging.getLogger(__name__)

MAX_BODY_BYTES: Final = 64 * 1024  # requests name things, they carry no data
"""Largest body of a request, in bytes."""

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
"""Hosts that other machines cannot reach."""

MAX_REQUESTS: Final = 64
"""Requests that are served at once; one more is answered 503. Only requests that need the token
are counted, so that strangers lock nobody out."""

_LENGTH: Final = re.compile(r"[0-9]{1,18}")
"""A Content-Length; a longer one is refused before it is parsed as a number."""

# Group 1 is an IPv6 address without its brackets, group 2 another host; then perhaps a port.
_HOST: Final = re.compile(r"(?:\[([0-9a-f:.%]+)\]|([^\[\]:/@#?\\\s]+))(?::\d{0,5})?")

OPEN: Final = "/health"
"""The path that needs no token: it tells only that the server is up."""

LOGIN: Final = "/view/login"
"""The path that takes the token and begins a session, on a server with the desk."""

_READING: Final = frozenset({"GET", "HEAD"})
"""Methods that change nothing."""

HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",  # JSON with a transcript is not taken for HTML
    "X-Frame-Options": "DENY",  # clickjacking
    "Referrer-Policy": "no-referrer",  # addresses hold ids of runs and cases
    "Cross-Origin-Resource-Policy": "same-origin",  # other sites embed nothing
    "Cross-Origin-Opener-Policy": "same-origin",  # a page that opens ours gets no handle on it
    "Cache-Control": "no-store",  # transcripts stay out of caches
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
"""Headers of every response; a page has a Content-Security-Policy of its own."""

_MEDIA_TYPE: Final = "application/problem+json"

_RETRY_AFTER_S: Final = 5
"""Seconds that a response 503 asks a client to wait. A transaction of a run takes much less."""

_STATUS: Final[Mapping[type[errors.AssizesError], int]] = {
    **dict.fromkeys((errors.UnknownRun, errors.UnknownCase), 404),
    **dict.fromkeys((errors.NotComparable, errors.ConfigurationError), 400),
    **dict.fromkeys((errors.DataError, errors.TakenKey), 409),
    **dict.fromkeys((errors.StoreBusy, errors.StoreError, errors.ServerGone), 503),
    errors.AssizesError: 500,
}
"""HTTP status by class of an error; the nearest class in its method resolution order counts."""

_TITLES: Final[Mapping[int, str]] = {
    400: "Bad request",
    401: "Not authorised",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    413: "Request too large",
    422: "Unusable parameters",
    500: "Internal error",
    503: "Not available now",
}


class Fault(BaseModel):
    """One parameter that cannot be used."""

    where: str = Field(description="path, query or body, and the name")
    message: str


class Problem(BaseModel):
    """What went wrong (RFC 9457)."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    errors: list[Fault] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Access:
    """What a request must carry to be served."""

    hosts: frozenset[str]  # names, without a port, that the `Host` header may hold
    token: str | None = None  # bearer token, or basic password; None: none is needed
    labelling: bool = False  # people may label and edit; only with a token

    def is_token(self, text: str) -> bool:
        """Whether a text is the token of this server, or none is needed."""
        if self.token is None:
            return True
        # Compared in constant time: the time of a refusal tells nothing about the token.
        return hmac.compare_digest(text.encode(), self.token.encode())

    def has_session(self, cookies: str) -> bool:
        """Whether a `Cookie` header holds a session that the login page of this server began."""
        if not self.labelling or self.token is None:
            return False
        return sessions.is_session(cookies, self.token)


class HeadAsGet:
    """ASGI middleware that answers HEAD as GET without the body, on every path (RFC 9110, 9.3.2)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_without_body(message: Message) -> None:
            is_body = message["type"] == "http.response.body"
            await send({**message, "body": b""} if is_body else message)

        await self._app({**scope, "method": "GET"}, receive, send_without_body)


# Starlette's `TrustedHostMiddleware` knows no IPv6 hosts and answers with plain text.
class Guard:
    """ASGI middleware that refuses a request by its headers, before its body is read."""

    def __init__(
        self, app: ASGIApp, access: Access, login_page: Callable[[str], Response] | None = None
    ) -> None:
        self._app = app
        self._access = access
        self._login_page = login_page  # for the path that a browser asked for without a session
        self._served = 0  # requests at this moment

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve or refuse one request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})  # policy violation (RFC 6455)
        elif scope["type"] != "http":  # start and end of the server
            await self._app(scope, receive, send)
        else:
            receive, send = _limit_body(receive), _with_headers(send)
            if refusal := self._refusal(scope):
                await refusal(scope, receive, send)
            elif self._is_open(scope["path"]):
                await self._app(scope, receive, send)
            else:
                await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._served >= MAX_REQUESTS:
            busy = busy_response(f"{MAX_REQUESTS} requests are being served")
            await busy(scope, receive, send)
            return
        self._served += 1

        async def send_without_place(message: Message) -> None:
            # Who waits for a client that takes its answer slowly holds no place of the others.
            self._served -= 1
            try:
                await send(message)
            finally:
                self._served += 1

        try:
            await self._app(scope, receive, send_without_place)
        finally:
            self._served -= 1

    def _refusal(self, scope: Scope) -> Response | None:
        """The response to a request that is refused; `None` where it is served."""
        headers = Headers(scope=scope)
        # DNS rebinding: another site makes its own name lead here, so that its pages may read what
        # we answer. The browser then sends that name as Host.
        if host_of(headers.get("host", "")) not in self._access.hosts:
            known = ", ".join(sorted(self._access.hosts))
            return _problem(400, f"unknown Host; served are {known} (--allow-host adds one)")
        length = headers.get("content-length", "0")  # a chunked body has none: `_limit_body`
        if not _LENGTH.fullmatch(length) or int(length) > MAX_BODY_BYTES:
            return _problem(413, f"at most {MAX_BODY_BYTES:,} bytes")
        origin = headers.get("origin")  # CSRF: a browser says which page makes it send
        is_foreign = origin and host_of(origin.partition("://")[2]) not in self._access.hosts
        # A page of another site, or of another port of this host, gets no data, be it as a script,
        # an image or a frame, which send no Origin.
        if is_foreign or (scope["method"] in _READING and not may_read(headers, scope["path"])):
            return _problem(403, "requests of other sites are not served")
        is_open = self._is_open(scope["path"])
        has_token = self._access.is_token(_token_in(headers.get("authorization", "")))
        if not (is_open or has_token or self._access.has_session(headers.get("cookie", ""))):
            return self._challenge(scope)
        # CSRF: a browser adds a cookie to requests that a page of another port of this host makes.
        if scope["method"] not in _READING and not is_same_origin(headers, required=not has_token):
            return _problem(403, "only pages of this server may send this")
        return None

    def _is_open(self, path: str) -> bool:
        """Whether a path needs no token."""
        return path == OPEN or (self._access.labelling and path == LOGIN)

    def _challenge(self, scope: Scope) -> Response:
        """The response to a request without the token: for a browser, the page that takes it."""
        path, detail = scope["path"], "give the token of this server"
        if not self._access.labelling or not _is_page(path):
            return _problem(401, detail, headers={"WWW-Authenticate": 'Basic realm="assizes"'})
        if self._login_page is None or scope["method"] != "GET":
            return _problem(401, detail)
        query = scope.get("query_string", b"").decode("latin-1")
        return self._login_page(f"{quote(path)}?{query}" if query else quote(path))


def is_same_origin(headers: Headers, *, required: bool) -> bool:
    """Whether the page that made a browser send a request is one of this very server.

    A program that is no browser says nothing about a page; it passes where that is not `required`.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:  # Fetch Metadata: a page cannot set it, and a proxy leaves it
        return site == "same-origin"
    return not required if origin is None else _is_own(origin, headers)


def may_read(headers: Headers, path: str) -> bool:
    """Whether a request may read: one of this very server, of a program, or a link that is followed.

    Who follows a link of another site to a page sees the page; the other site learns nothing of it,
    as no page is shown in a frame or keeps a handle to the window that opened it.
    """
    site = headers.get("sec-fetch-site")
    if site is None or site == "none":  # a program, an old browser, or an address typed in
        origin = headers.get("origin")
        return origin is None or _is_own(origin, headers)
    kind = headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")
    return site == "same-origin" or (kind == ("navigate", "document") and _is_page(path))


def _is_own(origin: str, headers: Headers) -> bool:
    """Whether an origin has the host and the port that a request was sent to."""
    return origin.partition("://")[2].lower() == headers.get("host", "").strip().lower()


def _is_page(path: str) -> bool:
    return path == "/" or path.startswith("/view")


def host_of(header: str) -> str:
    """The name in a `Host` header in lower case, without port and brackets; empty if malformed."""
    match = _HOST.fullmatch(header.strip().lower())
    return (match[1] or match[2]) if match else ""


def allowed_hosts(bound: str, more: Iterable[str] = ()) -> frozenset[str]:
    """The names that a `Host` header may give to a server that listens on `bound`."""
    return LOOPBACK.union(map(str.lower, (bound, *more))) - {"0.0.0.0", "::"}  # wildcards


def _token_in(header: str) -> str:
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() == "basic":
        with suppress(ValueError):  # no base64, or no UTF-8 in it
            return base64.b64decode(value, validate=True).decode().partition(":")[2]  # user:token
    return ""


def _limit_body(receive: Receive) -> Receive:
    """Stop a body that exceeds the limit while it is read: a chunked body has no Content-Length."""
    seen = 0  # bytes

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
                headers.setdefault(name, value)  # a page has set its own policy
        await send(message)

    return send_with_headers


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The problem responses of an operation, for its OpenAPI description."""
    content = {_MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": _TITLES[status], "content": content} for status in statuses}


def status_of(error: errors.AssizesError) -> int:
    """The HTTP status for an error of this package."""
    return next(_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS)


def busy_response(detail: str) -> Response:
    """The response to a request that is not served now, and may be sent again soon."""
    return _problem(503, detail, headers={"Retry-After": str(_RETRY_AFTER_S)})


def _problem(
    status: int, detail: str, faults: Iterable[Fault] = (), headers: Mapping[str, str] | None = None
) -> JSONResponse:
    title = _TITLES.get(status, "Error")
    body = Problem(title=title, status=status, detail=detail, errors=list(faults))
    return JSONResponse(body.model_dump(), status, headers, media_type=_MEDIA_TYPE)


def install_handlers(
    app: FastAPI, render_page: Callable[[Request, Problem], Response | None]
) -> None:
    """Make the app respond to errors with problem documents, or with what `render_page` makes."""

    def choose_response(request: Request, json_response: JSONResponse) -> Response:
        problem = Problem.model_validate_json(bytes(json_response.body))
        return render_page(request, problem) or json_response

    @app.exception_handler(errors.AssizesError)
    async def _own_error(request: Request, error: errors.AssizesError) -> Response:
        status = status_of(error)
        wait = {"Retry-After": str(_RETRY_AFTER_S)} if status == 503 else {}
        return choose_response(request, _problem(status, str(error), headers=wait))

    @app.exception_handler(RequestValidationError)
    async def _invalid_request(request: Request, error: RequestValidationError) -> Response:
        faults = [
            Fault(where=".".join(map(str, detail["loc"])), message=detail["msg"])
            for detail in error.errors()
        ]
        why = "; ".join(f"{fault.where}: {fault.message}" for fault in faults)
        return choose_response(request, _problem(422, why or "the request cannot be used", faults))

    @app.exception_handler(HTTPException)
    async def _http_error(request: Request, error: HTTPException) -> Response:
        response = _problem(error.status_code, str(error.detail), headers=error.headers)
        return choose_response(request, response)

    async def defect(request: Request, error: Exception) -> Response:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return choose_response(request, _problem(500, "a defect of assizes; its log says more"))

    # Not an exception handler of the app: Starlette runs a handler of `Exception` outside of every
    # middleware, so that its response would lack our headers, and raises the error again.
    app.add_middleware(ExceptionMiddleware, handlers={Exception: defect})
