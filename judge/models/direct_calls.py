"""Calls of a model with the requests and readers of litellm, but without litellm's work around them.

litellm's function for a call makes logs, costs and callbacks that nobody here reads, which takes ten
times the CPU of the request. So litellm writes the first requests of a kind without sending them
(`Recorder`), a template is learned from them, and later requests are written from the template and
sent over the connections of litellm's own HTTP client. litellm's reader reads the responses, but for
those of which it would take nothing that is not plain to see. Whatever is no answer, such as a refusal
or a broken connection, is handed to litellm's function as if it had received it (`Replay`), so that
errors are the same to the letter. What cannot be learned is called as usual.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary

import aiohttp
import httpx
from aiohttp.http_exceptions import TransferEncodingError
from yarl import URL

from assizes.judge.models.provider_http import Received, body_of, received_by_httpx
from assizes.judge.models.request_template import (
    RequestTemplate,
    message_texts,
    template_of,
    text_marks,
    with_texts,
)

log = logging.getLogger(__name__)

LASTS_S: Final = 30.0
"""Seconds after which a template is learned anew: keys and settings of the environment may change."""

MAX_TEMPLATES: Final = 256
"""Kinds of requests that one model remembers at most."""

_BROKEN: Final = (
    httpx.HTTPError,
    httpx.InvalidURL,
    aiohttp.ClientError,
    OSError,
    RuntimeError,
    ValueError,
)
"""Exceptions of a request that got no response."""

_TIME_TAKEN: Final = re.compile(r"(time taken=)[\d.]+")


class Recorded(BaseException):
    """A request that litellm would send. No `except Exception` of litellm may take it for a fault."""

    def __init__(self, request: httpx.Request) -> None:
        super().__init__()
        self.request = request


class Recorder(httpx.AsyncBaseTransport):
    """A transport that sends nothing: it raises the request as `Recorded`."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Raise the request.

        Raises:
            Recorded: always.
        """
        await request.aread()
        raise Recorded(request)


class Replay(httpx.AsyncBaseTransport):
    """A transport that answers with what was received before; later requests, of redirects, are sent."""

    def __init__(self, outcome: httpx.Response | Exception, pool: httpx.AsyncClient) -> None:
        self._outcome: httpx.Response | Exception | None = outcome
        self._pool = pool

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the response, or raise the failure, that was received before."""
        outcome, self._outcome = self._outcome, None
        if isinstance(outcome, Exception):
            raise outcome
        if outcome is not None:
            return outcome
        return await _transport_for(self._pool, request.url).handle_async_request(request)


Opened = tuple[aiohttp.ClientSession, dict[str, Any]]
"""A session of aiohttp, and arguments that all of its requests have."""


@dataclass(frozen=True, slots=True)
class CallParts:
    """What litellm has for the calls of one model."""

    call: Callable[..., Awaitable[Any]]  # litellm's function for a call
    through: Callable[[httpx.AsyncBaseTransport], dict[str, Any]]  # arguments that name a transport
    pool: Callable[[], httpx.AsyncClient]  # litellm's HTTP client for the running event loop
    # The session of aiohttp below a transport, with further arguments of a request to an address;
    # None where the transport has none.
    session: Callable[[httpx.AsyncBaseTransport, httpx.URL], Awaitable[Opened | None]]
    # Turns errors of aiohttp into those of httpx.
    as_httpx_errors: Callable[[], AbstractContextManager[None]]
    parameters: Callable[[Mapping[str, Any]], dict[str, Any]]  # of a call -> in its protocol
    # Given what was received, the messages of the call, and its parameters.
    read: Callable[[Received, list[Any], dict[str, Any]], Any]
    sign: Callable[[RequestTemplate, bytes], Awaitable[httpx.Headers]]
    reading: Callable[[Any], object]  # what a caller takes from a response, to compare two
    hook: Callable[[], str | None]  # the setting of litellm that needs litellm's function, if any
    failures: tuple[type[Exception], ...]  # that litellm's function raises
    unreadable: tuple[type[Exception], ...]  # that litellm's readers raise


@dataclass(slots=True, eq=False)
class _Kind:
    """Calls with the same parameters: how they are made."""

    template: RequestTemplate
    sending: dict[str, Any]  # the template's arguments of a request by aiohttp, without the body
    parameters: dict[str, Any]  # in the provider's protocol
    learned_at: float  # time.monotonic()
    is_read_alike: bool | None = None  # by litellm's reader and its function; None: not compared


class DirectCalls:
    """The calls of one model.

    Attributes:
        plain: why all calls go through litellm's function; None where they need not.
    """

    def __init__(self, parts: CallParts, plain: str | None) -> None:
        self.plain = plain
        self._parts = parts
        self._refusals: tuple[type[Exception], ...] = (*_BROKEN, *parts.failures)
        self._kinds: dict[Hashable, _Kind | None] = {}  # None: asked for once
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            WeakKeyDictionary()
        )

    def way(self) -> str:
        """Return how calls are made now, and why where they are not made directly."""
        reason = self.plain or self._parts.hook()
        return f"through litellm.acompletion: {reason}" if reason else "direct"

    async def respond(self, key: Hashable, arguments: dict[str, Any]) -> Any:
        """Make a call and return litellm's response, or raise litellm's error.

        Args:
            key: what the arguments hold beside their texts.
            arguments: of litellm's function for a call.

        Raises:
            ModelError: the answer is too large.
        """
        texts = message_texts(arguments["messages"])
        if self.plain or self._parts.hook() or not all(text.strip() for text in texts):
            return await self._parts.call(**arguments)
        kind = self._kinds.get(key)
        if kind is None or time.monotonic() - kind.learned_at > LASTS_S:
            kind = await self._learn_kind(key, arguments)
        if kind is None:
            return await self._parts.call(**arguments)
        return await self._send(kind, arguments, texts)

    async def _learn_kind(self, key: Hashable, arguments: dict[str, Any]) -> _Kind | None:
        if key not in self._kinds:
            # At its first call: a kind that never comes again is not worth learning.
            if len(self._kinds) >= MAX_TEMPLATES:
                self._kinds.clear()
            self._kinds[key] = None
            return None
        async with self._lock():
            kind = self._kinds.get(key)
            if kind is not None and time.monotonic() - kind.learned_at <= LASTS_S:
                return kind
            if self.plain:
                return None
            template = await self._template(arguments)
            if template is None:
                self._give_up("litellm's request cannot be written from a template")
                return None
            parameters = self._parts.parameters(arguments)
            is_read_alike = None if kind is None else kind.is_read_alike
            now = time.monotonic()
            kind = _Kind(template, _sending(template), parameters, now, is_read_alike)
            self._kinds[key] = kind
            return kind

    async def _template(self, arguments: dict[str, Any]) -> RequestTemplate | None:
        """Return the template of a call, checked with the call's own texts; None without one."""
        messages = arguments["messages"]
        texts = message_texts(messages)
        marks = text_marks(len(texts))
        marked = await self._record({**arguments, "messages": with_texts(messages, marks)})
        template = None if marked is None else template_of(marked, marks)
        own = await self._record(arguments)
        if template is None or own is None or not template.writes(own, texts):
            return None
        return template

    async def _record(self, arguments: dict[str, Any]) -> httpx.Request | None:
        """Return the request that litellm would send; None where litellm refuses to make it."""
        try:
            await self._parts.call(**arguments, **self._parts.through(Recorder()))
        except Recorded as recorded:
            return recorded.request
        except self._refusals:
            return None
        return None

    async def _send(self, kind: _Kind, arguments: dict[str, Any], texts: list[str]) -> Any:
        template = kind.template
        body = template.body(texts)
        headers = await self._parts.sign(template, body) if template.aws_region else None
        pool = self._parts.pool()
        began = time.perf_counter()
        try:
            received = await self._receive(kind, body, headers, pool)
        except _BROKEN as error:
            return await self._replay(arguments, error, pool, time.perf_counter() - began)
        if received.status_code != 200:
            return await self._replay(arguments, received, pool)
        if kind.is_read_alike is None:
            return await self._compare(kind, arguments, received, pool)
        if kind.is_read_alike and (answer := self._read(kind, received, arguments)) is not None:
            return answer
        return await self._replay(arguments, received, pool)

    async def _receive(
        self, kind: _Kind, body: bytes, headers: httpx.Headers | None, pool: httpx.AsyncClient
    ) -> Received:
        """Send a request and return the response with its body, which has at most 64 MB.

        Raises:
            ModelError: the body is larger.
        """
        template = kind.template
        request = partial(template.request, body, headers)
        transport = _transport_for(pool, template.url)
        opened = await self._parts.session(transport, template.url)
        if opened is None:
            return await received_by_httpx(transport, request())
        session, options = opened
        sending = kind.sending if headers is None else kind.sending | {"headers": dict(headers)}
        # httpx's requests, responses and streams around those of aiohttp cost more than both.
        with self._parts.as_httpx_errors():
            async with session.request(**sending, data=body, **options) as response:
                try:
                    content = await body_of(response)
                except (RuntimeError, TransferEncodingError) as error:  # as litellm's transport
                    raise httpx.ReadError(str(error)) from error
                return Received(response.status, response.headers, content, request)

    async def _replay(
        self,
        arguments: dict[str, Any],
        outcome: Received | Exception,
        pool: httpx.AsyncClient,
        taken_s: float | None = None,
    ) -> Any:
        """Return or raise what litellm's function makes of an outcome, without another request."""
        replayed = outcome.response() if isinstance(outcome, Received) else outcome
        through = self._parts.through(Replay(replayed, pool))
        try:
            return await self._parts.call(**arguments, **through)
        except self._parts.failures as error:
            if taken_s is not None and isinstance(getattr(error, "message", None), str):
                # litellm has measured the replay.
                seconds = rf"\g<1>{taken_s:.3f}"
                error.message = _TIME_TAKEN.sub(seconds, error.message)  # type: ignore[attr-defined]
            raise

    async def _compare(
        self,
        kind: _Kind,
        arguments: dict[str, Any],
        received: Received,
        pool: httpx.AsyncClient,
    ) -> Any:
        """Return litellm's own reading of a kind's first answer, and note whether ours is the same."""
        async with self._lock():
            if kind.is_read_alike is None:
                answer = await self._replay(arguments, received, pool)
                read = self._read(kind, received, arguments)
                reading = self._parts.reading
                kind.is_read_alike = read is not None and reading(read) == reading(answer)
                if not kind.is_read_alike:
                    self._give_up("litellm's reader and its function differ over an answer")
                return answer
        read = self._read(kind, received, arguments) if kind.is_read_alike else None
        return read if read is not None else await self._replay(arguments, received, pool)

    def _read(self, kind: _Kind, received: Received, arguments: Mapping[str, Any]) -> Any:
        """Return litellm's response object; None for an answer that is no plain one."""
        try:
            answer = self._parts.read(received, arguments["messages"], kind.parameters)
        except self._parts.unreadable:
            return None
        return answer if answer.model and answer.choices else None

    def _give_up(self, reason: str) -> None:
        self.plain = reason
        log.info("calls go through litellm.acompletion: %s", reason)

    def _lock(self) -> asyncio.Lock:
        return self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())


def _transport_for(pool: httpx.AsyncClient, url: httpx.URL) -> httpx.AsyncBaseTransport:
    """Return the transport of a client for an address: of a proxy, or the usual one."""
    # What httpx's client does beside it (cookies, redirects, authentication) costs as much again.
    return pool._transport_for_url(url)


def _sending(template: RequestTemplate) -> dict[str, Any]:
    """Return the arguments of aiohttp with which litellm's transport sends a request, but its body."""
    headers = template.request(b"").headers
    limits_s = template.timeout
    return {
        "method": template.method,
        "url": URL(str(template.url), encoded=True),
        "headers": {name: value for name, value in headers.items() if name != "content-length"},
        "allow_redirects": False,
        "auto_decompress": False,
        "timeout": aiohttp.ClientTimeout(
            sock_connect=limits_s.get("connect"),
            sock_read=limits_s.get("read"),
            connect=limits_s.get("pool"),
        ),
    }
